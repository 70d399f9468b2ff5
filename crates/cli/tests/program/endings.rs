//! Runs that do not end well, and what they leave behind: everything that was done, and no process.

use std::process::{Child, Stdio};

use fathom_record::{Cause, RunState, State};
use rustix::process::{Pid, Resource, Signal};

use crate::children::{
    all_end, children, eventually, held_workers, next_line, piped, send, signal,
};
use crate::limits::{at_most, one_cpu, under};
use crate::place::ends_with;
use crate::{Place, SHORT, text};

/// A run of the whole CPU group, started and read up to its first record.
fn started(place: &Place) -> (Child, String) {
    let mut child = piped(place.asked("run --jsonl cpu os"));
    let first = next_line(&mut child);
    (child, first)
}

#[test]
fn ctrl_c_keeps_what_is_done_says_so_and_leaves_no_worker() {
    for asked in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let (child, _) = started(&place);
        let workers = children(child.id());
        send(&child, asked);
        ends_with(&child.wait_with_output().expect("it ends"), 130);
        all_end(&workers);
        let document = place.latest();
        assert_eq!(document.run.state, RunState::Interrupted);
        let records = document.records.len() as u64;
        assert!(records > 0 && document.run.planned > records);
    }
}

#[test]
fn ctrl_c_in_a_table_ends_with_a_paragraph_about_what_is_kept() {
    let place = Place::new();
    let child = piped(place.asked("run os"));
    eventually("no worker", || !children(child.id()).is_empty());
    send(&child, Signal::INT);
    let said = text(&child.wait_with_output().expect("it ends").stdout);
    assert!(said.contains("The run was interrupted"), "{said}");
}

#[test]
fn a_killed_coordinator_takes_its_workers_along_and_keeps_its_records() {
    let place = Place::new();
    let (mut child, first) = started(&place);
    // The rest of the block does not fit a pipe that nobody reads.
    let mut output = child.stdout.take().expect("a pipe");
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    let workers = held_workers(&child);
    // Orphans come to this process, so that it sees what ended them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
    send(&child, Signal::KILL);
    child.wait().expect("it ends");
    let worker = Pid::from_raw(workers[0] as i32);
    let options = rustix::process::WaitOptions::empty();
    let ended = rustix::process::waitpid(worker, options).expect("the orphan is ours");
    let (_, status) = ended.expect("it ended");
    assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()), "ended by the kernel");
    all_end(&workers);
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record: fathom_record::Record = serde_json::from_str(&first).expect("a record");
    assert!(document.records.iter().any(|kept| kept.name() == record.name()), "it was printed");
}

#[test]
fn a_killed_worker_is_a_failed_metric_and_the_run_goes_on() {
    let place = Place::new();
    let child = piped(place.asked("run --quick --jsonl os.syscall os.thread"));
    assert!(signal(held_workers(&child)[0], Signal::KILL), "it is there");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Complete);
    let failed: Vec<_> =
        document.records.iter().filter(|record| record.verdict.state == State::Failed).collect();
    assert!(!failed.is_empty() && failed.len() < document.records.len());
    for record in failed {
        assert_eq!(record.verdict.reasons[0].cause, Cause::Crashed);
        assert!(record.verdict.reasons[0].text.contains("was killed"), "{:?}", record.verdict);
    }
}

#[test]
fn a_reader_that_leaves_ends_the_run_without_a_complaint() {
    let place = Place::new();
    let (mut child, _) = started(&place);
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    ends_with(&output, 141);
    // Other tests run beside this one, and a run says so.
    let said = text(&output.stderr);
    assert!(said.lines().all(|line| line.contains("another fathom run")), "{said}");
    assert_eq!(place.latest().run.state, RunState::Interrupted);
}

#[test]
fn one_cpu_is_enough() {
    let place = Place::new();
    ends_with(&under(place.fathom(&["run", "--quick", SHORT[0], SHORT[1]]), one_cpu), 0);
    assert!(place.latest().run.cpu_reason.contains("only CPU"));
}

#[test]
fn without_the_counter_the_kernels_clock_is_used_and_the_record_says_why() {
    let place = Place::new();
    let mut command = place.asked("run --quick cpu.frequency");
    let output = command.env("FATHOM_CLOCK", "monotonic_raw").output().expect("it starts");
    ends_with(&output, 0);
    let clock = place.latest().run.clock;
    assert_eq!(clock.source, "monotonic_raw");
    assert!(clock.refused.is_some_and(|why| why.contains("FATHOM_CLOCK")));
}

#[test]
fn two_runs_at_once_keep_both() {
    let place = Place::new();
    let run = || place.fathom(&["run", "--quick", SHORT[0], SHORT[1]]).output().expect("it starts");
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().expect("no panic"))
    });
    assert!(one.status.success() && two.status.success());
    let said = text(&one.stderr) + &text(&two.stderr);
    assert!(said.contains("another fathom run"), "one of them says so: {said}");
    let runs = text(&place.run(&["show", "--runs"]).stdout);
    assert_eq!(runs.matches("complete").count(), 2, "{runs}");
}

#[test]
fn strict_wants_every_number() {
    let place = Place::new();
    let strict = |address_space_mib: u64| {
        let run = place.asked("run --quick --strict cpu.frequency os.process.fork");
        under(run, at_most(Resource::As, address_space_mib << 20)).status.code()
    };
    assert_eq!(strict(300), Some(3), "the ladder's upper steps cannot be mapped");
    let steps = place.latest().records;
    let of_state = |state| steps.iter().filter(|record| record.verdict.state == state).count();
    assert!(of_state(State::Unavailable) > 0 && of_state(State::Failed) == 0, "{steps:?}");
    let frequency = place.run(&["run", "--quick", "--strict", "cpu.frequency"]);
    assert_eq!(frequency.status.code(), Some(0));
}

#[test]
fn a_worker_without_a_request_fails() {
    let mut worker = Place::new().fathom(&["worker"]);
    let output = worker.stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
}
