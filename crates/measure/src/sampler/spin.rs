//! The fixed reference spin between rounds: the same work each time, so that a machine that
//! becomes slower shows it apart from any metric (METHOD 23).

use crate::clock::{Clock, monotonic_raw_ns};
use fathom_analysis::statistics;

/// Dependent one-cycle additions in one spin: some 10 µs.
pub const REFERENCE_ITERATIONS: u64 = 32_768;

/// Spins once: when it began by CLOCK_MONOTONIC_RAW, and how long it took, both in nanoseconds.
pub(super) fn once(clock: &Clock) -> (u64, f64) {
    let at_ns = monotonic_raw_ns();
    let start = clock.start();
    std::hint::black_box(chain(REFERENCE_ITERATIONS));
    (at_ns, clock.ns(start, clock.stop()))
}

/// When the visit's spins began, and their median time.
pub(super) fn median(spins: &[(u64, f64)]) -> Option<(u64, f64)> {
    let (first, _) = spins.first()?;
    let times: Vec<f64> = spins.iter().map(|(_, ns)| *ns).collect();
    Some((*first, statistics::median(&times)?))
}

/// A round between two spins that both took so many times the fastest of the visit met a slow core.
/// One slow spin alone may have met an interrupt.
const SLOW_MIN: f64 = 1.1;

/// Of each round, whether the core was slow in it: the spins stand before, between and after the
/// rounds.
pub(super) fn slow_rounds(spins: &[(u64, f64)]) -> Vec<bool> {
    let fastest = spins.iter().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    spins.windows(2).map(|pair| pair[0].1.min(pair[1].1) > SLOW_MIN * fastest).collect()
}

/// A chain of register additions, each of which needs the one before. One copy of it, aligned:
/// inlined, where it came to lie would decide whether an iteration takes one cycle or two.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(super) fn chain(iterations: u64) -> u64 {
    let mut sum: u64 = 1;
    // SAFETY: register arithmetic only.
    unsafe {
        core::arch::asm!(
            ".p2align 6", "2:", "add {sum}, {step}", "dec {count}", "jnz 2b",
            sum = inout(reg) sum, step = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
    }
    sum
}

/// A chain of register additions, each of which needs the one before. One copy of it, aligned.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
pub(super) fn chain(iterations: u64) -> u64 {
    let mut sum: u64 = 1;
    // SAFETY: register arithmetic only.
    unsafe {
        core::arch::asm!(
            ".p2align 6", "2:", "add {sum}, {sum}, {step}", "subs {count}, {count}, #1", "b.ne 2b",
            sum = inout(reg) sum, step = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
    }
    sum
}
