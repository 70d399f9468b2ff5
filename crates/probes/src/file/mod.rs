//! Files: what it takes to read and to write them.

pub mod bandwidth;
pub mod call;
pub mod capacity;
pub mod contention;
pub mod fast;
pub mod read_throughput;
pub mod reasonable_size;
pub mod write_throughput;
