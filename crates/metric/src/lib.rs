//! What a metric is: how one says what it measures, takes its samples and predicts its value, and
//! the registry that lists them all.
//!
//! There are three kinds. A [`Probe`] is visited by fresh worker processes. A [`Derived`] metric is
//! computed from other records. A [`Procedure`] is what cannot be visited: a file read by hand, a
//! transfer, a load; it runs once, with a [`Recorder`], and gives records all the same. None of
//! them prints, stores, or chooses how often it is repeated.

mod about;
mod derived;
mod known;
pub mod notation;
pub mod order;
mod probe;
mod procedure;
mod recorder;
mod registry;
mod stop;
pub mod sum;
#[cfg(test)]
mod tests;

pub use about::{About, Parameter};
pub use derived::{Derived, Estimate, MissingInput};
pub use known::Known;
pub use probe::{Case, Disk, Far, Needs, Probe, Sizes};
pub use procedure::{ByHand, Command, Ending, Procedure, ProcedureError};
pub use recorder::{Event, Measured, Recorder, observed};
pub use registry::{Entry, Registry};
pub use stop::{Limit, Stop};
