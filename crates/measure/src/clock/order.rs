//! Monotonicity of the clock between CPUs: a stamp of another CPU must not be in the future.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, Specification};
use crate::affinity;

/// Exchanges of stamps between each pair of CPUs.
const HANDOVERS: u64 = 2000;
/// After this time a pair is left unchecked, because of steal or throttling.
const PAIR_TIMEOUT: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderCheck {
    /// Number of pairs of CPUs checked.
    pub(super) pairs: u32,
    /// Number of stamps in the receiver's future.
    pub(super) backwards: u64,
    /// The largest difference.
    pub(super) backwards_ticks_max: u64,
}

/// Exchanges stamps between the first CPU and up to 16 others.
pub(super) fn check_order(specification: Specification, cpus: &[u32]) -> OrderCheck {
    let mut check = OrderCheck::default();
    let Some((first, others)) = cpus.split_first() else {
        return check;
    };
    // Bounds the check to 16 timeouts.
    for other in others.iter().take(16) {
        if let Some((backwards, furthest)) = check_pair(specification, *first, *other) {
            check.pairs += 1;
            check.backwards += backwards;
            check.backwards_ticks_max = check.backwards_ticks_max.max(furthest);
        }
    }
    check
}

/// The number of backward stamps between two CPUs and the largest difference. `None` after a
/// timeout.
fn check_pair(specification: Specification, a: u32, b: u32) -> Option<(u64, u64)> {
    let (last, turn, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let player = &|cpu: u32, parity: u64| {
        let pinned = affinity::pin(cpu).is_ok();
        let clock = Clock::from_specification(specification);
        let (mut backwards, mut furthest) = (0, 0);
        for round in (parity..2 * HANDOVERS).step_by(2) {
            while turn.load(Ordering::Acquire) != round {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                // PAUSE leaves the core to an SMT sibling, which may be the other player.
                std::hint::spin_loop();
            }
            // Relaxed: Acquire and Release on `turn` order the stamp.
            let theirs = last.load(Ordering::Relaxed);
            let ours = clock.start();
            if ours < theirs {
                backwards += 1;
                furthest = furthest.max(theirs - ours);
            }
            last.store(clock.stop(), Ordering::Relaxed);
            turn.store(round + 1, Ordering::Release);
        }
        pinned.then_some((backwards, furthest))
    };
    std::thread::scope(|scope| {
        let spawn = |cpu, parity| {
            let play = move || player(cpu, parity);
            std::thread::Builder::new().spawn_scoped(scope, play).ok()
        };
        let one = spawn(a, 0)?;
        // The first thread would wait for its turn forever.
        let Some(two) = spawn(b, 1) else {
            stop.store(true, Ordering::Relaxed);
            return None;
        };
        let begun = super::monotonic_raw_ns();
        while !(one.is_finished() && two.is_finished()) {
            if super::monotonic_raw_ns() - begun > PAIR_TIMEOUT.as_nanos() as u64 {
                stop.store(true, Ordering::Relaxed);
            }
            // Sleeps, because this thread may share a CPU with one of the two.
            std::thread::sleep(Duration::from_micros(200));
        }
        let (one, two) = (one.join().ok()??, two.join().ok()??);
        Some((one.0 + two.0, one.1.max(two.1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockSource;

    #[test]
    fn real_clocks_are_ordered_across_cpus() {
        let specification = Specification::uncalibrated(ClockSource::MonotonicRaw);
        let check = check_order(specification, &affinity::allowed());
        assert_eq!(check.backwards, 0, "{check:?}");
        for (cpus, why) in [(&[][..], "no CPU"), (&[0], "one CPU"), (&[0, 1023], "pinning fails")] {
            assert_eq!(check_order(specification, cpus).pairs, 0, "{why}");
        }
    }
}
