//! Runs the tests of the workspace, each in a process of its own: one that dies, hangs or leaves
//! threads behind affects no other, and has a name.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::{CollectError, OutputLimits, Running};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a test prints, with the reason, if it cannot run on this machine.
const SKIPPED: &str = "skipped: ";

/// The slowest test takes 10 s. Beside ten others on one CPU it still has five times as long as it
/// needs.
const LIMITS: OutputLimits = OutputLimits { time_ns: 600_000_000_000, output_bytes: 0 };

/// What is printed of the end of a failed test's output.
const OUTPUT_BYTES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunnerTest {
    program: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    /// The name of its program.
    target: String,
    name: String,
}

impl RunnerTest {
    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.target, self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunnerOutcome {
    Passed,
    /// The reason.
    Skipped(String),
    /// What happened, and the end of the output.
    Failed {
        how: String,
        output: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct RunnerEnded {
    pub(crate) test: RunnerTest,
    pub(crate) outcome: RunnerOutcome,
    pub(crate) seconds: f64,
}

/// Which tests: `#[ignore]` marks those of `make lab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunnerSuite {
    Deterministic,
    Lab,
}

/// Builds the test programs of the workspace and lists their tests.
pub(crate) fn list(root: &Path, suite: RunnerSuite) -> Result<Vec<RunnerTest>> {
    let mut found = Vec::new();
    for (target, program, folder) in build(root)? {
        let names = |more: &[&str]| -> Result<Vec<String>> {
            let mut command = Command::new(&program);
            command.args(["--list", "--format", "terse"]).args(more).current_dir(&folder);
            let output = command.output().with_context(|| program.display().to_string())?;
            ensure!(output.status.success(), "{} --list: {}", program.display(), output.status);
            let text = String::from_utf8_lossy(&output.stdout);
            let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
            Ok(names.map(str::to_owned).collect())
        };
        let mut chosen = names(&["--ignored"])?;
        if suite == RunnerSuite::Deterministic {
            let ignored = chosen;
            chosen = names(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect();
        }
        let (program, folder) = (&program, &folder);
        found.extend(chosen.into_iter().map(|name| RunnerTest {
            program: program.clone(),
            folder: folder.clone(),
            target: target.clone(),
            name,
        }));
    }
    Ok(found)
}

/// Builds the test programs: their names, files, and the folders of their packages.
fn build(root: &Path) -> Result<Vec<(String, PathBuf, PathBuf)>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["test", "--workspace", "--locked", "--no-run"]).current_dir(root);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().context("start cargo")?;
    let lines = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
    let programs = lines.map_while(std::io::Result::ok).filter_map(|line| program_of(&line));
    let programs = programs.collect();
    let status = child.wait().context("cargo")?;
    ensure!(status.success(), "the tests do not build");
    Ok(programs)
}

/// The test program of a message of cargo.
fn program_of(message: &str) -> Option<(String, PathBuf, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let program = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let target = message["target"]["name"].as_str()?;
    Some((target.to_owned(), program.into(), manifest.parent()?.to_owned()))
}

/// Runs the tests, `at_once` at a time, and hands over each as it ends. SIGINT and SIGTERM end the
/// running ones, with all that they started; returns whether that was so.
pub(crate) fn run(
    tests: &[RunnerTest],
    at_once: usize,
    mut show: impl FnMut(RunnerEnded),
) -> std::io::Result<bool> {
    let (stop, signalled) = std::io::pipe()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    let stop = stop.as_fd();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !is_readable(stop)
                    && let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if sender.send(run_one(test, LIMITS, stop)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(&mut show);
    });
    Ok(is_readable(stop))
}

fn is_readable(pipe: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(pipe, PollFlags::IN)], Some(&now)).is_ok_and(|it| it > 0)
}

fn run_one(test: &RunnerTest, limits: OutputLimits, stop: BorrowedFd<'_>) -> RunnerEnded {
    let begun_ns = monotonic_raw_ns();
    let outcome = try_run(test, limits, stop).unwrap_or_else(|error| RunnerOutcome::Failed {
        how: format!("{error:#}"),
        output: String::new(),
    });
    let seconds = (monotonic_raw_ns() - begun_ns) as f64 / 1e9;
    RunnerEnded { test: test.clone(), outcome, seconds }
}

fn try_run(test: &RunnerTest, limits: OutputLimits, stop: BorrowedFd<'_>) -> Result<RunnerOutcome> {
    // Both streams in one file, so that their lines keep their order.
    let mut file = tempfile::tempfile().context("a file for the output")?;
    let command = || {
        let mut command = Command::new(&test.program);
        command.args(["--exact", &test.name, "--include-ignored", "--nocapture"]);
        command.current_dir(&test.folder).env("CARGO_MANIFEST_DIR", &test.folder);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
        Ok(command)
    };
    let mut running = Running::start_tied(command, &[]).context("start it")?;
    let end = running.collect(limits, stop);
    if end.is_err() {
        running.terminate(0);
    }
    Ok(judge(end, end_of(&mut file)?))
}

