//! From samples to a verdict: whether a number can be believed, and what spoiled it.
//!
//! Every cause but three is read from a counter or a check, never from the value it spoils. The
//! three are shapes of the values, and named as no more than that: drift, clusters, and a wide
//! interval, beside which stands what the counters do tell.

mod machine;

pub use machine::{machine_changed, machine_drift, machine_wander};

use crate::statistics::{median, median_interval, reference_ns};
use fathom_record::{
    Cause, Counter, Counters, Disturbance, Reason, Remedy, Sample, State, Summary, Verdict,
};

/// Share of the visits' wall time that a quota took, above which it is told: batch medians hide it.
const THROTTLED_MIN: f64 = 0.01;
/// Share of it that others took, above which it is told. Below, it matters only where leaving out
/// the rounds that met it moves the headline.
const LOST_TIME_MIN: f64 = 0.05;
/// Share of it that no counter of lost time explains, above which that is told.
const ABSENT_MIN: f64 = 0.05;
/// The same where processes take turns: between two of them a CPU is idle for a moment.
const ABSENT_BETWEEN_TURNS_MIN: f64 = 0.15;
/// The kernel counts steal and interrupts in ticks of 10 ms: fewer than three may be chance.
const TICKS_MIN_NS: u64 = 30_000_000;
/// Gap between the headline with and without the disturbed rounds above which they matter.
const GAP_MIN: f64 = 0.01;
/// A process whose reference spins took so many times those of the fastest had a slow core.
pub const SLOW_CORE_MIN: f64 = 1.05;
/// Change over a visit above which the values are said to drift.
const DRIFT_MIN: f64 = 0.03;
/// Distance of two clusters of processes, in shares of the headline, above which they matter.
const CLUSTER_GAP_MIN: f64 = 0.02;

/// Half the width of an interval, ÷ the headline, at which a case needs no further process.
const PRECISION: f64 = 0.01;

/// Whether the medians of so many processes do: half the width of their interval is at most 1 % of
/// the headline (rule 13). Not where there are too few for an interval.
pub fn is_precise(process_medians: &[f64]) -> bool {
    let Some(([low, high], _)) = median_interval(process_medians) else { return false };
    median(process_medians).is_some_and(|median| (high - low) / 2.0 <= PRECISION * median.abs())
}

/// What a metric declares about its own work.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// The counters that its own work moves.
    pub expects: Counters,
    /// The widest relative half width of the interval on a quiet machine.
    pub noise_limit: f64,
}

/// The verdict on a case from its samples and what they amount to.
pub fn judge(samples: &[Sample], summary: &Summary, expectation: Expectation) -> Verdict {
    if let Some(reason) = failed_check(samples) {
        return Verdict { state: State::Invalid, reasons: vec![reason] };
    }
    let total = samples
        .iter()
        .map(|sample| &sample.disturbance)
        .fold(Option::<Disturbance>::None, |sum, one| {
            Some(sum.map_or_else(|| one.clone(), |sum| sum.plus(one)))
        })
        .unwrap_or_default();
    let mut reasons = lost_time(&total, expectation);
    let gap = disturbed_rounds(&total, summary, expectation);
    reasons.extend(slow_core(samples, summary, expectation));
    reasons.extend(shapes(summary));
    // A gap of some per cent explains no interval of many.
    if let Some(reason) = spread(summary, &total, expectation) {
        // A wide interval beside a counter that moved is that counter's doing; alone it is a
        // cause of its own.
        if reasons.is_empty() {
            reasons.push(reason);
        }
    }
    reasons.extend(gap);
    let state = if reasons.is_empty() { State::Valid } else { State::Noisy };
    Verdict { state, reasons }
}

/// The first check of its own work that the probe failed.
fn failed_check(samples: &[Sample]) -> Option<Reason> {
    let check = samples.iter().flat_map(Sample::checks_of_both).find(|check| !check.passed)?;
    let text = format!("{}: {}", check.name, check.detail);
    Some(Reason::new(Cause::WrongWork, text))
}

