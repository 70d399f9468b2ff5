//! The interface of a metric: its description, samples and prediction, and the registry of all
//! metrics.
//!
//! There are three kinds. A [`Probe`] runs in fresh worker processes. A [`Derived`] metric is
//! computed from other records. A [`Procedure`] runs once in this process with a [`Recorder`], such
//! as reading one file. None of them prints, stores or chooses its number of repetitions.

mod about;
mod derived;
mod inputs;
mod missing_input;
pub mod notation;
pub mod order;
mod probe;
mod procedure;
mod procedure_error;
mod recorder;
mod registry;
mod stop;
pub mod sum;
#[cfg(test)]
mod tests;

pub use about::{About, HasAbout, MetricDisk, Parameter};
pub use derived::{Derived, DerivedEstimate};
pub use inputs::{Inputs, earlier};
pub use missing_input::MissingInput;
pub use probe::{Probe, ProbeCase, Sizes};
pub use procedure::{ByHand, Command, Ending, Procedure};
pub use procedure_error::ProcedureError;
pub use recorder::{Event, Measured, OwnMetric, Processes, Recorder, observed, too_short};
pub use registry::{Entry, Registry};
pub use stop::{Stop, StopLimit};
