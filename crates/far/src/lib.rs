//! The far end of a two-ended measurement: a fresh process for each visit, and the protocol of its
//! control connection.
//!
//! - The near end ([`Far`]) starts the process on this host, or connects to a service that starts
//!   one on another host.
//! - The far end ([`serve`]) gets its control connection as standard output, and [`Orders`] from
//!   the process that starts it on standard input.
//! - Both exchange JSON lines ([`Message`]): hello, proofs of the token, set-up, ready, go, result.
//!   Each line and each wait has a limit ([`Channel`]).
//!
//! The work itself runs over a data connection of its own, which must begin with the nonce that the
//! far end sent over the control connection. So must the first datagram of work over UDP.

mod accept;
mod channel;
mod datagram;
mod echo;
mod error;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod limit;
mod message;
mod near;
mod process;
mod proof;
pub mod sink;
pub mod tcp_info;
mod token;
pub mod transfer;
mod work;

/// The port of a service without another choice: FATH on a telephone.
pub const PORT: u16 = 3284;

pub use accept::{ACCEPTED, CLOSED};
pub use channel::{Channel, LINE_BYTES_MAX, WAIT_NS};
pub use datagram::{TRIP_NS, TripEnd, datagram_trip};
pub use echo::round_trip;
pub use error::FarError;
pub use message::{Closing, Hello, Message, Outcome, PROTOCOL, SetUp, UPGRADE, Work};
pub use near::{Far, Remote, connect};
pub use process::{IDLE_NS, Orders, Program, serve};
pub use proof::{Side, nonce, proof};
pub use token::Token;
