//! All probes, one per file, with their models, and the registry that lists them.
//!
//! A probe describes its metric, lists its cases, predicts each case and measures them in a visit.
//! It prints nothing, stores nothing and does not choose the number of rounds.

mod buffer;
pub mod commands;
pub mod cpu;
pub mod file;
pub mod memory;
mod memory_budget;
#[cfg(test)]
mod models;
pub mod network;
pub mod os;
mod prelude;
mod registry;
mod shared;
mod smaps;
#[cfg(test)]
pub(crate) mod smoke;
pub mod uarch;

pub use registry::REGISTRY;

/// For a case that the coordinator requests and the probe does not have.
pub(crate) fn unknown_case(
    params: &fathom_record::Params,
) -> fathom_measure::sampler::SamplerFault {
    fathom_measure::sampler::SamplerFault::Failed(format!("unknown case {params}"))
}
