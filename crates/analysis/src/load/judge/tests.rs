//! Verdicts of steps.

use fathom_record::{Histogram, LoadThread, LoadWindow, ServerUse};

use super::super::measured::{SLOTS, tests::window};
use super::super::{ServerEnd, StepBatch};
use super::*;

const NOISE_LIMIT: f64 = 0.1;

fn stepped() -> MeasuredStep {
    let mut step = MeasuredStep::new(4);
    (step.all.completed, step.counts.window_ns, step.sweeps) = (1_000, 1_000_000_000, SWEEPS);
    // Four clients, each in one response or the other all the time.
    step.all.sum_ns = 4e9;
    let batch = StepBatch { completed: 100, seconds: 0.1, mean_ns: 4e6, ..StepBatch::default() };
    step.batches = vec![batch; 10];
    step
}

fn verdict(step: &MeasuredStep) -> (State, String) {
    let verdict = super::verdict(step, Vec::new(), NOISE_LIMIT);
    (verdict.state, verdict.reasons.first().map_or(String::new(), |it| it.text.clone()))
}

/// Of a step that did what was asked.
fn judged(step: &MeasuredStep) -> StepJudgement {
    judge_step(
        step,
        &StepAsked { is_counted: true, noise_limit: NOISE_LIMIT, ..StepAsked::default() },
    )
}

#[test]
fn failed_requests_mark_the_step() {
    assert_eq!(verdict(&stepped()), (State::Valid, String::new()));
    let with = |count| {
        let mut step = stepped();
        step.counts.faults.insert("body truncated".to_owned(), count);
        verdict(&step)
    };
    assert_eq!(with(3), (State::Noisy, "3 requests failed: body truncated (3×)".to_owned()));
    assert_eq!(with(500).0, State::Invalid);
    let is_point = |count| {
        let mut step = stepped();
        step.counts.faults.insert("body truncated".to_owned(), count);
        judged(&step).is_point()
    };
    assert_eq!([0, 1, 2].map(is_point), [true, true, false], "of 1000");
    let mut none = stepped();
    none.all.completed = 0;
    none.counts.faults.insert("status 404".to_owned(), 9);
    let text = "no request succeeded: status 404 (9×)".to_owned();
    assert_eq!(verdict(&none), (State::Failed, text));
}

#[test]
fn step_with_missing_work_is_noisy() {
    let mut step = stepped();
    assert!(missing_work(&step, &StepAsked::default()).is_none());
    // As by a stall between two windows.
    step.all.sum_ns *= 0.8;
    let reason = missing_work(&step, &StepAsked::default()).expect("a reason");
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
        missing_work(&step, &StepAsked::default()).map(|reason| reason.text)
    };
    assert_eq!(with(1_015), None);
    assert!(with(1_500).is_some_and(|text| text.contains("is 150 % of the clients")));
}

#[test]
fn dead_server_keeps_finished_sweeps() {
    let mut step = stepped();
    let reason = Reason::new(Cause::Crashed, "the server stopped answering");
    let words = "closed".to_owned();
    (step.sweeps, step.server_end) = (2, Some(ServerEnd { reason, words }));
    let (state, text) = verdict(&step);
    assert!(state == State::Noisy && text.contains("2 of 3 sweeps"), "{text}");
    step.sweeps = 0;
    assert_eq!(verdict(&step).0, State::Failed);
}

/// A window without completions.
fn short(cpu_ns: u64, wait_ns: u64) -> LoadWindow {
    let threads = vec![LoadThread { cpu_ns, wait_ns, wall_ns: 100 }];
    LoadWindow { window_ns: 1, is_settled: true, threads, ..LoadWindow::default() }
}

