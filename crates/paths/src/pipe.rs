//! A pipe through which pages pass without being copied.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::PathError;

/// Bytes that the pipe may hold: what an unprivileged user may set.
const CAPACITY: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    capacity: usize,
    /// Bytes in it.
    held: usize,
}

impl Pipe {
    pub(crate) fn new() -> Result<Self, PathError> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(PathError::in_call("pipe"))?;
        // A user with many pipes gets less: the default of 64 KiB then stays.
        let capacity = fcntl_setpipe_size(&writer, CAPACITY).unwrap_or(64 << 10);
        Ok(Self { reader, writer, capacity, held: 0 })
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Fills the empty pipe with up to `most` bytes; 0 at the end of the source.
    pub(crate) fn fill(
        &mut self,
        from: BorrowedFd<'_>,
        at: Option<&mut u64>,
        most: u64,
    ) -> Result<usize, PathError> {
        let most = most.min(self.capacity as u64) as usize;
        let moved = splice(from, at, &self.writer, None, most, SpliceFlags::MOVE);
        self.held += moved.map_err(PathError::in_call("splice"))?;
        Ok(self.held)
    }

    /// Empties the pipe as far as the target takes it. `more`: bytes follow at once.
    pub(crate) fn empty(
        &mut self,
        to: BorrowedFd<'_>,
        at: Option<&mut u64>,
        more: bool,
    ) -> Result<usize, PathError> {
        let flags = if more { SpliceFlags::MOVE | SpliceFlags::MORE } else { SpliceFlags::MOVE };
        let moved = splice(&self.reader, None, to, at, self.held, flags);
        let moved = moved.map_err(PathError::in_call("splice"))?;
        self.held -= moved;
        Ok(moved)
    }
}
