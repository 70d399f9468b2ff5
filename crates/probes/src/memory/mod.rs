//! Metrics of memory: how long a load takes at each level, how many bytes a second pass, what a
//! page costs that is not there yet, and how long a line takes from core to core.

pub mod bandwidth;
mod chain;
pub mod core_to_core;
mod counted;
mod crew;
mod curve;
pub mod fault;
pub mod latency;
pub mod levels;
pub mod loaded;
pub mod mmap_setup;
pub mod munmap;
mod seats;
mod stream;
pub mod tlb_miss;
mod vectors;
