//! The reference loop between rounds: the same work each time, so that a core that becomes slower
//! shows it apart from any metric (METHOD 23).
//!
//! One part takes a branch in each cycle: hyperthreads fetch in turn, so that it takes twice as
//! long beside a busy sibling. The other waits for multiplications, and only the frequency matters.

use fathom_analysis::clean::Loop;
use serde::{Deserialize, Serialize};

use crate::affinity;
use crate::clock::{Clock, Specification, monotonic_raw_ns};

/// Dependent one-cycle additions in the part that a sibling slows: some 10 µs.
pub const REFERENCE_ITERATIONS: u64 = 32_768;

/// Iterations of the part that only the frequency slows, with [`MULTIPLICATIONS`] each.
const FREQUENCY_ITERATIONS: u64 = 1366;
/// Dependent three-cycle multiplications in one iteration: 32,784 cycles in all.
const MULTIPLICATIONS: u64 = 8;

/// The times of one reference loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopTime {
    /// When it began by CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub at_ns: u64,
    /// The part that a busy sibling thread slows, in nanoseconds.
    pub sibling_ns: f64,
    /// The part that only the frequency slows, in nanoseconds.
    pub frequency_ns: f64,
}

impl LoopTime {
    /// Without its time of day.
    pub fn parts(&self) -> Loop {
        Loop { sibling_ns: self.sibling_ns, frequency_ns: self.frequency_ns }
    }
}

pub fn reference_loop(clock: &Clock) -> LoopTime {
    let at_ns = monotonic_raw_ns();
    let start = clock.start();
    std::hint::black_box(chain(REFERENCE_ITERATIONS));
    let middle = clock.stop();
    let again = clock.start();
    std::hint::black_box(multiplications(FREQUENCY_ITERATIONS));
    let frequency_ns = clock.ns(again, clock.stop());
    LoopTime { at_ns, sibling_ns: clock.ns(start, middle), frequency_ns }
}

/// Loops of a calibration, and the pause between two of them: long enough to meet more than one
/// spell of a neighbour.
const CALIBRATION_LOOPS: usize = 96;
const CALIBRATION_PAUSE: std::time::Duration = std::time::Duration::from_millis(3);

/// Many loops on a CPU, spread over a third of a second, by a thread that is pinned to it. None
/// where it may not be used.
pub fn calibration(clock: Specification, cpu: u32) -> Vec<LoopTime> {
    let take = move || {
        let clock = Clock::from_specification(clock);
        if affinity::pin(cpu).is_err() {
            return Vec::new();
        }
        let one = |_| {
            std::thread::sleep(CALIBRATION_PAUSE);
            // A core that slept ramps up its frequency first.
            std::hint::black_box(chain(8 * REFERENCE_ITERATIONS));
            reference_loop(&clock)
        };
        (0..CALIBRATION_LOOPS).map(one).collect()
    };
    let taken = std::thread::Builder::new().spawn(take).map(std::thread::JoinHandle::join);
    taken.ok().and_then(Result::ok).unwrap_or_default()
}

/// How often a visit that needs a core at full speed looks for one before it gives up, and the
/// pause between two looks.
const LOOKS: u32 = 5;
const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_millis(8);

/// Waits for a moment in which the calling thread's core is at full speed, for some milliseconds:
/// the loops that were run, and whether the last of them was.
pub fn wait_for(mut look: impl FnMut() -> LoopTime, reference: &Loop) -> (Vec<LoopTime>, bool) {
    let mut loops = Vec::new();
    for at in 0..LOOKS {
        if at > 0 {
            std::thread::sleep(LOOK_PAUSE);
        }
        std::hint::black_box(chain(REFERENCE_ITERATIONS));
        let one = look();
        loops.push(one);
        if one.parts().is_at(reference) {
            return (loops, true);
        }
    }
    (loops, false)
}

/// A chain of multiplications of registers, each of which needs the one before.
#[inline(never)]
fn multiplications(iterations: u64) -> u64 {
    let mut product: u64 = 3;
    // SAFETY: register arithmetic only.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            ".p2align 6", "2:",
            ".rept {each}", "imul {product}, {factor}", ".endr",
            "dec {count}", "jnz 2b",
            each = const MULTIPLICATIONS,
            product = inout(reg) product, factor = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            ".p2align 6", "2:",
            ".rept {each}", "mul {product}, {product}, {factor}", ".endr",
            "subs {count}, {count}, #1", "b.ne 2b",
            each = const MULTIPLICATIONS,
            product = inout(reg) product, factor = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
    }
    product
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
