//! From samples to a verdict: whether a number can be trusted, and what spoiled it.
//!
//! What is disturbed is read from counters, the reference loop and checks, never from values. It
//! makes a number noisy only where leaving it out moves the headline beyond the metric's noise
//! limit, or where too little is left to show that; and it is named as the cause of a wide interval
//! only where the disturbed processes are the worse ones and the others alone are narrow (rule 22).

mod machine;

pub use machine::{machine_changed, machine_drift, machine_wander};

use crate::clean::Loop;
use crate::statistics::{median, median_interval, quantile, sorted_finite};
use fathom_record::summary::Mode;
use fathom_record::{
    Better, Cause, Counter, Counters, Disturbance, NotSelected, Reason, Record, Remedy, Sample,
    State, Stratum, Summary, Verdict,
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
            let is_cause = if is_wide {
                few_others || self.explain(&affected)
            } else {
                self.matters(&affected)
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
        // It has no part in the work, or the work's own threads may slow the loop.
        let is_own = self.summary.not_selected == Some(NotSelected::SecondCpu);
        if is_own || self.expectation.expects.has(Counter::CoreSpeed) {
            return None;
        }
        let loops: Option<Vec<Loop>> = self.processes().iter().map(|(it, _)| loop_of(it)).collect();
        let loops = loops?;
        let times = |one: &Loop| one.sibling_ns / reference.sibling_ns;
        let slowest = loops.iter().max_by(|a, b| a.sibling_ns.total_cmp(&b.sibling_ns))?;
        let typical = median(&loops.iter().map(times).collect::<Vec<f64>>())?;
        let slower_than =
            |limit: f64| loops.iter().map(|it| times(it) > limit).collect::<Vec<bool>>();
        let slow: Vec<bool> = loops.iter().map(|it| !it.is_as_fast_as(reference)).collect();
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

/// The upper quartile of each part of a sample's loops: where a quarter of them were slow, so were
/// as many rounds.
fn loop_of(sample: &Sample) -> Option<Loop> {
    let quartile = |times: &[f64]| quantile(&sorted_finite(times), 0.75);
    let sibling_ns = quartile(&sample.reference_ns)?;
    Some(Loop { sibling_ns, frequency_ns: quartile(&sample.frequency_ns)? })
}

/// Shapes of the values that no single median describes.
fn shapes(summary: &Summary, noise_limit: f64) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let modes = |modes: &[Mode], place: &str| {
        let apart = ((modes.last()?.at - modes.first()?.at) / summary.median).abs();
        let share = |mode: &Mode| format!("{:.0} %", 100.0 * mode.share);
        let shares = modes.iter().map(share).collect::<Vec<String>>().join(" / ");
        (apart > noise_limit)
            .then(|| format!("bimodal {place} processes ({shares}, {:.0} % apart)", 100.0 * apart))
    };
    if let Some(text) = modes(&summary.clusters, "across") {
        reasons.push(Reason::new(Cause::TwoClusters, text).with_remedy(Remedy::CountGroups));
    }
    if let Some(text) = modes(&summary.modes, "within") {
        reasons.push(Reason::new(Cause::SeveralModes, text));
    }
    if let Some(drift) = summary.drift.filter(|drift| drift.abs() > noise_limit) {
        let text = format!("drifted {:+.0} % while sampling", 100.0 * drift);
        reasons.push(Reason::new(Cause::Drift, text).with_remedy(Remedy::FollowDrift));
    }
    reasons
}

#[cfg(test)]
mod tests;
