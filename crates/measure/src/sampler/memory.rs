//! The time of a load from memory (METHOD 23d): what other CPUs and other guests do with the memory
//! slows it for seconds at a time, and all work that waits for memory with it.

use std::hint::black_box;

use fathom_analysis::statistics;

use crate::clock::Clock;

/// Beyond the caches that a guest has for itself.
const BYTES: usize = 64 << 20;
const LINE_BYTES: usize = 64;
const WORDS_A_LINE: usize = LINE_BYTES / size_of::<u32>();
const LINES: usize = BYTES / LINE_BYTES;
const PAGE_WORDS: usize = 4096 / size_of::<u32>();
/// Batches of loads, of which the median counts: an interrupt lengthens one or two.
const BATCHES: usize = 5;
const LOADS: usize = 512;

/// A buffer with loads that depend on each other.
pub(super) struct MemorySensor {
    words: Vec<u32>,
    line: usize,
}

impl MemorySensor {
    pub(super) fn new() -> Self {
        // Zeros come from the kernel: no page is touched yet.
        let mut words = vec![0; BYTES / size_of::<u32>()];
        // SAFETY: advice on memory of this vector, which it does not change; where it is refused,
        // loads also wait for page tables, in all visits alike.
        let _ = unsafe {
            let (at, advice) = (words.as_mut_ptr().cast(), rustix::mm::Advice::LinuxHugepage);
            rustix::mm::madvise(at, BYTES, advice)
        };
        // A page that was only read is one page of zeros for all.
        words.iter_mut().step_by(PAGE_WORDS).for_each(|word| *word = black_box(0));
        Self { words, line: 0 }
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
        let loaded = self.words[line * WORDS_A_LINE] as usize;
        (line * 1_664_525 + 1_013_904_223 + loaded) % LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Source, Specification};

    #[test]
    fn loads_visit_every_line_once() {
        let mut sensor = MemorySensor::new();
        let mut line = 0;
        for _ in 0..LINES {
            sensor.words[line * WORDS_A_LINE + 1] += 1;
            line = sensor.next(line);
        }
        assert_eq!(line, 0);
        assert!(sensor.words.iter().skip(1).step_by(WORDS_A_LINE).all(|count| *count == 1));
        let specification = Specification::uncalibrated(Source::MonotonicRaw);
        assert!(sensor.sense(&Clock::from_specification(specification)) > Some(0.0));
        assert_eq!(sensor.line, (0..BATCHES * LOADS).fold(0, |line, _| sensor.next(line)));
    }
}
