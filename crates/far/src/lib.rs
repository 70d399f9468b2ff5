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

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod limit;
mod near;
mod process;
mod protocol;
pub mod tcp_info;
mod works;

/// The port of a service without another choice: FATH on a telephone.
pub const PORT: u16 = 3284;

pub use near::{Far, Remote, connect};
pub use process::{ProcessProgram, serve};
pub use protocol::channel::{Channel, LINE_BYTES_MAX};
pub use protocol::error::FarError;
pub use protocol::message::{
    IDLE_NS, Orders, ProtocolClosing, ProtocolHello, ProtocolMessage, ProtocolOutcome,
    ProtocolWork, SetUp,
};
pub use protocol::proof::{Side, is_nonce, is_same, nonce, proof, proof_for};
pub use protocol::token::Token;
pub use protocol::{DATAGRAM_BYTES, DATAGRAM_BYTES_V6, PROTOCOL, UPGRADE, WAIT_NS, printable};
pub use works::accept::{ACCEPTED, CLOSED};
pub use works::datagram::{TRIP_NS, TripEnd, datagram_trip};
pub use works::echo::round_trip;
pub use works::{files, sink, transfer};
