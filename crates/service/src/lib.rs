//! The HTTP service: a folder over HTTP/1.1, with telemetry and cache control under `/.fathom`.
//!
//! - A request: [`head`] finds its end and checks it, [`target`] and [`route`] find what it asks
//!   for, [`root`] opens it beneath the folder, [`selection`] decides which bytes answer it,
//!   [`reply`] writes the head, [`send`] sends it.
//! - Threads: a [`reactor`] per CPU has the events; its [`handler`] gives each [`connection`]
//!   its turns; a [`lane`] does the [`job`]s that wait for devices, so that no reactor does
//!   ([`resident`] says what is in memory).
//! - The service itself: [`page`], with [`telemetry`], [`metrics`], [`listing`] and [`cache`].
//! - For the analysis of a load: [`disk`] measures what the device gives to this process, [`dose`]
//!   adds known work to a request.
//!
//! Contents are never kept: a cached copy would pose as a cold file. There is no TLS: it would
//! measure cryptography.

mod cache;
mod connection;
mod counters;
mod disk;
mod dose;
mod error;
mod far;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handler;
mod head;
mod held;
mod index;
mod job;
mod lane;
mod listener;
mod listing;
mod mailbox;
mod media;
mod metrics;
mod names;
mod options;
mod page;
mod queue;
mod reactor;
mod refusal;
mod reply;
mod resident;
mod root;
mod route;
mod selection;
mod send;
mod server;
mod shared;
mod target;
mod telemetry;
mod ticket;
mod token;

pub use error::ServiceError;
pub use fathom_far::Token;
pub use held::{Budget, Held};
pub use names::Names;
pub use options::{Options, PORT, ServiceLimits};
pub use server::{ServerEnding, ServiceServer};
pub use token::token_from_file;
