//! Verdicts of steps, and what their records hold.

use super::*;
use crate::engine::{End, Outcome, SLOTS, Tally, ThreadUse};
use crate::step::ServerUse;

fn stepped() -> Step {
    let mut step = Step::new(4);
    (step.completed, step.window_ns, step.sweeps) = (1_000, 1_000_000_000, SWEEPS);
    // Four clients, each in one response or the other all the time.
    step.sum_ns = 4e9;
    let batch = Batch { completed: 100, seconds: 0.1, mean_ns: 4e6, ..Batch::default() };
    step.batches = vec![batch; 10];
    step
}

fn verdict(step: &Step) -> (State, String) {
    let (verdict, _) = judge(step, Vec::new());
    let verdict = verdict.unwrap();
    (verdict.state, verdict.reasons.first().map_or(String::new(), |it| it.text.clone()))
}

#[test]
fn failed_requests_mark_the_step() {
    assert_eq!(verdict(&stepped()), (State::Valid, String::new()));
    let with = |count| {
        let mut step = stepped();
        step.faults.insert(Fault::Truncated, count);
        verdict(&step)
    };
    assert_eq!(with(3), (State::Noisy, "3 requests failed: body truncated (3×)".to_owned()));
    assert_eq!(with(500).0, State::Invalid);
    let is_point = |count| {
        let mut step = stepped();
        step.faults.insert(Fault::Truncated, count);
        let verdict = judge(&step, Vec::new()).0.unwrap();
        judged(&step, &verdict).is_point
    };
    assert_eq!([0, 1, 2].map(is_point), [true, true, false], "of 1000");
    let mut none = stepped();
    none.completed = 0;
    none.faults.insert(Fault::Status(404), 9);
    let text = "no request succeeded: status 404 (9×)".to_owned();
    assert_eq!(verdict(&none), (State::Failed, text));
}

#[test]
fn step_with_missing_work_is_noisy() {
    let mut step = stepped();
    assert!(missing_work(&step, 0.0).is_none());
    // As by a stall between two windows.
    step.sum_ns *= 0.8;
    let reason = missing_work(&step, 0.0).expect("a reason");
    assert!(reason.text.contains("is 80 % of the clients"), "{}", reason.text);
    step.sweeps = 1;
    assert_eq!(verdict(&step), (State::Noisy, "1 of 3 sweeps".to_owned()));
    (step.sweeps, step.batches[0].completed) = (SWEEPS, 7);
    let (state, text) = verdict(&step);
    assert!(state == State::Noisy && text.contains("7 completions"), "{text}");
}

#[test]
fn work_of_other_clients_is_a_doubt() {
    let with = |responses| {
        let server = ServerUse { wall_ns: 1_000_000_000, responses, ..ServerUse::default() };
        let mut step = stepped();
        step.server = Some(server);
        missing_work(&step, 0.0).map(|reason| reason.text)
    };
    assert_eq!(with(1_015), None);
    assert!(with(1_500).is_some_and(|text| text.contains("is 150 % of the clients")));
}

#[test]
fn dead_server_keeps_finished_sweeps() {
    let mut step = stepped();
    (step.sweeps, step.death) = (2, Some(Fault::Closed));
    let (state, text) = verdict(&step);
    assert!(state == State::Noisy && text.contains("2 of 3 sweeps"), "{text}");
    step.sweeps = 0;
    assert_eq!(verdict(&step).0, State::Failed);
}

/// A sweep without completions.
fn short() -> Outcome {
    Outcome {
        tally: Tally::default(),
        window_ns: 1,
        slots_ns: [0; SLOTS],
        warm_up_ns: 0,
        is_settled: true,
        threads: Vec::new(),
        end: End::Complete,
    }
}

#[test]
fn other_processes_mark_a_step_that_waits_for_a_cpu() {
    let with = |others, wait_ns| {
        let threads = vec![ThreadUse { cpu_ns: 50, wait_ns, wall_ns: 100 }];
        let mut step = stepped();
        let outcome = Outcome { threads, ..short() };
        step.by_sweep.clear();
        step.add(&outcome, None, others);
        verdict(&step)
    };
    let expected = "other processes or the kernel used 1.0 CPUs, an end waited \
                    for one 30 % of the time";
    let (state, text) = with(Some(1.0), 30);
    assert!(state == State::Noisy && text.contains(expected), "{text}");
    for (others, wait_ns) in [(Some(1.0), 10), (Some(0.2), 30), (None, 30)] {
        let (_, text) = with(others, wait_ns);
        assert!(!text.contains("other processes"), "{others:?}, {wait_ns}: {text}");
    }
}

#[test]
fn busy_or_late_client_marks_the_step() {
    let with = |cpu_ns, lag_ns| {
        let tally = Tally { lag_ns, lags: 1, ..Tally::default() };
        let threads = vec![ThreadUse { cpu_ns, wait_ns: 0, wall_ns: 100 }];
        let mut step = stepped();
        let outcome = Outcome { tally, threads, ..short() };
        step.add(&outcome, None, None);
        // The mean of 1 000 completions.
        step.sum_ns = 1e9;
        verdict(&step)
    };
    assert_eq!(with(90, 40_000.0).0, State::Valid);
    let (state, text) = with(91, 0.0);
    assert!(state == State::Invalid && text.contains("busy for 91 %"), "{text}");
    let (state, text) = with(0, 60_000.0);
    assert!(state == State::Noisy && text.contains("late by 6 %"), "{text}");
    let (state, text) = with(0, 260_000.0);
    assert!(state == State::Invalid && text.contains("late by 26 %"), "{text}");
}
