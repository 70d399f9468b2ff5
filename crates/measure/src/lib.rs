//! Measurement: the clock, the sampler, disturbance counters, and facts of the host and its current
//! condition. It knows no particular metric and prints nothing.

pub mod affinity;
pub mod clock;
pub mod condition;
mod cpulist;
pub mod disturbance;
pub mod host;
pub mod process;
pub mod sampler;
mod stat;
mod tree;

pub use clock::Clock;
pub use sampler::{Sampler, SamplerWork};
