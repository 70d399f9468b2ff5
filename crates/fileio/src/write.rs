//! Writes a file of generated data and times each phase: data, sync, close and rename.
//!
//! The file gets its name when it is complete. After a full disk, a stop or an error on close no
//! file is left.

use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::Clock;
use rustix::fs::{FileType, fdatasync, lstat};
use rustix::io::Errno;

use crate::folder::write_cause;
use crate::generate::FileGenerator;
use crate::memory::{MemoryPages, page};
use crate::read::{BLOCK_MAX, NEVER_STOP};
use crate::scratch::Scratch;
use crate::sum::XorSum;
use crate::syscall::cachestat;

/// Half of the smallest current L2 cache: the data is still cached when it is written.
const BUFFER: usize = 256 << 10;

/// When to call fdatasync(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    None,
    AtEnd,
    EachBlock,
}

#[derive(Clone, Debug)]
pub struct WriteRequest<'a> {
    /// Bytes per call.
    pub block: usize,
    /// Number of blocks.
    pub count: u64,
    pub seed: u64,
    pub sync: SyncMode,
    /// Replace an existing regular file.
    pub overwrite: bool,
    /// Checked between blocks; true ends the write and leaves no file.
    pub stop: &'a AtomicBool,
}

impl WriteRequest<'_> {
    /// Without sync and overwrite.
    pub fn new(block: usize, count: u64) -> Self {
        Self { block, count, seed: 0, sync: SyncMode::None, overwrite: false, stop: &NEVER_STOP }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteOutcome {
    /// Of the bytes written.
    pub sum: XorSum,
    pub calls: u64,
    pub data_ns: f64,
    pub sync_ns: f64,
    pub syncs: u64,
    /// Dirty bytes before the first sync, by cachestat.
    pub unsynced: Option<u64>,
    pub close_ns: f64,
    /// Linking or renaming. Some file systems write the data when a rename replaces a file.
    pub name_ns: f64,
    /// Generating and summing the data, not included in the other times.
    pub generate_ns: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{0}")]
    Invalid(String),
    #[error("write {path}: the file exists")]
    Exists { path: PathBuf },
    /// The path is not a regular file.
    #[error("write {path}: {what}")]
    InUse { path: PathBuf, what: &'static str },
    #[error("write {path}: stopped after {after} bytes; nothing is left")]
    Stopped { path: PathBuf, after: u64 },
    #[error(
        "{what} {path}: after {after} bytes, of which nothing is left: {}",
        write_cause(.path, *.error)
    )]
    Failed { what: &'static str, path: PathBuf, after: u64, error: Errno },
}

/// Writes a file of generated data. On error no new file is left, and an existing one is unchanged.
pub fn write(
    path: &Path,
    request: &WriteRequest<'_>,
    clock: &Clock,
) -> Result<WriteOutcome, WriteError> {
    check(path, request)?;
    let mut written = WriteOutcome::default();
    let failed = |what, error, written: &WriteOutcome| WriteError::Failed {
        what,
        path: path.to_owned(),
        after: written.sum.bytes,
        error,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let scratch = Scratch::new(folder.unwrap_or(Path::new(".")))
        .map_err(|error| failed("create a file for", error, &written))?;
    if let Err(error) = fill(scratch.file(), request, clock, &mut written) {
        return Err(match error {
            FillError::Stopped => {
                WriteError::Stopped { path: path.to_owned(), after: written.sum.bytes }
            }
            FillError::Failed(what, error) => failed(what, error, &written),
        });
    }
    let begin = clock.start();
    let published = scratch.publish(path, request.overwrite);
    written.name_ns = clock.ns(begin, clock.stop());
    let file = published.map_err(|error| match error {
        Errno::EXIST => WriteError::Exists { path: path.to_owned() },
        error => failed("name", error, &written),
    })?;
    let closing = clock.start();
    let closed = close(file);
    written.close_ns = clock.ns(closing, clock.stop());
    if let Err(error) = closed {
        // Some file systems report ENOSPC only on close.
        let _ = rustix::fs::unlink(path);
        return Err(failed("close", error, &written));
    }
    Ok(written)
}

fn check(path: &Path, request: &WriteRequest<'_>) -> Result<(), WriteError> {
    let (block, count) = (request.block, request.count);
    if block == 0 || block > BLOCK_MAX {
        let text = format!("block size {block}: must be 1 to {BLOCK_MAX} bytes");
        return Err(WriteError::Invalid(text));
    }
    if (block as u64).checked_mul(count).is_none_or(|bytes| bytes > i64::MAX as u64) {
        let text = format!("{count} blocks of {block} bytes exceed the maximum file size");
        return Err(WriteError::Invalid(text));
    }
    let Ok(found) = lstat(path) else { return Ok(()) };
    let path = path.to_owned();
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            Err(WriteError::InUse { path, what: "it is a directory; name a file in it" })
        }
        FileType::RegularFile if request.overwrite => Ok(()),
        FileType::RegularFile => Err(WriteError::Exists { path }),
        _ => Err(WriteError::InUse { path, what: "not a regular file; give another name" }),
    }
}

