//! From samples to a verdict: whether a number can be trusted, and what spoiled it.
//!
//! What is disturbed is read from counters, the reference loop and checks, never from the values. It
//! makes a number noisy only where leaving it out moves the headline beyond the metric's noise
//! limit, or where too little is left to show that; and it is named as the cause of a wide interval
//! only where the disturbed processes are the worse ones and the others alone are narrow (METHOD 22).

mod machine;

pub use machine::{machine_changed, machine_drift, machine_wander};

use crate::clean::{Loop, TOLERANCE};
use crate::statistics::{median, median_interval};
use fathom_record::{
    Better, Cause, Counter, Counters, Disturbance, Reason, Record, Remedy, Sample, State, Stratum,
    Summary, Verdict,
};

/// Share of a visit's wall time that a quota took, above which the visit is disturbed: batch
/// medians hide it.
const THROTTLED_MIN: f64 = 0.01;
/// The same of what others took.
const LOST_TIME_MIN: f64 = 0.05;
/// The same of time that no counter explains.
const ABSENT_MIN: f64 = 0.05;
/// The same where processes take turns: between two of them a CPU is idle for a moment.
const ABSENT_BETWEEN_TURNS_MIN: f64 = 0.15;
/// The kernel counts steal and interrupts in ticks of 10 ms: fewer than three may be chance.
const TICKS_MIN_NS: u64 = 30_000_000;
/// A process whose reference loop took so many times that of full speed had a slow core.
const SLOW_CORE_MIN: f64 = 1.0 + TOLERANCE;
/// Fewer undisturbed processes do not show what the number is without the others.
const OTHERS_MIN: usize = 3;

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
    /// Which direction of its values is an improvement.
    pub better: Better,
}

/// The verdict on a case from the samples behind its headline and what they amount to. `reference`
/// is the loop of a core at full speed, where it is known.
pub fn judge(
    samples: &[Sample],
    summary: &Summary,
    expectation: Expectation,
    reference: Option<&Loop>,
) -> Verdict {
    if let Some(reason) = failed_check(samples) {
        return Verdict { state: State::Invalid, reasons: vec![reason] };
    }
    let case = Case { samples, summary, expectation };
    // A bound is already the honest form of a wide interval.
    let is_wide = summary.bound.is_none()
        && summary.relative_half_width().is_some_and(|it| it > expectation.noise_limit);
    let mut reasons: Vec<Reason> = case.lost_time(is_wide);
    if is_wide {
        reasons.extend(reference.and_then(|reference| case.slow_core(reference)));
    }
    reasons.extend(case.disturbed_rounds(is_wide));
    let shapes = shapes(summary, expectation.noise_limit);
    if is_wide && reasons.is_empty() && shapes.is_empty() {
        reasons.push(case.unknown_cause());
    }
    reasons.extend(shapes);
    let state = if reasons.is_empty() { State::Valid } else { State::Noisy };
    Verdict { state, reasons }
}

/// The first check of its own work that the probe failed.
fn failed_check(samples: &[Sample]) -> Option<Reason> {
    let check = samples.iter().flat_map(Sample::checks_of_both).find(|check| !check.passed)?;
    let text = format!("{}: {}", check.name, check.detail);
    Some(Reason::new(Cause::WrongWork, text))
}

/// By how many times a disturbance may have worsened a number as found: a slow core as much as it
/// slowed the reference loop, lost time as much as was lost. 1 at full speed.
pub fn may_have_worsened(record: &Record, expects: Counters, reference: Option<&Loop>) -> f64 {
    let Some(summary) = &record.summary else { return 1.0 };
    if summary.stratum != Stratum::AsFound {
        return 1.0;
    }
    let loops = summary.estimate().and_then(|estimate| median(&estimate.process_loops));
    let slower = match (loops, reference) {
        (Some(ns), Some(reference)) if !expects.has(Counter::CoreSpeed) => {
            ns / reference.sibling_ns
        }
        _ => 1.0,
    };
    let wall = record.disturbance.wall_ns.max(1) as f64;
    let lost = lost_ns(&record.disturbance, expects).iter().map(|(_, ns)| *ns).sum::<f64>() / wall;
    slower.max(1.0) / (1.0 - lost).max(0.05)
}

