//! Disturbances of a measurement, by the kernel's counters.
//!
//! [`RoundCounters`] are cheap enough to be read around each round; [`VisitCounters`] are expensive
//! and read around a visit. A counter that this kernel does not have, or that went backwards, is
//! unknown, which is not zero.

mod counters;
mod device;
mod round;
mod throttle;
mod visit;

pub(crate) use throttle::Throttle;

pub use throttle::{throttled_ns, throttled_ns_of};

pub use round::{RoundCounters, RoundUsage};
pub(crate) use visit::Scheduler;
pub use visit::VisitCounters;
