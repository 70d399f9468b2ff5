//! One pass over all files: the result of each, and the totals.

use fathom_fileio::fast::{FastOutcome, FastPart};
use fathom_fileio::path_info::{Identity, PathInfoChange};
use fathom_fileio::read::ReadFault;
use fathom_fileio::{XorSum, extents};

use crate::commands::{by_hand, cache_state};
use crate::prelude::*;

pub(super) struct FileResult {
    pub(super) number: usize,
    pub(super) state: &'static str,
    /// Residency before the read, for the terminal.
    pub(super) residency: String,
    /// Share of data, not holes, in a file that was not warm.
    pub(super) data: Option<f64>,
    /// When it was opened for this pass.
    pub(super) identity: Option<Identity>,
    pub(super) fast: FastOutcome,
}

impl FileResult {
    pub(super) fn new(number: usize, source: &PathInfoSource, fast: FastOutcome) -> Self {
        let residency = fast.before.as_ref().map_or_else(String::new, cache_state::describe);
        let state = fast.before.map_or("unknown", |before| before.state.name());
        let data = extents::extents_of(source.file()).ok().filter(|_| state != "warm");
        let (data, identity) = (data.map(|found| found.share()), source.identity());
        Self { number, state, residency, data, identity, fast }
    }
}

#[derive(Default)]
pub(super) struct FastPass {
    pub(super) results: Vec<FileResult>,
    pub(super) ns: f64,
    /// Errors of files that could not be read at all.
    pub(super) failed: Vec<String>,
    /// Numbers of files without an end, with what reads them.
    pub(super) skipped: Vec<(usize, String)>,
    /// Bytes fetched from devices.
    pub(super) device_bytes: Option<u64>,
    /// Threads that read small files in parallel.
    pub(super) parallel_threads: usize,
}

impl FastPass {
    pub(super) fn sum(&self) -> XorSum {
        self.results.iter().fold(XorSum::default(), |mut sum, one| {
            sum.merge(&one.fast.sum);
            sum
        })
    }

    pub(super) fn rate(&self) -> f64 {
        1e9 * self.sum().bytes as f64 / self.ns
    }

    /// Residency check, buffers and threads. Of several files 0: opening each is part of the work.
    pub(super) fn setup_ns(&self) -> f64 {
        match self.results.as_slice() {
            [one] => self.ns - one.fast.parts.iter().map(|part| part.ns).sum::<f64>(),
            _ => 0.0,
        }
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &ReadFault> {
        self.results.iter().flat_map(|one| &one.fast.faults)
    }

    /// Whether a file changed while it was read.
    pub(super) fn is_changed(&self) -> bool {
        self.results.iter().any(|one| one.fast.changed.is_some())
    }

    /// Most threads at a time.
    pub(super) fn threads(&self) -> usize {
        let parts = self.results.iter().flat_map(|one| &one.fast.parts);
        parts.map(|part| part.method.threads).fold(self.parallel_threads, usize::max)
    }

    /// The common cache state of the files.
    pub(super) fn state(&self) -> &'static str {
        let states: Vec<&'static str> = self.results.iter().map(|one| one.state).collect();
        by_hand::state_of_all(&states)
    }
}

/// The first change of a file: while it was read, or since the first pass.
pub(super) fn change(passes: &[FastPass]) -> Option<PathInfoChange> {
    let first = passes.first()?;
    let since = |one: &FileResult| {
        let at = first.results.binary_search_by_key(&one.number, |then| then.number).ok()?;
        PathInfoChange::between(first.results[at].identity?, one.identity?)
    };
    let mut results = passes.iter().flat_map(|pass| &pass.results);
    results.find_map(|one| one.fast.changed.or_else(|| since(one)))
}

/// The parts of all files, merged by source and method.
pub(super) fn parts(pass: &FastPass) -> Vec<FastPart> {
    let mut parts: Vec<FastPart> = Vec::new();
    for part in pass.results.iter().flat_map(|one| &one.fast.parts) {
        match parts.iter_mut().find(|known| known.is_like(part)) {
            Some(known) => known.merge(part),
            None => parts.push(part.clone()),
        }
    }
    parts
}