/// Time that was taken from the worker, in nanoseconds, by cause.
fn lost_ns(of: &Disturbance, expects: Counters) -> [(Cause, f64); 5] {
    let in_ticks = |ns: Option<u64>| ns.filter(|ns| *ns >= TICKS_MIN_NS).unwrap_or(0) as f64;
    let throttled = of.throttled_ns.filter(|_| of.throttled_periods != Some(0)).unwrap_or(0) as f64;
    let steal = in_ticks(of.steal_ns);
    // Where two ends take turns on one CPU, each waits for the other: that wait is the work.
    let waited = of.run_queue_ns.filter(|_| !expects.has(Counter::RunQueue)).unwrap_or(0) as f64;
    let contention = (waited - throttled).max(0.0);
    // Of whoever waits for a device most interrupts are that device's answers.
    let interrupt_ns = of.interrupt_ns.filter(|_| !expects.has(Counter::Interrupts));
    let interrupts = in_ticks(interrupt_ns);
    let explained = throttled + steal + contention + interrupts;
    let is_expected = expects.has(Counter::NotRunning) || of.cpu_ns == 0;
    let absent = (of.wall_ns as f64 - of.cpu_ns as f64 - explained).max(0.0);
    [
        (Cause::Throttled, throttled),
        (Cause::Steal, steal),
        (Cause::Contention, contention),
        (Cause::Interrupts, interrupts),
        (Cause::NotRunning, if is_expected { 0.0 } else { absent }),
    ]
}

/// A case whose headline is judged.
struct Case<'c> {
    samples: &'c [Sample],
    summary: &'c Summary,
    expectation: Expectation,
}

