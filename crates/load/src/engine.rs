//! The engine of load, closed-loop or open-loop: threads with an epoll instance each, which share
//! nothing but counters. It knows no metric and decides nothing about its results.

mod buckets;
mod client;
mod fault;
mod heat;
mod meter;
mod open;
mod pause;
mod phases;
mod reactor;
mod schedule;
mod shared;
mod tally;
#[cfg(test)]
mod tests;
mod wait;
mod window;

use std::sync::Arc;

use clap::ValueEnum;
use fathom_http::{ServerAddress, Tls, Url};

pub use buckets::{ROWS, lower_ns, row_lower_ns};
pub use fault::{Fault, REDIRECTED, UNASKED, by_words};
pub use heat::Heat;
pub use meter::{Meter, MeterCounts};
pub use pause::{Distribution, Pause};
pub use phases::EnginePhase;
pub use schedule::{Arrivals, ScheduleRate};
pub use tally::{SLICES, Tally};
pub use window::{End, Live, Moment, Outcome, Timing, run};

use crate::requests::Requests;

/// How the next file is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Any file, with equal probability.
    Random,
    /// Client i always asks for file i.
    Fixed,
}

fathom_record::words!(EngineChoice.word, Random = "random", Fixed = "fixed");

/// What happens to the bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Copied into the buffer of the thread.
    Copy,
    /// Dropped by the kernel (MSG_TRUNC).
    Discard,
    /// Copied, and compared with the content of the file.
    Verify,
}

/// The work of one step.
#[derive(Clone, Debug)]
pub struct Workload {
    pub address: ServerAddress,
    /// Whether and how connections are encrypted.
    pub tls: Option<Tls>,
    pub requests: Arc<Requests>,
    /// In an open loop the most requests in flight.
    pub clients: u32,
    /// Requests at a rate, whatever the responses (open loop); otherwise each client has one.
    pub rate: Option<ScheduleRate>,
    pub threads: u32,
    /// Of a share of a load: the number of its first client, and how much later its open loop
    /// begins, so that equal distances of several members are one schedule.
    pub first: u32,
    pub shift_ns: u64,
    pub choice: EngineChoice,
    pub pause: Pause,
    /// A new connection for each request.
    pub fresh: bool,
    pub body: Body,
    pub connect_timeout_ns: u64,
    pub timeout_ns: u64,
    /// Congestion control of the sockets; the system's default if absent.
    pub congestion: Option<String>,
    pub seed: u64,
    /// CPU time that each request costs the client in addition.
    pub spin_ns: u64,
    /// The server's URL, if redirects within it are followed.
    pub follow: Option<Url>,
    /// Counts for those who look at the run meanwhile.
    pub meter: Option<Arc<Meter>>,
}

/// Redirects that are followed for one request, at most.
pub const REDIRECTS_MAX: u32 = 5;

/// Whether a status means that the file is elsewhere.
pub fn redirects(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl Workload {
    /// Whether the parts of response times are counted apart.
    fn has_phases(&self) -> bool {
        self.fresh || self.tls.is_some()
    }
}
