//! Verdicts of steps, and what their records hold.

use clap::Parser as _;
use fathom_analysis::load::{LeftOut, SLOTS};
use fathom_record::{LoadThread, LoadWindow};

use super::*;
use crate::LoadOptions;
use crate::engine::{Arrivals, Fault, Outcome, ScheduleRate};
use crate::fixture::{self, Texts, assert_golden};
use crate::target::LOOPBACK;
use crate::used::between;

/// Steps of a load with these options, each with its title, and whether it is a point.
fn recorded(options: &str, target: &Target, steps: &[(&str, Step)]) -> String {
    let line = format!("load http://far/ {options}");
    let load = LoadOptions::parse_from(line.split_whitespace());
    let congestion = Some("bbr");
    let case = load.all_cases()[0];
    let shared = RecordContext::from_load(&load, target, case, congestion);
    let one = |(at, (title, step)): (usize, &(&str, Step))| {
        let mut texts = Texts::new();
        let judged = super::step(&mut texts, &shared, step);
        let left_out = match &judged.left_out {
            Some(LeftOut::Limit(limit)) => format!("Some({})", limit.words),
            other => format!("{other:?}"),
        };
        let judged = format!(
            "Judged {{ shows: {}, left_out: {left_out}, is_noisy: {} }}",
            judged.shows(),
            judged.is_noisy()
        );
        let sweeps = step.measured.by_sweep.iter().map(|sweep| {
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
        format!("=== {title}\n{judged}\n{sweeps}{records}\n")
    };
    steps.iter().enumerate().map(one).collect()
}

/// Of four clients, by three sweeps.
fn step_of(mut step: Step, outcome: impl Fn(u64) -> Outcome, server: bool) -> Step {
    for at in 0..SWEEPS as u64 {
        let both = || between(&fixture::telemetry(3 * at), &fixture::telemetry(3 * at + 1));
        step.add(&fixture::changed(outcome(at), |it| {
            (it.server, it.others) = (server.then(both), Some(0.1));
        }));
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
        move |_| fixture::failing(fixture::outcome(COUNTS, RESPONSE_NS), fault, count)
    };
    let no_port = Fault::Connect(99);
    let wide = |at: u64| {
        let counts = COUNTS.map(|count| count + 4 * at - 4);
        fixture::outcome(counts, 150.0 * RESPONSE_NS / counts.iter().sum::<u64>() as f64)
    };
    let unsettled = |at| fixture::changed(wide(at), |it| it.is_settled = at > 0);
    let within_half = |at| fixture::changed(steady(at), |it| it.quota = Some(0.5));
    let four = || Step::new(4);
    let mut first = step_of(four(), within_half, true);
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

/// 120 requests/s, each after 33 ms.
fn open_step(change: impl Fn(&mut LoadWindow), others: Option<f64>) -> Step {
    let rate = ScheduleRate { per_second: 120.0, arrivals: Arrivals::Poisson };
    let mut step = Step::open_loop(rate, 100);
    for _ in 0..SWEEPS {
        let mut outcome = fixture::outcome([15, 14, 16, 15, 15, 14, 16, 15, 16, 14], 33.3e6);
        let window = &mut outcome.tally.window;
        for slot in &mut window.slots {
            slot.times_from_send = Some((0..slot.completed).map(|_| 31e6).collect());
        }
        window.sent_late = Some((0..150).map(|at| f64::from(at) * 1e3).collect());
        window.longest_in_flight_ns = 0;
        (window.backlog, window.is_drained, window.others) = (Some(5), Some(true), others);
        change(window);
        step.add(&outcome);
    }
    step
}

#[test]
fn open_loops_say_what_is_not_sustained_and_why() {
    let grown = |it: &mut LoadWindow| {
        (it.backlog, it.is_drained, it.in_flight) = (Some(2_000), Some(false), 90);
    };
    let late = |ms: f64| {
        move |it: &mut LoadWindow| it.sent_late = Some((0..150).map(|_| ms * 1e6).collect())
    };
    let waits = |share: u64| {
        move |it: &mut LoadWindow| {
            grown(it);
            it.threads = vec![LoadThread { cpu_ns: 20, wait_ns: share, wall_ns: 100 }];
        }
    };
    let busy = |it: &mut LoadWindow| {
        it.threads = vec![LoadThread { cpu_ns: 95, wait_ns: 0, wall_ns: 100 }];
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
        ("one of 450 has no response", open_step(|it| it.in_flight = 1, None)),
    ];
    let text = recorded("--rate 120 --time 3750ms", &fixture::target(false), &steps);
    assert_golden("open.txt", &text);
}
