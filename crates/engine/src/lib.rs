//! The measurement pipeline: plan → cases → visits → samples → summary → prediction → verdict →
//! record.
//!
//! It gets the registry of metrics, a [`Machine`] that makes visits and an [`Audience`] that prints
//! and stores records. With a scripted machine the result of a run is reproducible byte for byte.
//!
//! [`coordinate`] executes a run with visits; a [`Session`] runs a procedure, which has none.

mod case_selector;
mod coordinator;
mod first;
mod injected;
mod machine;
mod plan;
mod plan_error;
mod reduce;
mod remedies;
mod session;
mod visits;
pub mod worker;

pub use case_selector::CaseSelector;
pub use coordinator::{Audience, CoordinatorProgress, RunSetup, coordinate};
pub use fathom_record::matches;
pub use injected::{INJECT, InjectError, InjectedSpin};
pub use machine::{EngineOutcome, Machine, VisitAnswer, VisitRequest};
pub use plan::{
    KEPT, Plan, Visits, beginnings, budget_ns, group_of_synonym, nearest_names, nearest_of,
};
pub use plan_error::PlanError;
pub use session::{Session, SessionSetup};
pub use visits::CaseOfVisit;
