//! A sabotage while it is active.

use anyhow::Result;

/// Undoes the sabotage when dropped.
pub(super) trait Guard {
    /// Called every few milliseconds while the program runs.
    fn tick(&mut self, _program: u32, _elapsed_ns: u64) -> Result<()> {
        Ok(())
    }
    /// The kernel's own count of the sabotage.
    fn counted(&self) -> Option<f64> {
        None
    }
}

/// Nothing to undo: there is no sabotage, or it only changes the command line of the run.
pub(super) struct NoGuard;

impl Guard for NoGuard {}

/// The cgroup's name.
pub(super) const GROUP: &str = "sabotage";
/// An environment variable of all processes that the lab starts.
pub(super) const MARK: &str = "FATHOM_LABORATORY";
