//! Steps from sweeps, their batches and intervals.

use super::*;

/// A sweep of one second whose slots have these completions of one millisecond each.
pub fn window(counts: [u64; SLOTS]) -> LoadWindow {
    let slot = |count: u64| LoadSlot {
        ns: 100_000_000,
        completed: count,
        partial: 0.0,
        body_bytes: 100 * count,
        received_bytes: 0,
        sum_ns: 1e6 * count as f64,
        times: (0..count).map(|_| 1e6).collect(),
        times_from_send: None,
    };
    LoadWindow {
        window_ns: 1_000_000_000,
        is_settled: true,
        slots: counts.map(slot).to_vec(),
        threads: vec![LoadThread { cpu_ns: 200_000_000, wait_ns: 0, wall_ns: 1_000_000_000 }],
        ..LoadWindow::default()
    }
}

#[test]
fn interval_of_a_rate_is_by_batch_means() {
    let batch = |completed: u64| StepBatch {
        completed,
        arrived: completed as f64,
        seconds: 10.0,
        ..StepBatch::default()
    };
    let mut step = MeasuredStep::new(1);
    step.batches = [90, 110].repeat(5).into_iter().map(batch).collect();
    let rate = |batch: &StepBatch| batch.arrived / batch.seconds;
    let interval = step.mean_interval(10.0, rate).expect("ten batches");
    // 2.2622 (Student's t, 9 degrees of freedom) × 1.0541 ÷ √10.
    assert!((interval.low - 9.246).abs() < 1e-3 && (interval.high - 10.754).abs() < 1e-3);
}

#[test]
fn ten_batches_span_all_sweeps() {
    let mut step = MeasuredStep::new(4);
    for base in [10, 20, 30] {
        step.add(&window(std::array::from_fn(|at| base + at as u64)));
    }
    assert_eq!(step.batches.len(), 10);
    let counts: Vec<u64> = step.batches.iter().map(|batch| batch.completed).collect();
    // The fourth one has the last slot of the first sweep and two of the second.
    assert_eq!(counts[..4], [33, 42, 51, 19 + 20 + 21]);
    assert_eq!(counts.iter().sum::<u64>(), step.all.completed);
    assert!(step.batches.iter().all(|batch| (batch.seconds - 0.3).abs() < 1e-9));
    let expected = (145.0 + 245.0 + 345.0) / 3.0;
    assert!((step.throughput() - expected).abs() < 1e-9, "work by time, not a mean of rates");
    assert!((step.busiest() - 0.2).abs() < 1e-9);
}

#[test]
fn interval_is_by_order_statistics_of_ten_batches() {
    let mut step = MeasuredStep::new(1);
    let counts: [u64; SLOTS] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
    (0..3).for_each(|_| step.add(&window(counts)));
    // Each completion took a millisecond.
    let point = &step.by_sweep[0].point;
    let all: u64 = counts.iter().sum();
    assert_eq!((point.throughput, point.response_s), (all as f64, 0.001));
    let interval = step.interval(step.throughput(), |it| it.completed as f64 / it.seconds);
    let interval = interval.expect("ten batches");
    // Slots of 0.1 s: batches of 33, 42, 51, 40, 36, 45, 54, 37, 48 and 51 requests in 0.3 s;
    // the second and the ninth of them in order.
    let mut batches: Vec<u64> = step.batches.iter().map(|batch| batch.completed).collect();
    batches.sort_unstable();
    assert!((interval.low - batches[1] as f64 / 0.3).abs() < 1e-9, "{interval:?}");
    assert!((interval.high - batches[8] as f64 / 0.3).abs() < 1e-9, "{interval:?}");
    assert!((interval.level - 0.978_515_625).abs() < 1e-12);
}

#[test]
fn batches_of_empty_slots_have_a_time() {
    let mut step = MeasuredStep::new(1);
    let mut few = window([0; SLOTS]);
    few.slots.iter_mut().for_each(|slot| slot.ns = 0);
    few.slots[9].ns = 1_000;
    (0..SWEEPS).for_each(|_| step.add(&few));
    assert!(step.batches.iter().all(|batch| batch.seconds > 0.0), "{:?}", step.batches);
    assert!(step.no_interval().is_some());
}

