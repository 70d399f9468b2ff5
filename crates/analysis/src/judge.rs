//! The verdict on a case: valid, noisy or invalid, with the causes of noise.
//!
//! Disturbances are detected by counters, the reference loop and checks, never by values. A
//! disturbance makes a number noisy only if leaving out the disturbed processes shifts the headline
//! by more than the metric's noise limit, or if too few processes are left to decide that. It is
//! the cause of a wide interval only if the disturbed processes are the worse ones, the interval of
//! the others is narrow, and their doses do not speak against it (rule 22).

mod machine;
mod shapes;

pub use machine::{core_deviation, core_drift, machine_changed, machine_drift, machine_wander};

use self::shapes::shapes;
use crate::core_state::{CoreStates, Loop};
use crate::statistics::{concordance, median, median_interval, quantile, sorted_finite};
use fathom_record::quantity::quantity;
use fathom_record::{
    Better, Cause, Check, Counter, Counters, Disturbance, Fact, FactValue, NotSelected, Reason,
    Record, Remedy, Sample, State, Stratum, Summary, Unit, Verdict,
};

/// A visit is disturbed if it was throttled for a larger share of its wall time. Lower than the
/// other limits because medians of batches hide throttling.
const THROTTLED_MIN: f64 = 0.01;
/// The limit for steal, contention and interrupts.
const LOST_TIME_MIN: f64 = 0.05;
/// The limit for descheduled time that no counter explains.
const DESCHEDULED_MIN: f64 = 0.05;
/// The same if processes take turns on a CPU, which is idle for a moment at each switch.
const DESCHEDULED_BETWEEN_TURNS_MIN: f64 = 0.15;
/// Steal and interrupt time are counted in ticks of 10 ms: up to two ticks may be chance.
const TICKS_MIN_NS: u64 = 30_000_000;
/// The greatest probability at which ranks that agree are not taken for chance.
const CHANCE_MAX: f64 = 0.05;
/// Time of block devices is counted in milliseconds: less of it has too few digits, and a smaller
/// share of the visit does not decide its values.
const DEVICE_MIN_NS: u64 = 20_000_000;
const DEVICE_SHARE_MIN: f64 = 0.1;
/// An answer of the far end is a stall if it took as long as TCP waits before it sends again, at
/// least, and so many times as long as half of the answers.
const STALL_MIN_NS: f64 = 200e6;
const STALL_TIMES: f64 = 10.0;
/// The fewest disturbed processes whose ranks can speak against dose and response.
const DOSES_MIN: usize = 3;
/// The fewest undisturbed processes that show the headline without the disturbed ones.
const OTHERS_MIN: usize = 3;
/// The fewest processes whose quantiles say how many would be enough, and the most that a run of an
/// effort has.
const PROCESSES_MIN: usize = 5;
const PROCESSES_MAX: usize = 40;

/// The name of the fact by which a probe states the share of the requested rate that it sent.
pub const RATE_REACHED: &str = "share of the rate";
/// The least share at which the number is one at that rate.
const RATE_REACHED_MIN: f64 = 0.95;

/// What a metric declares about its own work.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// Counters that the measured work itself increases.
    pub expects: Counters,
    /// The widest relative half width of the interval on a quiet machine.
    pub noise_limit: f64,
    pub better: Better,
}

