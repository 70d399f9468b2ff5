//! Files: what it takes to read and to write them.

pub mod read_throughput;
pub mod reasonable_size;
pub mod write_throughput;