#[test]
fn short_batches_have_no_interval() {
    let with = |count: u64, sweeps: usize| {
        let mut step = MeasuredStep::new(1);
        (0..sweeps).for_each(|_| step.add(&window([count; SLOTS])));
        step
    };
    assert_eq!(with(3, 3).no_interval(), None);
    assert!(with(1, 3).no_interval().is_some_and(|text| text.contains("6 completions")));
    // 30 completions in 3 s, and twice as many are needed.
    assert!((with(1, 3).time_for_interval() - 6.0).abs() < 1e-9);
    assert!(with(3, 1).no_interval().is_some_and(|text| text.contains("3 of 10 batches")));
    let mut slow = with(3, 3);
    slow.all.sum_ns *= 200.0;
    assert!(slow.no_interval().is_some_and(|text| text.contains("two response times")));
    assert_eq!(slow.interval(1.0, |batch| batch.mean_ns), None);
}

#[test]
fn few_completions_are_divided_among_five_batches() {
    let mut step = MeasuredStep::new(1);
    (0..3).for_each(|_| step.add(&window([2; SLOTS])));
    assert_eq!((step.batches.len(), step.no_interval()), (5, None));
    let counts = |step: &MeasuredStep| step.batches.iter().map(|it| it.completed).sum::<u64>();
    assert_eq!((counts(&step), step.batches[0].completed), (60, 12));
    assert!((step.batches[0].seconds - 0.6).abs() < 1e-9);
}

#[test]
fn missing_telemetry_is_unknown_and_not_zero() {
    let server = |responses| ServerUse {
        wall_ns: 2_000_000_000,
        cpu_ns: 1_000_000_000,
        responses,
        wire_bytes: Some(1_000 * responses),
        per_request_ns: vec![1e9 / responses as f64],
        ..ServerUse::default()
    };
    let mut step = MeasuredStep::new(1);
    for responses in [100, 200] {
        let server = Some(server(responses));
        step.add(&LoadWindow { server, ..window([5; SLOTS]) });
    }
    let server = step.server.as_ref().expect("two windows");
    assert_eq!((server.responses, server.wire_bytes), (300, Some(300_000)));
    assert_eq!((server.cpus(), server.disk_reads), (Some(0.5), None));
    assert_eq!(server.per_request_ns, [1e7, 5e6]);
    step.add(&window([5; SLOTS]));
    assert_eq!(step.server, None);
}

#[test]
fn quantile_has_the_limits_of_its_batches() {
    let mut step = MeasuredStep::new(1);
    // One of a hundred takes ten times as long, in all slots alike.
    let mut window = window([200; SLOTS]);
    for slot in &mut window.slots {
        slot.times = (0..200).map(|at| if at % 100 == 0 { 1e7 } else { 1e6 }).collect();
    }
    (0..SWEEPS).for_each(|_| step.add(&window));
    let near = |ns: f64, expected: f64| (ns / expected - 1.0).abs() < 1e-3;
    // In 6 000 the share of 0.8 % is 0.6 to 1.1 %.
    let (low, high) = step.quantile_limits(0.992).expect("ten batches");
    assert!(near(low, 1e6) && high.is_some_and(|high| near(high, 1e7)), "{low} {high:?}");
    let (low, high) = step.quantile_limits(0.9).expect("ten batches");
    assert!(near(low, 1e6) && high.is_some_and(|high| near(high, 1e6)), "{low} {high:?}");
    let (_, high) = step.quantile_limits(0.9999).expect("ten batches");
    assert_eq!(high, None, "less than one is beyond");
    step.batches.truncate(4);
    assert_eq!(step.quantile_limits(0.9), None);
}

#[test]
fn backlog_of_few_requests_is_none() {
    let undrained = |completed: u64, in_flight: u64| {
        let mut counts = [0; SLOTS];
        counts[0] = completed;
        let (backlog, is_drained) = (Some(in_flight), Some(false));
        let mut step = MeasuredStep::new(1);
        step.add(&LoadWindow { in_flight, backlog, is_drained, ..window(counts) });
        step.undrained
    };
    assert_eq!([undrained(1, 1), undrained(0, 2), undrained(5, 2)], [0, 0, 0]);
    assert_eq!([undrained(6, 2), undrained(0, 8), undrained(900, 35)], [1, 1, 1]);
}
