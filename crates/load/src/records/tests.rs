//! Verdicts of steps, and what their records hold.

use clap::Parser as _;
use fathom_record::{Histogram, ServerUse};

use super::*;
use crate::Load;
use crate::engine::{Arrivals, Backlog, End, Outcome, Rate, SLOTS, Tally, ThreadUse};
use crate::fixture::{self, Texts, assert_golden};
use crate::target::LOOPBACK;

/// Steps of a load with these options, each with its title, and whether it is a point.
fn recorded(options: &str, target: &Target, steps: &[(&str, Step)]) -> String {
    let line = format!("load http://far/ {options}");
    let load = Load::parse_from(line.split_whitespace());
    let congestion = Some("bbr");
    let case = load.all_cases()[0];
    let shared = Shared::of(&load, target, case, congestion);
    let one = |(at, (title, step)): (usize, &(&str, Step))| {
        let mut texts = Texts::new();
        let judged = super::step(&mut texts, &shared, step);
        let sweeps = step.by_sweep.iter().map(|sweep| {
            let point = sweep.point;
            format!(
                "sweep: {:.1}/s, {:.5} s, client {:.3}, waiting {:.3} and {:.3}, others {:?}\n",
                point.throughput,
                point.response_s,
                sweep.client_share,
                sweep.client_waiting,
                sweep.waiting(),
                sweep.others
            )
        });
        let sweeps = sweeps.collect::<String>();
        // Of the first step all records; the others differ in their verdict.
        let end = texts.all.find(metrics::RESPONSE_TIME.0.id).filter(|_| at > 0);
        let records = &texts.all[..end.unwrap_or(texts.all.len())];
        format!("=== {title}\n{judged:?}\n{sweeps}{records}\n")
    };
    steps.iter().enumerate().map(one).collect()
}

/// Of four clients, by three sweeps.
fn step_of(mut step: Step, outcome: impl Fn(u64) -> Outcome, server: bool) -> Step {
    for at in 0..SWEEPS as u64 {
        let both = || (fixture::telemetry(3 * at), fixture::telemetry(3 * at + 1));
        step.add(&outcome(at), server.then(both), Some(0.1));
    }
    step
}

#[test]
fn records_have_all_of_a_step() {
    // 150 in 1.25 s, each after 33 ms: four clients are busy.
    const COUNTS: [u64; SLOTS] = [15, 14, 16, 15, 15, 14, 16, 15, 16, 14];
    const RESPONSE_NS: f64 = 33.3e6;
    let steady = |_| fixture::outcome(COUNTS, RESPONSE_NS);
    let faulty = |fault: Fault, count: u64| {
        move |_| {
            let mut outcome = fixture::outcome(COUNTS, RESPONSE_NS);
            outcome.tally.window_faults = [(fault, count)].into();
            outcome
        }
    };
    let no_port = Fault::Connect(99);
    let wide = |at: u64| {
        let counts = COUNTS.map(|count| count + 4 * at - 4);
        fixture::outcome(counts, 150.0 * RESPONSE_NS / counts.iter().sum::<u64>() as f64)
    };
    let unsettled = |at| Outcome { is_settled: at > 0, ..wide(at) };
    let four = || Step::new(4);
    let mut first = step_of(Step::within(4, Some(0.5)), steady, true);
    first.cache = vec!["evicted, 0.0 % resident".to_owned(); 3];
    let own =
        [("of fathom serve, within half a CPU", first), ("wide", step_of(four(), wide, true))];
    let few = |_| fixture::outcome([2; SLOTS], 250e6);
    let pauses = |at: u64| match at {
        1 => fixture::outcome([0; SLOTS], 1e6),
        _ => fixture::outcome(COUNTS, RESPONSE_NS),
    };
    let foreign = [
        ("of another server", step_of(four(), steady, false)),
        ("wide, and the warm-up explains it", step_of(four(), unsettled, false)),
        ("few responses", step_of(four(), few, false)),
        ("a sweep without a response", step_of(four(), pauses, false)),
        ("no response", step_of(four(), |_| fixture::outcome([0; SLOTS], 1e6), false)),
        ("a request in a thousand fails", step_of(four(), faulty(Fault::Truncated, 1), false)),
        ("no free port", step_of(four(), faulty(no_port, 2), false)),
        ("hardly a free port", step_of(four(), faulty(no_port, 20), false)),
    ];
    let mut loopback = fixture::target(true);
    loopback.to = LOOPBACK.to_owned();
    let options = "--think 2ms --think-distribution exponential --fresh --body discard \
                   --server-cache cold --time 3750ms";
    let text = recorded(options, &loopback, &own)
        + &recorded("--time 300ms --mode fixed", &fixture::target(false), &foreign);
    assert_golden("steps.txt", &text);
}

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
    let verdict = judge(step, Vec::new());
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
        judged(&step, &judge(&step, Vec::new()), false).is_point()
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
        late_ns: 0,
        is_settled: true,
        threads: Vec::new(),
        throttled_ns: 0,
        backlog: None,
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

