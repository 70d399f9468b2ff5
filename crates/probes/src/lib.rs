//! The battery: one probe per file, the registry that lists them, and their models.
//!
//! A probe says what it measures, expands into cases, predicts each case, and takes a
//! visit with the sampler it is handed. It prints nothing, stores nothing and chooses no number of
//! rounds.

mod buffer;
pub mod cpu;
pub mod file;
pub mod memory;
pub mod os;
mod registry;
mod room;
mod smaps;
#[cfg(test)]
pub(crate) mod smoke;
pub mod uarch;

pub use registry::REGISTRY;
