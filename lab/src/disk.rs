//! A file system in memory that knows what a power cut would leave of it.
//!
//! What is written is seen at once and lost in a power cut, until it is synced: a file's content
//! and length by a sync of the file, a name by a sync of the folder that holds it. That is all that
//! POSIX promises; most real file systems keep more. Sectors that were not synced may survive one
//! by one ([`Survivors::Some`]), as caches of real disks write them in any order.
//!
//! A disk that records keeps every change, so that a test can look at it as it was after any of
//! them, and cut the power there.

mod state;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use state::State;
pub(crate) use state::{Change, ROOT};

/// What of the unsynced a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// Nothing.
    None,
    /// Each sector, length and name by the toss of a coin; with the seed of the tosses.
    Some(u64),
    /// Everything, in the end: a power cut with luck.
    All,
}

/// How the disk misbehaves.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How long each read takes.
    pub read_delay: Duration,
    /// Reads of these bytes of the file of this name fail with EIO.
    pub unreadable: Option<(String, Range<u64>)>,
    /// The kernel keeps no pages of files: each read of a program is a read of the disk. They can
    /// then not be mapped.
    pub uncached: bool,
}

/// A disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    state: State,
    faults: Faults,
    reads: u64,
    history: Option<Vec<Change>>,
}

impl Disk {
    /// An empty disk without a memory of its changes.
    pub fn new() -> Self {
        Self::over(State::default(), None)
    }

    /// An empty disk that records its changes.
    pub fn recording() -> Self {
        Self::over(State::default(), Some(Vec::new()))
    }

    fn over(state: State, history: Option<Vec<Change>>) -> Self {
        Self(Arc::new(Mutex::new(Inner { state, history, ..Inner::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the disk misbehaves from now on.
    pub fn misbehave(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// How many reads of files it was asked for.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// How many changes were made so far, syncs among them. 0 on a disk that records none.
    pub fn changes(&self) -> usize {
        self.lock().history.as_ref().map_or(0, Vec::len)
    }

    /// The disk's past, from the beginning.
    pub fn past(&self) -> Past {
        let history = self.lock().history.clone().unwrap_or_default();
        Past { state: State::default(), history, done: 0 }
    }

    /// What is found of this disk after a power cut now. It is another disk, and whole.
    pub fn after_power_cut(&self, survivors: Survivors) -> Self {
        Self::over(self.lock().state.after_power_cut(survivors), None)
    }

    /// Writes all that is on the disk into a folder.
    ///
    /// # Errors
    /// Where the folder cannot be written.
    pub fn copy_to(&self, folder: &Path) -> io::Result<()> {
        self.lock().state.copy_to(ROOT, folder)
    }

    /// Makes a change, and remembers it where changes are recorded.
    pub(crate) fn change(&self, change: Change) -> Result<u64, rustix::io::Errno> {
        let mut inner = self.lock();
        let done = inner.state.apply(&change)?;
        inner.history.as_mut().into_iter().for_each(|history| history.push(change.clone()));
        Ok(done)
    }

    /// Looks something up.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    /// Reads of a file, and how long that takes.
    pub(crate) fn read(
        &self,
        node: u64,
        bytes: Range<u64>,
    ) -> (Result<Vec<u8>, rustix::io::Errno>, Duration) {
        let mut inner = self.lock();
        inner.reads += 1;
        let delay = inner.faults.read_delay;
        let bad = inner.faults.unreadable.as_ref().is_some_and(|(name, bad)| {
            inner.state.is_called(node, name) && bytes.start < bad.end && bad.start < bytes.end
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
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

/// A disk as it was, change by change.
pub struct Past {
    state: State,
    history: Vec<Change>,
    done: usize,
}

impl Past {
    /// Goes on to where `changes` were made. It does not go back.
    ///
    /// # Panics
    /// When what was done once cannot be done again.
    pub fn go_to(&mut self, changes: usize) {
        while self.done < changes.min(self.history.len()) {
            self.state.apply(&self.history[self.done]).expect("it was done once");
            self.done += 1;
        }
    }

    /// What is found after a power cut there.
    pub fn after_power_cut(&self, survivors: Survivors) -> Disk {
        Disk::over(self.state.after_power_cut(survivors), None)
    }

    /// What was done last, in words.
    pub fn last(&self) -> String {
        let last = self.done.checked_sub(1).and_then(|at| self.history.get(at));
        last.map_or_else(|| "nothing".to_owned(), |change| self.state.words(change))
    }
}
