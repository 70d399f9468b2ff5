//! FileResult pass over all files: what came of each, and of all of them together.

use fathom_fileio::fast::{FastOutcome, Part};
use fathom_fileio::read::ReadFault;
use fathom_fileio::{Source, Sum, extents};

use crate::file::{by_hand, conditions};

/// What came of one file.
pub(super) struct FileResult {
    pub(super) number: usize,
    pub(super) state: &'static str,
    pub(super) proof: String,
    /// The share of data of a file that was not in memory; the rest is holes.
    pub(super) data: Option<f64>,
    pub(super) fast: FastOutcome,
}

impl FileResult {
    pub(super) fn new(number: usize, source: &Source, fast: FastOutcome) -> Self {
        let proof = fast.before.as_ref().map_or_else(String::new, cache_state::proof);
        let state = fast.before.map_or("unknown", |before| before.state.name());
        let data = extents::of(source.file()).ok().filter(|_| state != "warm");
        Self { number, state, proof, data: data.map(|found| found.share()), fast }
    }
}

/// What came of one pass over all of them.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) results: Vec<FileResult>,
    pub(super) ns: f64,
    /// Files that could not be opened or begun.
    pub(super) failed: Vec<String>,
    /// Bytes that came from devices.
    pub(super) device_bytes: Option<u64>,
    /// Threads that read small files side by side.
    pub(super) beside: usize,
}

impl Pass {
    pub(super) fn sum(&self) -> Sum {
        self.results.iter().fold(Sum::default(), |mut sum, one| {
            sum.merge(&one.fast.sum);
            sum
        })
    }

    pub(super) fn rate(&self) -> f64 {
        1e9 * self.sum().bytes as f64 / self.ns
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &ReadFault> {
        self.results.iter().flat_map(|one| &one.fast.faults)
    }

    /// The most threads that read at once.
    pub(super) fn threads(&self) -> usize {
        let parts = self.results.iter().flat_map(|one| &one.fast.parts);
        parts.map(|part| part.method.threads).fold(self.beside, usize::max)
    }

    /// In one word, what of the files was in memory.
    pub(super) fn state(&self) -> &'static str {
        let words: Vec<&'static str> = self.results.iter().map(|one| one.state).collect();
        by_hand::state_of_all(&words)
    }
}

/// What was read by each way, over all files.
pub(super) fn parts(pass: &Pass) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for part in pass.results.iter().flat_map(|one| &one.fast.parts) {
        let same = |other: &&mut Part| {
            other.from == part.from
                && other.method == part.method
                && other.is_trial == part.is_trial
        };
        match parts.iter_mut().find(same) {
            Some(known) => {
                known.bytes += part.bytes;
                known.ns += part.ns;
            }
            None => parts.push(part.clone()),
        }
    }
    parts
}
