//! The reference loop between rounds: fixed work that shows the speed of the core independently of
//! metrics (METHOD 23).
//!
//! One part takes a branch in each cycle. SMT siblings fetch alternately, so that it takes twice as
//! long beside a busy sibling. The other part waits for multiplications, so that it depends on the
//! frequency only.

use fathom_analysis::core_state::Loop;
use serde::{Deserialize, Serialize};

use crate::affinity;
use crate::clock::{Clock, Specification, monotonic_raw_ns};

/// Dependent one-cycle additions in the part that a sibling slows: about 10 µs.
pub const REFERENCE_ITERATIONS: u64 = 32_768;

/// Iterations of the part that depends on the frequency only.
const FREQUENCY_ITERATIONS: u64 = 1366;
/// Dependent three-cycle multiplications per iteration: 32,784 cycles in total, as long as the
/// other part.
const MULTIPLICATIONS: u64 = 8;

/// The times of one reference loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopTime {
    /// Start by CLOCK_MONOTONIC_RAW.
    pub at_ns: u64,
    /// The part that a busy SMT sibling slows.
    pub sibling_ns: f64,
    /// The part that depends on the frequency only.
    pub frequency_ns: f64,
}

impl LoopTime {
    pub fn parts(&self) -> Loop {
        Loop { sibling_ns: self.sibling_ns, frequency_ns: self.frequency_ns }
    }
}

pub fn reference_loop(clock: &Clock) -> LoopTime {
    let at_ns = monotonic_raw_ns();
    let start = clock.start();
    std::hint::black_box(chain(REFERENCE_ITERATIONS));
    // A start/stop pair for each part, as around every timed kernel.
    let middle = clock.stop();
    let again = clock.start();
    std::hint::black_box(multiplications(FREQUENCY_ITERATIONS));
    let frequency_ns = clock.ns(again, clock.stop());
    LoopTime { at_ns, sibling_ns: clock.ns(start, middle), frequency_ns }
}

/// Number of loops of a calibration and the pause between them: long enough to include several
/// phases of a busy sibling.
const CALIBRATION_LOOPS: usize = 96;
const CALIBRATION_PAUSE: std::time::Duration = std::time::Duration::from_millis(3);

/// Many loops on a CPU, spread over a third of a second. Empty if it is not allowed.
pub fn calibration(clock: Specification, cpu: u32) -> Vec<LoopTime> {
    let take = move || {
        let clock = Clock::from_specification(clock);
        if affinity::pin(cpu).is_err() {
            return Vec::new();
        }
        let one = |_| {
            std::thread::sleep(CALIBRATION_PAUSE);
            // An idle core ramps up its frequency first.
            std::hint::black_box(chain(8 * REFERENCE_ITERATIONS));
            reference_loop(&clock)
        };
        (0..CALIBRATION_LOOPS).map(one).collect()
    };
    // In a thread of its own, because pinning would change the caller's affinity.
    let loops = std::thread::Builder::new().spawn(take).map(std::thread::JoinHandle::join);
    loops.ok().and_then(Result::ok).unwrap_or_default()
}

/// A chain of dependent multiplications: latency-bound, so that a sibling does not slow it. Aligned
/// to a cache line, as [`chain`].
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

/// A chain of dependent additions of registers. Not inlined and aligned to a cache line: otherwise
/// its alignment would decide whether an iteration takes one cycle or two.
#[inline(never)]
pub(super) fn chain(iterations: u64) -> u64 {
    let mut sum: u64 = 1;
    // SAFETY: register arithmetic only.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            ".p2align 6", "2:", "add {sum}, {step}", "dec {count}", "jnz 2b",
            sum = inout(reg) sum, step = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            ".p2align 6", "2:", "add {sum}, {sum}, {step}", "subs {count}, {count}, #1", "b.ne 2b",
            sum = inout(reg) sum, step = in(reg) 3u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
    }
    sum
}
