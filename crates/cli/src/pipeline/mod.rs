//! The one pipeline: plan → cases → visits → samples → summary → prediction → verdict → record.
//!
//! It measures nothing itself, prints nothing and stores nothing: visits are taken by a
//! [`Machine`], records are handed to an [`Audience`]. With a scripted machine a whole run has one
//! answer, byte for byte.

mod asked;
mod blocks;
mod coordinator;
mod injected;
pub mod machine;
mod plan;
mod reduce;
mod visits;
pub mod worker;

pub use asked::Asked;
pub use coordinator::{Audience, Progress, RunSetup, coordinate};
pub(crate) use injected::INJECT;
pub use injected::InjectedSpin;
pub use machine::{Machine, Outcome, VisitAnswer, VisitRequest};
pub(crate) use plan::{KEPT, beginnings, matches, nearest_of};
pub use plan::{Plan, PlanError};
pub(crate) use reduce::{fill, set_prediction};
