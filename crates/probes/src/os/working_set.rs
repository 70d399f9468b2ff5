//! The working set that a process touches between two context switches.

use std::hint::black_box;

/// Cache line size of the supported machines. Cores with longer lines touch each line twice.
const LINE_BYTES: usize = 64;

/// A cache line; its first word counts the touches.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct WorkingSetLine([u64; LINE_BYTES / 8]);

#[derive(Clone, Debug)]
pub(super) struct WorkingSet {
    lines: Vec<WorkingSetLine>,
}

impl WorkingSet {
    /// Written once, so that its pages are resident.
    pub(super) fn new(bytes: usize) -> Self {
        Self { lines: vec![WorkingSetLine([0; LINE_BYTES / 8]); bytes.div_ceil(LINE_BYTES)] }
    }

    /// Reads and writes one word of every line.
    #[inline]
    pub(super) fn touch(&mut self) {
        for line in &mut self.lines {
            line.0[0] = line.0[0].wrapping_add(1);
        }
        // Otherwise the compiler could merge the touches of several turns.
        black_box(&mut self.lines);
    }

    /// Whether every line was touched `times` times.
    pub(super) fn was_touched(&self, times: u64) -> bool {
        self.lines.iter().all(|line| line.0[0] == times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_touched_each_time() {
        let mut set = WorkingSet::new(16 << 10);
        assert_eq!(size_of::<WorkingSetLine>() * set.lines.len(), 16 << 10);
        assert!(set.lines.iter().all(|line| (&raw const *line).addr().is_multiple_of(LINE_BYTES)));
        set.touch();
        set.touch();
        assert!(set.was_touched(2) && !set.was_touched(1));
        set.lines[100].0[0] = 1;
        assert!(!set.was_touched(2), "one line was skipped");
        assert_eq!(WorkingSet::new(0).lines.len(), 0);
    }
}
