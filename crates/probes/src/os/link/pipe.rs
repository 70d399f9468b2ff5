//! Links by pipes and FIFOs. A byte is the token.

use fathom_record::Remedy;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use fathom_measure::sampler::Fault;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open, unlink};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Link, read_byte, write_byte};

/// The reading end of one pipe and the writing end of another, or of the same.
#[derive(Debug)]
pub(in crate::os) struct Piped {
    input: OwnedFd,
    output: OwnedFd,
}

impl Link for Piped {
    #[inline(always)]
    fn pass(&self, token: u8) -> bool {
        write_byte(&self.output, token)
    }

    /// The end of file is the end of the work: an end that dies closes its descriptors.
    #[inline(always)]
    fn take(&self) -> Option<u8> {
        read_byte(&self.input)
    }

    fn hang_up(self) {
        drop(self);
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.input.as_raw_fd(), self.output.as_raw_fd()]
    }
}

/// The same, by the C library's calls: procedures, which return.
#[derive(Debug)]
pub(in crate::os) struct Called(Piped);

impl Link for Called {
    #[inline(always)]
    fn pass(&self, token: u8) -> bool {
        // SAFETY: one byte is read from the token.
        unsafe { libc::write(self.0.output.as_raw_fd(), (&raw const token).cast(), 1) == 1 }
    }

    #[inline(always)]
    fn take(&self) -> Option<u8> {
        let mut token = 0_u8;
        // SAFETY: one byte is written to the token.
        let done = unsafe { libc::read(self.0.input.as_raw_fd(), (&raw mut token).cast(), 1) };
        (done == 1).then_some(token)
    }

    fn hang_up(self) {
        self.0.hang_up();
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.0.descriptors()
    }
}

/// Pipes that are read and written by the C library.
pub(in crate::os) fn called(ends: usize) -> Result<Vec<Called>, Fault> {
    Ok(pipes(ends)?.into_iter().map(Called).collect())
}

/// Pipes from each end to the next; an end alone has a pipe to itself.
pub(in crate::os) fn pipes(ends: usize) -> Result<Vec<Piped>, Fault> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| Fault::system("pipe", error));
    let pipes: Result<Vec<_>, Fault> = (0..ends).map(|_| pipe()).collect();
    Ok(ring(pipes?))
}

/// The same through FIFOs, which have a name for as long as it takes to open them.
pub(in crate::os) fn fifos(ends: usize) -> Result<Vec<Piped>, Fault> {
    let fifos: Result<Vec<_>, Fault> = (0..ends).map(|_| fifo()).collect();
    Ok(ring(fifos?))
}

/// Each end reads from one pipe and writes into the next.
fn ring(pipes: Vec<(OwnedFd, OwnedFd)>) -> Vec<Piped> {
    let (inputs, mut outputs): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let first = 1.min(outputs.len());
    outputs.rotate_left(first);
    inputs.into_iter().zip(outputs).map(|(input, output)| Piped { input, output }).collect()
}

/// The ends of a new FIFO to read from and to write into. Its name is there for microseconds: a
/// worker that is killed just then leaves an empty file in the folder for temporary ones.
fn fifo() -> Result<(OwnedFd, OwnedFd), Fault> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fathom-{}-{number}.fifo", std::process::id());
    let path = std::env::temp_dir().join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(|error| {
        Fault::unavailable(format!("mkfifo {}: {error}", path.display()), Remedy::FifoFolder)
    })?;
    let flags = OFlags::CLOEXEC;
    // Without waiting for a writer, and once there is a reader nor for that.
    let ends =
        open(&path, flags | OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).and_then(|input| {
            let output = open(&path, flags | OFlags::WRONLY, Mode::empty())?;
            fcntl_setfl(&input, OFlags::RDONLY)?;
            Ok((input, output))
        });
    let removed = unlink(&path);
    let ends = ends.map_err(|error| Fault::system("opening a FIFO", error))?;
    removed.map_err(|error| Fault::system("removing a FIFO", error))?;
    Ok(ends)
}
