//! `xtask test`: all checks and tests of CI. The last line is `N passed, N failed, N skipped`.
//!
//! A test that cannot run on this machine prints `skipped: <reason>` and counts as skipped.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::runner::{self, RunnerEnded, RunnerOutcome, RunnerSuite};
use crate::{answers, docs, tidy, web};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

#[derive(Debug, Default)]
struct TestCount {
    passed: u64,
    skipped: u64,
    /// The names of the failed.
    failed: Vec<String>,
}

impl TestCount {
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
    let mut count = TestCount::default();
    step(&mut count, "tidy", tidy::check(root));
    step(&mut count, "generated files", docs::check(root));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&mut count, "format", root, &cargo, &["fmt", "--all", "--check"]);
    let has_page = page(&mut count, root);
    let lints =
        ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    command(&mut count, "lints", root, &cargo, &lints);
    dependencies(&mut count, root);
    tests(&mut count, root, RunnerSuite::Deterministic, cpus(), 1, |_| true);
    if has_page {
        let page = web::tests(root);
        count.passed += page.passed;
        count.skipped += page.skipped;
        count.failed.extend(page.failed);
    }
    count.exit()
}

/// Licences, sources and banned packages, by deny.toml. The list of advisories is not packaged
/// anywhere, and what is fetched makes no test.
fn dependencies(count: &mut TestCount, root: &Path) {
    let own = root.join("target/tools/bin/cargo-deny");
    let program = if own.exists() { own } else { "cargo-deny".into() };
    let name = "licences and sources of dependencies";
    if Command::new(&program).arg("--version").output().is_err() {
        println!("check {name} ... skipped: cargo-deny is not installed");
        count.skipped += 1;
        return;
    }
    // A build fetches what this platform needs only; the check reads all.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut fetch = Command::new(cargo);
    let fetched = fetch.args(["fetch", "--quiet", "--locked"]).current_dir(root);
    if !fetched.status().is_ok_and(|status| status.success()) {
        println!("check {name} ... skipped: dependencies of other platforms cannot be fetched");
        count.skipped += 1;
        return;
    }
    let arguments = ["--offline", "--locked", "check", "bans", "licenses", "sources"];
    command(count, name, root, &program.to_string_lossy(), &arguments);
}

/// Runs the tests whose name contains `part`; those of the lab one at a time.
pub(crate) fn named(root: &Path, suite: RunnerSuite, part: &str) -> ExitCode {
    let mut count = TestCount::default();
    let at_once = if suite == RunnerSuite::Lab { 1 } else { cpus() };
    let ended = tests(&mut count, root, suite, at_once, 1, |name| name.contains(part));
    if suite == RunnerSuite::Lab
        && let Err(error) = answers::write(root, part, &ended)
    {
        step(&mut count, "page of answers", vec![format!("{error:#}")]);
    }
    count.exit()
}

/// Runs the tests whose name begins so, each so many times, beside each other: six for each CPU.
pub(crate) fn repeated(root: &Path, times: usize, beginning: &str) -> ExitCode {
    let mut count = TestCount::default();
    let is_chosen = |name: &str| name.starts_with(beginning);
    tests(&mut count, root, RunnerSuite::Deterministic, 6 * cpus(), times, is_chosen);
    count.exit()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn step(count: &mut TestCount, name: &str, problems: Vec<String>) {
    problems.iter().for_each(|problem| println!("{problem}"));
    note(count, name, problems.is_empty());
}

fn command(count: &mut TestCount, name: &str, root: &Path, program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).current_dir(root).status();
    note(count, name, status.is_ok_and(|status| status.success()));
}

fn note(count: &mut TestCount, name: &str, good: bool) {
    println!("check {name} ... {}", if good { "ok" } else { "FAILED" });
    if good {
        count.passed += 1;
    } else {
        count.failed.push(name.to_owned());
    }
}

/// Builds the page of `fathom report` and compares it with the packaged one. Returns whether it can
/// be tested.
fn page(count: &mut TestCount, root: &Path) -> bool {
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
    count: &mut TestCount,
    root: &Path,
    suite: RunnerSuite,
    at_once: usize,
    times: usize,
    is_chosen: impl Fn(&str) -> bool,
) -> Vec<RunnerEnded> {
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
            RunnerOutcome::Passed => count.passed += 1,
            RunnerOutcome::Skipped(_) => count.skipped += 1,
            RunnerOutcome::Failed { .. } => count.failed.push(one.test.full_name()),
        }
    }
    ended
}

fn line(one: &RunnerEnded) -> String {
    let (name, seconds) = (one.test.full_name(), one.seconds);
    match &one.outcome {
        RunnerOutcome::Passed => format!("test {name} ... ok {seconds:.2} s"),
        RunnerOutcome::Skipped(reason) => format!("test {name} ... skipped: {reason}"),
        RunnerOutcome::Failed { how, .. } => {
            format!("test {name} ... FAILED: {how}, {seconds:.2} s")
        }
    }
}

/// The output of the failed tests, and the slowest of all.
fn summary(ended: &[RunnerEnded]) -> String {
    let mut text = String::new();
    for one in ended {
        if let RunnerOutcome::Failed { output, .. } = &one.outcome {
            text += &format!("\n---- {}\n{output}", line(one));
        }
    }
    let mut slowest: Vec<&RunnerEnded> = ended.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    text += "\nslowest tests:\n";
    for one in slowest.into_iter().take(SLOWEST) {
        text += &format!("{:8.2} s  {}\n", one.seconds, one.test.full_name());
    }
    text
}