#[test]
fn other_processes_mark_a_step_that_waits_for_a_cpu() {
    let with = |others, wait_ns| {
        let mut step = stepped();
        step.by_sweep.clear();
        step.add(&LoadWindow { others, ..short(50, wait_ns) });
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
        let mut step = stepped();
        step.add(&LoadWindow { lag_ns, lags: 1, ..short(cpu_ns, 0) });
        // The mean of 1 000 completions.
        step.all.sum_ns = 1e9;
        verdict(&step)
    };
    assert_eq!(with(90, 40_000.0).0, State::Valid);
    let (state, text) = with(91, 0.0);
    assert!(state == State::Invalid && text.contains("busy for 91 %"), "{text}");
    let (state, text) = with(0, 60_000.0);
    assert!(state == State::Noisy && text.contains("late by 6 %"), "{text}");
    let (state, text) = with(0, 260_000.0);
    assert!(state == State::Invalid && text.starts_with("client-bound: responses"), "{text}");
    // What others took is not the generator's fault.
    let mut late = stepped();
    late.by_sweep.clear();
    late.add(&LoadWindow { others: Some(1.0), lag_ns: 260_000.0, lags: 1, ..short(50, 30) });
    late.all.sum_ns = 1e9;
    let (state, text) = verdict(&late);
    let by = "other processes or the kernel used 1.0 CPUs";
    assert!(state == State::Invalid && text.starts_with(by), "{text}");
    // Nor is what they took from the server the generator's excuse.
    let with_server = |lag_ns| {
        let mut step = stepped();
        step.by_sweep.clear();
        step.add(&LoadWindow { others: Some(1.0), lag_ns, lags: 1, ..short(50, 0) });
        let (wall_ns, reactors, reactor_wait_ns) = (100, 1, 30);
        let waits = ServerUse { wall_ns, reactors, reactor_wait_ns, ..ServerUse::default() };
        step.by_sweep[0].server = Some(waits);
        step.all.sum_ns = 1e9;
        verdict(&step)
    };
    let (_, text) = with_server(260_000.0);
    assert!(text.starts_with("client-bound: responses"), "{text}");
    let (state, text) = with_server(0.0);
    assert!(state == State::Noisy && text.contains(by), "{text}");
}

/// A quota of a seventh of a CPU, of which the kernel took back a quarter.
#[test]
fn client_that_its_quota_holds_back_is_the_limit() {
    let with = |throttled_ns| {
        let (window_ns, quota) = (1_000, Some(0.14));
        let mut step = MeasuredStep::new(1);
        step.add(&LoadWindow { throttled_ns, window_ns, quota, ..short(11, 83) });
        (step.all.completed, step.all.sum_ns) = (1_000, 1e9);
        (step.is_quota_bound(), verdict(&step).1)
    };
    let (is_bound, text) = with(800);
    assert!(is_bound && text.contains("quota of CPU time is in use, or holds it back"), "{text}");
    assert!(!with(50).0, "other processes use its CPU");
}

#[test]
fn requests_in_flight_that_could_change_p99_mark_a_closed_step() {
    let with = |long: usize, count: u64| {
        let mut step = MeasuredStep::new(4);
        for _ in 0..SWEEPS {
            let mut window = window([count; SLOTS]);
            // As long as others, or longer than any response.
            let times = (0..3).map(|at| if at < long { 1.2e6 } else { 1e6 });
            window.in_flight_times = times.collect();
            step.add(&window);
        }
        verdict(&step)
    };
    assert_eq!(with(0, 40), (State::Valid, String::new()));
    assert_eq!(with(1, 33), (State::Valid, String::new()), "990 have no p99");
    let (state, text) = with(1, 40);
    let expected = "3 requests in flight at the end of a window had lasted longer than p99";
    assert!(state == State::Noisy && text.starts_with(expected), "{text}");
}

#[test]
fn rare_delays_of_the_generator_are_noisy_and_frequent_ones_a_limit() {
    let with = |late: u64| {
        let mut step = MeasuredStep::open_loop(100);
        for _ in 0..SWEEPS {
            let times = (0..4_000).map(|at| if at < late { 2e6 } else { 1e4 });
            let mut window =
                LoadWindow { sent_late: Some(times.collect()), ..window([400; SLOTS]) };
            window.slots.iter_mut().for_each(|slot| slot.times = (0..400).map(|_| 3e6).collect());
            step.add(&window);
        }
        verdict(&step)
    };
    // Of 12 000: p99.9 is of the last 12, p99 of the last 120.
    assert_eq!(with(2), (State::Valid, String::new()));
    let (state, text) = with(5);
    assert!(state == State::Noisy && text.contains("sent late: p99.9 2.0"), "{text}");
    let (state, text) = with(50);
    assert!(state == State::Invalid && text.contains("sent late: p99 2.0"), "{text}");
}

