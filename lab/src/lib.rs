//! Faults on purpose: a disk that forgets what was not synced, system calls that fail, processes
//! that must not be left. Only tests depend on it; no program does.
//!
//! - [`disk`] is a file system in memory that knows what a power cut would leave of it, and
//!   [`fuse`] mounts it.
//! - [`mounts`] gives a test a mount namespace of its own, so that no mount outlives it.
//! - [`strace`] lets a chosen system call of a program fail.
//! - [`processes`] finds what a program left running.
//! - [`seeded`] holds the numbers that choose moments, the same for the same seed.
#![forbid(unsafe_code)]

pub mod disk;
pub mod fuse;
pub mod mounts;
pub mod processes;
pub mod seeded;
pub mod strace;