/// The verdict on a case, from the samples behind its headline and their summary, and the states of
/// the core in the run, if known.
pub fn judge(
    samples: &[Sample],
    summary: &Summary,
    expectation: Expectation,
    states: Option<&CoreStates>,
) -> Verdict {
    if let Some(reason) = failed_check(samples) {
        return Verdict { state: State::Invalid, reasons: vec![reason] };
    }
    let case = JudgeCase { samples, summary, expectation };
    // A bound already states that the interval is wide. On an edge it is, and there are several
    // modes, also on a quiet machine.
    let is_on_edge = Fact::are_on_edge(samples.iter().flat_map(|sample| &sample.facts));
    let is_wide = summary.bound.is_none()
        && !is_on_edge
        && summary.relative_half_width().is_some_and(|it| it > expectation.noise_limit);
    let mut found = case.lost_time(JudgeEnd::Near, is_wide);
    found.extend(case.lost_time(JudgeEnd::Far, is_wide));
    if is_wide {
        found.extend(states.and_then(|states| case.slow_core(states)));
        found.extend(case.slow_device());
        found.extend(case.slow_memory());
    }
    let (causes, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.is_cause);
    let mut reasons: Vec<Reason> = causes.into_iter().map(|it| it.reason).collect();
    reasons.extend(case.disturbed_rounds(is_wide));
    reasons.extend(case.stall());
    let is_noisy = is_wide || !reasons.is_empty();
    // It does not shift the number, but others used the machine meanwhile.
    let lasting = others.iter().filter(|it| !is_noisy && it.is_lasting);
    let lasting: Vec<Reason> = lasting.map(|it| it.reason.clone()).collect();
    let shapes = if is_on_edge { Vec::new() } else { shapes(summary, expectation.noise_limit) };
    if is_wide && reasons.is_empty() && shapes.is_empty() {
        let moved = others.first().map(|it| it.reason.text.as_str());
        let of_run = states.filter(|_| case.depends_on_core()).and_then(of_whole_run);
        let by_values =
            || case.levels().or_else(|| case.few_processes()).filter(|_| moved.is_none());
        reasons.push(of_run.or_else(by_values).unwrap_or_else(|| case.unknown_cause(moved)));
    }
    // What the values show beside a narrow interval is a remark.
    reasons.extend(lasting.into_iter().chain(shapes));
    let state = if is_noisy { State::Noisy } else { State::Valid };
    match slow_sender(samples) {
        // What else was found may be its cause.
        Some(reason) => {
            reasons.insert(0, reason);
            Verdict { state: State::Invalid, reasons }
        }
        None => Verdict { state, reasons },
    }
}

/// What slowed the core in all of the run, which says it once with its size.
fn of_whole_run(states: &CoreStates) -> Option<Reason> {
    let is_slowed = matches!(states.reported, Stratum::Shared | Stratum::SlowerClock);
    is_slowed.then(|| Reason::new(Cause::CoreShared, states.reported.words()))
}

/// Half of the processes sent less than the requested rate: the load generator was the limit
/// (METHOD 24). One slow process of many is as harmless as to the headline.
fn slow_sender(samples: &[Sample]) -> Option<Reason> {
    let facts = samples.iter().flat_map(|sample| &sample.facts);
    let shares = facts.filter_map(|fact| match fact.value {
        FactValue::Quantity { value, .. } if fact.name == RATE_REACHED => Some(value),
        _ => None,
    });
    let share = median(&shares.collect::<Vec<f64>>()).filter(|it| *it < RATE_REACHED_MIN)?;
    let text = format!("the sender reached {:.0} % of the rate", 100.0 * share);
    Some(Reason::new(Cause::LoadGenerator, text).with_remedy(Remedy::QuietCpu))
}

/// Wrong work before a missed condition, of which the work was right, but of another case.
fn failed_check(samples: &[Sample]) -> Option<Reason> {
    let of = |sample: &Sample, check: &Check| {
        let text = format!("{}: {}", check.name, check.detail);
        let is_missed = sample.missed.as_ref() == Some(&text);
        Reason::new(if is_missed { Cause::NotAsAsked } else { Cause::WrongWork }, text)
    };
    let all = samples.iter().flat_map(|it| it.checks_of_both().map(move |check| (it, check)));
    let failed = all.filter(|(_, check)| !check.passed);
    failed.map(|(sample, check)| of(sample, check)).min_by_key(|it| it.cause != Cause::WrongWork)
}

/// The factor by which disturbances may have worsened a number: the slowdown of the reference loop
/// times wall time ÷ time not lost. 1 on a core to itself.
pub fn worst_case_slowdown(record: &Record, expects: Counters, states: Option<&CoreStates>) -> f64 {
    let Some(summary) = &record.summary else { return 1.0 };
    if summary.stratum.is_undisturbed() {
        return 1.0;
    }
    let loops = summary.estimate().and_then(|estimate| median(&estimate.process_loops));
    let slower = match (loops, states) {
        (Some(ns), Some(states)) if !expects.has(Counter::CoreSpeed) => ns / states.idle.sibling_ns,
        _ => 1.0,
    };
    let wall = record.disturbance.wall_ns.max(1) as f64;
    let lost = lost_ns(&record.disturbance, expects).iter().map(|(_, ns)| *ns).sum::<f64>() / wall;
    slower.max(1.0) / (1.0 - lost).max(0.05)
}

