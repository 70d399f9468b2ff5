//! The distance between the two CPUs of a visit (METHOD 23e): a hypervisor moves them between
//! threads of one core, cores and sockets for seconds at a time, and all work on both with them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fathom_analysis::statistics;

use crate::affinity;
use crate::clock::Clock;

/// Batches of round trips, of which the median counts: an interrupt lengthens one or two.
const BATCHES: usize = 5;
const TRIPS: u64 = 64;
/// Attempts until the other end is given up: the CPU may be busy for some milliseconds.
const ATTEMPTS_MAX: u64 = 1 << 19;

/// A number in a line of its own, which the ends increase in turn.
#[derive(Default)]
#[repr(align(128))]
struct DistanceLine(AtomicU64);

/// The time of a cache line from the CPU of the calling thread to another, in nanoseconds. `None`
/// if the other CPU is not allowed or is busy.
pub(super) fn to(clock: &Clock, cpu: u32) -> Option<f64> {
    let (line, is_over) = (DistanceLine::default(), AtomicBool::new(false));
    // The other end begins on this CPU, which the caller leaves to it until it has moved.
    let moved = Barrier::new(2);
    let turns = |batch: usize, parity: u64| {
        let first = 2 * TRIPS * batch as u64 + parity;
        let mut turns = (0..TRIPS).map(|trip| first + 2 * trip);
        turns.all(|turn| take(&line.0, turn, &is_over))
    };
    std::thread::scope(|scope| {
        let other = || {
            let is_there = affinity::pin(cpu).is_ok();
            moved.wait();
            if is_there {
                (0..=BATCHES).all(|batch| turns(batch, 1));
            }
            is_over.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new().spawn_scoped(scope, other).ok()?;
        moved.wait();
        // The first batch waits for the start of the other end.
        let times = (0..=BATCHES).map(|batch| {
            let start = clock.start();
            let is_whole = turns(batch, 0);
            is_whole.then(|| clock.ns(start, clock.stop()) / (2 * TRIPS) as f64)
        });
        let times: Option<Vec<f64>> = times.collect();
        is_over.store(true, Ordering::Relaxed);
        statistics::median(&times?[1..])
    })
}

/// Waits for a turn and takes it. False if the other end is missing. Without PAUSE, which would
/// delay the attempt that succeeds.
fn take(number: &AtomicU64, turn: u64, is_over: &AtomicBool) -> bool {
    for _ in 0..ATTEMPTS_MAX {
        if number.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return true;
        }
        if is_over.load(Ordering::Relaxed) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ClockSource, Specification};

    #[test]
    fn other_cpu_has_a_distance_and_a_missing_one_has_none() {
        let (clock, allowed) = (
            Clock::from_specification(Specification::uncalibrated(ClockSource::MonotonicRaw)),
            affinity::allowed(),
        );
        assert_eq!(to(&clock, 100_000), None);
        if let [first, .., last] = allowed[..] {
            affinity::pin(first).unwrap();
            let distance = to(&clock, last);
            affinity::pin_to(&allowed).unwrap();
            // A busy CPU has none.
            assert!(distance.is_none_or(|ns| ns > 0.0), "{distance:?}");
        }
    }
}
