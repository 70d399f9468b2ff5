//! System calls of the coordinator that fail: at sampled positions, with each error that the call
//! may return, once and for good; and kills at them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_measure::affinity;
use fathom_record::Document;

use crate::faulty_run::FaultyRun;
use crate::test_env::{RUN, TestEnv};
use crate::trials::{self, FaultTrial, TrialOutcome, TrialTarget, is_strace_missing};
use crate::{scaled, stored, text};

/// An undisturbed run and its store.
struct Example {
    env: TestEnv,
    run: Document,
}

/// A run with or without a store that has the example.
struct RunTarget<'e> {
    format: &'static [&'static str],
    has_store: bool,
    example: &'e Example,
}

impl std::fmt::Debug for RunTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "run {} (store before: {})", self.format.join(" "), self.has_store)
    }
}

/// The command of a run, on the next CPU: trials run in parallel.
fn command(env: &TestEnv, format: &[&str]) -> Command {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cpus = affinity::allowed();
    let cpu = cpus[NEXT.fetch_add(1, Ordering::Relaxed) % cpus.len()].to_string();
    env.fathom(&[&RUN, &["--cpu", &cpu, "cpu.frequency"][..], format].concat())
}

impl TrialTarget for RunTarget<'_> {
    fn env(&self) -> TestEnv {
        let env = TestEnv::new();
        if self.has_store {
            std::fs::create_dir_all(env.store().parent().expect("a folder")).expect("a folder");
            std::fs::copy(self.example.env.store(), env.store()).expect("a copy");
        }
        env
    }

    fn command(&self, env: &TestEnv) -> Command {
        command(env, self.format)
    }

    fn written_file(&self, env: &TestEnv) -> PathBuf {
        env.store().to_owned()
    }

    fn judge(&self, trial: &FaultTrial<'_>) -> TrialOutcome {
        let (example, had_example) = (&self.example.run, self.has_store);
        let FaultTrial { env, status, injection, output } = *trial;
        FaultyRun { env, injection, output, example, had_example }.judge(status)
    }
}

#[test]
fn failing_calls_keep_every_acknowledged_record() {
    if is_strace_missing() {
        return;
    }
    let env = TestEnv::new();
    let output = command(&env, &["--jsonl"]).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = stored::runs(env.store()).expect("a store").remove(0);
    let example = &Example { env, run };
    let targets = [
        RunTarget { format: &["--jsonl"], has_store: true, example },
        RunTarget { format: &[], has_store: false, example },
        RunTarget { format: &["--jsonl"], has_store: false, example },
    ];
    let targets = &targets[..scaled(2, 3)];
    let counts = trials::run(("3-calls", "System calls of the coordinator that fail"), targets);
    assert!(counts.len() > 3, "the faults made no difference: {counts:?}");
}
