//! Runs the tests of the workspace, each in a process of its own: one that dies, hangs or leaves
//! threads behind affects no other, and has a name.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};
use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};

/// What a test prints, with the reason, if it cannot run on this machine.
const SKIPPED: &str = "skipped: ";

/// The slowest test takes 10 s. Beside ten others on one CPU it still has five times as long as it
/// needs.
const LIMIT_S: u64 = 600;

/// What is printed of the end of a failed test's output.
const OUTPUT_BYTES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    program: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    /// The name of its program.
    target: String,
    name: String,
}

impl Test {
    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.target, self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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
pub(crate) struct Ended {
    pub(crate) test: Test,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
}

/// Which tests: `#[ignore]` marks those of `make lab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    Deterministic,
    Lab,
}

/// Builds the test programs of the workspace and lists their tests.
pub(crate) fn list(root: &Path, suite: Suite) -> Result<Vec<Test>> {
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
        if suite == Suite::Deterministic {
            let ignored = chosen;
            chosen = names(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect();
        }
        let (program, folder) = (&program, &folder);
        found.extend(chosen.into_iter().map(|name| Test {
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

/// Runs the tests, `at_once` at a time, and hands over each as it ends.
pub(crate) fn run(tests: &[Test], at_once: usize, mut show: impl FnMut(Ended)) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(run_one(test, LIMIT_S)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(&mut show);
    });
}

fn run_one(test: &Test, limit_s: u64) -> Ended {
    let begun_ns = monotonic_raw_ns();
    let outcome = try_run(test, limit_s).unwrap_or_else(|error| Outcome::Failed {
        how: format!("{error:#}"),
        output: String::new(),
    });
    let seconds = (monotonic_raw_ns() - begun_ns) as f64 / 1e9;
    Ended { test: test.clone(), outcome, seconds }
}

fn try_run(test: &Test, limit_s: u64) -> Result<Outcome> {
    let mut file = tempfile::tempfile().context("a file for the output")?;
    let mut command = Command::new(&test.program);
    command.args(["--exact", &test.name, "--include-ignored", "--nocapture"]);
    command.current_dir(&test.folder).env("CARGO_MANIFEST_DIR", &test.folder);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
    // A group of its own, so that its children end with it when it hangs.
    let mut child = command.process_group(0).spawn().context("start it")?;
    let status = wait(&mut child, limit_s)?;
    let output = end_of(&mut file)?;
    Ok(judge(status, limit_s, output))
}

/// The exit status; `None` if the test was killed at its time limit.
fn wait(child: &mut Child, limit_s: u64) -> Result<Option<ExitStatus>> {
    let process = rustix::process::Pid::from_child(child);
    let ended = pidfd_open(process, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: limit_s.cast_signed(), tv_nsec: 0 };
    let is_over = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit))? == 0;
    if is_over {
        let _ = kill_process_group(process, Signal::KILL);
    }
    let status = child.wait()?;
    Ok((!is_over).then_some(status))
}

fn end_of(file: &mut File) -> Result<String> {
    let length = file.metadata()?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX as u64)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The outcome of a test by its exit status and what it printed.
fn judge(status: Option<ExitStatus>, limit_s: u64, output: String) -> Outcome {
    let how = match status {
        None => format!("no end within {limit_s} s"),
        Some(status) if status.success() => {
            if let Some(reason) = output.lines().find_map(|line| line.strip_prefix(SKIPPED)) {
                return Outcome::Skipped(reason.to_owned());
            }
            if output.contains("test result: ok. 1 passed") {
                return Outcome::Passed;
            }
            // Something in it called exit(0).
            "ended before its result".to_owned()
        }
        Some(status) => match status.signal() {
            Some(signal) => format!("died of signal {signal}"),
            None if output.contains("test result: FAILED") => "failed".to_owned(),
            None => format!("ended before its result, with {status}"),
        },
    };
    Outcome::Failed { how, output }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A program that behaves like a test program with one test.
    fn scripted(script: &str) -> (tempfile::TempDir, Test) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let [target, name] = ["program", "it"].map(str::to_owned);
        let test = Test { program, folder: folder.path().to_owned(), target, name };
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
            let outcome = match run_one(&test, LIMIT_S).outcome {
                Outcome::Passed => Ok(None),
                Outcome::Skipped(reason) => Ok(Some(reason)),
                Outcome::Failed { how, .. } => Err(how),
            };
            assert_eq!(outcome, expected.map(|it| it.map(str::to_owned)), "{script}");
        }
    }

    #[test]
    fn hanging_test_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo; wait"]).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        let status = wait(&mut child, 0).unwrap();
        assert_eq!(status, None, "it was killed");
        // The end of the pipe: its child has it, too.
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        let Outcome::Failed { how, .. } = judge(status, 7, String::new()) else { panic!() };
        assert_eq!(how, "no end within 7 s");
    }

    #[test]
    fn all_tests_are_run_once() {
        let (folder, test) = scripted(&format!("echo $2 >> ran; {OK}"));
        let named = |at: u32| Test { name: at.to_string(), ..test.clone() };
        let tests: Vec<Test> = (0..20).map(named).collect();
        let mut ended = 0;
        run(&tests, 3, |one| ended += u32::from(one.outcome == Outcome::Passed));
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
