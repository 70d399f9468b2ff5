//! Reads of the x86-64 time stamp counter, with fences that keep the work between the stamps.
//!
//! The fences are those of Intel's SDM (RDTSC, RDTSCP). They work on AMD, too, where Linux makes
//! LFENCE dispatch-serialising.

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

use super::ClockStamp;

/// `lfence; rdtsc; lfence`: the first fence waits for earlier instructions, the second holds back
/// later ones.
#[inline(always)]
pub(super) fn start() -> ClockStamp {
    // SAFETY: SSE2 and RDTSC are part of x86-64; user access is checked in `refusal`.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// `rdtscp; lfence`: RDTSCP waits for earlier instructions, the fence holds back later ones.
#[inline(always)]
pub(super) fn stop() -> ClockStamp {
    // Receives TSC_AUX, the CPU number on Linux. Unused: migrations have their own counter.
    let mut cpu = 0;
    // SAFETY: the RDTSCP flag is checked in `refusal`; `cpu` is writable.
    unsafe {
        let ticks = __rdtscp(&raw mut cpu);
        _mm_lfence();
        ticks
    }
}
