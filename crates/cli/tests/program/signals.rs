//! Runs that end early or are restricted: finished records are stored, and no process is left.
//! Kills of coordinators and workers are tested in `tests/faults`.

use std::collections::BTreeSet;
use std::process::Child;

use fathom_lab::processes::children;
use fathom_record::{RunState, State};
use rustix::process::{Resource, Signal};

use crate::children::{assert_all_end, hold_run_mark, send, spawn_piped, wait_until};
use crate::limits::{at_most, one_cpu, under};
use crate::test_env::assert_status;
use crate::{ProgramTestEnv, text};

/// Starts a long run and waits for the end of a visit: each has a process of its own.
fn start_run(env: &ProgramTestEnv) -> Child {
    let child = spawn_piped(env.command("run --thorough --only --jsonl cpu.call"));
    let mut workers = BTreeSet::new();
    wait_until("no visit has ended", || {
        workers.extend(children(child.id()));
        workers.len() > 2
    });
    child
}

#[test]
fn ctrl_c_keeps_records_and_leaves_no_worker() {
    for signal in [Signal::INT, Signal::TERM] {
        let env = ProgramTestEnv::new();
        let child = start_run(&env);
        let workers = children(child.id());
        send(&child, signal);
        assert_status(&child.wait_with_output().expect("it ends"), 130);
        assert_all_end(&workers);
        let document = env.latest();
        assert_eq!(document.run.state, RunState::Interrupted);
        assert!(!document.records.is_empty(), "{:?}", document.run);
    }
}

#[test]
fn ctrl_c_prints_closing_paragraph() {
    let env = ProgramTestEnv::new();
    let child = spawn_piped(env.command("run os"));
    wait_until("no worker", || !children(child.id()).is_empty());
    send(&child, Signal::INT);
    let message = text(&child.wait_with_output().expect("it ends").stdout);
    assert!(message.contains("The run ended early"), "{message}");
}

#[test]
fn closed_pipe_ends_the_run_quietly() {
    let env = ProgramTestEnv::new();
    let mut child = spawn_piped(env.command("run --quick --only --jsonl cpu.call"));
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 141);
    // Runs of other tests cause a warning.
    let message = text(&output.stderr);
    assert!(message.lines().all(|line| line.contains("another fathom run")), "{message}");
    assert_eq!(env.latest().run.state, RunState::Interrupted);
}

#[test]
fn one_allowed_cpu_is_enough() {
    let env = ProgramTestEnv::new();
    assert_status(&under(env.command("run --quick --only cpu.frequency"), one_cpu), 0);
    assert!(env.latest().run.cpu_reason.contains("only allowed CPU"));
}

#[test]
fn without_tsc_the_kernel_clock_is_used() {
    let env = ProgramTestEnv::new();
    let mut command = env.command("run --quick --only cpu.frequency");
    let output = command.env("FATHOM_CLOCK", "monotonic_raw").output().expect("it starts");
    assert_status(&output, 0);
    let clock = env.latest().run.clock;
    assert_eq!(clock.source, "monotonic_raw");
    assert!(clock.refused.is_some_and(|why| why.contains("FATHOM_CLOCK")));
}

#[test]
fn concurrent_runs_warn_and_are_both_stored() {
    let env = ProgramTestEnv::new();
    let _mark = hold_run_mark();
    let first = spawn_piped(env.command("run os"));
    wait_until("no worker", || !children(first.id()).is_empty());
    let second = env.succeed("run --quick --only cpu.frequency");
    let message = text(&second.stderr);
    assert!(message.contains("another fathom run"), "{message}");
    send(&first, Signal::INT);
    assert_status(&first.wait_with_output().expect("it ends"), 130);
    let runs = env.stdout("show --runs");
    assert!(runs.contains(" complete ") && runs.contains(" interrupted "), "{runs}");
}

#[test]
fn strict_fails_on_missing_numbers() {
    let env = ProgramTestEnv::new();
    let status = |option: &str| {
        let metrics = "cpu.frequency os.process.fork{rss_bytes=1GiB}";
        let run = format!("run --quick --only --processes 3 {option} {metrics}");
        under(env.command(&run), at_most(Resource::As, 300 << 20)).status.code()
    };
    assert_eq!(status("--strict"), Some(3), "1 GiB cannot be mapped");
    let steps = env.latest().records;
    let of_state = |state| steps.iter().filter(|record| record.verdict.state == state).count();
    assert!(of_state(State::Unavailable) > 0 && of_state(State::Failed) == 0, "{steps:?}");
    assert_eq!(status(""), Some(0));
}
