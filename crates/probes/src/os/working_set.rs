//! The memory that one end of a switch works on between two switches.

use std::hint::black_box;

/// Bytes of a cache line on the machines measured here; on a core with longer lines every line is
/// touched twice.
const LINE_BYTES: usize = 64;

/// A cache line. Its first word counts how often the line was touched.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Line([u64; LINE_BYTES / 8]);

/// Some whole cache lines; none for an empty set.
#[derive(Clone, Debug)]
pub(super) struct WorkingSet {
    lines: Vec<Line>,
}

impl WorkingSet {
    /// A set of this size, written once so that it is there.
    pub(super) fn new(bytes: usize) -> Self {
        Self { lines: vec![Line([0; LINE_BYTES / 8]); bytes.div_ceil(LINE_BYTES)] }
    }

    /// Reads and writes one word of every line.
    #[inline]
    pub(super) fn touch(&mut self) {
        for line in &mut self.lines {
            line.0[0] = line.0[0].wrapping_add(1);
        }
        black_box(&mut self.lines);
    }

    /// Whether every line was touched this often since the set was made.
    pub(super) fn was_touched(&self, times: u64) -> bool {
        self.lines.iter().all(|line| line.0[0] == times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_asked_size_is_touched_at_each_turn() {
        let mut set = WorkingSet::new(16 << 10);
        assert_eq!(size_of::<Line>() * set.lines.len(), 16 << 10);
        assert!(set.lines.iter().all(|line| (&raw const *line).addr().is_multiple_of(LINE_BYTES)));
        set.touch();
        set.touch();
        assert!(set.was_touched(2) && !set.was_touched(1));
        set.lines[100].0[0] = 1;
        assert!(!set.was_touched(2), "a single line that was left out is seen");
    }

    #[test]
    fn an_empty_set_has_no_lines() {
        assert_eq!(WorkingSet::new(0).lines.len(), 0);
    }
}
