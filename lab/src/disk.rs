//! An in-memory file system that models power cuts.
//!
//! A power cut loses what was not synced: a file's content and length are synced with the file, a
//! name with its folder. POSIX guarantees no more; most file systems keep more. Unsynced sectors
//! may survive individually ([`Survivors::Some`]), since disk caches write them in any order.
//!
//! A recording disk keeps its history, so that a test can cut the power after any change.

mod state;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use state::DiskState;
pub(crate) use state::{DiskChange, ROOT};

/// Unsynced data that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    None,
    /// Each sector, length and name with probability ½; with a seed.
    Some(u64),
    All,
}

#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Added to each read.
    pub read_delay: Duration,
    /// Reads of these bytes of the file with this name fail with EIO.
    pub unreadable: Option<(String, Range<u64>)>,
    /// Reads are not answered, while files can be opened and what is cached is kept. Set before
    /// the mount, files are read ahead.
    pub hangs: bool,
    /// No page cache: each read reaches the disk, and files cannot be mapped.
    pub uncached: bool,
}

/// Clones share the disk.
#[derive(Clone, Debug)]
pub struct LabDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    state: DiskState,
    faults: Faults,
    reads: u64,
    history: Option<Vec<DiskChange>>,
}

impl LabDisk {
    /// An empty disk that does not record its changes.
    pub fn new() -> Self {
        Self::with_state(DiskState::default(), None)
    }

    /// An empty disk that records its changes.
    pub fn recording() -> Self {
        Self::with_state(DiskState::default(), Some(Vec::new()))
    }

    fn with_state(state: DiskState, history: Option<Vec<DiskChange>>) -> Self {
        Self(Arc::new(Mutex::new(Inner { state, history, ..Inner::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the faults from now on.
    pub fn misbehave(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// The number of reads of files.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// The number of recorded changes, including syncs.
    pub fn changes(&self) -> usize {
        self.lock().history.as_ref().map_or(0, Vec::len)
    }

    /// Replays the disk's history from the start.
    pub fn past(&self) -> Past {
        let history = self.lock().history.clone().unwrap_or_default();
        Past { state: DiskState::default(), history, done: 0 }
    }

    /// A new disk with the content after a power cut now.
    pub fn after_power_cut(&self, survivors: Survivors) -> Self {
        Self::with_state(self.lock().state.after_power_cut(survivors), None)
    }

    /// Copies the disk's content into a folder.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn copy_to(&self, folder: &Path) -> io::Result<()> {
        self.lock().state.copy_to(ROOT, folder)
    }

    /// Makes a change and records it.
    pub(crate) fn change(&self, change: DiskChange) -> Result<u64, rustix::io::Errno> {
        let mut inner = self.lock();
        let done = inner.state.apply(&change)?;
        inner.history.as_mut().into_iter().for_each(|history| history.push(change.clone()));
        Ok(done)
    }

    pub(crate) fn query<T>(&self, query: impl FnOnce(&DiskState) -> T) -> T {
        query(&self.lock().state)
    }

    /// Reads from a file; returns the delay of the read too.
    pub(crate) fn read(
        &self,
        node: u64,
        bytes: Range<u64>,
    ) -> (Result<Vec<u8>, rustix::io::Errno>, Duration) {
        let mut inner = self.lock();
        inner.reads += 1;
        let delay = inner.faults.read_delay;
        let bad = inner.faults.unreadable.as_ref().is_some_and(|(name, bad)| {
            inner.state.has_name(node, name) && bytes.start < bad.end && bad.start < bytes.end
        });
        let read = match bad {
            true => Err(rustix::io::Errno::IO),
            false => inner.state.read(node, bytes),
        };
        (read, delay)
    }

    pub(crate) fn is_uncached(&self) -> bool {
        self.lock().faults.uncached
    }

    pub(crate) fn hangs(&self) -> bool {
        self.lock().faults.hangs
    }
}

impl Default for LabDisk {
    fn default() -> Self {
        Self::new()
    }
}

/// A replay of a disk's history.
pub struct Past {
    state: DiskState,
    history: Vec<DiskChange>,
    done: usize,
}

impl Past {
    /// Replays forward until `changes` changes are made.
    ///
    /// # Panics
    /// If a change cannot be replayed.
    pub fn go_to(&mut self, changes: usize) {
        while self.done < changes.min(self.history.len()) {
            self.state.apply(&self.history[self.done]).expect("a recorded change");
            self.done += 1;
        }
    }

    /// A disk with the content after a power cut at this point.
    pub fn after_power_cut(&self, survivors: Survivors) -> LabDisk {
        LabDisk::with_state(self.state.after_power_cut(survivors), None)
    }

    /// Describes the last change.
    pub fn last(&self) -> String {
        let last = self.done.checked_sub(1).and_then(|at| self.history.get(at));
        last.map_or_else(|| "nothing".to_owned(), |change| self.state.describe(change))
    }
}