/// A quota of a seventh of a CPU, of which the kernel took back a quarter.
#[test]
fn client_that_its_quota_holds_back_is_the_limit() {
    let with = |throttled_ns| {
        let threads = vec![ThreadUse { cpu_ns: 11, wait_ns: 83, wall_ns: 100 }];
        let mut step = Step::within(1, Some(0.14));
        step.add(&Outcome { threads, throttled_ns, window_ns: 1_000, ..short() }, None, None);
        (step.completed, step.sum_ns) = (1_000, 1e9);
        (step.is_quota_bound(), verdict(&step).1)
    };
    let (is_bound, text) = with(800);
    assert!(is_bound && text.contains("quota of CPU time is in use, or holds it back"), "{text}");
    assert!(!with(50).0, "other processes use its CPU");
}

#[test]
fn requests_in_flight_that_could_change_p99_mark_a_closed_step() {
    let with = |long: usize, count: u64| {
        let mut step = Step::new(4);
        for _ in 0..SWEEPS {
            let mut outcome = fixture::outcome([count; SLOTS], 33.3e6);
            // As long as others, or longer than any response.
            let times = (0..3).map(|at| if at < long { 40_000_000 } else { 33_000_000 });
            outcome.tally.in_flight_ns = times.collect();
            step.add(&outcome, None, None);
        }
        verdict(&step)
    };
    assert_eq!(with(0, 40), (State::Valid, String::new()));
    assert_eq!(with(1, 33), (State::Valid, String::new()), "990 have no p99");
    let (state, text) = with(1, 40);
    let expected = "3 requests in flight at the end of a window had lasted longer than p99";
    assert!(state == State::Noisy && text.starts_with(expected), "{text}");
}

/// 120 requests/s, each after 33 ms.
fn open_step(change: impl Fn(&mut Outcome), others: Option<f64>) -> Step {
    let rate = Rate { per_second: 120.0, arrivals: Arrivals::Poisson };
    let mut step = Step::at(rate, 100, None);
    for _ in 0..SWEEPS {
        let mut outcome = fixture::outcome([15, 14, 16, 15, 15, 14, 16, 15, 16, 14], 33.3e6);
        for slot in &mut outcome.tally.slots {
            slot.times_from_send = Some((0..slot.completed).map(|_| 31e6).collect());
        }
        outcome.tally.late = Some((0..150).map(|at| f64::from(at) * 1e3).collect());
        outcome.tally.longest_in_flight_ns = 0;
        outcome.backlog = Some(Backlog { requests: 5, is_drained: true });
        change(&mut outcome);
        step.add(&outcome, None, others);
    }
    step
}

