//! Response times over the time of a window.

use super::buckets::{ROWS, row};

/// Timings with the number of each.
type Timings = Vec<(f64, u64)>;

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

    /// Of parts of a window with their lengths and timings.
    pub fn of_slots(from_ns: u64, slots: impl Iterator<Item = (u64, Timings)>) -> Self {
        let mut heat = Self { from_ns, ..Self::default() };
        for (ns, times) in slots {
            heat.slices_ns.push(ns);
            let first = heat.counts.len();
            heat.counts.resize(first + ROWS, 0);
            for (time_ns, count) in times {
                heat.counts[first + row(time_ns as u64)] += count;
            }
        }
        heat
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
    }

    /// With the counts of another member, whose slices are the same.
    pub fn plus(mut self, other: Self) -> Self {
        self.merge(&other);
        self
    }

    /// The rows of each slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(ROWS).take(self.slices_ns.len())
    }
}
