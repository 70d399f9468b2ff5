//! Metrics of memory: how long a load takes at each level, how many bytes a second pass, what a
//! page costs that is not there yet, and how long a line takes from core to core.

pub mod bandwidth;
mod chain;
pub mod core_to_core;
mod crew;
mod curve;
pub mod latency;
pub mod levels;
mod seats;
mod stream;
pub mod tlb_miss;
mod vectors;
