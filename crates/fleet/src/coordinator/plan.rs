//! What a coordinator is asked to do, and what came of it.

use fathom_far::Token;
use fathom_record::Host;

use crate::protocol::Work;

/// One gathering of members.
pub struct Plan<'p> {
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
    /// The work of a member, by its place and the number of members.
    pub work: &'p dyn Fn(usize, usize) -> Work,
    /// CLOCK_MONOTONIC_RAW in nanoseconds.
    pub clock: fn() -> u64,
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
pub struct Counts {
    pub joined: usize,
    pub measuring: usize,
    pub delivered: usize,
    pub lost: usize,
    /// The mean progress of all that joined, 0 to 1.
    pub done: f64,
}

/// How it ended for a member.
#[derive(Clone, Debug)]
pub struct Ended {
    pub member: Joined,
    pub skew: Option<Skew>,
    /// Why it has not delivered.
    pub lost: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of their ranks.
    pub members: Vec<Ended>,
    pub is_stopped: bool,
}