/// Time during which the worker could not run, in nanoseconds, by cause.
fn lost_ns(of: &Disturbance, expects: Counters) -> [(Cause, f64); 5] {
    let in_ticks = |ns: Option<u64>| ns.filter(|ns| *ns >= TICKS_MIN_NS).unwrap_or(0) as f64;
    let throttled = of.throttled_ns.filter(|_| of.throttled_periods != Some(0)).unwrap_or(0) as f64;
    let steal = in_ticks(of.steal_ns);
    // If two processes take turns on one CPU, waiting in the run queue is the measured work. It is
    // not descheduled time either: the CPU time includes the children's, so that while one waits
    // for the other none is missing. What is missing was idle, or used by others.
    let waited = of.run_queue_ns.filter(|_| !expects.has(Counter::RunQueue)).unwrap_or(0);
    // It may be a sum over children.
    let waited = waited.min(of.wall_ns) as f64;
    // A throttled thread waits in the run queue too.
    let contention = (waited - throttled).max(0.0);
    // A probe that waits for a device causes most interrupts itself.
    let interrupt_ns = of.interrupt_ns.filter(|_| !expects.has(Counter::Interrupts));
    let interrupts = in_ticks(interrupt_ns);
    let explained = throttled + steal + contention + interrupts;
    let is_expected = expects.has(Counter::NotRunning) || of.cpu_ns == 0;
    let descheduled = (of.wall_ns as f64 - of.cpu_ns as f64 - explained).max(0.0);
    [
        (Cause::Throttled, throttled),
        (Cause::Steal, steal),
        (Cause::Contention, contention),
        (Cause::Interrupts, interrupts),
        (Cause::NotRunning, if is_expected { 0.0 } else { descheduled }),
    ]
}

/// An end of the work.
#[derive(Clone, Copy, PartialEq)]
enum JudgeEnd {
    Near,
    Far,
}

fathom_record::words!(JudgeEnd.words, Near = "", Far = "far end: ");

impl JudgeEnd {
    fn counters(self, sample: &Sample) -> Option<&Disturbance> {
        match self {
            Self::Near => Some(&sample.disturbance),
            Self::Far => sample.far.as_ref().map(|far| &far.disturbance),
        }
    }

    /// The far end sleeps until something arrives, which its CPU handles in interrupts.
    fn expects(self, near: Counters) -> Counters {
        match self {
            Self::Near => near,
            Self::Far => {
                near.and(Counters::from_counters(&[Counter::NotRunning, Counter::Interrupts]))
            }
        }
    }
}

/// What a counter or the reference loop shows.
struct JudgeFinding {
    reason: Reason,
    /// Whether it explains the spread, or shifts the headline.
    is_cause: bool,
    /// Whether others took a CPU for so much of the time of most processes.
    is_lasting: bool,
}

struct JudgeCase<'c> {
    samples: &'c [Sample],
    summary: &'c Summary,
    expectation: Expectation,
}

