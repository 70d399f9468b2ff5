//! HTTP/1.1 responses as a client reads them (RFC 9110, RFC 9112): heads, the framing of bodies and
//! the values of fields. No I/O; memory is allocated only to say what is malformed.
#![forbid(unsafe_code)]

mod chunks;
mod field;
pub mod fuzz;
mod response;

use std::fmt;

pub use chunks::Chunks;
pub use field::{ContentRange, coded, content_range, retry_after};
pub use response::{Framing, Head, lengths, parse, parse_fields};

/// Longest head that is accepted.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// The part of a response after which none may follow.
pub const EXCESS: &str = "bytes after the end of the body";

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
        write!(f, "malformed response: {}", self.part)?;
        if self.got.is_empty() { Ok(()) } else { write!(f, ": {}", self.got) }
    }
}

impl std::error::Error for Malformed {}
