//! Reading the x86-64 time stamp counter so that the work stays between the two stamps.
//!
//! The fences are those of Intel's SDM (RDTSC, RDTSCP) and hold on AMD too, where Linux makes
//! LFENCE dispatch-serialising.

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

use super::Stamp;

/// `lfence; rdtsc; lfence`: earlier instructions have ended, later ones have not begun.
#[inline(always)]
pub(super) fn start() -> Stamp {
    // SAFETY: SSE2 and RDTSC are part of x86-64; user access to the counter is checked before this
    // source is chosen.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// `rdtscp; lfence`: RDTSCP waits for earlier instructions itself, the fence holds back later ones.
#[inline(always)]
pub(super) fn stop() -> Stamp {
    let mut cpu = 0;
    // SAFETY: RDTSCP is checked before this source is chosen; `cpu` is a valid place to write to.
    unsafe {
        let ticks = __rdtscp(&raw mut cpu);
        _mm_lfence();
        ticks
    }
}
