//! Many machines: members join one coordinator, measure by its orders, and deliver their runs.
//!
//! - Members connect out, so that only the coordinator must be reachable. Both ends prove the
//!   token before anything else ([`ToCoordinator`], [`ToMember`]: JSON lines of bounded length).
//! - The coordinator ([`coordinate`]) is one thread for a thousand members. It judges nothing and
//!   stores nothing: each document goes to its [`Audience`].
//! - A member ([`serve`]) measures in a child process. An order ([`Work`]) is data, of which the
//!   member itself makes a command line: a coordinator can only ask for what the member knows.
//!
//! Engines that exist (Slurm, ssh, Kubernetes) start the members and end them; nothing here does.

mod coordinator;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod member;
mod offset;
mod protocol;

pub use coordinator::{
    CoordinatorAudience, CoordinatorPlan, Ended, Failure, Joined, PlanCounts, PlanOutcome, Present,
    Skew, WorkOf, coordinate,
};
pub use error::FleetError;
pub use member::{ChildLine, Local, MemberEnding, Membership, TOKEN, ToArguments, serve};
pub use offset::Offset;
pub use protocol::{
    DOCUMENT_BYTES_MAX, FleetOrder, FleetProgress, FleetWork, Join, LoadShare, MEMBERS_MAX,
    PROTOCOL, PairOrder, RunOrder, ToCoordinator, ToMember, challenge, hello, proof_of,
};

/// The port of a coordinator without another choice: beside that of a service.
pub const PORT: u16 = fathom_far::PORT + 1;
