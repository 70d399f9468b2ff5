//! Faults on purpose: a disk that loses unsynced writes, system calls that fail, limits, processes
//! that must not be left. Tests depend on this library; so does the program beside it, which
//! `make lab` runs. No other program does.
//!
//! - [`disk`] is a file system in memory that models power cuts, and [`fuse`] mounts it.
//! - [`mounts`] gives a test a mount namespace of its own, so that no mount outlives it.
//! - [`group`] makes a control group with limits.
//! - [`strace`] makes a chosen system call of a program fail.
//! - [`processes`] waits for programs and finds what they left running.
//! - [`seeded`] holds random numbers, the same for the same seed.
//! - [`clock`] is a clock that needs no calibration.
#![forbid(unsafe_code)]

pub mod disk;
pub mod fuse;
pub mod group;
pub mod mounts;
pub mod processes;
pub mod seeded;
pub mod strace;

use fathom_measure::Clock;
use fathom_measure::clock::{Source, Specification};

/// What this machine lacks for a fault on purpose, so that the test of it is skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmet(pub String);

/// The kernel's raw clock, with figures that are near enough for a test.
pub fn clock() -> Clock {
    let source = Source::MonotonicRaw;
    Clock::from_specification(Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 })
}
