//! Fetch: downloads over HTTP, as a procedure (`fathom fetch`).
//!
//! [`download`] orders requests, resumption and retries; [`part`] is the unfinished file, which
//! gets its name only when it is complete; [`connection`] sends requests, [`receive`] takes bodies.

mod connection;
mod download;
mod metrics;
mod name;
mod open;
mod options;
mod part;
mod procedure;
mod receive;

use fathom_metric::Command;

pub use options::Fetch;

/// The command, for the registry.
pub const COMMAND: Command = Command::for_procedure::<Fetch>("fetch", &[&metrics::RATE]);
