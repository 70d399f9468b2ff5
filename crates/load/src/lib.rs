//! Load: clients against an HTTP server, as a procedure (`fathom load`).
//!
//! [`engine`] sends and receives; [`step`](Step) reduces what it counted; the procedure orders the
//! steps, reads the telemetry of both ends and makes the records. Nothing here names a bottleneck.

mod address;
mod content;
mod control;
pub mod engine;
mod make;
mod memory;
mod metrics;
mod options;
mod procedure;
mod records;
pub mod requests;
mod step;
mod target;

use fathom_metric::Command;

pub use options::Load;

/// The command, for the registry.
pub const COMMAND: Command = Command::of::<Load>("load", metrics::ALL);
