//! Files: what it takes to read and to write them.

pub mod bandwidth;
pub mod fast;
pub mod read_throughput;
pub mod write_throughput;
