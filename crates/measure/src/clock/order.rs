//! Whether the counters of different CPUs agree: a stamp handed to another CPU must not lie in
//! that CPU's future.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, Specification};
use crate::affinity;

/// Hand-overs between each pair of CPUs.
const HANDOVERS: u64 = 2000;
/// A pair that cannot finish in this time (a stolen or throttled CPU) is left unchecked.
const PAIR_TIMEOUT: Duration = Duration::from_millis(20);

/// What the check over all allowed CPUs found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderCheck {
    /// Pairs of CPUs that were checked.
    pub(super) pairs: u32,
    /// Stamps that lay in the receiver's future.
    pub(super) backwards: u64,
    /// The furthest, in ticks.
    pub(super) backwards_ticks_max: u64,
}

/// Hands stamps to and fro between the first CPU and each other one, at most 16 of them.
pub(super) fn check_order(specification: Specification, cpus: &[u32]) -> OrderCheck {
    let mut check = OrderCheck::default();
    let Some((first, others)) = cpus.split_first() else {
        return check;
    };
    for other in others.iter().take(16) {
        if let Some((backwards, furthest)) = check_pair(specification, *first, *other) {
            check.pairs += 1;
            check.backwards += backwards;
            check.backwards_ticks_max = check.backwards_ticks_max.max(furthest);
        }
    }
    check
}

/// Backward stamps between two CPUs and the furthest of them; none if the pair did not finish.
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
                std::hint::spin_loop();
            }
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
        // Without a partner the first would wait for its turn for ever.
        let Some(two) = spawn(b, 1) else {
            stop.store(true, Ordering::Relaxed);
            return None;
        };
        let begun = super::monotonic_raw_ns();
        while !(one.is_finished() && two.is_finished()) {
            if super::monotonic_raw_ns() - begun > PAIR_TIMEOUT.as_nanos() as u64 {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let (one, two) = (one.join().ok()??, two.join().ok()??);
        Some((one.0 + two.0, one.1.max(two.1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Source;

    #[test]
    fn real_clocks_are_ordered_across_cpus() {
        let specification = Specification {
            source: Source::MonotonicRaw,
            hz: 1e9,
            resolution_ns: 1.0,
            read_ns: 50.0,
        };
        let check = check_order(specification, &affinity::allowed());
        assert_eq!(check.backwards, 0, "{check:?}");
        assert_eq!(check_order(specification, &[0]).pairs, 0, "one CPU has no pair");
        assert_eq!(check_order(specification, &[]).pairs, 0);
        // A CPU that cannot be pinned to leaves its pair unchecked.
        assert_eq!(check_order(specification, &[0, 1023]).pairs, 0);
    }
}
