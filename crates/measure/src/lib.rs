//! The measuring kernel: the clock, the sampler, the counters of what disturbs a sample, and the
//! facts of the host, the lasting ones and the momentary.
//!
//! Deliberately absent: statistics (they are `record`'s), anything that prints, and anything that
//! knows a particular metric.

pub mod affinity;
pub mod clock;
pub mod condition;
pub mod disturbance;
pub mod host;
pub mod process;
pub mod sampler;

pub use clock::Clock;
pub use sampler::{Sampler, Work};
