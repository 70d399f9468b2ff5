//! Fault injection for tests and for `make lab`, and the pages that say what came of it.
//!
//! - [`disk`]: an in-memory file system that models power cuts; [`fuse`] mounts it.
//! - [`mounts`]: a mount namespace for a test, so that no mount outlives it.
//! - [`group`]: a cgroup with limits; [`link`]: a link between network namespaces; [`star`]: many
//!   namespaces around one; [`relay`]: a link that delays and loses packets.
//! - [`limited`]: `fathom serve` with a limit of known size, for the known answers of a load.
//! - [`bandwidth`]: the bandwidth of the network to a far end behind such a limit.
//! - [`client`]: an HTTP client that sends exact bytes.
//! - [`crowd`]: a thousand members of a fleet in one process.
//! - [`strace`]: makes a chosen system call of a program fail.
//! - [`postgres`]: a PostgreSQL server of a test.
//! - [`processes`]: waits for programs and finds processes that they left.
//! - [`evidence`]: pages with their command, commit, machine and date.
//! - [`seeded`]: seeded random numbers.
//! - [`clock`]: a clock without calibration.
#![deny(unsafe_code)]

pub mod bandwidth;
pub mod client;
pub mod crowd;
pub mod disk;
pub mod evidence;
pub mod fuse;
pub mod group;
pub mod limited;
pub mod link;
pub mod mounts;
pub mod nginx;
pub mod postgres;
pub mod processes;
pub mod relay;
pub mod seeded;
pub mod star;
pub mod strace;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use fathom_measure::Clock;
use fathom_measure::clock::{ClockSource, Specification, wall_ns};

/// Why a fault cannot be injected on this machine; its test is skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmet(pub String);

/// The kernel's raw clock with approximate constants.
pub fn clock() -> Clock {
    let source = ClockSource::MonotonicRaw;
    Clock::from_specification(Specification::uncalibrated(source))
}

/// Waits until `fathom serve` gives a file a strong ETag: until its change time is so old that the
/// next change has another one.
///
/// # Panics
/// If there is no such file.
pub fn settle(path: &Path) {
    let stat = path.metadata().expect("a file");
    let changed_ns = (stat.ctime() * 1_000_000_000 + stat.ctime_nsec()) as u64;
    let step_ns = if stat.ctime_nsec() == 0 { 2_100_000_000 } else { 25_000_000 };
    while wall_ns() < changed_ns + step_ns {
        std::thread::sleep(Duration::from_millis(5));
    }
}