/// Causes that took the CPU away, the one that took most first.
fn lost_time(total: &Disturbance, expectation: Expectation) -> Vec<Reason> {
    let wall = total.wall_ns.max(1) as f64;
    // Where two ends take turns on one CPU, each waits for the other: that wait is the work.
    let waited = total.run_queue_ns.filter(|_| !expectation.expects.has(Counter::RunQueue));
    let in_ticks = |ns: Option<u64>| ns.filter(|ns| *ns >= TICKS_MIN_NS);
    let causes = [
        (
            Cause::Throttled,
            total.throttled_ns.filter(|_| total.throttled_periods != Some(0)),
            "throttled by the CPU cgroup's quota for",
            Remedy::RaiseCpuQuota,
        ),
        (
            Cause::Steal,
            in_ticks(total.steal_ns),
            "the hypervisor ran others on this CPU for",
            Remedy::QuieterHost,
        ),
        (
            Cause::Contention,
            waited.map(|wait| wait.saturating_sub(total.throttled_ns.unwrap_or(0))),
            "other processes of this machine held the CPU for",
            Remedy::QuietCpu,
        ),
        (
            Cause::Interrupts,
            // Of whoever waits for a device most are that device's answers.
            in_ticks(total.interrupt_ns).filter(|_| !expectation.expects.has(Counter::Interrupts)),
            "interrupts held the CPU for",
            Remedy::MoveInterrupts,
        ),
    ];
    let mut found: Vec<(f64, Reason)> = Vec::new();
    for (cause, ns, text, remedy) in causes {
        let Some(share) = ns.map(|ns| ns as f64 / wall) else { continue };
        let least = if cause == Cause::Throttled { THROTTLED_MIN } else { LOST_TIME_MIN };
        if share > least {
            let percent = (100.0 * share).min(100.0);
            let text = format!("{text} {percent:.0} % of the time");
            found.push((share, Reason::new(cause, text).with_remedy(remedy)));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let explained: f64 = found.iter().map(|(share, _)| share).sum();
    let mut reasons: Vec<Reason> = found.into_iter().map(|(_, reason)| reason).collect();
    reasons.extend(absence(total, explained, expectation));
    reasons
}

/// Time in which neither the worker nor its children ran, beyond what is explained: METHOD 21's
/// wall time against CPU time.
fn absence(total: &Disturbance, explained: f64, expectation: Expectation) -> Option<Reason> {
    let wall = total.wall_ns.max(1) as f64;
    let absent = 1.0 - total.cpu_ns as f64 / wall - explained;
    let takes_turns = expectation.expects.has(Counter::Preemptions);
    let least = if takes_turns { ABSENT_BETWEEN_TURNS_MIN } else { ABSENT_MIN };
    let is_unexpected = !expectation.expects.has(Counter::NotRunning);
    (is_unexpected && total.cpu_ns > 0 && absent > least).then(|| {
        let text = format!(
            "neither the worker nor its children ran for {:.0} % of the time",
            100.0 * absent
        );
        // Each wait for a device is one of the times that the worker gave up the CPU itself.
        if total.major_faults > 0 && 2 * total.major_faults >= total.voluntary_switches {
            let text = format!("{text}; {} page faults waited for a device", total.major_faults);
            return Reason::new(Cause::MajorFaults, text).with_remedy(Remedy::AvoidSwap);
        }
        Reason::new(Cause::NotRunning, text).with_remedy(Remedy::OtherCpu)
    })
}

/// Rounds that a counter calls disturbed, where leaving them out moves the headline.
fn disturbed_rounds(
    total: &Disturbance,
    summary: &Summary,
    expectation: Expectation,
) -> Option<Reason> {
    let gap = (summary.median_undisturbed? / summary.median - 1.0).abs();
    if gap.is_nan() || gap <= GAP_MIN {
        return None;
    }
    let percent = 100.0 * gap;
    let moved =
        |what: &str| format!("{what}; without the rounds they met it is {percent:.0} % off");
    Some(if total.migrations > 0 {
        let text = moved(&format!("moved to another CPU {}", times(total.migrations)));
        Reason::new(Cause::Migration, text).with_remedy(Remedy::FindAffinityChanges)
    } else if total.major_faults > 0 && !expectation.expects.has(Counter::MajorFaults) {
        let text = moved(&format!("{} page faults waited for a device", total.major_faults));
        Reason::new(Cause::MajorFaults, text).with_remedy(Remedy::AvoidSwap)
    } else if total.involuntary_switches > 0 && !expectation.expects.has(Counter::Preemptions) {
        let text = moved(&format!("preempted {}", times(total.involuntary_switches)));
        Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu)
    } else if total.slow_rounds > 0 {
        let text = moved(&format!("{} met a core that was slow itself", rounds(total.slow_rounds)));
        Reason::new(Cause::SlowCore, text).with_remedy(Remedy::QuietCore)
    } else {
        return None;
    })
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn rounds(count: u64) -> String {
    if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") }
}

/// Processes that met a slower core than the others did, by the reference spin between their
/// rounds, where the interval is wide or the processes fall apart.
fn slow_core(samples: &[Sample], summary: &Summary, expectation: Expectation) -> Option<Reason> {
    let spins: Vec<f64> = samples.iter().filter_map(reference_ns).collect();
    let fastest = spins.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = spins.iter().copied().fold(0.0, f64::max);
    let wide = summary.relative_half_width().is_some_and(|it| it > expectation.noise_limit);
    if slowest <= SLOW_CORE_MIN * fastest || !(wide || is_split(summary)) {
        return None;
    }
    let slow = spins.iter().filter(|spin| **spin > SLOW_CORE_MIN * fastest).count();
    let text = format!(
        "the core itself was up to {:.2} times slower in {slow} of {} processes, by a spin of \
         fixed work between the rounds",
        slowest / fastest,
        spins.len()
    );
    Some(Reason::new(Cause::SlowCore, text).with_remedy(Remedy::QuietCore))
}

/// Whether processes fall into two groups far enough apart to matter.
fn is_split(summary: &Summary) -> bool {
    match summary.clusters.as_slice() {
        [first, .., last] => (last.at - first.at).abs() > CLUSTER_GAP_MIN * summary.median.abs(),
        _ => false,
    }
}

/// Shapes of the values that no single median describes.
fn shapes(summary: &Summary) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if is_split(summary)
        && let [first, .., last] = summary.clusters.as_slice()
    {
        let share = 100.0 * first.share;
        let text = format!(
            "processes fall into two groups: {share:.0} % of them {:.0} % apart from the rest",
            100.0 * ((last.at - first.at) / summary.median).abs()
        );
        reasons.push(Reason::new(Cause::TwoClusters, text).with_remedy(Remedy::CountGroups));
    }
    if let Some(drift) = summary.drift.filter(|drift| drift.abs() > DRIFT_MIN) {
        let direction = if drift > 0.0 { "up" } else { "down" };
        let text = match drift.abs() {
            share if share < 1.0 => {
                format!("the values moved {direction} by {:.0} % over a visit", 100.0 * share)
            }
            _ => format!("the values moved {direction} by more than their median over a visit"),
        };
        reasons.push(Reason::new(Cause::Drift, text).with_remedy(Remedy::FollowDrift));
    }
    reasons
}

/// A wide interval of which no counter tells enough, with what they tell.
fn spread(summary: &Summary, total: &Disturbance, expectation: Expectation) -> Option<Reason> {
    // A bound is already the honest form of a wide interval.
    let half_width = summary.relative_half_width().filter(|_| summary.bound.is_none())?;
    (half_width > expectation.noise_limit).then(|| {
        let text = format!(
            "the interval over {} processes is wide; {}",
            summary.processes,
            little_told(total, expectation)
        );
        Reason::new(Cause::Spread, text).with_remedy(Remedy::MeasureLonger)
    })
}

/// What the counters tell where it is too little to be a cause.
fn little_told(total: &Disturbance, expectation: Expectation) -> String {
    let mut told = Vec::new();
    let switches = total.involuntary_switches;
    if switches > 0 && !expectation.expects.has(Counter::Preemptions) {
        let times = if switches == 1 { "preemption" } else { "preemptions" };
        told.push(format!("{switches} {times}"));
    }
    let absent = 1.0 - total.cpu_ns as f64 / total.wall_ns.max(1) as f64;
    let runs = !expectation.expects.has(Counter::NotRunning);
    if total.cpu_ns > 0 && absent >= 0.001 && runs {
        told.push(format!("{:.1} % of the time not running", 100.0 * absent));
    }
    if total.major_faults > 0 && !expectation.expects.has(Counter::MajorFaults) {
        told.push(format!("{} page faults that waited", total.major_faults));
    }
    match told.as_slice() {
        [] => "no counter moved, so the cause cannot be told".to_owned(),
        told => format!("the counters tell too little to explain it ({})", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::Check;
    use fathom_record::{Basis, Interval, summary::Mode};

    fn over(ends: [f64; 2]) -> Option<Interval> {
        Some(Interval::new(ends, 0.9375, Basis::Processes))
    }

    const QUIET: Expectation = Expectation { expects: Counters::NONE, noise_limit: 0.05 };

    fn summary() -> Summary {
        Summary {
            n: 60,
            processes: 5,
            median: 100.0,
            interval: over([99.0, 101.0]),
            ..Summary::default()
        }
    }

    fn sample(disturbance: Disturbance) -> Sample {
        Sample { values: vec![100.0], disturbance, ..Sample::default() }
    }

    fn quiet() -> Disturbance {
        Disturbance {
            wall_ns: 1_000_000_000,
            cpu_ns: 1_000_000_000,
            run_queue_ns: Some(0),
            steal_ns: Some(0),
            interrupt_ns: Some(0),
            throttled_ns: Some(0),
            throttled_periods: Some(0),
            ..Disturbance::default()
        }
    }

    fn causes(verdict: &Verdict) -> Vec<Cause> {
        verdict.reasons.iter().map(|reason| reason.cause).collect()
    }

    #[test]
    fn a_case_needs_no_further_process_when_half_its_interval_is_within_a_hundredth() {
        assert!(is_precise(&[99.0, 100.0, 100.0, 100.0, 101.0]));
        assert!(!is_precise(&[98.9, 100.0, 100.0, 100.0, 101.0]));
        assert!(is_precise(&[-99.0, -100.0, -100.0, -100.0, -101.0]), "a difference");
        assert!(!is_precise(&[100.0; 4]), "four have no interval");
    }

    #[test]
    fn a_quiet_case_is_valid_and_unknown_counters_accuse_nobody() {
        assert_eq!(judge(&[sample(quiet())], &summary(), QUIET), Verdict::default());
        let unknown = Disturbance { wall_ns: 1_000_000_000, ..Disturbance::default() };
        assert_eq!(judge(&[sample(unknown)], &summary(), QUIET), Verdict::default());
    }

    #[test]
    fn each_counter_of_lost_time_names_its_own_cause_with_its_share() {
        let half = Some(500_000_000);
        let doses = [
            (
                Disturbance { throttled_ns: half, throttled_periods: Some(5), ..quiet() },
                Cause::Throttled,
            ),
            (Disturbance { steal_ns: half, ..quiet() }, Cause::Steal),
            (Disturbance { run_queue_ns: half, ..quiet() }, Cause::Contention),
            (Disturbance { interrupt_ns: half, ..quiet() }, Cause::Interrupts),
        ];
        for (disturbance, cause) in doses {
            let verdict = judge(&[sample(disturbance)], &summary(), QUIET);
            assert_eq!((verdict.state, causes(&verdict)), (State::Noisy, vec![cause]));
            assert!(verdict.reasons[0].text.contains("50 %"), "{}", verdict.reasons[0].text);
            assert!(verdict.reasons[0].remedy.is_some());
        }
    }

    #[test]
    fn waiting_for_a_quota_is_throttling_and_not_contention() {
        let disturbance = Disturbance {
            throttled_ns: Some(400_000_000),
            throttled_periods: Some(4),
            run_queue_ns: Some(405_000_000),
            ..quiet()
        };
        let verdict = judge(&[sample(disturbance)], &summary(), QUIET);
        assert_eq!(causes(&verdict), vec![Cause::Throttled]);
    }

    #[test]
    fn where_switching_is_the_work_waiting_for_the_other_end_accuses_nobody() {
        let waits = Disturbance { run_queue_ns: Some(500_000_000), ..quiet() };
        let switching = Expectation { expects: Counters::TURNS, ..QUIET };
        assert_eq!(judge(&[sample(waits)], &summary(), switching).state, State::Valid);
    }

    #[test]
    fn time_in_which_nothing_of_the_worker_ran_is_told_even_where_waiting_is_the_work() {
        let absent = Disturbance { cpu_ns: 400_000_000, ..quiet() };
        for waits in [Counters::NONE, Counters::TURNS] {
            let expectation = Expectation { expects: waits, ..QUIET };
            let verdict = judge(&[sample(absent.clone())], &summary(), expectation);
            assert_eq!(causes(&verdict), vec![Cause::NotRunning]);
            assert!(verdict.reasons[0].text.contains("60 %"), "{verdict:?}");
        }
        let asleep = Expectation { expects: Counters::SLEEP, ..QUIET };
        let verdict = judge(&[sample(absent.clone())], &summary(), asleep);
        assert_eq!(verdict.state, State::Valid, "another CPU worked meanwhile");
        let waits = Disturbance { run_queue_ns: Some(500_000_000), ..quiet() };
        let verdict = judge(&[sample(waits)], &summary(), asleep);
        assert_eq!(causes(&verdict), vec![Cause::Contention], "but a woken sleeper should run");
        let queued = Disturbance { run_queue_ns: Some(590_000_000), ..absent };
        let verdict = judge(&[sample(queued)], &summary(), QUIET);
        assert_eq!(causes(&verdict), vec![Cause::Contention], "what is explained is told once");
    }

    #[test]
    fn waiting_for_a_device_accuses_nobody_where_that_is_the_work() {
        let waited = Disturbance { cpu_ns: 100_000_000, major_faults: 500, ..quiet() };
        let moved = Summary { median_undisturbed: Some(90.0), ..summary() };
        let device = Expectation { expects: Counters::DEVICE, ..QUIET };
        assert_eq!(judge(&[sample(waited.clone())], &moved, device).state, State::Valid);
        let verdict = judge(&[sample(waited)], &moved, QUIET);
        assert_eq!(causes(&verdict), vec![Cause::MajorFaults, Cause::MajorFaults]);
    }

    #[test]
    fn time_spent_waiting_for_pages_is_told_as_that_where_most_waits_were_for_one() {
        let away = Disturbance { cpu_ns: 400_000_000, voluntary_switches: 100, ..quiet() };
        let of = |major_faults| {
            let faulted = Disturbance { major_faults, ..away.clone() };
            judge(&[sample(faulted)], &summary(), QUIET)
        };
        assert_eq!(causes(&of(50)), vec![Cause::MajorFaults]);
        let text = &of(50).reasons[0].text;
        assert!(text.contains("60 %") && text.contains("50 page faults"), "{text}");
        assert_eq!(causes(&of(49)), vec![Cause::NotRunning], "most waits were for something else");
        assert_eq!(causes(&of(0)), vec![Cause::NotRunning]);
    }

    #[test]
    fn a_slow_core_is_told_by_the_spins_where_the_interval_is_wide() {
        let of_spin = |spin: f64| Sample { reference_ns: vec![spin], ..sample(quiet()) };
        let samples = [9_000.0, 9_100.0, 9_000.0, 17_100.0, 14_000.0].map(of_spin);
        let wide = Summary { interval: over([99.0, 160.0]), ..summary() };
        let verdict = judge(&samples, &wide, QUIET);
        assert_eq!(causes(&verdict), vec![Cause::SlowCore]);
        assert!(verdict.reasons[0].text.contains("1.90 times slower in 2 of 5"), "{verdict:?}");
        assert_eq!(judge(&samples, &summary(), QUIET).state, State::Valid, "it did not matter");
        let even = [9_000.0, 9_100.0, 9_000.0, 9_200.0, 9_300.0].map(of_spin);
        assert_eq!(causes(&judge(&even, &wide, QUIET)), vec![Cause::Spread]);
        let slow = Disturbance { slow_rounds: 3, ..quiet() };
        let moved = Summary { median_undisturbed: Some(97.0), ..summary() };
        assert_eq!(causes(&judge(&[sample(slow)], &moved, QUIET)), vec![Cause::SlowCore]);
    }

    #[test]
    fn a_tick_of_steal_may_be_chance() {
        let tick = Disturbance {
            steal_ns: Some(20_000_000),
            wall_ns: 40_000_000,
            cpu_ns: 40_000_000,
            ..quiet()
        };
        assert_eq!(judge(&[sample(tick)], &summary(), QUIET).state, State::Valid);
    }

    #[test]
    fn disturbed_rounds_matter_only_where_they_move_the_headline() {
        let preempted = Disturbance { involuntary_switches: 3, ..quiet() };
        let moved = Summary { median_undisturbed: Some(97.0), ..summary() };
        let verdict = judge(&[sample(preempted.clone())], &moved, QUIET);
        assert_eq!(causes(&verdict), vec![Cause::Contention]);
        let unmoved = Summary { median_undisturbed: Some(99.5), ..summary() };
        assert_eq!(judge(&[sample(preempted)], &unmoved, QUIET).state, State::Valid);
    }

    #[test]
    fn a_wide_interval_is_noisy_without_an_invented_cause() {
        let wide = Summary { interval: over([90.0, 120.0]), ..summary() };
        let verdict = judge(&[sample(quiet())], &wide, QUIET);
        assert_eq!((verdict.state, causes(&verdict)), (State::Noisy, vec![Cause::Spread]));
        assert!(verdict.reasons[0].text.contains("no counter moved"), "{verdict:?}");
        let preempted = Disturbance { involuntary_switches: 3, cpu_ns: 970_000_000, ..quiet() };
        let verdict = judge(&[sample(preempted)], &wide, QUIET);
        assert!(
            verdict.reasons[0].text.contains("3 preemptions, 3.0 % of the time"),
            "{verdict:?}"
        );
        let stolen = Disturbance { steal_ns: Some(100_000_000), ..quiet() };
        assert_eq!(causes(&judge(&[sample(stolen)], &wide, QUIET)), vec![Cause::Steal]);
        let bound = Summary { bound: Some(120.0), ..wide };
        assert_eq!(judge(&[sample(quiet())], &bound, QUIET).state, State::Valid);
    }

    #[test]
    fn a_wrong_count_makes_the_result_invalid_whatever_else_happened() {
        let mut wrong = sample(Disturbance { steal_ns: Some(900_000_000), ..quiet() });
        let detail = "9 of 10".to_owned();
        wrong.checks = vec![Check { name: "switches".to_owned(), passed: false, detail }];
        let verdict = judge(&[sample(quiet()), wrong], &summary(), QUIET);
        assert_eq!((verdict.state, causes(&verdict)), (State::Invalid, vec![Cause::WrongWork]));
        assert!(verdict.reasons[0].text.contains("9 of 10"));
    }

    #[test]
    fn drift_and_two_groups_of_processes_are_said() {
        let drifting = Summary { drift: Some(-0.08), ..summary() };
        assert_eq!(causes(&judge(&[sample(quiet())], &drifting, QUIET)), vec![Cause::Drift]);
        let modes = [(95.0, 0.4), (105.0, 0.6)].map(|(at, share)| Mode { at, share });
        let grouped = Summary { clusters: modes.to_vec(), ..summary() };
        assert_eq!(causes(&judge(&[sample(quiet())], &grouped, QUIET)), vec![Cause::TwoClusters]);
        let near = [(99.5, 0.4), (100.5, 0.6)].map(|(at, share)| Mode { at, share });
        let near = Summary { clusters: near.to_vec(), ..summary() };
        assert_eq!(judge(&[sample(quiet())], &near, QUIET).state, State::Valid);
    }
}
