//! The output of a process, within limits.

use std::io::Error;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::monotonic_raw_ns;

const READ_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub struct OutputLimits {
    /// Besides the time in which it waits for a CPU.
    pub time_ns: u64,
    /// Of each of stdout and stderr.
    pub output_bytes: usize,
}

/// With more run-queue delay than so many time limits a process hangs all the same.
const WAITS_MAX: u64 = 8;

impl OutputLimits {
    /// The time limit of a process that had to wait for a CPU: waiting for a CPU is not hanging.
    pub(super) fn beside(self, run_queue_ns: u64) -> u64 {
        self.time_ns.saturating_add(run_queue_ns.min(self.time_ns.saturating_mul(WAITS_MAX)))
    }
}

/// Why waiting for a process ended early.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The stop descriptor became readable.
    #[error("was stopped")]
    Stopped,
    /// In seconds, besides waits for a CPU.
    #[error("timed out after {0} s, was killed")]
    TimedOut(f64),
    /// In MiB.
    #[error("wrote more than {0} MiB, was killed")]
    TooMuchOutput(usize),
    #[error("cannot be waited for: {0}")]
    Io(#[from] Error),
}

impl From<Errno> for CollectError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Reads from a pipe that is ready, and closes it at its end.
pub(super) fn read_from(
    pipe: &mut Option<OwnedFd>,
    is_ready: bool,
    into: &mut Vec<u8>,
    limits: OutputLimits,
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

/// Which descriptors are readable. None after the timeout.
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
            // Poll once more after the timeout: this process may have been stopped meanwhile.
            Ok(0) if left_ns > 0 => {}
            Ok(_) => return Ok(waits.map(|wait| !wait.revents().is_empty())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