impl Case<'_> {
    /// The median of each process that has one, with its sample.
    fn processes(&self) -> Vec<(&Sample, f64)> {
        let medians = self.samples.iter().map(|sample| (sample, median(&sample.values)));
        medians.filter_map(|(sample, median)| Some((sample, median?))).collect()
    }

    /// Whether leaving out the affected processes moves the headline beyond the noise limit, or too
    /// few others would remain to show that it does not.
    fn matters(&self, affected: &[bool]) -> bool {
        let others = self.medians_of(affected, false);
        let moved = |without: f64| (without / self.summary.median - 1.0).abs();
        others.len() < OTHERS_MIN
            || median(&others).is_some_and(|it| moved(it) > self.expectation.noise_limit)
    }

    /// Whether the affected processes explain a wide interval: they are the worse ones, and the
    /// others alone are narrow.
    fn explain(&self, affected: &[bool]) -> bool {
        let (worse, others) = (self.medians_of(affected, true), self.medians_of(affected, false));
        let (Some(theirs), Some(ours)) = (median(&worse), median(&others)) else { return false };
        let are_worse = match self.expectation.better {
            Better::Lower => theirs > ours,
            Better::Higher => theirs < ours,
            Better::Neither => true,
        };
        are_worse && others.len() >= OTHERS_MIN && self.is_narrow(&others)
    }

    fn is_narrow(&self, medians: &[f64]) -> bool {
        let ends = || {
            medians.iter().copied().reduce(f64::min).zip(medians.iter().copied().reduce(f64::max))
        };
        let limits = median_interval(medians).map(|(limits, _)| limits.into()).or_else(ends);
        limits.zip(median(medians)).is_some_and(|((low, high), middle)| {
            (high - low) / 2.0 <= self.expectation.noise_limit * middle.abs()
        })
    }

    fn medians_of(&self, affected: &[bool], are: bool) -> Vec<f64> {
        let processes = self.processes().into_iter().zip(affected);
        processes.filter(|(_, is)| **is == are).map(|((_, median), _)| median).collect()
    }

    /// Causes that took the CPU away from some processes, the one that took most first.
    fn lost_time(&self, is_wide: bool) -> Vec<Reason> {
        let expects = self.expectation.expects;
        let processes = self.processes();
        let lost: Vec<_> =
            processes.iter().map(|(sample, _)| lost_ns(&sample.disturbance, expects)).collect();
        let takes_turns = expects.has(Counter::Preemptions);
        let mut found: Vec<(f64, Reason)> = Vec::new();
        for (at, (cause, _)) in lost.first().into_iter().flatten().enumerate() {
            let least = match cause {
                Cause::Throttled => THROTTLED_MIN,
                Cause::NotRunning if takes_turns => ABSENT_BETWEEN_TURNS_MIN,
                Cause::NotRunning => ABSENT_MIN,
                _ => LOST_TIME_MIN,
            };
            let wall = |sample: &Sample| sample.disturbance.wall_ns.max(1) as f64;
            let share = |process: usize| lost[process][at].1 / wall(processes[process].0);
            let affected: Vec<bool> = (0..lost.len()).map(|it| share(it) > least).collect();
            let disturbed = affected.iter().filter(|it| **it).count();
            if disturbed == 0 {
                continue;
            }
            let few_others = affected.len() - disturbed < OTHERS_MIN;
            // In clean rounds no counter moved, whatever else a visit met.
            let is_found = self.summary.stratum == Stratum::AsFound;
            let is_cause = if is_wide {
                few_others || self.explain(&affected)
            } else {
                is_found && self.matters(&affected)
            };
            if is_cause {
                let theirs = || (0..lost.len()).filter(|it| affected[*it]);
                let taken: f64 = theirs().map(|it| lost[it][at].1).sum();
                let share = taken / theirs().map(|it| wall(processes[it].0)).sum::<f64>();
                found.push((share, self.reason_of_lost_time(*cause, share, disturbed)));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, reason)| reason).collect()
    }

    fn reason_of_lost_time(&self, cause: Cause, share: f64, processes: usize) -> Reason {
        let of = match processes == self.processes().len() {
            true => String::new(),
            false => format!(" in {processes} of {} processes", self.processes().len()),
        };
        let percent = (100.0 * share).min(100.0);
        let total = |count: fn(&Disturbance) -> u64| {
            self.samples.iter().map(|sample| count(&sample.disturbance)).sum::<u64>()
        };
        let faults = total(|it| it.major_faults);
        let (cause, what, remedy) = match cause {
            Cause::Throttled => (cause, "throttled by the CPU quota", Remedy::RaiseCpuQuota),
            Cause::Steal => (cause, "CPU steal", Remedy::QuieterHost),
            Cause::Contention => (cause, "other processes had the CPU", Remedy::QuietCpu),
            Cause::Interrupts => (cause, "interrupts had the CPU", Remedy::MoveInterrupts),
            // Each wait for a device is one of the times that the worker gave up the CPU itself.
            _ if faults > 0 && 2 * faults >= total(|it| it.voluntary_switches) => {
                let text = format!("{faults} major page faults, waited {percent:.0} %{of}");
                return Reason::new(Cause::MajorFaults, text).with_remedy(Remedy::AvoidSwap);
            }
            _ => (cause, "descheduled", Remedy::OtherCpu),
        };
        Reason::new(cause, format!("{what} {percent:.0} %{of}")).with_remedy(remedy)
    }

    /// Rounds in which a counter moved, where leaving them out moves the headline, or makes a wide
    /// interval narrow.
    fn disturbed_rounds(&self, is_wide: bool) -> Option<Reason> {
        let Case { summary, expectation, .. } = self;
        let gap = (summary.median_undisturbed? / summary.median - 1.0).abs();
        let without: Vec<f64> = self.samples.iter().filter_map(without_disturbed).collect();
        let is_cause = gap > expectation.noise_limit
            || (is_wide && without.len() >= OTHERS_MIN && self.is_narrow(&without));
        if gap.is_nan() || !is_cause {
            return None;
        }
        let total = self.samples.iter().map(|sample| &sample.disturbance);
        let total = total.fold(Disturbance::default(), |sum, one| sum.plus(one));
        let shifts = format!("shifts the median {:.0} %", 100.0 * gap);
        let reason = |cause, what: String, remedy| {
            Some(Reason::new(cause, format!("{what}: {shifts}")).with_remedy(remedy))
        };
        let expects = |counter| expectation.expects.has(counter);
        if total.migrations > 0 {
            let what = format!("migrated {}×", total.migrations);
            reason(Cause::Migration, what, Remedy::FindAffinityChanges)
        } else if total.major_faults > 0 && !expects(Counter::MajorFaults) {
            let what = format!("{} major page faults", total.major_faults);
            reason(Cause::MajorFaults, what, Remedy::AvoidSwap)
        } else if total.involuntary_switches > 0 && !expects(Counter::Preemptions) {
            let what = format!("preempted {}×", total.involuntary_switches);
            reason(Cause::Contention, what, Remedy::QuietCpu)
        } else {
            None
        }
    }

    /// Processes that met a slow core, where they explain a wide interval. Where most did, those on
    /// the slower half of the cores are compared with the others.
    fn slow_core(&self, reference: &Loop) -> Option<Reason> {
        // The speed of the core is what is measured, or has no part in it.
        if self.expectation.expects.has(Counter::CoreSpeed) {
            return None;
        }
        let loops: Option<Vec<Loop>> = self.processes().iter().map(|(it, _)| loop_of(it)).collect();
        let loops = loops?;
        let times = |one: &Loop| one.sibling_ns / reference.sibling_ns;
        let slowest = loops.iter().max_by(|a, b| a.sibling_ns.total_cmp(&b.sibling_ns))?;
        let typical = median(&loops.iter().map(times).collect::<Vec<f64>>())?;
        let slower_than =
            |limit: f64| loops.iter().map(|it| times(it) > limit).collect::<Vec<bool>>();
        let slow = slower_than(SLOW_CORE_MIN);
        let count = slow.iter().filter(|it| **it).count();
        let explains = self.explain(&slow)
            || (loops.len() - count < OTHERS_MIN && self.are_worse(&slower_than(typical)));
        (count > 0 && explains).then(|| {
            let why = match slowest.is_beside_idle(reference) {
                true => "lower frequency",
                false => "SMT contention",
            };
            let text = format!(
                "{why}: core up to {:.2}× slower in {count} of {} processes",
                times(slowest),
                loops.len()
            );
            Reason::new(Cause::SlowCore, text).with_remedy(Remedy::QuietCore)
        })
    }

    /// Whether all of some processes are worse than the median of the others.
    fn are_worse(&self, these: &[bool]) -> bool {
        let others = median(&self.medians_of(these, false));
        let theirs = self.medians_of(these, true);
        others.is_some_and(|ours| match self.expectation.better {
            Better::Lower => theirs.iter().all(|it| *it > ours),
            Better::Higher => theirs.iter().all(|it| *it < ours),
            Better::Neither => true,
        })
    }

    /// A wide interval that nothing explains.
    fn unknown_cause(&self) -> Reason {
        let text =
            format!("wide interval over {} processes, cause unknown", self.summary.processes);
        Reason::new(Cause::Spread, text).with_remedy(Remedy::MeasureLonger)
    }
}

