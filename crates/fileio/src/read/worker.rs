//! What each thread of a read has for itself.

use std::fs::File;

use rustix::fs::OFlags;

use super::{ReadError, failed, out_of_memory};
use crate::memory::{MemoryPages, MemoryPool};
use crate::syscall::reopened;

/// The open file and the buffer of one thread.
pub(super) struct Worker {
    pub(super) file: File,
    pub(super) buffer: MemoryPages,
}

impl Worker {
    /// With a buffer for what another way leaves.
    pub(super) fn fallback(file: &File, bytes: usize) -> Result<Self, ReadError> {
        Self::new(file, MemoryPages::untouched(bytes).map_err(|error| out_of_memory(bytes, error))?)
    }

    fn new(file: &File, buffer: MemoryPages) -> Result<Self, ReadError> {
        let copy =
            || file.try_clone().map_err(|_| failed("open the file", rustix::io::Errno::MFILE));
        // Without /proc the threads share the readahead state.
        let file = reopened(file, OFlags::RDONLY).or_else(|_| copy())?;
        Ok(Self { file, buffer })
    }

    pub(super) fn many(
        file: &File,
        bytes: usize,
        threads: usize,
        pool: &MemoryPool,
    ) -> Result<Vec<Self>, ReadError> {
        let buffer = || pool.take(bytes).map_err(|error| out_of_memory(bytes, error));
        (0..threads).map(|_| Self::new(file, buffer()?)).collect()
    }
}
