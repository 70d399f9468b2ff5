//! The one pipeline: plan → cases → visits → samples → summary → prediction → verdict → record.
//!
//! It knows no metric by name: the registry is handed to it. It measures nothing itself, prints
//! nothing and stores nothing: visits are taken by a [`Machine`], records are handed to an
//! [`Audience`]. With a scripted machine a whole run has one answer, byte for byte.
//!
//! [`coordinate`] takes a run by visits; a [`Session`] runs a procedure, which cannot be visited.

mod asked;
mod blocks;
mod coordinator;
mod injected;
mod machine;
mod plan;
mod reduce;
mod session;
mod visits;
pub mod worker;

pub use asked::Asked;
pub use coordinator::{Audience, Progress, RunSetup, coordinate};
pub use injected::{INJECT, InjectError, InjectedSpin};
pub use machine::{Machine, Outcome, VisitAnswer, VisitRequest};
pub use plan::{KEPT, Plan, PlanError, beginnings, matches, nearest_of};
pub use session::{Session, SessionSetup};
