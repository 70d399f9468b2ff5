//! What each thread of a read has for itself.

use std::fs::File;

use rustix::fs::OFlags;

use super::{ReadError, allocate, failed};
use crate::memory::MemoryPages;
use crate::syscall::reopened;

/// The open file and the buffer of one thread.
pub(super) struct Worker {
    pub(super) file: File,
    pub(super) buffer: MemoryPages,
}

impl Worker {
    pub(super) fn new(file: &File, bytes: usize) -> Result<Self, ReadError> {
        let copy =
            || file.try_clone().map_err(|_| failed("open the file", rustix::io::Errno::MFILE));
        // Without /proc the threads share the readahead state.
        let file = reopened(file, OFlags::RDONLY).or_else(|_| copy())?;
        let buffer = allocate(bytes)?;
        Ok(Self { file, buffer })
    }

    pub(super) fn many(file: &File, bytes: usize, threads: usize) -> Result<Vec<Self>, ReadError> {
        (0..threads).map(|_| Self::new(file, bytes)).collect()
    }
}
