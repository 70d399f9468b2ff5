//! Links by pipes and FIFOs; the token is a byte.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open, unlink};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Link, read_byte, write_byte};
use crate::prelude::*;

/// The read end of one pipe and the write end of another, or of the same. With `LIBC` the calls go
/// through the C library's functions.
#[derive(Debug)]
pub(in crate::os) struct Piped<const LIBC: bool = false> {
    input: OwnedFd,
    output: OwnedFd,
}

impl<const LIBC: bool> Link for Piped<LIBC> {
    #[inline(always)]
    fn send(&self, token: u8) -> bool {
        if LIBC {
            // SAFETY: the token outlives the call, which reads one byte.
            unsafe { libc::write(self.output.as_raw_fd(), (&raw const token).cast(), 1) == 1 }
        } else {
            write_byte(&self.output, token)
        }
    }

    /// A dead peer's descriptors are closed, which gives end of file.
    #[inline(always)]
    fn receive(&self) -> Option<u8> {
        if LIBC {
            let mut token = 0_u8;
            // SAFETY: the token outlives the call, which writes one byte.
            let read = unsafe { libc::read(self.input.as_raw_fd(), (&raw mut token).cast(), 1) };
            (read == 1).then_some(token)
        } else {
            read_byte(&self.input)
        }
    }

    fn close(self) {
        drop(self);
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.input.as_raw_fd(), self.output.as_raw_fd()]
    }
}

/// Pipes from each of `ends` peers to the next; a single one has a pipe to itself.
pub(in crate::os) fn pipes(ends: usize) -> Result<Vec<Piped>> {
    ring(ends, pipe)
}

/// The same, read and written through the C library.
pub(in crate::os) fn libc_pipes(ends: usize) -> Result<Vec<Piped<true>>> {
    ring(ends, pipe)
}

/// The same with FIFOs, which have a name only until they are open.
pub(in crate::os) fn fifos(ends: usize) -> Result<Vec<Piped>> {
    ring(ends, fifo)
}

/// Each link reads from one pipe and writes into the next.
fn ring<const LIBC: bool>(
    ends: usize,
    pipe: impl Fn() -> Result<(OwnedFd, OwnedFd)>,
) -> Result<Vec<Piped<LIBC>>> {
    let pipes: Result<Vec<_>> = (0..ends).map(|_| pipe()).collect();
    let (inputs, mut outputs): (Vec<_>, Vec<_>) = pipes?.into_iter().unzip();
    let first = 1.min(outputs.len());
    // Each member writes to the pipe that the next one reads.
    outputs.rotate_left(first);
    Ok(inputs.into_iter().zip(outputs).map(|(input, output)| Piped { input, output }).collect())
}

pub(in crate::os) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| SamplerFault::system("pipe", error))
}

/// Read and write end of a new FIFO. The name exists for microseconds: a worker killed meanwhile
/// leaves an empty file in the temporary folder.
fn fifo() -> Result<(OwnedFd, OwnedFd)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fathom-{}-{number}.fifo", std::process::id());
    let path = std::env::temp_dir().join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(|error| {
        SamplerFault::unavailable(format!("mkfifo {}: {error}", path.display()), Remedy::FifoFolder)
    })?;
    let flags = OFlags::CLOEXEC;
    // NONBLOCK: opening for reading would wait for a writer.
    let ends =
        open(&path, flags | OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).and_then(|input| {
            let output = open(&path, flags | OFlags::WRONLY, Mode::empty())?;
            // Blocking again, without which a read would not wait for the token.
            fcntl_setfl(&input, OFlags::RDONLY)?;
            Ok((input, output))
        });
    let removed = unlink(&path);
    let ends = ends.map_err(|error| SamplerFault::system("open a FIFO", error))?;
    removed.map_err(|error| SamplerFault::system("remove a FIFO", error))?;
    Ok(ends)
}
