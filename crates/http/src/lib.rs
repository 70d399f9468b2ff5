//! HTTP/1.1 responses as a client reads them (RFC 9110, RFC 9112): heads, the framing of bodies and
//! the values of fields. No I/O; memory is allocated only to say what is malformed.
#![forbid(unsafe_code)]

mod chunks;
mod field;
mod response;

use std::fmt;

pub use chunks::Chunks;
pub use field::{ContentRange, coded, content_range, retry_after};
pub use response::{Framing, HEAD_BYTES_MAX, Head, lengths, parse, parse_fields};

/// What of a response is malformed or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    StatusLine,
    /// A line of the head that is no field.
    FieldLine,
    HeadLength,
    FieldCount,
    InterimLength,
    ContentLength,
    ContentRange,
    TransferEncoding,
    ChunkSize,
    ChunkLineLength,
    ChunkEnd,
    TrailerLength,
    Excess,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StatusLine => "status line",
            Self::FieldLine => "field line",
            Self::HeadLength => "head above 16 KiB",
            Self::FieldCount => "more than 64 fields",
            Self::InterimLength => "interim responses above 64 KiB",
            Self::ContentLength => "Content-Length",
            Self::ContentRange => "Content-Range",
            Self::TransferEncoding => "Transfer-Encoding",
            Self::ChunkSize => "chunk size",
            Self::ChunkLineLength => "chunk line above 4 KiB",
            Self::ChunkEnd => "no line end after a chunk",
            Self::TrailerLength => "trailer above 16 KiB",
            Self::Excess => "bytes after the end of the body",
        })
    }
}

/// A malformed field or line, with its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub part: Part,
    /// In printable ASCII; may be empty.
    pub got: String,
}

impl Malformed {
    fn new(part: Part, got: &[u8]) -> Self {
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
