//! CPU metrics: timestamp counter, frequency, loop, function call.

pub mod call;
pub mod call_per_argument;
pub mod clock_read;
pub mod clock_resolution;
pub mod frequency;
pub mod loop_iteration;
