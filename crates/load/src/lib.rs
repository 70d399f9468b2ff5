//! Load: clients against an HTTP server, as a procedure (`fathom load`).
//!
//! The walk from a connection to a record: [`engine`] sends, receives and counts in windows; a
//! [`step`] has its windows, whose sums `analysis` judges; [`records`] writes both. The
//! [`procedure`] orders the steps, and a [`run`] reads the telemetry of both ends.
//!
//! What limits the throughput: [`capacity`] measures what each resource gives, [`limit`] compares
//! that with what the steps used, and [`dose`] proves it.
//! [`cost`] says what a request should cost the server.

mod capacities;
mod capacity;
mod congestion;
mod content;
mod control;
mod control_error;
mod cost;
mod dose;
pub mod engine;
mod figures;
mod find;
#[cfg(test)]
mod fixture;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod grow;
pub mod https;
mod limit;
mod make;
mod memory;
mod merge;
pub mod message;
mod metrics;
mod monitor;
pub mod options;
mod order;
mod paths;
mod procedure;
mod rates;
mod readings;
mod records;
mod redirect;
pub mod requests;
mod run;
mod seconds;
mod server;
mod share;
mod step;
pub mod target;
mod used;
mod window;

use fathom_metric::Command;

pub use congestion::check_congestion;
pub use control::{Control, ControlListing};
pub use control_error::ControlError;
pub use figures::{CacheChange, LoadTelemetry};
pub use merge::MergeMember;
pub use options::LoadOptions;
pub use order::{LoadOrder, is_shared};
pub use share::Share;
pub use target::token;

/// The command, for the registry.
pub const COMMAND: Command = Command::for_procedure::<LoadOptions>("load", metrics::ALL);
