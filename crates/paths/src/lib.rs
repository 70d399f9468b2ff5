//! Every way from a file into a socket, and from a socket into a file.
//!
//! - [`Sending`]: `copy`, `mmap`, `sendfile`, `splice`, `zerocopy`, `uring`.
//! - [`Receiving`]: `copy`, `mmap`, `splice`, `uring`.
//! - Both: `device-copy` and `device-mmap`, where [`device`] finds the kernel devices.
//! - [`Waiter`]: what an end does when its socket is not ready.
//!
//! A path moves one file at a time by steps. A step makes the calls for one buffer or window, and
//! says whether more are to follow; with a socket that does not block it may also say that it would
//! block, and is then repeated later. [`send`] and [`receive`] make all steps of a file.
//!
//! User space touches no byte of a mapping: a file that is truncated meanwhile is an error of the
//! call (EFAULT), not a signal.

pub mod device;
mod page;
mod pipe;
mod pump;
mod receive;
mod send;
mod waiter;
mod window;
mod zerocopy;

use std::fmt;

use fathom_record::{Activity, system_cause};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use page::Page;
pub use receive::{Receiving, receive, receive_exact};
pub use send::{Sending, send, send_all};
pub use waiter::{Io, Waiter};
pub use zerocopy::Notified;

/// The largest buffer or window, in bytes.
pub const SIZE_MAX: usize = 64 << 20;

/// From a file into a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPath {
    /// read(2) into a buffer, send(2).
    Copy,
    /// send(2) from a mapped window.
    Mmap,
    /// sendfile(2).
    Sendfile,
    /// splice(2) into a pipe, and on into the socket.
    Splice,
    /// send(2) with MSG_ZEROCOPY from a mapped window.
    Zerocopy,
    /// io_uring: a read and a send in flight, each with its own buffer.
    Uring,
    /// read(2) into a buffer, write(2) to the kernel device.
    DeviceCopy,
    /// read(2) into the mapped window of the kernel device, which sends it.
    DeviceMmap,
}

/// From a socket into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceivePath {
    /// recv(2) into a buffer, write(2).
    Copy,
    /// recv(2) into a mapped window.
    Mmap,
    /// splice(2) into a pipe, and on into the file.
    Splice,
    /// io_uring: a receive and a write in flight, each with its own buffer.
    Uring,
    /// read(2) from the kernel device into a buffer, write(2).
    DeviceCopy,
    /// The kernel device receives into its mapped window, write(2) from there.
    DeviceMmap,
}

/// What the size of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOf {
    Buffer,
    /// Of a mapping; whole pages.
    Window,
    /// The kernel moves the pages.
    None,
}

fathom_record::words!(
    SendPath.name.ALL,
    Copy = "copy",
    Mmap = "mmap",
    Sendfile = "sendfile",
    Splice = "splice",
    Zerocopy = "zerocopy",
    Uring = "uring",
    DeviceCopy = "device-copy",
    DeviceMmap = "device-mmap"
);

impl SendPath {
    pub fn size_of(self) -> SizeOf {
        match self {
            Self::Copy | Self::Uring | Self::DeviceCopy => SizeOf::Buffer,
            Self::Mmap | Self::Zerocopy | Self::DeviceMmap => SizeOf::Window,
            Self::Sendfile | Self::Splice => SizeOf::None,
        }
    }

    /// Whether it needs the kernel device that sends.
    pub fn needs_device(self) -> bool {
        matches!(self, Self::DeviceCopy | Self::DeviceMmap)
    }
}

fathom_record::words!(
    ReceivePath.name.ALL,
    Copy = "copy",
    Mmap = "mmap",
    Splice = "splice",
    Uring = "uring",
    DeviceCopy = "device-copy",
    DeviceMmap = "device-mmap"
);

impl ReceivePath {
    pub fn size_of(self) -> SizeOf {
        match self {
            Self::Copy | Self::Uring | Self::DeviceCopy => SizeOf::Buffer,
            Self::Mmap | Self::DeviceMmap => SizeOf::Window,
            Self::Splice => SizeOf::None,
        }
    }

    /// Whether it needs the kernel device that receives.
    pub fn needs_device(self) -> bool {
        matches!(self, Self::DeviceCopy | Self::DeviceMmap)
    }
}

impl fmt::Display for SendPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ReceivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a file has more bytes to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStep {
    More,
    Done,
}

#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("{call}: {}", system_cause(&(*.error).into(), Activity::Other))]
    Call { call: &'static str, error: Errno },
    /// The kernel or a sandbox has no such path.
    #[error("{call}: {error}: not in this kernel, or forbidden by it or a sandbox (seccomp)")]
    Unavailable { call: &'static str, error: Errno },
    /// The file was shorter than before, or the connection ended early.
    #[error("ended after {found} of {expected} bytes")]
    Short { found: u64, expected: u64 },
    #[error("more than the {most} bytes that were announced")]
    TooLong { most: u64 },
    #[error("{path}: {obstacle}")]
    Device { path: &'static str, obstacle: device::Obstacle },
    #[error("no progress within {0:?}")]
    TimedOut(std::time::Duration),
}

impl PathError {
    /// The error of a call.
    pub fn in_call(call: &'static str) -> impl Fn(Errno) -> Self {
        move |error| Self::Call { call, error }
    }

    /// Whether the call would have blocked.
    fn is_again(&self) -> bool {
        matches!(self, Self::Call { error: Errno::AGAIN, .. })
    }

    fn is_interrupted(&self) -> bool {
        matches!(self, Self::Call { error: Errno::INTR, .. })
    }
}

#[cfg(test)]
mod tests;
