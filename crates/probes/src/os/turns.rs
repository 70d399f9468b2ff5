//! Visits of ends that pass a token: what of it is timed, and the counts it is held against.

use fathom_measure::sampler::{Fault, Kernel};
use fathom_measure::{Sampler, Work, affinity};

use super::child::Switches;
use super::link::Link;
use super::ping_pong::{Report, Ring, switches_of_this_thread};

/// What of a round trip is a metric's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// One turn, less the same calls through a link of the worker's to itself: on one CPU.
    Switch,
    /// All of it, in which an end waits so many times at most: on one CPU.
    RoundTrip { waits_max: u32 },
    /// One turn, with what the record says beside: between two CPUs.
    Turn(&'a str),
}

/// How far the kernel's counts of switches may stand from those of each end and round trip.
const DEVIATION_MAX: f64 = 0.02;
/// Counters beyond that: as an end starts, and as it ends.
const WAITS_BESIDES: f64 = 16.0;
/// Share of the turns at which an end between two CPUs must have been switched out. A wake-up that
/// comes before its end sleeps costs something between nothing and a whole one: the number is then
/// off by no more than their share, and by no more than makes a metric noisy.
pub(super) const ASLEEP_MIN: f64 = 0.90;

/// Takes the rounds of one case, and holds what the ends did against what they should have done.
pub(super) fn take<L: Link>(
    case: usize,
    ring: Result<Ring<L>, Fault>,
    part: Part<'_>,
    sampler: &mut Sampler,
) {
    let ring = match ring {
        Ok(ring) => ring,
        Err(fault) => return sampler.fault(case, fault),
    };
    ring.processes().for_each(|process| sampler.works_with(process));
    let before = switches_of_this_thread();
    sampler.run(vec![work(case, &ring, part)]);
    let own = switches_of_this_thread().since(&before);
    match ring.finish() {
        Ok(report) => judge(case, part, own, &report, sampler),
        Err(fault) => sampler.fault(case, fault),
    }
}

fn work<'r, L: Link>(case: usize, ring: &'r Ring<L>, part: Part<'_>) -> Work<'r> {
    let twin = || -> Kernel<'r> { Box::new(|trips| ring.alone(trips)) };
    Work::Batched {
        case,
        kernel: Box::new(|trips| ring.round_trips(trips)),
        twin: (part == Part::Switch).then(twin),
        per_iteration: match part {
            Part::RoundTrip { .. } => 1.0,
            Part::Switch | Part::Turn(_) => ring.ends() as f64,
        },
        to_unit: |ns| ns,
        timings: None,
    }
}

fn judge(case: usize, part: Part<'_>, own: Switches, report: &Report, sampler: &mut Sampler) {
    let trips = report.trips;
    let mut ends = report.peer_switches.iter().chain([&own]);
    let told = told(own, report);
    let cpus = if let Part::Turn(beside) = part {
        let asleep = ends.map(|end| asleep(*end, trips)).fold(1.0, f64::min);
        let detail = format!("at {:.1} % of the turns; {told}; {beside}", 100.0 * asleep);
        sampler.check(case, "asleep when woken", asleep >= ASLEEP_MIN, detail);
        "two CPUs"
    } else {
        let waits_max = if let Part::RoundTrip { waits_max } = part { waits_max } else { 1 };
        let passed = ends.all(|end| switched_each_time(*end, trips, waits_max));
        sampler.check(case, "context switches", passed, told);
        "one CPU"
    };
    let allowed = affinity::allowed();
    let pinned = allowed == [sampler.settings().cpu];
    sampler.check(case, cpus, pinned, format!("the worker may run on {allowed:?}"));
    let right = "the token came back each time, every end counts as many turns, on its own CPU";
    let detail = report.wrong.as_deref().unwrap_or(right);
    sampler.check(case, "turns", report.wrong.is_none(), detail);
}

/// The counts in words; of several other ends those that were switched out least and most.
fn told(own: Switches, report: &Report) -> String {
    let text = |end: &Switches| format!("{} + {}", end.voluntary, end.involuntary);
    let others = &report.peer_switches;
    let total = |end: &&Switches| end.voluntary + end.involuntary;
    let least = others.iter().min_by_key(total).map(text).unwrap_or_default();
    let most = others.iter().max_by_key(total).map(text).unwrap_or_default();
    let others = match others.len() {
        1 => format!("the other end {least}"),
        count => format!("the {count} other ends {least} to {most}"),
    };
    let trips = report.trips;
    format!("{others}, the worker {} in {trips} round trips (waiting + preempted)", text(&own))
}

/// Whether an end was switched out at each round trip: no less often than once, and not because it
/// waited more often than it may. What strangers preempted besides is disturbance, and no fault of
/// the work; so is, among more than two ends, being preempted by the end one woke.
fn switched_each_time(switches: Switches, trips: u64, waits_max: u32) -> bool {
    let Switches { voluntary, involuntary } = switches;
    let (trips, waits_max) = (trips as f64, f64::from(waits_max));
    (voluntary + involuntary) as f64 >= (1.0 - DEVIATION_MAX) * trips
        && voluntary as f64 <= (1.0 + DEVIATION_MAX) * waits_max * trips + WAITS_BESIDES
}

/// The share of its turns before which an end was off its CPU: one that is woken on its way to
/// sleep is not switched out. One that a stranger preempted on that way is: its turn took longer,
/// not less, and is disturbance.
fn asleep(switches: Switches, trips: u64) -> f64 {
    ((switches.voluntary + switches.involuntary) as f64 / trips.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests;
