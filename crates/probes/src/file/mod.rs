//! Files: what it takes to read and to write them.

pub mod call;
pub mod capacity;
pub mod contention;
pub mod read_throughput;
pub mod write_throughput;
