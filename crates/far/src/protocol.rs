//! What both ends of a control connection say to each other.

use fathom_record::is_hidden;

pub(crate) mod channel;
pub(crate) mod error;
pub(crate) mod message;
pub(crate) mod proof;
pub(crate) mod token;

/// Version of the protocol. Both ends must have the same.
pub const PROTOCOL: u32 = 1;
/// The value of the header field `Upgrade`.
pub const UPGRADE: &str = "fathom-far/1";
/// The longest wait for an answer.
pub const WAIT_NS: u64 = 10_000_000_000;

/// Data connections of a transfer, at most.
pub const STREAMS_MAX: u32 = 16;
/// Bytes of a call. A chunk has room for a word.
pub const CHUNK_BYTES_MIN: u32 = 64;
pub const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Bytes of the words of a datagram; an answer has as many.
pub const HEAD_BYTES: usize = 5 * size_of::<u64>();
/// The payload of a frame of 1514 bytes over IPv4, and of one over IPv6.
pub const DATAGRAM_BYTES: u32 = 1472;
pub const DATAGRAM_BYTES_V6: u32 = 1452;

pub(crate) const TEXT_CHARACTERS_MAX: usize = 200;

/// A text of the other end, for a message of this one.
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).take(TEXT_CHARACTERS_MAX).collect()
}
