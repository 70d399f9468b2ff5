//! What is imposed while a program runs, and undone afterwards.

use anyhow::Result;

/// What is imposed, and undone when dropped.
pub(super) trait Imposed {
    /// Called every few milliseconds while the program runs.
    fn tick(&mut self, _program: u32, _elapsed_ns: u64) -> Result<()> {
        Ok(())
    }
    /// What the kernel itself says: a share, or a count.
    fn counted(&self) -> Option<f64> {
        None
    }
}

/// A guard of what needs none: a word of the command line.
pub(super) struct Nothing;

impl Imposed for Nothing {}

/// The name of the group that a sabotage makes.
pub(super) const GROUP: &str = "sabotage";
/// The name in the environment of all that the laboratory starts.
pub(super) const MARK: &str = "FATHOM_LABORATORY";
