//! Memory metrics: load latency per cache level, bandwidth, page faults, and core-to-core
//! cache-line transfer.

pub mod bandwidth;
mod chain;
pub mod core_to_core;
mod cpu_selection;
mod curve;
pub mod fault;
pub mod latency;
pub mod levels;
pub mod loaded;
pub mod mmap_setup;
pub mod munmap;
mod page_faults;
mod stream;
mod thread_team;
pub mod tlb_miss;
mod vectors;
