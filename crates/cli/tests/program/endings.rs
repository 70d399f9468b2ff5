//! Runs that do not end well, and what they leave behind: everything that was done, and no process.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathom_record::{Cause, RunState, State};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Place, SHORT, text};

/// A run of the whole CPU group, started and read up to its first record.
fn started(place: &Place) -> (Child, String) {
    let mut child = place
        .fathom(&["run", "--jsonl", "cpu", "os"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut first = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut first).expect("a record");
    (child, first)
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// The processes whose parent is `pid`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let output = Command::new("pgrep").args(["-P", &pid.to_string()]).output().expect("pgrep");
    text(&output.stdout).lines().filter_map(|line| line.parse().ok()).collect()
}

/// Counters, for ten seconds at most, until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    // 5,000 times 2 ms.
    for patience in (0..5000).rev() {
        if is_so() {
            return;
        }
        assert!(patience > 0, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn exists(pid: u32) -> bool {
    // A zombie is no running process; its parent may be slow to reap it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Stops a process, and tells whether it was still there to be stopped.
fn is_held(pid: u32) -> bool {
    let process = Pid::from_raw(pid as i32).expect("a process");
    // A process that is gone by now is no worker to hold.
    let sent = kill_process(process, Signal::STOP).is_ok();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    sent && (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        stat().contains(") T ")
    })
}

#[test]
fn ctrl_c_keeps_what_is_done_says_so_and_leaves_no_worker() {
    for asked in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let (child, _) = started(&place);
        let workers = children(child.id());
        signal(child.id(), asked);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        eventually("a worker is left", || !workers.iter().any(|worker| exists(*worker)));
        let document = place.latest();
        assert_eq!(document.run.state, RunState::Interrupted);
        assert!(
            !document.records.is_empty() && document.run.planned > document.records.len() as u64
        );
    }
}

#[test]
fn ctrl_c_in_a_table_ends_with_a_paragraph_about_what_is_kept() {
    let place = Place::new();
    let child = place.fathom(&["run", "os"]).stdout(Stdio::piped()).spawn().expect("it starts");
    eventually("no worker", || !children(child.id()).is_empty());
    signal(child.id(), Signal::INT);
    let said = text(&child.wait_with_output().expect("it ends").stdout);
    assert!(said.contains("The run was interrupted"), "{said}");
}

#[test]
fn a_killed_coordinator_takes_its_workers_along_and_keeps_its_records() {
    let place = Place::new();
    let (mut child, first) = started(&place);
    let mut workers = Vec::new();
    // A worker lives for some milliseconds, and must not leave of itself meanwhile: it is stopped.
    eventually("no worker", || {
        workers = children(child.id());
        workers.first().is_some_and(|worker| is_held(*worker))
    });
    // Orphans come to this process, so that it sees what ended them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
    signal(child.id(), Signal::KILL);
    child.wait().expect("it ends");
    let worker = Pid::from_raw(workers[0] as i32);
    let options = rustix::process::WaitOptions::empty();
    let ended = rustix::process::waitpid(worker, options).expect("the orphan is ours");
    let (_, status) = ended.expect("it ended");
    assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()), "ended by the kernel");
    eventually("a worker outlived its coordinator", || !workers.iter().any(|one| exists(*one)));
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record: fathom_record::Record = serde_json::from_str(&first).expect("a record");
    assert!(document.records.iter().any(|kept| kept.name() == record.name()), "it was printed");
}

#[test]
fn a_killed_worker_is_a_failed_metric_and_the_run_goes_on() {
    let place = Place::new();
    let child = place
        .fathom(&["run", "--quick", "--jsonl", "os.syscall", "os.thread"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut workers = Vec::new();
    eventually("no worker", || {
        workers = children(child.id());
        workers.first().is_some_and(|worker| is_held(*worker))
    });
    signal(workers[0], Signal::KILL);
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
    assert_eq!(output.status.code(), Some(141), "{}", text(&output.stderr));
    // Other tests run beside this one, and a run says so.
    let said = text(&output.stderr);
    assert!(said.lines().all(|line| line.contains("another fathom run")), "{said}");
    assert_eq!(place.latest().run.state, RunState::Interrupted);
}

#[test]
fn one_cpu_is_enough() {
    let place = Place::new();
    let mut command = place.fathom(&["run", "--quick", SHORT[0], SHORT[1]]);
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| {
            let mut one = rustix::thread::CpuSet::new();
            let all = rustix::thread::sched_getaffinity(None)?;
            let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu));
            one.set(first.unwrap_or(0));
            Ok(rustix::thread::sched_setaffinity(None, &one)?)
        });
    }
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(place.latest().run.cpu_reason.contains("only CPU"));
}

#[test]
fn without_the_counter_the_kernels_clock_is_used_and_the_record_says_why() {
    let place = Place::new();
    let mut command = place.fathom(&["run", "--quick", "cpu.frequency"]);
    let output = command.env("FATHOM_CLOCK", "monotonic_raw").output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
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
        let mut command =
            place.fathom(&["run", "--quick", "--strict", "cpu.frequency", "os.process.fork"]);
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || {
                let bytes = Some(address_space_mib << 20);
                let limit = rustix::process::Rlimit { current: bytes, maximum: bytes };
                Ok(rustix::process::setrlimit(rustix::process::Resource::As, limit)?)
            });
        }
        command.output().expect("it starts").status.code()
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
