//! Fault injection for tests and for `make lab`, and the pages that say what came of it.
//!
//! - [`disk`]: an in-memory file system that models power cuts; [`fuse`] mounts it.
//! - [`mounts`]: a mount namespace for a test, so that no mount outlives it.
//! - [`group`]: a cgroup with limits; [`link`]: a link between network namespaces; [`relay`]: one
//!   that delays and loses packets.
//! - [`limited`]: `fathom serve` with a limit of known size, for the known answers of a load.
//! - [`bandwidth`]: the bandwidth of the network to a far end behind such a limit.
//! - [`strace`]: makes a chosen system call of a program fail.
//! - [`processes`]: waits for programs and finds processes that they left.
//! - [`evidence`]: pages with their command, commit, machine and date.
//! - [`seeded`]: seeded random numbers.
//! - [`clock`]: a clock without calibration.
#![deny(unsafe_code)]

pub mod bandwidth;
pub mod disk;
pub mod evidence;
pub mod fuse;
pub mod group;
pub mod limited;
pub mod link;
pub mod mounts;
pub mod processes;
pub mod relay;
pub mod seeded;
pub mod strace;

use fathom_measure::Clock;
use fathom_measure::clock::{Source, Specification};

/// Why a fault cannot be injected on this machine; its test is skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmet(pub String);

/// The kernel's raw clock with approximate constants.
pub fn clock() -> Clock {
    let source = Source::MonotonicRaw;
    Clock::from_specification(Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 })
}
