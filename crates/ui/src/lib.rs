//! `fathom ui`: the page over a store, as an HTTP server.
//!
//! - [`Ui`] has a thread with a runtime, in which [`server`] accepts connections.
//! - [`routes`] finds what a request asks for, after [`guard`] has checked method, Host, Origin and
//!   token: the page, which is the same for every address, or the data of a [`View`] as JSON.
//! - [`seats`] has the places of connections: who gives one up for others.
//! - [`Views`] makes these data in threads that may wait for the store: few, and few wait for them.
//!
//! Nothing is written and nothing is kept between requests: each opens the store, so that a store
//! that was locked, moved or replaced is found again by the next request.
//!
//! axum and tokio are used here only. No process that measures comes here.
#![forbid(unsafe_code)]

mod guard;
mod response;
mod routes;
mod seats;
mod server;
mod shared;
mod view;

pub use server::{Ui, UiOptions};
pub use view::{HistoryOf, Problem, RunsOf, View, Views};

/// The default port, after those of the service and of the coordinator of a fleet.
pub const PORT: u16 = fathom_service::PORT + 2;