impl JudgeCase<'_> {
    /// Samples that have values, with their medians.
    fn processes(&self) -> Vec<(&Sample, f64)> {
        let medians = self.samples.iter().map(|sample| (sample, median(&sample.values)));
        medians.filter_map(|(sample, median)| Some((sample, median?))).collect()
    }

    /// Whether the headline without the affected processes differs by more than the noise limit, or
    /// too few processes are left to decide that.
    fn shifts_headline(&self, affected: &[bool]) -> bool {
        let others = self.medians_of(affected, false);
        let shift = |without: f64| (without / self.summary.median - 1.0).abs();
        others.len() < OTHERS_MIN
            || median(&others).is_some_and(|it| shift(it) > self.expectation.noise_limit)
    }

    /// Whether the affected processes explain a wide interval: they are worse, the interval of the
    /// others is narrow, and the doses do not speak against it. `slower` has how much slower the
    /// disturbance made each process. One or two are the worst by chance too: their doses must
    /// account for half of the gap. Of three and more, larger doses must not go with better values
    /// (Kendall's τ of the affected above −½).
    fn explain(&self, affected: &[bool], slower: &[f64]) -> bool {
        let (worse, others) = (self.medians_of(affected, true), self.medians_of(affected, false));
        let (Some(theirs), Some(ours)) = (median(&worse), median(&others)) else { return false };
        let gap = self.badness(theirs, ours);
        let doses = slower.iter().zip(affected).filter(|(_, is)| **is).map(|(dose, _)| *dose);
        let doses: Vec<f64> = doses.collect();
        let responds = match doses.len() {
            0..DOSES_MIN => median(&doses).is_some_and(|dose| dose >= gap / 2.0),
            _ if self.expectation.better == Better::Neither => true,
            _ => {
                let pairs = (0..doses.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
                let agree = |(a, b): (usize, usize)| {
                    sign(doses[a] - doses[b]) * sign(self.badness(worse[a], worse[b]))
                };
                let tau = pairs.clone().map(agree).sum::<f64>() / pairs.count() as f64;
                tau > -0.5
            }
        };
        gap > 0.0 && responds && others.len() >= OTHERS_MIN && self.is_narrow(&others)
    }

    /// By which share a number is worse than another.
    fn badness(&self, of: f64, than: f64) -> f64 {
        match self.expectation.better {
            Better::Lower => of / than - 1.0,
            Better::Higher => than / of - 1.0,
            Better::Neither => (of / than - 1.0).abs(),
        }
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

    /// What took CPU time at an end, the largest share first.
    fn lost_time(&self, end: JudgeEnd, is_wide: bool) -> Vec<JudgeFinding> {
        let expects = end.expects(self.expectation.expects);
        let processes = self.processes();
        let counters: Option<Vec<&Disturbance>> =
            processes.iter().map(|(sample, _)| end.counters(sample)).collect();
        let Some(counters) = counters else { return Vec::new() };
        let lost: Vec<_> = counters.iter().map(|counted| lost_ns(counted, expects)).collect();
        let takes_turns = expects.has(Counter::Preemptions);
        let mut found: Vec<(f64, JudgeFinding)> = Vec::new();
        for (at, (cause, _)) in lost.first().into_iter().flatten().enumerate() {
            let least = match cause {
                Cause::Throttled => THROTTLED_MIN,
                Cause::NotRunning if takes_turns => DESCHEDULED_BETWEEN_TURNS_MIN,
                Cause::NotRunning => DESCHEDULED_MIN,
                _ => LOST_TIME_MIN,
            };
            let wall = |process: usize| counters[process].wall_ns.max(1) as f64;
            let share = |process: usize| lost[process][at].1 / wall(process);
            let affected: Vec<bool> = (0..lost.len()).map(|it| share(it) > least).collect();
            let disturbed = affected.iter().filter(|it| **it).count();
            if disturbed == 0 {
                continue;
            }
            let few_others = affected.len() - disturbed < OTHERS_MIN;
            let is_cause = if is_wide {
                let slower = |it| share(it) / (1.0 - share(it)).max(0.01);
                let slower: Vec<f64> = (0..lost.len()).map(slower).collect();
                few_others || self.explain(&affected, &slower)
            } else {
                self.shifts_headline(&affected)
            };
            let theirs = || (0..lost.len()).filter(|it| affected[*it]);
            let lost_ns: f64 = theirs().map(|it| lost[it][at].1).sum();
            let overall = lost_ns / theirs().map(wall).sum::<f64>();
            let is_taken = matches!(cause, Cause::Throttled | Cause::Steal | Cause::Contention);
            let is_lasting = is_taken && 2 * disturbed >= affected.len();
            let reason = self.reason_of_lost_time(end, *cause, (overall, disturbed));
            found.push((overall, JudgeFinding { reason, is_cause, is_lasting }));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, finding)| finding).collect()
    }

    fn reason_of_lost_time(
        &self,
        end: JudgeEnd,
        cause: Cause,
        (share, processes): (f64, usize),
    ) -> Reason {
        let of = match processes == self.processes().len() {
            true => String::new(),
            false => format!(" in {processes} of {} processes", self.processes().len()),
        };
        let percent = (100.0 * share).min(100.0);
        let total = |count: fn(&Disturbance) -> u64| {
            self.samples.iter().filter_map(|it| end.counters(it)).map(count).sum::<u64>()
        };
        let end = end.words();
        let faults = total(|it| it.major_faults);
        let (cause, label, remedy) = match cause {
            Cause::Throttled => (cause, "throttled by CPU quota", Remedy::RaiseCpuQuota),
            Cause::Steal => (cause, "CPU steal", Remedy::QuieterHost),
            Cause::Contention => (cause, "CPU contention", Remedy::QuietCpu),
            Cause::Interrupts => (cause, "interrupt time", Remedy::MoveInterrupts),
            // A wait for a page is a voluntary context switch.
            _ if faults > 0 && 2 * faults >= total(|it| it.voluntary_switches) => {
                let text = format!("{end}{faults} major faults, I/O wait {percent:.0} %{of}");
                return Reason::new(Cause::MajorFaults, text).with_remedy(Remedy::AvoidSwap);
            }
            _ if self.expectation.expects.has(Counter::Preemptions) => {
                (cause, "worker and children descheduled", Remedy::OtherCpu)
            }
            _ => (cause, "descheduled", Remedy::OtherCpu),
        };
        Reason::new(cause, format!("{end}{label} {percent:.0} %{of}")).with_remedy(remedy)
    }

    /// An answer of the far end that took far longer than the others: no counter of a host shows
    /// that a process was stopped, or that packets were lost on the way.
    fn stall(&self) -> Option<Reason> {
        let with_far = self.samples.iter().filter(|sample| sample.far.is_some());
        let longest_ns = with_far.filter_map(|sample| {
            let timings = sample.histogram.as_ref()?;
            let usual = timings.quantile(0.5)?;
            Some(timings.max()).filter(|ns| *ns >= STALL_MIN_NS && *ns > STALL_TIMES * usual)
        });
        let longest_ns = longest_ns.reduce(f64::max)?;
        let text = format!(
            "an answer took {:.1} s: the far end was stopped, or packets were lost",
            longest_ns / 1e9
        );
        Some(Reason::new(Cause::Stalled, text))
    }

    /// Disturbed rounds, if leaving them out shifts the headline or makes a wide interval narrow.
    fn disturbed_rounds(&self, is_wide: bool) -> Option<Reason> {
        let JudgeCase { summary, expectation, .. } = self;
        let gap = (summary.median_undisturbed? / summary.median - 1.0).abs();
        let without: Vec<f64> = self.samples.iter().filter_map(undisturbed_median).collect();
        let is_cause = gap > expectation.noise_limit
            || (is_wide && without.len() >= OTHERS_MIN && self.is_narrow(&without));
        if gap.is_nan() || !is_cause {
            return None;
        }
        let total = self.samples.iter().map(|sample| &sample.disturbance);
        let total = total.fold(Disturbance::default(), |sum, one| sum.plus(one));
        let shifts = match gap > expectation.noise_limit {
            true => format!("shifts the median {:.0} %", 100.0 * gap),
            false => "widens the interval".to_owned(),
        };
        let expects = |counter| expectation.expects.has(counter);
        let (cause, label, remedy) = if total.migrations > 0 {
            let label = format!("migrated {}×", total.migrations);
            (Cause::Migration, label, Remedy::FindAffinityChanges)
        } else if total.major_faults > 0 && !expects(Counter::MajorFaults) {
            let label = format!("{} major faults", total.major_faults);
            (Cause::MajorFaults, label, Remedy::AvoidSwap)
        } else if total.involuntary_switches > 0 && !expects(Counter::Preemptions) {
            let label = format!("preempted {}×", total.involuntary_switches);
            (Cause::Contention, label, Remedy::QuietCpu)
        } else {
            return None;
        };
        Some(Reason::new(cause, format!("{label}: {shifts}")).with_remedy(remedy))
    }

    /// Processes on a slow core, and whether they explain a wide interval. If most cores were slow,
    /// the processes on the slower half are compared with the others.
    fn slow_core(&self, states: &CoreStates) -> Option<JudgeFinding> {
        // Threads of the probe may slow the loop. What slows all of the run is said of the run.
        let is_own = self.summary.not_selected == Some(NotSelected::SecondCpu);
        if is_own || !self.depends_on_core() || of_whole_run(states).is_some() {
            return None;
        }
        let reference = &states.idle;
        let loops: Option<Vec<Loop>> = self.processes().iter().map(|(it, _)| loop_of(it)).collect();
        let loops = loops?;
        let times = |one: &Loop| one.sibling_ns / reference.sibling_ns;
        let slowest = loops.iter().max_by(|a, b| a.sibling_ns.total_cmp(&b.sibling_ns))?;
        let typical = median(&loops.iter().map(times).collect::<Vec<f64>>())?;
        let slower_than =
            |limit: f64| loops.iter().map(|it| times(it) > limit).collect::<Vec<bool>>();
        let slow: Vec<bool> = loops.iter().map(|it| !it.is_as_fast_as(reference)).collect();
        let count = slow.iter().filter(|it| **it).count();
        let slower: Vec<f64> = loops.iter().map(|it| times(it) - 1.0).collect();
        let is_cause = self.explain(&slow, &slower)
            || (loops.len() - count < OTHERS_MIN && self.are_worse(&slower_than(typical)));
        (count > 0).then(|| {
            let cause = match slowest.has_idle_sibling(reference) {
                true => "lower frequency",
                false => "SMT contention",
            };
            let text = format!(
                "{cause}: core up to {:.2}× slower in {count} of {} processes",
                times(slowest),
                loops.len()
            );
            let reason = Reason::new(Cause::SlowCore, text).with_remedy(Remedy::QuietCore);
            JudgeFinding { reason, is_cause, is_lasting: false }
        })
    }

    fn depends_on_core(&self) -> bool {
        self.summary.not_selected != Some(NotSelected::Device)
            && !self.expectation.expects.has(Counter::CoreSpeed)
    }

    /// The time that block devices took for a request, if it accounts for a wide interval: had each
    /// request taken as long as in the median process, the interval would be narrow.
    fn slow_device(&self) -> Option<JudgeFinding> {
        let processes = self.processes();
        let time = |(sample, _): &(&Sample, f64)| {
            let Disturbance { devices, wall_ns, .. } = &sample.disturbance;
            let devices = devices.filter(|it| it.ns >= DEVICE_MIN_NS)?;
            // Requests that are under way together may take longer than the visit.
            let share = (devices.ns as f64 / (*wall_ns).max(1) as f64).min(1.0);
            (share > DEVICE_SHARE_MIN).then(|| (share, devices.per_request_ns()))
        };
        let times: Vec<(f64, f64)> = processes.iter().map(time).collect::<Option<_>>()?;
        let each = sorted_finite(&times.iter().map(|(_, ns)| *ns).collect::<Vec<f64>>());
        let usual = median(&each)?;
        let as_usual = processes.iter().zip(&times).map(|((_, value), (share, ns))| {
            let duration = 1.0 - share + share * usual / ns;
            match self.expectation.better {
                Better::Higher => value / duration,
                _ => value * duration,
            }
        });
        self.is_narrow(&as_usual.collect::<Vec<f64>>()).then(|| {
            let [least, most] = [each.first(), each.last()]
                .map(|ns| quantity(ns.copied().unwrap_or(0.0), Unit::Nanoseconds));
            let text = format!("block devices took {least} to {most} a request");
            let reason = Reason::new(Cause::SlowDevice, text).with_remedy(Remedy::MeasureLonger);
            JudgeFinding { reason, is_cause: true, is_lasting: false }
        })
    }

    /// The time of a load from memory, if the values follow it: the ranks of all processes agree by
    /// more than chance. By how much values respond depends on the work.
    fn slow_memory(&self) -> Option<JudgeFinding> {
        let processes = self.processes();
        let times = processes.iter().map(|(sample, _)| median(&sample.memory_ns));
        let times: Vec<f64> = times.collect::<Option<_>>()?;
        let worse =
            |value: f64| if self.expectation.better == Better::Higher { -value } else { value };
        let values: Vec<f64> = processes.iter().map(|(_, value)| worse(*value)).collect();
        let all = sorted_finite(&times);
        let [least, most] = [all.first(), all.last()].map(|ns| ns.copied().unwrap_or(0.0));
        let is_cause = concordance(&times, &values)? <= CHANCE_MAX;
        is_cause.then(|| {
            let text =
                format!("other CPUs or guests used the memory: {least:.0} to {most:.0} ns a load");
            let reason = Reason::new(Cause::SlowMemory, text).with_remedy(Remedy::QuieterHost);
            JudgeFinding { reason, is_cause: true, is_lasting: false }
        })
    }

    /// Whether each of these processes is worse than the median of the others.
    fn are_worse(&self, these: &[bool]) -> bool {
        let others = median(&self.medians_of(these, false));
        let theirs = self.medians_of(these, true);
        others.is_some_and(|ours| match self.expectation.better {
            Better::Lower => theirs.iter().all(|it| *it > ours),
            Better::Higher => theirs.iter().all(|it| *it < ours),
            Better::Neither => true,
        })
    }

    /// An interval that is wide only because it is over few processes: with the quantiles of these,
    /// that of [`PROCESSES_MAX`] or fewer is within the limit.
    fn few_processes(&self) -> Option<Reason> {
        let medians = self.processes().into_iter().map(|(_, median)| median);
        let medians = sorted_finite(&medians.collect::<Vec<f64>>());
        let have = medians.len();
        let half_width = |count: usize| {
            // Of the ranks around a median, by the normal approximation.
            let reach = 0.98 / (count as f64).sqrt();
            let [low, high] = [0.5 - reach, 0.5 + reach].map(|at| quantile(&medians, at));
            Some((high? - low?) / 2.0 / self.summary.median.abs())
        };
        let is_enough =
            |count: &usize| half_width(*count).is_some_and(|it| it <= self.expectation.noise_limit);
        if have < PROCESSES_MIN || self.is_narrow(&medians) {
            return None;
        }
        let enough = (have + 1..=PROCESSES_MAX).find(is_enough)?;
        let text = format!("wide interval over {have} processes; about {enough} would narrow it");
        Some(Reason::new(Cause::FewProcesses, text).with_remedy(Remedy::MeasureLonger))
    }

    /// `moved`: what a counter or sensor shows that does not explain the interval.
    fn unknown_cause(&self, moved: Option<&str>) -> Reason {
        let over = match self.summary.processes {
            1 => "within one process".to_owned(),
            count => format!("over {count} processes"),
        };
        let text = match moved {
            None => format!("wide interval {over}; no counter or sensor moved"),
            Some(moved) => format!("wide interval {over}, not explained by {moved}"),
        };
        Reason::new(Cause::Spread, text).with_remedy(Remedy::MeasureLonger)
    }
}

/// 0 for equal numbers, as `f64::signum` is not.
fn sign(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number.signum() }
}

fn undisturbed_median(sample: &Sample) -> Option<f64> {
    let is_kept = |at: &usize| !sample.disturbed.contains(&(*at as u32));
    let kept = (0..sample.values.len()).filter(is_kept).map(|at| sample.values[at]);
    median(&kept.collect::<Vec<f64>>())
}

/// The upper quartile of each part of a sample's loops: if a quarter of the loops were slow, so
/// were a quarter of the rounds.
fn loop_of(sample: &Sample) -> Option<Loop> {
    let quartile = |times: &[f64]| quantile(&sorted_finite(times), 0.75);
    let sibling_ns = quartile(&sample.reference_ns)?;
    Some(Loop { sibling_ns, frequency_ns: quartile(&sample.frequency_ns)? })
}

#[cfg(test)]
mod tests;