/// A generator with little to do waits a short time beside the window, and is late all the same.
#[test]
fn others_that_took_the_cpus_of_a_seldom_due_generator_are_the_cause() {
    let with = |share: f64, waiting: f64, others: f64| {
        let mut step = MeasuredStep::open_loop(100);
        for _ in 0..SWEEPS {
            let late = (0..4_000).map(|at| if at < 50 { 2e6 } else { 1e4 }).collect();
            let cpu_ns = (share * 100.0) as u64;
            let threads = vec![LoadThread { cpu_ns, wait_ns: 0, wall_ns: 100 }];
            let mut window = LoadWindow { sent_late: Some(late), threads, ..window([400; SLOTS]) };
            window.slots.iter_mut().for_each(|slot| slot.times = (0..400).map(|_| 3e6).collect());
            step.add(&window);
        }
        for sweep in &mut step.by_sweep {
            (sweep.client_share, sweep.client_waiting) = (share, waiting);
            sweep.others = Some(others);
        }
        let verdict = judge_step(&step, &StepAsked::default()).verdict;
        (verdict.reasons[0].cause, verdict.reasons[0].text.clone())
    };
    let (cause, text) = with(0.06, 0.02, 1.9);
    let expected = "response times not known: other processes or the kernel used 1.9 CPUs, the \
                    generator waited for one in 25 % of the time in which it had work; requests";
    assert!(cause == Cause::Contention && text.starts_with(expected), "{text}");
    // It hardly waited, others took little, or it was busy itself.
    for (share, waiting, others) in [(0.06, 0.01, 1.9), (0.06, 0.02, 0.5), (0.95, 0.3, 1.9)] {
        assert_eq!(with(share, waiting, others).0, Cause::LoadGenerator);
    }
}

#[test]
fn connections_of_the_warm_up_were_kept() {
    let doubts = |window_connections| {
        let mut step = stepped();
        step.counts.window_connections = window_connections;
        let reasons = unasked(&step, &StepAsked::default());
        reasons.into_iter().map(|reason| reason.text).collect::<Vec<String>>()
    };
    assert!(doubts(0).is_empty() && doubts(100).is_empty());
    assert_eq!(doubts(101), ["connections were not kept: 101 for 1000 responses"]);
}

#[test]
fn server_that_stalls_is_the_cause() {
    let with = |stalls: u64, ns: f64| {
        let times = (0..1_000 - stalls).map(|_| 4e6).chain((0..stalls).map(|_| ns));
        let mut step = stepped();
        step.all.times = times.collect::<Histogram>();
        step.all.sum_ns = 4e6 * (1_000 - stalls) as f64 + ns * stalls as f64;
        step
    };
    let stall = with(8, 1e9).stall().expect("two thirds of the time");
    let near = |ns: f64, expected: f64| (ns / expected - 1.0).abs() < 1e-3;
    assert_eq!((stall.count, stall.of, percent(stall.share).as_str()), (8, 1_000, "67 %"));
    assert!(near(stall.longest_ns, 1e9), "{stall:?}");
    let mut cut = with(7, 1e9);
    cut.counts.in_flight_times = [3e9, 1e6].into_iter().collect();
    let stall = cut.stall().expect("the end of a window cut the longest one");
    assert_eq!((stall.count, stall.of), (1, 1_002));
    assert!(near(stall.longest_ns, 3e9), "{stall:?}");
    assert_eq!(with(11, 1e9).stall(), None, "p99 shows them");
    assert_eq!(with(2, 7e7).stall(), None, "17 medians");
    assert_eq!(with(1, 1e8).stall(), None, "2 % of the time");
    let mut open = with(8, 1e9);
    open.is_open = true;
    assert_eq!(open.stall(), None, "its quantiles show the delay");
    let mut scattered = with(8, 1e9);
    for (at, batch) in scattered.batches.iter_mut().enumerate() {
        batch.arrived = if at % 2 == 0 { 150.0 } else { 50.0 };
    }
    let reason = spread(&scattered, NOISE_LIMIT).expect("half of all");
    assert_eq!(reason.cause, Cause::Stalled);
    assert!(reason.text.ends_with(" between batches: stalled answers"), "{}", reason.text);
}

#[test]
fn step_without_an_interval_is_no_point() {
    let left_out = |least: u64| {
        let mut step = stepped();
        step.batches[3].completed = least;
        judged(&step).left_out
    };
    assert_eq!([left_out(8), left_out(7)], [None, Some(LeftOut::Short)]);
}
