//! Response times over the time of a window.

use super::buckets::{ROWS, row};

/// Responses of a window by slice of its time and by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// When the window began: by the clock, or since the start of the run.
    pub from_ns: u64,
    pub slices_ns: Vec<u64>,
    counts: Vec<u64>,
}

impl Heat {
    pub fn new(slices: usize) -> Self {
        Self { from_ns: 0, slices_ns: Vec::new(), counts: vec![0; slices * ROWS] }
    }

    pub fn add(&mut self, slice: usize, ns: u64) {
        self.counts[slice * ROWS + row(ns)] += 1;
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
    }

    /// The rows of each slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(ROWS).take(self.slices_ns.len())
    }
}
