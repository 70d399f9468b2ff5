//! What disturbed a measurement, from the kernel's own counters.
//!
//! [`RoundCounters`] are cheap enough to be read around every round; [`VisitCounters`] are dear and
//! belong around a visit. A sample is disturbed because of these, never because of its value. A
//! counter this kernel does not have, or one that went backwards, is unknown, which is not zero.
//!
//! Deliberately absent: any judgement. What counts as disturbed is the sampler's to say, and what
//! that makes of a result is `record`'s.

mod counters;
mod round;
mod throttle;
mod visit;

pub(crate) use throttle::Throttle;

pub use round::{RoundCounters, RoundDelta};
pub use visit::VisitCounters;