enum FillError {
    Stopped,
    /// The operation and its error.
    Failed(&'static str, Errno),
}

/// Generates and writes whole blocks, one buffer at a time.
fn fill(
    file: &File,
    request: &WriteRequest<'_>,
    clock: &Clock,
    written: &mut WriteOutcome,
) -> Result<(), FillError> {
    let block = request.block;
    let mut buffer = MemoryPages::new((BUFFER / block).max(1) * block)
        .map_err(|error| FillError::Failed("allocate memory for", error))?;
    let generator = FileGenerator::new(request.seed);
    let total = block as u64 * request.count;
    let mut at = 0;
    // Generating alternates with writing, so that memory need not hold the whole file.
    while at < total {
        if request.stop.load(Ordering::Relaxed) {
            return Err(FillError::Stopped);
        }
        let length = (total - at).min(buffer.len() as u64) as usize;
        let begin = clock.start();
        generator.fill(at, &mut buffer[..length]);
        let mut sum = XorSum::default();
        sum.add(at, &buffer[..length]);
        written.generate_ns += clock.ns(begin, clock.stop());
        write_blocks(file, request, clock, &buffer[..length], written)?;
        // Merged after the write, so that the sum never covers bytes that failed; `write_all`
        // counts the bytes.
        let bytes = written.sum.bytes;
        written.sum.merge(&sum);
        written.sum.bytes = bytes;
        at += length as u64;
    }
    if request.sync == SyncMode::AtEnd {
        sync(file, clock, written)?;
    }
    Ok(())
}

/// Writes a buffer in blocks. Reads the clock once per buffer or sync: for every block of one byte
/// it would cost a fifth of the call.
fn write_blocks(
    file: &File,
    request: &WriteRequest<'_>,
    clock: &Clock,
    bytes: &[u8],
    written: &mut WriteOutcome,
) -> Result<(), FillError> {
    // A sync after each block has to be timed apart, and costs far more than two clock reads.
    let at_once = if request.sync == SyncMode::EachBlock { request.block } else { bytes.len() };
    for part in bytes.chunks(at_once) {
        let begin = clock.start();
        let mut result = Ok(());
        for block in part.chunks(request.block) {
            result = write_all(file, block, written);
            if result.is_err() {
                break;
            }
        }
        written.data_ns += clock.ns(begin, clock.stop());
        result.map_err(|error| FillError::Failed("write", error))?;
        if request.sync == SyncMode::EachBlock {
            sync(file, clock, written)?;
            if request.stop.load(Ordering::Relaxed) {
                return Err(FillError::Stopped);
            }
        }
    }
    Ok(())
}

fn write_all(file: &File, mut block: &[u8], written: &mut WriteOutcome) -> Result<(), Errno> {
    while !block.is_empty() {
        written.calls += 1;
        match rustix::io::write(file, block) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(done) => {
                written.sum.bytes += done as u64;
                block = &block[done..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn sync(file: &File, clock: &Clock, written: &mut WriteOutcome) -> Result<(), FillError> {
    // Only once: cachestat before every sync would cost as much as the write.
    if written.syncs == 0 {
        let found = cachestat(file.as_fd(), 0, 0).ok();
        let bytes = |pages: u64| pages * page() as u64;
        written.unsynced = found.map(|found| bytes(found.dirty + found.writeback));
    }
    written.syncs += 1;
    let begin = clock.start();
    // Not fsync, which also writes timestamps, in some file systems by a journal commit.
    let synced = fdatasync(file);
    written.sync_ns += clock.ns(begin, clock.stop());
    synced.map_err(|error| FillError::Failed("sync", error))
}

/// Closes a file and returns the error that dropping it would ignore: some file systems report
/// failed writes only here.
fn close(file: File) -> Result<(), Errno> {
    // SAFETY: `into_raw_fd` gave up the ownership of this open descriptor.
    let done = unsafe { libc::close(file.into_raw_fd()) };
    let error = std::io::Error::last_os_error();
    // Linux closes the descriptor even if close is interrupted.
    match Errno::from_io_error(&error) {
        _ if done == 0 => Ok(()),
        Some(Errno::INTR) => Ok(()),
        error => Err(error.unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd as _;

    use super::*;

    #[test]
    fn error_of_close_is_returned() {
        // SAFETY: no descriptor has this number, so that closing it closes nothing.
        let none = unsafe { File::from_raw_fd(i32::MAX) };
        assert_eq!(close(none), Err(Errno::BADF));
        assert_eq!(close(tempfile::tempfile().unwrap()), Ok(()));
    }
}
