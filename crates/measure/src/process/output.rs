//! Reading what a process writes, within limits.

use std::io::Error;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::monotonic_raw_ns;

const READ_BYTES: usize = 64 << 10;

/// What a process may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time until it must have ended.
    pub time_ns: u64,
    /// Bytes of each of its outputs.
    pub output_bytes: usize,
}

/// Why a process was not waited for any longer.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The stop descriptor became readable.
    #[error("was stopped")]
    Stopped,
    /// It ran longer than so many seconds.
    #[error("did not end within {0} s, and was killed")]
    TimedOut(f64),
    /// It wrote more than so many MiB.
    #[error("said more than {0} MiB, and was killed")]
    TooMuchOutput(usize),
    /// Its output cannot be read, or its status.
    #[error("cannot be waited for: {0}")]
    Io(#[from] Error),
}

impl From<Errno> for CollectError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Takes what a pipe has, where it has something; at its end it is closed.
pub(super) fn read_from(
    pipe: &mut Option<OwnedFd>,
    is_ready: bool,
    into: &mut Vec<u8>,
    limits: Limits,
) -> Result<(), CollectError> {
    let Some(fd) = pipe.as_ref().filter(|_| is_ready) else { return Ok(()) };
    into.reserve(READ_BYTES);
    match rustix::io::read(fd, spare_capacity(into)) {
        Ok(0) => *pipe = None,
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    match into.len() > limits.output_bytes {
        true => Err(CollectError::TooMuchOutput(limits.output_bytes >> 20)),
        false => Ok(()),
    }
}

/// Which descriptors are readable; none is when the time is over.
pub(super) fn readable<const N: usize>(
    sources: [BorrowedFd<'_>; N],
    until_ns: u64,
) -> Result<[bool; N], Errno> {
    loop {
        let left_ns = until_ns.saturating_sub(monotonic_raw_ns());
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        let mut waits = sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        match poll(&mut waits, Some(&timeout)) {
            // Only without time left: what came while this process was stopped has come.
            Ok(0) if left_ns > 0 => {}
            Ok(_) => return Ok(waits.map(|wait| !wait.revents().is_empty())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
