//! What a coordinator is asked to do, and what came of it.

use std::net::SocketAddr;

use fathom_far::Token;
use fathom_record::Host;

use crate::protocol::FleetWork;

/// The work of a round for the member at a place among these.
pub type WorkOf<'p> = dyn Fn(usize, usize, &[Option<Present<'_>>]) -> Option<FleetWork> + 'p;

/// One gathering of members.
pub struct CoordinatorPlan<'p> {
    pub token: Token,
    /// Members to wait for, at most [`MEMBERS_MAX`](crate::MEMBERS_MAX).
    pub expected: usize,
    /// How long to wait for them: then those that have joined begin.
    pub join_ns: u64,
    /// Whether several members may run on one kernel.
    pub same_host: bool,
    /// Whether all start at the same time.
    pub together: bool,
    /// Otherwise so many measure at a time.
    pub at_once: usize,
    /// How many rounds of work there are for so many members: each begins when all have done that
    /// of the last. Members of several rounds stay until the end.
    pub rounds: &'p dyn Fn(usize) -> usize,
    /// The work of a member in a round; `None` if it has none.
    pub work: &'p WorkOf<'p>,
    /// CLOCK_MONOTONIC_RAW in nanoseconds.
    pub clock: fn() -> u64,
}

/// A member that is not lost, for who gives out work.
#[derive(Clone, Copy, Debug)]
pub struct Present<'m> {
    pub name: &'m str,
    /// Where its far end accepts connections.
    pub serves: Option<SocketAddr>,
}

/// A member, for the audience.
#[derive(Clone, Debug)]
pub struct Joined {
    pub name: String,
    /// What the engine calls its host.
    pub node: Option<String>,
    pub rank: Option<u32>,
    /// Its facts. The id is the one that its document must have.
    pub host: Host,
}

/// When a member started, beside the announced time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// Late if positive, in nanoseconds.
    pub ns: f64,
    /// Half of the shortest round trip.
    pub error_ns: f64,
}

/// Members by what they do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanCounts {
    pub joined: usize,
    pub measuring: usize,
    pub delivered: usize,
    pub lost: usize,
    /// The mean progress of all that joined, 0 to 1.
    pub done: f64,
    /// From 1, once the work has begun, and how many there are.
    pub round: [usize; 2],
}

/// How it ended for a member.
#[derive(Clone, Debug)]
pub struct Ended {
    pub member: Joined,
    pub skew: Option<Skew>,
    /// Why it has not delivered.
    pub lost: Option<String>,
}

/// Work that a member could not do, which stayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub round: usize,
    /// Its place among all.
    pub place: usize,
    pub reason: String,
}

#[derive(Clone, Debug)]
pub struct PlanOutcome {
    /// In the order of their ranks, which is that of their places.
    pub members: Vec<Ended>,
    pub failures: Vec<Failure>,
    pub is_stopped: bool,
}