fn end_of(file: &mut File) -> Result<String> {
    let length = file.metadata()?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX as u64)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The outcome of a test by how it ended and what it printed.
fn judge(end: std::result::Result<ExitStatus, CollectError>, output: String) -> RunnerOutcome {
    let how = match end {
        Err(error) => error.to_string(),
        Ok(status) if status.success() => {
            if let Some(reason) = output.lines().find_map(|line| line.strip_prefix(SKIPPED)) {
                return RunnerOutcome::Skipped(reason.to_owned());
            }
            if output.contains("test result: ok. 1 passed") {
                return RunnerOutcome::Passed;
            }
            // Something in it called exit(0).
            "ended before its result".to_owned()
        }
        Ok(status) => match status.signal() {
            Some(signal) => format!("died of signal {signal}"),
            None if output.contains("test result: FAILED") => "failed".to_owned(),
            None => format!("ended before its result, with {status}"),
        },
    };
    RunnerOutcome::Failed { how, output }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// A program that behaves like a test program with one test.
    fn scripted(script: &str) -> (tempfile::TempDir, RunnerTest) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let [target, name] = ["program", "it"].map(str::to_owned);
        let test = RunnerTest { program, folder: folder.path().to_owned(), target, name };
        (folder, test)
    }

    const OK: &str = "echo 'test result: ok. 1 passed; 0 failed'";

    #[test]
    fn every_way_to_end_has_its_outcome() {
        let failed = |how: &str| Err(how.to_owned());
        for (script, expected) in [
            (OK.to_owned(), Ok(None)),
            (format!("echo 'skipped: needs root'; {OK}"), Ok(Some("needs root"))),
            ("echo 'test result: FAILED. 0 passed'; exit 101".to_owned(), failed("failed")),
            ("kill -SEGV $$".to_owned(), failed("died of signal 11")),
            ("exit 0".to_owned(), failed("ended before its result")),
            ("exit 3".to_owned(), failed("ended before its result, with exit status: 3")),
            ("echo '0 passed'".to_owned(), failed("ended before its result")),
        ] {
            let (_folder, test) = scripted(&script);
            let (never, _stop) = std::io::pipe().unwrap();
            let outcome = match run_one(&test, LIMITS, never.as_fd()).outcome {
                RunnerOutcome::Passed => Ok(None),
                RunnerOutcome::Skipped(reason) => Ok(Some(reason)),
                RunnerOutcome::Failed { how, .. } => Err(how),
            };
            assert_eq!(outcome, expected.map(|it| it.map(str::to_owned)), "{script}");
        }
    }

    #[test]
    fn stopped_or_hanging_test_is_killed_with_its_children() {
        for is_stopped in [false, true] {
            // The FIFO closes when the child ends, also one that has left the group of the test.
            let (folder, test) = scripted("setsid sleep 1000 > held & wait");
            let held = folder.path().join("held");
            assert!(Command::new("mkfifo").arg(&held).status().unwrap().success());
            let (stop, mut signalled) = std::io::pipe().unwrap();
            let limit = OutputLimits { time_ns: u64::from(is_stopped) * LIMITS.time_ns, ..LIMITS };
            let ended = std::thread::scope(|scope| {
                let running = scope.spawn(|| run_one(&test, limit, stop.as_fd()));
                if is_stopped {
                    let mut pipe = File::open(&held).unwrap();
                    signalled.write_all(b"x").unwrap();
                    assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
                }
                running.join().unwrap()
            });
            let RunnerOutcome::Failed { how, .. } = ended.outcome else { panic!("it ended") };
            let expected =
                if is_stopped { "was stopped" } else { "timed out after 0 s, was killed" };
            assert_eq!(how, expected);
        }
    }

    #[test]
    fn all_tests_are_run_once() {
        let (folder, test) = scripted(&format!("echo $2 >> ran; {OK}"));
        let named = |at: u32| RunnerTest { name: at.to_string(), ..test.clone() };
        let tests: Vec<RunnerTest> = (0..20).map(named).collect();
        let mut ended = 0;
        let show = |one: RunnerEnded| ended += u32::from(one.outcome == RunnerOutcome::Passed);
        assert!(!run(&tests, 3, show).unwrap(), "not interrupted");
        assert_eq!(ended, 20);
        let ran = fs::read_to_string(folder.path().join("ran")).unwrap();
        let mut ran: Vec<u32> = ran.lines().map(|line| line.parse().unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn only_test_programs_are_taken_from_messages() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml",
                "target":{{"name":"program"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
            )
        };
        let found = program_of(&message(true)).unwrap();
        assert_eq!(found, ("program".to_owned(), "/t/x".into(), "/a".into()));
        assert_eq!(program_of(&message(false)), None);
        assert_eq!(program_of("not JSON"), None);
    }
}