/// The median of a sample's undisturbed values.
fn without_disturbed(sample: &Sample) -> Option<f64> {
    let is_kept = |at: &usize| !sample.disturbed.contains(&(*at as u32));
    let kept = (0..sample.values.len()).filter(is_kept).map(|at| sample.values[at]);
    median(&kept.collect::<Vec<f64>>())
}

/// The median of each part of a sample's loops.
fn loop_of(sample: &Sample) -> Option<Loop> {
    let sibling_ns = median(&sample.reference_ns)?;
    Some(Loop { sibling_ns, frequency_ns: median(&sample.frequency_ns)? })
}

/// Shapes of the values that no single median describes.
fn shapes(summary: &Summary, noise_limit: f64) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let [first, .., last] = summary.clusters.as_slice()
        && (last.at - first.at).abs() > noise_limit * summary.median.abs()
    {
        let text = format!(
            "bimodal across processes ({:.0} % / {:.0} %, {:.0} % apart)",
            100.0 * first.share,
            100.0 * last.share,
            100.0 * ((last.at - first.at) / summary.median).abs()
        );
        reasons.push(Reason::new(Cause::TwoClusters, text).with_remedy(Remedy::CountGroups));
    }
    if let Some(drift) = summary.drift.filter(|drift| drift.abs() > noise_limit) {
        let text = format!("drifted {:+.0} % while sampling", 100.0 * drift);
        reasons.push(Reason::new(Cause::Drift, text).with_remedy(Remedy::FollowDrift));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summarise;
    use fathom_record::{Basis, Check, Estimate, Interval, summary::Mode};
    use fathom_record::{Better, MetricId, Params, Unit};

    const QUIET: Expectation =
        Expectation { expects: Counters::NONE, noise_limit: 0.05, better: Better::Lower };
    const FULL_SPEED: Loop = Loop { sibling_ns: 9_000.0, frequency_ns: 8_000.0 };
    const HALF: Option<u64> = Some(500_000_000);

    /// Two of seven are a fifth worse, so that the interval is wide; the other five are narrow.
    const WIDE: [f64; 7] = [100.0, 100.0, 100.0, 100.0, 101.0, 120.0, 121.0];

    fn expecting(expects: Counters) -> Expectation {
        Expectation { expects, ..QUIET }
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

    fn stolen() -> Disturbance {
        Disturbance { steal_ns: HALF, ..quiet() }
    }

    /// A process of each median; those at the indices met this, and the others nothing.
    fn processes(medians: &[f64], affected: &[usize], by: &Disturbance) -> Vec<Sample> {
        let of = |(at, median): (usize, &f64)| Sample {
            process: at as u32,
            values: vec![*median],
            disturbance: if affected.contains(&at) { by.clone() } else { quiet() },
            ..Sample::default()
        };
        medians.iter().enumerate().map(of).collect()
    }

    /// Five narrow processes that all met this.
    fn narrow(disturbance: &Disturbance) -> Vec<Sample> {
        processes(&[99.0, 100.0, 100.0, 100.0, 101.0], &[0, 1, 2, 3, 4], disturbance)
    }

    fn verdict(samples: &[Sample], expectation: Expectation) -> Verdict {
        judge(samples, &summarise(samples).expect("values"), expectation, None)
    }

    fn causes(verdict: &Verdict) -> Vec<Cause> {
        verdict.reasons.iter().map(|reason| reason.cause).collect()
    }

    /// The only cause, with its text.
    #[track_caller]
    fn cause(verdict: &Verdict) -> (Cause, &str) {
        let [only] = verdict.reasons.as_slice() else { panic!("{verdict:?}") };
        assert_eq!(verdict.state, State::Noisy);
        assert!(only.remedy.is_some(), "{only:?}");
        (only.cause, &only.text)
    }

    #[test]
    fn half_width_of_one_percent_is_precise() {
        assert!(is_precise(&[99.0, 100.0, 100.0, 100.0, 101.0]));
        assert!(!is_precise(&[98.9, 100.0, 100.0, 100.0, 101.0]));
        assert!(is_precise(&[-99.0, -100.0, -100.0, -100.0, -101.0]), "a difference");
        assert!(!is_precise(&[100.0; 4]), "four have no interval");
    }

    #[test]
    fn quiet_case_is_valid_with_unknown_counters() {
        assert_eq!(verdict(&narrow(&quiet()), QUIET), Verdict::default());
        let unknown = Disturbance { wall_ns: 1_000_000_000, ..Disturbance::default() };
        assert_eq!(verdict(&narrow(&unknown), QUIET), Verdict::default());
    }

    #[test]
    fn lost_time_in_all_visits_is_named() {
        let throttled = Disturbance { throttled_ns: HALF, throttled_periods: Some(5), ..quiet() };
        let doses = [
            (throttled, (Cause::Throttled, "throttled by the CPU quota 50 %")),
            (stolen(), (Cause::Steal, "CPU steal 50 %")),
            (
                Disturbance { run_queue_ns: HALF, ..quiet() },
                (Cause::Contention, "other processes had the CPU 50 %"),
            ),
            (
                Disturbance { interrupt_ns: HALF, ..quiet() },
                (Cause::Interrupts, "interrupts had the CPU 50 %"),
            ),
            (
                Disturbance { cpu_ns: 400_000_000, ..quiet() },
                (Cause::NotRunning, "descheduled 60 %"),
            ),
        ];
        for (disturbance, expected) in doses {
            assert_eq!(cause(&verdict(&narrow(&disturbance), QUIET)), expected);
        }
    }

    #[test]
    fn disturbance_below_the_noise_limit_is_valid() {
        let shifting_by = |percent: f64| {
            let slow = 100.0 + percent;
            let medians = [100.0, 100.0, 100.0, slow, slow, slow, slow];
            verdict(&processes(&medians, &[3, 4, 5, 6], &stolen()), QUIET)
        };
        assert_eq!(shifting_by(4.0), Verdict::default());
        let moved = shifting_by(6.0);
        assert_eq!(cause(&moved), (Cause::Steal, "CPU steal 50 % in 4 of 7 processes"));
    }

    #[test]
    fn cause_is_named_where_the_others_are_narrow() {
        let named = verdict(&processes(&WIDE, &[5, 6], &stolen()), QUIET);
        assert_eq!(cause(&named), (Cause::Steal, "CPU steal 50 % in 2 of 7 processes"));
        let wide_without = verdict(&processes(&WIDE, &[6], &stolen()), QUIET);
        let unknown = "wide interval over 7 processes, cause unknown";
        assert_eq!(cause(&wide_without), (Cause::Spread, unknown));
    }

    #[test]
    fn cause_of_the_better_processes_is_unknown() {
        let better_where_stolen = processes(&WIDE, &[5, 6], &stolen());
        let rate = Expectation { better: Better::Higher, ..QUIET };
        let unknown = "wide interval over 7 processes, cause unknown";
        assert_eq!(cause(&verdict(&better_where_stolen, rate)), (Cause::Spread, unknown));
        let neither = Expectation { better: Better::Neither, ..QUIET };
        assert_eq!(causes(&verdict(&better_where_stolen, neither)), [Cause::Steal]);
    }

    #[test]
    fn full_speed_ignores_lost_time_unless_wide() {
        let judged = |medians: &[f64], affected: &[usize]| {
            let samples = processes(medians, affected, &stolen());
            let summary = summarise(&samples).expect("values");
            judge(&samples, &Summary { stratum: Stratum::FullSpeed, ..summary }, QUIET, None)
        };
        assert_eq!(judged(&[100.0; 5], &[0, 1, 2, 3, 4]), Verdict::default());
        assert_eq!(causes(&judged(&WIDE, &[5, 6])), [Cause::Steal]);
    }

    #[test]
    fn waiting_for_a_quota_is_no_contention() {
        let disturbance = Disturbance {
            throttled_ns: Some(400_000_000),
            throttled_periods: Some(4),
            run_queue_ns: Some(405_000_000),
            ..quiet()
        };
        assert_eq!(causes(&verdict(&narrow(&disturbance), QUIET)), [Cause::Throttled]);
    }

    #[test]
    fn queueing_is_the_work_of_turns() {
        let waits = Disturbance { run_queue_ns: HALF, ..quiet() };
        assert_eq!(verdict(&narrow(&waits), expecting(Counters::TURNS)), Verdict::default());
    }

    #[test]
    fn sleep_explains_absence_but_no_queueing() {
        let absent = Disturbance { cpu_ns: 400_000_000, ..quiet() };
        let turns = verdict(&narrow(&absent), expecting(Counters::TURNS));
        assert_eq!(cause(&turns), (Cause::NotRunning, "descheduled 60 %"));
        let asleep = expecting(Counters::SLEEP);
        assert_eq!(verdict(&narrow(&absent), asleep), Verdict::default());
        let waits = Disturbance { run_queue_ns: HALF, ..quiet() };
        assert_eq!(causes(&verdict(&narrow(&waits), asleep)), [Cause::Contention]);
        let queued = Disturbance { run_queue_ns: Some(590_000_000), ..absent };
        let once = verdict(&narrow(&queued), QUIET);
        assert_eq!(causes(&once), [Cause::Contention], "what is explained is named once");
    }

    #[test]
    fn waiting_for_a_device_is_its_work() {
        let waited = Disturbance { cpu_ns: 100_000_000, major_faults: 500, ..quiet() };
        let moved = |expects| {
            let samples = narrow(&waited);
            let summary = summarise(&samples).expect("values");
            let moved = Summary { median_undisturbed: Some(90.0), ..summary };
            judge(&samples, &moved, expecting(expects), None)
        };
        assert_eq!(moved(Counters::DEVICE), Verdict::default());
        assert_eq!(causes(&moved(Counters::NONE)), [Cause::MajorFaults, Cause::MajorFaults]);
    }

    #[test]
    fn most_waits_being_for_pages_names_page_faults() {
        let away = Disturbance { cpu_ns: 400_000_000, voluntary_switches: 100, ..quiet() };
        let of = |major_faults| {
            let faulted = Disturbance { major_faults, ..away.clone() };
            verdict(&narrow(&faulted), QUIET)
        };
        let named = of(50);
        assert_eq!(cause(&named), (Cause::MajorFaults, "250 major page faults, waited 60 %"));
        assert_eq!(causes(&of(49)), [Cause::NotRunning], "most waits were for something else");
        assert_eq!(causes(&of(0)), [Cause::NotRunning]);
    }

    /// [`WIDE`] with these loops in the two worst processes, and those of full speed elsewhere.
    fn beside(slow: Loop, expectation: Expectation) -> Verdict {
        let mut samples = processes(&WIDE, &[], &quiet());
        for (at, sample) in samples.iter_mut().enumerate() {
            let met = if at < 5 { FULL_SPEED } else { slow };
            (sample.reference_ns, sample.frequency_ns) =
                (vec![met.sibling_ns; 13], vec![met.frequency_ns; 13]);
        }
        judge(&samples, &summarise(&samples).expect("values"), expectation, Some(&FULL_SPEED))
    }

    #[test]
    fn smt_contention_is_no_lower_frequency() {
        let contended = Loop { sibling_ns: 17_100.0, ..FULL_SPEED };
        let text = "SMT contention: core up to 1.90× slower in 2 of 7 processes";
        assert_eq!(cause(&beside(contended, QUIET)), (Cause::SlowCore, text));
        let low = Loop { sibling_ns: 10_800.0, frequency_ns: 9_600.0 };
        let text = "lower frequency: core up to 1.20× slower in 2 of 7 processes";
        assert_eq!(cause(&beside(low, QUIET)), (Cause::SlowCore, text));
        let device = expecting(Counters::DEVICE);
        assert_eq!(causes(&beside(contended, device)), [Cause::Spread], "has no part in it");
        assert_eq!(causes(&beside(FULL_SPEED, QUIET)), [Cause::Spread], "no core was slow");
    }

    #[test]
    fn slow_core_is_no_cause_of_better_processes() {
        let contended = Loop { sibling_ns: 17_100.0, ..FULL_SPEED };
        let rate = Expectation { better: Better::Higher, ..QUIET };
        assert_eq!(causes(&beside(contended, rate)), [Cause::Spread]);
    }

    #[test]
    fn mostly_slow_cores_are_compared_by_halves() {
        let judged = |medians: [f64; 5]| {
            let mut samples = processes(&medians, &[], &quiet());
            for (sample, times) in samples.iter_mut().zip([1.0, 1.3, 1.5, 1.8, 1.9]) {
                sample.reference_ns = vec![FULL_SPEED.sibling_ns * times];
                sample.frequency_ns = vec![FULL_SPEED.frequency_ns];
            }
            judge(&samples, &summarise(&samples).expect("values"), QUIET, Some(&FULL_SPEED))
        };
        assert_eq!(causes(&judged([100.0, 130.0, 150.0, 180.0, 190.0])), [Cause::SlowCore]);
        assert_eq!(causes(&judged([100.0, 130.0, 150.0, 180.0, 110.0])), [Cause::Spread]);
    }

    #[test]
    fn two_ticks_of_steal_may_be_chance() {
        let tick = Disturbance {
            steal_ns: Some(20_000_000),
            wall_ns: 40_000_000,
            cpu_ns: 40_000_000,
            ..quiet()
        };
        assert_eq!(verdict(&narrow(&tick), QUIET), Verdict::default());
    }

    #[test]
    fn disturbed_rounds_count_where_they_move_it() {
        let samples = narrow(&Disturbance { involuntary_switches: 3, ..quiet() });
        let without = |median| {
            let summary = summarise(&samples).expect("values");
            judge(&samples, &Summary { median_undisturbed: Some(median), ..summary }, QUIET, None)
        };
        let moved = without(94.0);
        assert_eq!(cause(&moved), (Cause::Contention, "preempted 15×: shifts the median 6 %"));
        assert_eq!(without(96.0), Verdict::default());
    }

    #[test]
    fn rounds_that_make_it_wide_are_named() {
        let preempted = Disturbance { involuntary_switches: 1, ..quiet() };
        let of = |values: Vec<f64>| {
            let mut samples = processes(&WIDE, &[5, 6], &preempted);
            for sample in &mut samples[5..] {
                (sample.values, sample.disturbed) = (values.clone(), vec![1, 2]);
            }
            verdict(&samples, QUIET)
        };
        assert_eq!(causes(&of(vec![100.0, 120.0, 121.0])), [Cause::Contention]);
        assert_eq!(causes(&of(vec![118.0, 120.0, 121.0])), [Cause::Spread]);
    }

    #[test]
    fn bound_is_never_too_wide() {
        let samples = processes(&WIDE, &[], &quiet());
        let wide = summarise(&samples).expect("values");
        assert_eq!(judge(&samples, &wide, QUIET, None).state, State::Noisy);
        let bound = Summary { bound: Some(120.0), ..wide };
        assert_eq!(judge(&samples, &bound, QUIET, None), Verdict::default());
    }

    #[test]
    fn wrong_count_is_invalid_whatever_else_happened() {
        let mut samples = narrow(&stolen());
        let detail = "9 of 10".to_owned();
        samples[4].checks = vec![Check { name: "switches".to_owned(), passed: false, detail }];
        let verdict = verdict(&samples, QUIET);
        assert_eq!((verdict.state, causes(&verdict)), (State::Invalid, vec![Cause::WrongWork]));
        assert!(verdict.reasons[0].text.contains("9 of 10"));
    }

    #[test]
    fn drift_and_clusters_beyond_the_limit_are_noisy() {
        let samples = narrow(&quiet());
        let of = |shape: Summary| judge(&samples, &shape, QUIET, None);
        let summary = summarise(&samples).expect("values");
        let drifting = |drift| Summary { drift: Some(drift), ..summary.clone() };
        assert_eq!(cause(&of(drifting(-0.08))), (Cause::Drift, "drifted -8 % while sampling"));
        assert_eq!(of(drifting(-0.04)), Verdict::default());
        let grouped = |low, high| {
            let clusters = [(low, 0.4), (high, 0.6)].map(|(at, share)| Mode { at, share });
            Summary { clusters: clusters.to_vec(), ..summary.clone() }
        };
        let apart = "bimodal across processes (40 % / 60 %, 10 % apart)";
        assert_eq!(cause(&of(grouped(95.0, 105.0))), (Cause::TwoClusters, apart));
        assert_eq!(of(grouped(99.5, 100.5)), Verdict::default());
    }

    #[test]
    fn slow_core_and_lost_time_may_worsen_as_found() {
        let estimate = Estimate { process_loops: vec![10_800.0], ..Estimate::default() };
        let (metric, title) = (MetricId::new("cpu.call"), "");
        let mut record =
            Record::new(metric, Params::none(), title, Unit::Nanoseconds, Better::Lower);
        let interval = Some(Interval::new([99.0, 101.0], 0.94, Basis::Processes));
        let (found, fast) = (Some(estimate.clone()), Some(estimate));
        record.summary =
            Some(Summary { interval, as_found: found, full_speed: fast, ..Summary::default() });
        record.disturbance = stolen();
        let of = |record: &Record, expects, reference| {
            (100.0 * may_have_worsened(record, expects, reference)).round() / 100.0
        };
        assert_eq!(of(&record, Counters::NONE, Some(&FULL_SPEED)), 2.4);
        assert_eq!(of(&record, Counters::NONE, None), 2.0);
        assert_eq!(of(&record, Counters::DEVICE, Some(&FULL_SPEED)), 2.0);
        record.summary.as_mut().expect("set").stratum = Stratum::FullSpeed;
        assert_eq!(of(&record, Counters::NONE, Some(&FULL_SPEED)), 1.0);
    }
}
