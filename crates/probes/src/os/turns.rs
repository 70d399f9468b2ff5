//! Measuring a ring that passes a token, and checking its context switches.

use fathom_measure::sampler::Kernel;

use super::child::Switches;
use super::link::Link;
use super::ping_pong::{Report, Ring};
use crate::prelude::*;

/// The part of a round trip that a metric reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity<'a> {
    /// One hop minus the same calls through the worker's loopback link: on one CPU.
    Switch,
    /// The whole trip, in which a member blocks at most `waits_max` times: on one CPU.
    RoundTrip { waits_max: u32 },
    /// One hop between two CPUs; the text is appended to the check.
    WakeUp(&'a str),
}

/// Tolerance between the kernel's context switch counts and those of the work.
const DEVIATION_MAX: f64 = 0.02;
/// Additional switches of a peer's start and exit, and of the worker before each round.
const EXTRA_WAITS: f64 = 64.0;
/// Minimum share of hops between two CPUs at which the receiver was asleep. A wake-up sent before
/// the receiver sleeps costs anything between nothing and a full wake-up: the error is bounded by
/// the share of these, which this limit keeps within what makes a metric noisy.
pub(super) const ASLEEP_MIN: f64 = 0.90;

/// Measures one case and checks the context switches of all members.
pub(super) fn measure<L: Link>(
    case: usize,
    ring: Result<Ring<L>>,
    quantity: Quantity<'_>,
    sampler: &mut Sampler,
) {
    let ring = match ring {
        Ok(ring) => ring,
        Err(fault) => return sampler.fault(case, fault),
    };
    ring.processes().for_each(|process| sampler.works_with(process));
    let before = Switches::of_this_thread();
    sampler.run(vec![work(case, &ring, quantity)]);
    let own = Switches::of_this_thread().since(&before);
    match ring.finish() {
        Ok(report) => check(case, quantity, own, &report, sampler),
        Err(fault) => sampler.fault(case, fault),
    }
}

fn work<'r, L: Link>(case: usize, ring: &'r Ring<L>, quantity: Quantity<'_>) -> SamplerWork<'r> {
    let twin = || -> Kernel<'r> { Box::new(|trips| ring.loopback_trips(trips)) };
    SamplerWork::Batched {
        case,
        kernel: Box::new(|trips| ring.round_trips(trips)),
        twin: (quantity == Quantity::Switch).then(twin),
        has_entry: false,
        per_iteration: match quantity {
            Quantity::RoundTrip { .. } => 1.0,
            // In a trip the token makes one hop per member.
            Quantity::Switch | Quantity::WakeUp(_) => ring.ends as f64,
        },
        to_unit: |ns| ns,
        timings: None,
    }
}

fn check(
    case: usize,
    quantity: Quantity<'_>,
    own: Switches,
    report: &Report,
    sampler: &mut Sampler,
) {
    let trips = report.trips;
    let mut members = report.peer_switches.iter().chain([&own]);
    let counts = switch_counts(own, report);
    let cpus = if let Quantity::WakeUp(suffix) = quantity {
        let asleep = members.map(|member| asleep(*member, trips)).fold(1.0, f64::min);
        let detail = format!("at {:.1} % of the hops; {counts}; {suffix}", 100.0 * asleep);
        sampler.condition(case, "asleep when woken", asleep >= ASLEEP_MIN, detail);
        "two CPUs"
    } else {
        let waits_max =
            if let Quantity::RoundTrip { waits_max } = quantity { waits_max } else { 1 };
        let passed = members.all(|member| switched_each_trip(*member, trips, waits_max));
        sampler.check(case, "context switches", passed, counts);
        "one CPU"
    };
    check_pinned(cpus, case, sampler);
    let right = "the token came back each trip, and every peer counted as many turns on its CPU";
    let detail = report.error.as_deref().unwrap_or(right);
    sampler.check(case, "turns", report.error.is_none(), detail);
}

/// Checks that the worker is pinned to its CPU.
pub(super) fn check_pinned(name: &str, case: usize, sampler: &mut Sampler) {
    let allowed = affinity::allowed();
    let pinned = allowed == [sampler.settings().cpu];
    sampler.check(case, name, pinned, format!("worker's CPU affinity: {allowed:?}"));
}

/// The counts in words; of several peers those with the fewest and the most switches.
fn switch_counts(own: Switches, report: &Report) -> String {
    let text = |member: &Switches| format!("{} + {}", member.voluntary, member.involuntary);
    let peers = &report.peer_switches;
    let least = peers.iter().min_by_key(|peer| peer.total()).map(text).unwrap_or_default();
    let most = peers.iter().max_by_key(|peer| peer.total()).map(text).unwrap_or_default();
    let peers = match peers.len() {
        1 => format!("peer {least}"),
        count => format!("{count} peers {least} to {most}"),
    };
    let trips = report.trips;
    format!("{peers}, worker {} in {trips} round trips (voluntary + involuntary)", text(&own))
}

/// Whether a member switched at least once each trip and blocked at most `waits_max` times.
/// Additional involuntary switches are allowed: preemption by other processes is disturbance, and
/// in a ring of more than two a waker may be preempted by the peer that it woke.
fn switched_each_trip(switches: Switches, trips: u64, waits_max: u32) -> bool {
    let (trips, waits_max) = (trips as f64, f64::from(waits_max));
    switches.total() as f64 >= (1.0 - DEVIATION_MAX) * trips
        && switches.voluntary as f64 <= (1.0 + DEVIATION_MAX) * waits_max * trips + EXTRA_WAITS
}

/// The share of its turns before which a member was off its CPU. One that is woken before it sleeps
/// is not switched out. One that is preempted before it sleeps counts as asleep: that prolongs its
/// turn, which is disturbance.
fn asleep(switches: Switches, trips: u64) -> f64 {
    (switches.total() as f64 / trips.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests;
