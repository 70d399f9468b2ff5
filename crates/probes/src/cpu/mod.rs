//! Metrics of the core: the clock, the frequency, a loop, a call.

pub mod call;
pub mod call_per_argument;
pub mod clock_read;
pub mod clock_resolution;
pub mod frequency;
pub mod loop_iteration;
