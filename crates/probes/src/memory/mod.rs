//! Metrics of memory: how long a load takes at each level, how many bytes a second pass, what a
//! page costs that is not there yet, and how long a line takes from core to core.

mod chain;
mod counted;
mod curve;
pub mod fault;
pub mod latency;
pub mod levels;
pub mod mmap_setup;
pub mod munmap;
pub mod tlb_miss;
