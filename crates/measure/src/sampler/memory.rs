//! The time of a load from memory (METHOD 23d): what other CPUs and other guests do with the memory
//! slows it for seconds at a time, and all work that waits for memory with it.

use std::ffi::c_void;
use std::fs::File;
use std::io::Result;
use std::os::fd::AsFd;
use std::ptr::null_mut;

use fathom_analysis::statistics;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::clock::Clock;

/// Beyond the caches that a guest has for itself.
const BYTES: usize = 64 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Some of it can be aligned to a huge page.
const RESERVED_BYTES: usize = BYTES + HUGE_PAGE_BYTES;
const LINE_BYTES: usize = 64;
const WORDS_A_LINE: usize = LINE_BYTES / size_of::<u32>();
const LINES: usize = BYTES / LINE_BYTES;
/// Batches of loads, of which the median counts: an interrupt lengthens one or two.
const BATCHES: usize = 5;
const LOADS: usize = 512;

/// The memory in which loads are timed. One for all visits of a run: a hypervisor that takes back
/// what its guests free takes 100 ms and more to give 64 MiB to each visit anew.
///
/// # Errors
/// If the kernel has no memfds or no memory.
pub fn sensed_memory() -> Result<File> {
    let file = memfd_create(c"fathom-sensor", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, BYTES as u64)?;
    let populated = MemorySensor::new(&file)?;
    // Each visit then maps 32 pages in 0.1 ms, and not 16,384 in 5 ms and more. Since Linux 6.1,
    // whatever its settings, of pages that are there; before, visits take longer.
    // SAFETY: the pages of a mapping of this function, whose content stays.
    unsafe { libc::madvise(populated.words.cast_mut().cast(), BYTES, libc::MADV_COLLAPSE) };
    Ok(file.into())
}

/// A buffer with loads that depend on each other.
pub(super) struct MemorySensor {
    reserved: *mut c_void,
    words: *const u32,
    line: usize,
}

impl MemorySensor {
    /// Maps all pages at once: none faults while loads are timed.
    pub(super) fn new(memory: impl AsFd) -> Result<Self> {
        let (none, new) = (ProtFlags::empty(), MapFlags::PRIVATE);
        // SAFETY: a new mapping, which nothing else knows.
        let reserved = unsafe { mmap_anonymous(null_mut(), RESERVED_BYTES, none, new)? };
        let start = reserved.map_addr(|address| address.next_multiple_of(HUGE_PAGE_BYTES));
        let sensor = Self { reserved, words: start.cast(), line: 0 };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: in place of a part of the new mapping; the file has `BYTES`.
        unsafe { mmap(start, BYTES, ProtFlags::READ, flags, memory, 0)? };
        Ok(sensor)
    }

    /// Nanoseconds of a load.
    pub(super) fn sense(&mut self, clock: &Clock) -> Option<f64> {
        let mut batch = || {
            let start = clock.start();
            self.line = (0..LOADS).fold(self.line, |line, _| self.next(line));
            clock.ns(start, clock.stop()) / LOADS as f64
        };
        statistics::median(&(0..BATCHES).map(|_| batch()).collect::<Vec<f64>>())
    }

    /// A line that follows from the number of one and from what is in it, which no prefetcher
    /// foresees. Its period is the number of lines (Hull and Dobell, SIAM Review 4, 1962).
    fn next(&self, line: usize) -> usize {
        // SAFETY: `line` is below `LINES`, all of which are mapped while this exists. Volatile:
        // the compiler must not know that all are zero.
        let loaded = unsafe { self.words.add(line * WORDS_A_LINE).read_volatile() } as usize;
        (line * 1_664_525 + 1_013_904_223 + loaded) % LINES
    }
}

impl Drop for MemorySensor {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing else knows.
        let _ = unsafe { munmap(self.reserved, RESERVED_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ClockSource, Specification};

    #[test]
    fn loads_visit_every_line_once() {
        let mut sensor = MemorySensor::new(sensed_memory().unwrap()).unwrap();
        let (mut line, mut seen) = (0, vec![0_u8; LINES]);
        for _ in 0..LINES {
            seen[line] += 1;
            line = sensor.next(line);
        }
        assert_eq!(line, 0);
        assert!(seen.iter().all(|count| *count == 1));
        let specification = Specification::uncalibrated(ClockSource::MonotonicRaw);
        assert!(sensor.sense(&Clock::from_specification(specification)) > Some(0.0));
        assert_eq!(sensor.line, (0..BATCHES * LOADS).fold(0, |line, _| sensor.next(line)));
    }
}
