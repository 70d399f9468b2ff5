//! The bytes of the protocol, as `linux/fuse.h` lays them out: reading requests, building answers.

use rustix::io::Errno;

use crate::disk::Attributes;

/// The version spoken: old enough for every kernel that matters, new enough for long answers.
pub(super) const VERSION: (u32, u32) = (7, 31);
/// The longest write.
pub(super) const WRITE_MAX: u32 = 128 << 10;
/// The longest request: a write with its headers.
pub(super) const REQUEST_MAX: usize = WRITE_MAX as usize + 4096;

const HEADER_BYTES: usize = 40;
const BLOCK_BYTES: u32 = 4096;
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// A request, after its header.
pub(super) struct Request<'b> {
    pub(super) operation: u32,
    pub(super) unique: u64,
    pub(super) node: u64,
    pub(super) body: &'b [u8],
}

impl<'b> Request<'b> {
    pub(super) fn of(bytes: &'b [u8]) -> Option<Self> {
        let body = bytes.get(HEADER_BYTES..)?;
        let header = Fields(bytes);
        Some(Self { operation: header.u32(4), unique: header.u64(8), node: header.u64(16), body })
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        Fields(self.body).u32(at)
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        Fields(self.body).u64(at)
    }

    /// The text at `at`, up to its zero, and where the next one begins.
    pub(super) fn text(&self, at: usize) -> Result<(String, usize), Errno> {
        let rest = self.body.get(at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let text = std::str::from_utf8(&rest[..end]).map_err(|_| Errno::ILSEQ)?;
        Ok((text.to_owned(), at + end + 1))
    }
}

/// Numbers at fixed places; beyond the end they are 0, as in a shorter, older request.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

/// An answer in the making.
#[derive(Debug, Default)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    #[must_use]
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    #[must_use]
    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    #[must_use]
    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// `fuse_attr`.
    #[must_use]
    pub(super) fn attributes(self, node: u64, facts: Attributes) -> Self {
        let Attributes { is_folder, mode, length, links, version } = facts;
        let kind = if is_folder { FOLDER } else { REGULAR };
        let times = [version; 3];
        let this = self.u64(node).u64(length).u64(length.div_ceil(512));
        let this = times.iter().fold(this, |this, time| this.u64(*time)).zeros(12);
        this.u32(kind | mode).u32(links).zeros(12).u32(BLOCK_BYTES).zeros(4)
    }

    /// `fuse_entry_out`: nothing of it may be remembered by the kernel.
    #[must_use]
    pub(super) fn entry(self, node: u64, facts: Attributes) -> Self {
        self.u64(node).zeros(32).attributes(node, facts)
    }

    /// `fuse_dirent`.
    #[must_use]
    pub(super) fn name(self, node: u64, next: u64, name: &str, is_folder: bool) -> Self {
        let kind = if is_folder { FOLDER } else { REGULAR } >> 12;
        let mut this = self.u64(node).u64(next).u32(name.len() as u32).u32(kind);
        this.0.extend(name.as_bytes());
        let padding = this.0.len().next_multiple_of(8) - this.0.len();
        this.zeros(padding)
    }

    /// `kstatfs` of a disk that is never full.
    #[must_use]
    pub(super) fn room(self) -> Self {
        let many = 1 << 30;
        let this = (0..5).fold(self, |this, _| this.u64(many));
        this.u32(BLOCK_BYTES).u32(255).u32(BLOCK_BYTES).zeros(28)
    }
}

/// The message to the kernel.
pub(super) fn message(unique: u64, answer: Result<Answer, Errno>) -> Vec<u8> {
    let (error, body) = match answer {
        Ok(answer) => (0, answer.0),
        Err(errno) => (-errno.raw_os_error(), Vec::new()),
    };
    let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(error.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(body);
    bytes
}