#[test]
fn rare_delays_of_the_generator_are_noisy_and_frequent_ones_a_limit() {
    let with = |late: u64| {
        let rate = Rate { per_second: 120.0, arrivals: Arrivals::Poisson };
        let mut step = Step::at(rate, 100, None);
        for _ in 0..SWEEPS {
            let mut outcome = fixture::outcome([400; SLOTS], 3e6);
            let times = (0..4_000).map(|at| if at < late { 2e6 } else { 1e4 });
            outcome.tally.late = Some(times.collect());
            step.add(&outcome, None, None);
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

#[test]
fn open_loops_say_what_is_not_sustained_and_why() {
    let grown = |it: &mut Outcome| {
        it.backlog = Some(Backlog { requests: 2_000, is_drained: false });
        it.tally.in_flight = 90;
    };
    let late = |ms: f64| {
        move |it: &mut Outcome| it.tally.late = Some((0..150).map(|_| ms * 1e6).collect())
    };
    let waits = |share: u64| {
        move |it: &mut Outcome| {
            grown(it);
            it.threads = vec![ThreadUse { cpu_ns: 20, wait_ns: share, wall_ns: 100 }];
        }
    };
    let busy = |it: &mut Outcome| {
        it.threads = vec![ThreadUse { cpu_ns: 95, wait_ns: 0, wall_ns: 100 }];
    };
    let steps = [
        ("sustained", open_step(|_| {}, None)),
        ("grows", open_step(grown, None)),
        ("grows, and the generator wants more CPU than there is", open_step(waits(75), None)),
        ("grows beside other work", open_step(waits(30), Some(1.2))),
        ("a busy thread", open_step(busy, None)),
        ("sent late, as long as 1 ms", open_step(late(1.0), None)),
        ("sent late by a tenth of the response time", open_step(late(3.5), None)),
        ("sent late by more than half", open_step(late(20.0), None)),
        ("one of 450 has no response", open_step(|it| it.tally.in_flight = 1, None)),
    ];
    let text = recorded("--rate 120 --time 3750ms", &fixture::target(false), &steps);
    assert_golden("open.txt", &text);
}

#[test]
fn connections_of_the_warm_up_were_kept() {
    let load = Load::parse_from(["load", "http://far/"]);
    let (target, case) = (fixture::target(false), load.all_cases()[0]);
    let shared = Shared::of(&load, &target, case, None);
    let doubts = |window_connections| {
        let mut step = stepped();
        (step.connections, step.window_connections) = (900, window_connections);
        let reasons = as_asked(&step, &shared);
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
        step.times = times.collect::<Histogram>();
        step.sum_ns = 4e6 * (1_000 - stalls) as f64 + ns * stalls as f64;
        step
    };
    let text = with(8, 1e9).stalled().expect("two thirds of the time");
    let words = "stalled answers: 8 of 1000 requests took up to 1.000 s, 67 % of the time of all";
    assert!(text.starts_with(words), "{text}");
    let mut cut = with(7, 1e9);
    cut.in_flight_ns = vec![3_000_000_000, 1_000_000];
    let text = cut.stalled().expect("the end of a window cut the longest one");
    assert!(text.starts_with("stalled answers: 1 of 1002 requests took up to 3.000 s"), "{text}");
    assert_eq!(with(11, 1e9).stalled(), None, "p99 shows them");
    assert_eq!(with(2, 7e7).stalled(), None, "17 medians");
    assert_eq!(with(1, 1e8).stalled(), None, "2 % of the time");
    let mut open = with(8, 1e9);
    open.rate = Some(Rate { per_second: 9.0, arrivals: Arrivals::Uniform });
    assert_eq!(open.stalled(), None, "its quantiles show the delay");
    let mut scattered = with(8, 1e9);
    for (at, batch) in scattered.batches.iter_mut().enumerate() {
        batch.completed = if at % 2 == 0 { 150 } else { 50 };
    }
    let reason = spread(&scattered).expect("half of all");
    assert_eq!(reason.cause, Cause::Stalled);
    assert!(reason.text.ends_with(" between batches: stalled answers"), "{}", reason.text);
}

#[test]
fn step_without_an_interval_is_no_point() {
    let left_out = |least: u64| {
        let mut step = stepped();
        step.batches[3].completed = least;
        judged(&step, &judge(&step, Vec::new()), false).left_out
    };
    assert_eq!([left_out(8), left_out(7)], [None, Some(LeftOut::Short)]);
}
