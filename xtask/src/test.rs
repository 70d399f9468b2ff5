//! `xtask test`: all checks and tests of CI. The last line is `N passed, N failed, N skipped`.
//!
//! A test that cannot run on this machine prints `skipped: <reason>` and counts as skipped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::{docs, tidy, web};

const SKIPPED: &str = "skipped: ";
/// More failed tests than this are no accident, and are not repeated.
const REPEATED_MAX: usize = 5;

#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.passed = self.passed.wrapping_add(other.passed);
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Runs all steps, also after a failure, and prints the count.
pub(crate) fn everything(root: &Path) -> ExitCode {
    let mut count = Count::default();
    step(&mut count, "tidy", tidy::check(root));
    step(&mut count, "generated files", docs::check(root));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&mut count, "format", root, &cargo, &["fmt", "--all", "--check"]);
    let has_page = page(&mut count, root);
    let lints =
        ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    command(&mut count, "lints", root, &cargo, &lints);
    let repeated = tests(&mut count, root, &cargo);
    if has_page {
        let [passed, failed, skipped] = web::tests(root);
        count.passed += passed;
        count.failed += failed;
        count.skipped += skipped;
    }
    repeated.iter().for_each(|line| println!("{line}"));
    let Count { passed, failed, skipped } = count;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn step(count: &mut Count, name: &str, problems: Vec<String>) {
    problems.iter().for_each(|problem| println!("{problem}"));
    note(count, name, problems.is_empty());
}

fn command(count: &mut Count, name: &str, root: &Path, program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).current_dir(root).status();
    note(count, name, status.is_ok_and(|status| status.success()));
}

fn note(count: &mut Count, name: &str, good: bool) {
    println!("check {name} ... {}", if good { "ok" } else { "FAILED" });
    *(if good { &mut count.passed } else { &mut count.failed }) += 1;
}

/// Builds the page of `fathom report` and compares it with the packaged one. Returns whether it can
/// be tested.
fn page(count: &mut Count, root: &Path) -> bool {
    match web::build(root) {
        web::Build::Skipped => {
            count.skipped += 1;
            false
        }
        web::Build::Steps(steps) => {
            steps.iter().for_each(|(name, good)| note(count, name, *good));
            steps.iter().all(|(_, good)| *good)
        }
    }
}

/// Runs the tests of the workspace. The output of passed tests is dropped, apart from the reason
/// for a skip. The output of failed tests is repeated at the end.
///
/// Few failed tests are run once more, one at a time: beside other tests, or beside other guests of
/// the host, a test may miss a real time limit. Returns a line for each that passed then.
fn tests(count: &mut Count, root: &Path, cargo: &str) -> Vec<String> {
    let (good, first, failed) = run_tests(root, cargo, &["--show-output"]);
    count.add(&first);
    // A crate that does not compile has no test result.
    if !good && first.failed == 0 {
        note(count, "tests", false);
    }
    if failed.is_empty() || failed.len() > REPEATED_MAX {
        return Vec::new();
    }
    println!("running {} failed tests once more, one at a time", failed.len());
    let mut passed = Vec::new();
    for name in failed {
        let (good, second, _) = run_tests(root, cargo, &["--exact", &name]);
        if good && second.passed > 0 {
            count.failed -= 1;
            count.passed += 1;
            passed.push(format!("{name}: failed beside other tests, passed alone"));
        }
    }
    passed
}

/// Runs tests. Returns whether all passed, their count, and the names of those that failed.
fn run_tests(root: &Path, cargo: &str, arguments: &[&str]) -> (bool, Count, Vec<String>) {
    let mut command = Command::new(cargo);
    command.args(["test", "--workspace", "--locked", "--no-fail-fast", "--"]);
    command.args(arguments).current_dir(root);
    let (mut count, mut output) = (Count::default(), TestOutput::default());
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
        return (false, count, Vec::new());
    };
    for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let Ok(line) = line else { break };
        if let Some(line) = output.filter(&line) {
            println!("{line}");
        }
        read_line(&mut count, &line);
    }
    let good = child.wait().is_ok_and(|status| status.success());
    output.failures.iter().for_each(|line| println!("{line}"));
    (good, count, output.failed)
}

/// The state of a parser of the output of test programs.
#[derive(Debug, Default)]
struct TestOutput {
    part: Part,
    name: String,
    failures: Vec<String>,
    /// The names of failed tests.
    failed: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Part {
    #[default]
    Names,
    Successes,
    Failures,
}

impl TestOutput {
    /// The line to print, if any. Lines of failures are also collected.
    fn filter(&mut self, line: &str) -> Option<String> {
        self.part = match line {
            "successes:" => Part::Successes,
            "failures:" => Part::Failures,
            _ if line.starts_with("test result: ") => Part::Names,
            _ => self.part,
        };
        if let Some(name) =
            line.strip_prefix("---- ").and_then(|it| it.strip_suffix(" stdout ----"))
        {
            name.clone_into(&mut self.name);
        }
        let result = line.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED"));
        self.failed.extend(result.map(str::to_owned));
        match self.part {
            Part::Names => Some(line.to_owned()),
            Part::Successes if !line.trim_start().starts_with(SKIPPED) => None,
            Part::Successes => Some(format!("{} {}", self.name, line.trim())),
            Part::Failures => {
                self.failures.push(line.to_owned());
                Some(line.to_owned())
            }
        }
    }
}

/// Counts `test result: ok. 3 passed; 0 failed; 1 ignored; …` and `skipped: …`.
fn read_line(count: &mut Count, line: &str) {
    if line.trim_start().starts_with(SKIPPED) {
        count.skipped += 1;
        // The test is also in the passed of a result line, before or after this one.
        count.passed = count.passed.wrapping_sub(1);
    }
    let Some(result) = line.strip_prefix("test result: ") else { return };
    let number = |word: &str| {
        let at = result.find(word)?;
        result[..at].split_whitespace().next_back()?.parse::<u64>().ok()
    };
    count.passed = count.passed.wrapping_add(number(" passed").unwrap_or(0));
    count.failed += number(" failed").unwrap_or(0);
    count.skipped += number(" ignored").unwrap_or(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_do_not_count_as_passed() {
        let mut count = Count::default();
        let lines = [
            "---- quota_is_read stdout ----",
            "skipped: needs root",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "any other line",
        ];
        lines.iter().for_each(|line| read_line(&mut count, line));
        assert_eq!(count, Count { passed: 7, failed: 2, skipped: 2 });
    }

    #[test]
    fn output_of_passed_tests_is_dropped() {
        let mut output = TestOutput::default();
        let lines = [
            ("test disk ... ok", Some("test disk ... ok")),
            ("", Some("")),
            ("successes:", None),
            ("---- disk stdout ----", None),
            ("two trials failed", None),
            ("skipped: needs root", Some("disk skipped: needs root")),
            ("failures:", Some("failures:")),
            ("---- net stdout ----", Some("---- net stdout ----")),
            ("panicked at 3", Some("panicked at 3")),
            ("test result: FAILED. 1 failed", Some("test result: FAILED. 1 failed")),
            ("test other ... ok", Some("test other ... ok")),
            ("test net ... FAILED", Some("test net ... FAILED")),
        ];
        for (line, expected) in lines {
            assert_eq!(output.filter(line).as_deref(), expected, "{line}");
        }
        assert_eq!(output.failures, ["failures:", "---- net stdout ----", "panicked at 3"]);
        assert_eq!(output.failed, ["net"]);
    }
}
