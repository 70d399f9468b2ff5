//! The client's side of HTTP/1.1 (RFC 9110, RFC 9112). It decides nothing about what is asked for,
//! nor about retries.
//!
//! - [`Url`] and [`resolve`]: addresses, with zones.
//! - [`Connector`]: one connection, begun without blocking, or made within a time.
//! - [`Stream`]: its bytes, plain or by TLS.
//! - [`PartialHead`], [`Framing`]: what received bytes mean. No I/O; memory is allocated only for a
//!   head in pieces, and to say what is malformed.
//! - [`Limits`]: an exchange that blocks, at most for a time.
#![forbid(unsafe_code)]

mod address;
mod chunks;
mod connect;
mod exchange;
mod field;
pub mod fuzz;
mod response;
mod session;
mod stream;
mod stream_error;
mod tls;
mod tls_error;

use std::fmt;

pub use address::{Url, UrlError, host_and_port, is_host, parse_host, resolve};
pub use chunks::Chunks;
pub use connect::{ConnectError, Connector, ServerAddress};
pub use exchange::{ExchangeError, ExchangeLimits, is_pause, request};
pub use field::{
    ContentRange, bears, coded, content_range, is_of_other_site, list, number, retry_after,
};
pub use response::{Framing, Head, PartialHead, parse, parse_fields};
pub use stream::Stream;
pub use stream_error::StreamError;
pub use tls::{Tls, Trust, TrustError, client_config};
pub use tls_error::{TlsError, TlsFault};

/// Longest head that is accepted.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// The part of a response after which none may follow.
pub const EXCESS: &str = "bytes after the end of the body";

/// The part that has another coding than `chunked`, which only a field TE asks for.
const UNASKED: &str = "unasked Transfer-Encoding";

/// A malformed field or line, with its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub part: &'static str,
    /// In printable ASCII; may be empty.
    pub got: String,
}

impl Malformed {
    fn new(part: &'static str, got: &[u8]) -> Self {
        const SHOWN: usize = 60;
        let got = got[..got.len().min(SHOWN)].trim_ascii().escape_ascii().to_string();
        Self { part, got }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part == UNASKED {
            let got = &self.got;
            return write!(f, "the server sends Transfer-Encoding: {got}, which was not asked for");
        }
        write!(f, "malformed response: {}", self.part)?;
        if self.got.is_empty() { Ok(()) } else { write!(f, ": {}", self.got) }
    }
}

impl std::error::Error for Malformed {}
