//! The battery: one probe per file, the registry that lists them, and their models.
//!
//! A probe says what it measures ([`About`]), expands into cases, predicts each case, and takes a
//! visit with the sampler it is handed. It prints nothing, stores nothing and chooses no number of
//! rounds.

mod about;
mod buffer;
pub mod cpu;
pub mod file;
mod known;
pub mod memory;
mod ordinal;
pub mod os;
mod probe;
mod registry;
mod room;
mod smaps;
#[cfg(test)]
pub(crate) mod smoke;
mod sum;
pub mod uarch;

pub use about::{About, Parameter};
pub use known::{Known, Quantity};
pub use probe::{ByHand, Case, Derived, Disk, Estimate, Plan, Probe};
pub use registry::{Entry, REGISTRY, find};
