//! `xtask test`: all checks and tests of CI. The last line is `N passed, N failed, N skipped`.
//!
//! A test that cannot run on this machine prints `skipped: <reason>` and counts as skipped.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::runner::{self, Ended, Outcome, Suite};
use crate::{answers, docs, tidy, web};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

#[derive(Debug, Default)]
struct Count {
    passed: u64,
    skipped: u64,
    /// The names of the failed.
    failed: Vec<String>,
}

impl Count {
    /// The names are repeated here: a log may keep no more than its end.
    fn exit(&self) -> ExitCode {
        let Self { passed, skipped, failed } = self;
        failed.iter().for_each(|name| println!("failed: {name}"));
        println!("{passed} passed, {} failed, {skipped} skipped", failed.len());
        if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    tests(&mut count, root, Suite::Deterministic, cpus(), 1, |_| true);
    if has_page {
        let page = web::tests(root);
        count.passed += page.passed;
        count.skipped += page.skipped;
        count.failed.extend(page.failed);
    }
    count.exit()
}

/// Runs the tests whose name contains `part`; those of the lab one at a time.
pub(crate) fn named(root: &Path, suite: Suite, part: &str) -> ExitCode {
    let mut count = Count::default();
    let at_once = if suite == Suite::Lab { 1 } else { cpus() };
    let ended = tests(&mut count, root, suite, at_once, 1, |name| name.contains(part));
    if suite == Suite::Lab
        && let Err(error) = answers::write(root, part, &ended)
    {
        step(&mut count, "page of answers", vec![format!("{error:#}")]);
    }
    count.exit()
}

/// Runs the tests whose name begins so, each so many times, beside each other: six for each CPU.
pub(crate) fn repeated(root: &Path, times: usize, beginning: &str) -> ExitCode {
    let mut count = Count::default();
    let is_chosen = |name: &str| name.starts_with(beginning);
    tests(&mut count, root, Suite::Deterministic, 6 * cpus(), times, is_chosen);
    count.exit()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
    if good {
        count.passed += 1;
    } else {
        count.failed.push(name.to_owned());
    }
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

/// Runs the chosen tests so many times; then prints the failed ones and the slowest.
fn tests(
    count: &mut Count,
    root: &Path,
    suite: Suite,
    at_once: usize,
    times: usize,
    is_chosen: impl Fn(&str) -> bool,
) -> Vec<Ended> {
    let tests = match runner::list(root, suite) {
        Ok(tests) => tests,
        Err(error) => {
            step(count, "tests", vec![format!("{error:#}")]);
            return Vec::new();
        }
    };
    let tests: Vec<_> = tests.into_iter().filter(|it| is_chosen(&it.full_name())).collect();
    if tests.is_empty() {
        step(count, "tests", vec!["no test has such a name".to_owned()]);
    }
    let tests = vec![tests; times].concat();
    let mut ended = Vec::with_capacity(tests.len());
    let is_stopped = runner::run(&tests, at_once, |one| {
        println!("{}", line(&one));
        ended.push(one);
    });
    print!("{}", summary(&ended));
    match is_stopped {
        Ok(false) => {}
        Ok(true) => std::process::exit(130),
        Err(error) => step(count, "tests", vec![format!("catch signals: {error}")]),
    }
    for one in &ended {
        match one.outcome {
            Outcome::Passed => count.passed += 1,
            Outcome::Skipped(_) => count.skipped += 1,
            Outcome::Failed { .. } => count.failed.push(one.test.full_name()),
        }
    }
    ended
}

fn line(one: &Ended) -> String {
    let (name, seconds) = (one.test.full_name(), one.seconds);
    match &one.outcome {
        Outcome::Passed => format!("test {name} ... ok {seconds:.2} s"),
        Outcome::Skipped(reason) => format!("test {name} ... skipped: {reason}"),
        Outcome::Failed { how, .. } => format!("test {name} ... FAILED: {how}, {seconds:.2} s"),
    }
}

/// The output of the failed tests, and the slowest of all.
fn summary(ended: &[Ended]) -> String {
    let mut text = String::new();
    for one in ended {
        if let Outcome::Failed { output, .. } = &one.outcome {
            text += &format!("\n---- {}\n{output}", line(one));
        }
    }
    let mut slowest: Vec<&Ended> = ended.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    text += "\nslowest tests:\n";
    for one in slowest.into_iter().take(SLOWEST) {
        text += &format!("{:8.2} s  {}\n", one.seconds, one.test.full_name());
    }
    text
}
