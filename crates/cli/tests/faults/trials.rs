//! Runs commands under planned faults and counts the outcomes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_lab::processes;
use fathom_lab::strace::{self, Injection, StraceFault};

use crate::test_env::TestEnv;
use crate::{fault_plan, scaled, text, write_section};

/// A trial that takes longer hangs. Waiting for a locked store takes 10 s.
const TIME_LIMIT_S: u64 = 90;

/// How a trial ended, or the promise that was broken.
pub(crate) type TrialOutcome = Result<&'static str, String>;

/// A command that ended after a fault.
pub(crate) struct FaultTrial<'t> {
    pub env: &'t TestEnv,
    pub status: ExitStatus,
    pub injection: &'t Injection,
    pub output: &'t str,
}

impl FaultTrial<'_> {
    /// The outcome, if it does not depend on what the command was to do.
    pub(crate) fn early_end(&self) -> Option<TrialOutcome> {
        match self.status.code() {
            _ if self.injection.fault == StraceFault::Kill => Some(Ok("killed")),
            Some(130) => Some(Ok("interrupted")),
            // Every write fails, also that of the message.
            Some(1) if self.injection.call == "write" && self.injection.times.is_none() => {
                Some(Ok("failed without output"))
            }
            Some(1) if !self.output.contains("fathom: ") => {
                Some(Err("no error message".to_owned()))
            }
            _ => None,
        }
    }
}

/// A command under test.
pub(crate) trait TrialTarget: Debug + Sync {
    /// A new environment; files that the command may create are in its folder `out`.
    fn env(&self) -> TestEnv;
    fn command(&self, env: &TestEnv) -> Command;
    /// The file that the command writes.
    fn written_file(&self, env: &TestEnv) -> PathBuf {
        env.file("out/data")
    }
    /// Checks all promises.
    fn judge(&self, trial: &FaultTrial<'_>) -> TrialOutcome;
}

/// Whether strace cannot inject faults here; prints why.
pub(crate) fn is_strace_missing() -> bool {
    let obstacle = strace::obstacle();
    obstacle.iter().for_each(|why| println!("skipped: {why}"));
    obstacle.is_some()
}

/// Runs a sample of the planned faults of all targets and reports; the number of each outcome.
pub(crate) fn run<T: TrialTarget>(
    heading: (&str, &str),
    targets: &[T],
) -> BTreeMap<&'static str, usize> {
    let mut trials = Vec::new();
    for target in targets {
        trials.extend(planned(target).into_iter().map(|injection| (target, injection)));
    }
    let trials = fault_plan::sample(trials, |(_, injection)| injection);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // In parallel, since a trial mostly waits.
    std::thread::scope(|scope| {
        for _ in 0..scaled(3, 8) {
            scope.spawn(|| {
                while let Some((target, injection)) =
                    trials.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let Some(outcome) = trial(*target, injection) else { continue };
                    let name = format!("{target:?}");
                    results.lock().expect("no panic").push((name, injection.clone(), outcome));
                }
            });
        }
    });
    report(heading, &results.into_inner().expect("no panic"))
}

/// The faults of the calls that an undisturbed run makes.
fn planned(target: &impl TrialTarget) -> Vec<Injection> {
    let env = target.env();
    let log = env.file("calls");
    let mut traced = strace::under(&target.command(&env), None, &log);
    let output = env.redirect(&mut traced);
    let status = traced.status().expect("it starts");
    assert!(status.success(), "undisturbed: {}", read(&output));
    let calls = strace::calls(&log);
    // The calls before are those of the loader and the Rust runtime.
    let is_first = |call: &strace::StraceCall| call.name == "pipe2" || call.line.contains("SIGINT");
    let first = calls.iter().position(is_first).expect("signal handlers");
    fault_plan::plan(&calls[first..], &target.written_file(&env))
}

/// Runs a trial; `None` if the program did not reach the call.
fn trial(target: &impl TrialTarget, injection: &Injection) -> Option<TrialOutcome> {
    let env = target.env();
    let log = env.file("calls");
    let mut traced = strace::under(&target.command(&env), Some(injection), &log);
    let output = env.redirect(&mut traced);
    let status = processes::ended_within(&mut traced.spawn().expect("it starts"), TIME_LIMIT_S);
    strace::happened(injection, &log).then(|| {
        let output = read(&output);
        let judged = match status {
            Some(status) => {
                target.judge(&FaultTrial { env: &env, status, injection, output: &output })
            }
            None => Err("it hangs".to_owned()),
        };
        judged.map_err(|why| format!("{why}\n{output}"))
    })
}

fn read(output: &Path) -> String {
    text(&std::fs::read(output).expect("the output"))
}

/// The names in the folder `out`.
pub(crate) fn names(env: &TestEnv) -> Vec<String> {
    let entries = std::fs::read_dir(env.file("out")).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Writes the section and fails on broken promises; the number of each outcome.
pub(crate) fn report(
    (section, title): (&str, &str),
    results: &[(String, Injection, TrialOutcome)],
) -> BTreeMap<&'static str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_call: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut broken = Vec::new();
    for (target, injection, outcome) in results {
        let outcome = outcome.as_ref().copied().unwrap_or_else(|why| {
            broken.push(format!("{target}: {injection}: {why}"));
            "BROKEN"
        });
        *counts.entry(outcome).or_default() += 1;
        *by_call.entry(&injection.call).or_default().entry(outcome).or_default() += 1;
    }
    let list = |counts: &BTreeMap<&str, usize>| {
        let counts: Vec<String> =
            counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        counts.join("; ")
    };
    let mut page = format!(
        "## {title}\n\n{} faults of {} calls, {} broken promises: {}.\n\n\
         | call | outcomes |\n|---|---|\n",
        results.len(),
        by_call.len(),
        broken.len(),
        list(&counts)
    );
    for (call, counts) in &by_call {
        page += &format!("| {call} | {} |\n", list(counts));
    }
    write_section(section, &page);
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    counts
}
