//! Writing a file: so many blocks of generated data, and what each part of it took.
//!
//! The file gets its name when all of it is there. Whatever goes wrong before, a full disk, a
//! stop, an error when it is closed, nothing is left of it.

use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::Clock;
use rustix::fs::{FileType, fdatasync, lstat};
use rustix::io::Errno;

use crate::generate::Generator;
use crate::kernel::cachestat;
use crate::memory::{Pages, page};
use crate::read::{BLOCK_MAX, NEVER};
use crate::scratch::Scratch;
use crate::sum::Sum;

/// Half of the smallest second-level cache of today: the data is given away before it leaves it.
const BUFFER: usize = 256 << 10;

/// When what is written is to be on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    None,
    Data,
    Every,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Bytes of a block: one call writes exactly these.
    pub block: usize,
    pub count: u64,
    pub seed: u64,
    /// When it is to be on the device.
    pub sync: Sync,
    /// Whether a regular file of the name may be replaced.
    pub overwrite: bool,
    /// Looked at between blocks; true ends the write, and nothing is left.
    pub stop: &'a AtomicBool,
}

impl Request<'_> {
    /// So many blocks, not synced, replacing nothing.
    pub fn new(block: usize, count: u64) -> Self {
        Self { block, count, seed: 0, sync: Sync::None, overwrite: false, stop: &NEVER }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The sums of what was given to the kernel.
    pub sum: Sum,
    pub calls: u64,
    pub data_ns: f64,
    pub sync_ns: f64,
    pub syncs: u64,
    /// Bytes that were not on the device before the first sync, by cachestat, where that tells.
    pub unsynced: Option<u64>,
    pub close_ns: f64,
    /// Giving the file its name. Some file systems write a file's data when it replaces another.
    pub name_ns: f64,
    /// Making and adding up the data, which is in none of the others.
    pub generate_ns: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A file of the name is there, which was not to be replaced.
    #[error("write {path}: the file exists")]
    Exists {
        path: PathBuf,
    },
    /// The name is in use by what is never replaced.
    #[error("write {path}: {what}")]
    InUse {
        path: PathBuf,
        /// By what, and what to do.
        what: &'static str,
    },
    /// It was told to stop.
    #[error("write {path}: stopped after {after} bytes; nothing is left")]
    Stopped {
        path: PathBuf,
        after: u64,
    },
    #[error("{what} {path}: {error} after {after} bytes; nothing is left")]
    Failed {
        what: &'static str,
        path: PathBuf,
        /// Bytes that had been written.
        after: u64,
        error: Errno,
    },
}

/// Writes a file of generated data.
///
/// # Errors
/// In each case nothing is left of it, and a file that was there is as it was.
pub fn write(path: &Path, request: &Request<'_>, clock: &Clock) -> Result<Written, WriteError> {
    check(path, request)?;
    let mut written = Written::default();
    let failed = |what, error, written: &Written| WriteError::Failed {
        what,
        path: path.to_owned(),
        after: written.sum.bytes,
        error,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let scratch = Scratch::new(folder.unwrap_or(Path::new(".")))
        .map_err(|error| failed("make a file for", error, &written))?;
    if let Err(met) = fill(scratch.file(), request, clock, &mut written) {
        return Err(match met {
            Met::Stop => WriteError::Stopped { path: path.to_owned(), after: written.sum.bytes },
            Met::Error(what, error) => failed(what, error, &written),
        });
    }
    let begin = clock.start();
    let published = scratch.publish(path, request.overwrite);
    written.name_ns = clock.ns(begin, clock.stop());
    let file = published.map_err(|error| match error {
        Errno::EXIST => WriteError::Exists { path: path.to_owned() },
        error => failed("name", error, &written),
    })?;
    let begin = clock.start();
    let closed = close(file);
    written.close_ns = clock.ns(begin, clock.stop());
    if let Err(error) = closed {
        // Some file systems say only now that there was no room.
        let _ = rustix::fs::unlink(path);
        return Err(failed("close", error, &written));
    }
    Ok(written)
}

fn check(path: &Path, request: &Request<'_>) -> Result<(), WriteError> {
    let (block, count) = (request.block, request.count);
    if block == 0 || block > BLOCK_MAX {
        let text = format!("a block of {block} bytes; give 1 to {BLOCK_MAX}");
        return Err(WriteError::Invalid(text));
    }
    if (block as u64).checked_mul(count).is_none_or(|bytes| bytes > i64::MAX as u64) {
        let text = format!("{count} blocks of {block} bytes; no file is that long");
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

enum Met {
    Stop,
    Error(&'static str, Errno),
}

/// Makes as many whole blocks as fit into the buffer, and writes them; then the next.
fn fill(
    file: &File,
    request: &Request<'_>,
    clock: &Clock,
    written: &mut Written,
) -> Result<(), Met> {
    let block = request.block;
    let mut buffer = Pages::new((BUFFER / block).max(1) * block)
        .map_err(|error| Met::Error("get memory for", error))?;
    let generator = Generator::new(request.seed);
    let total = block as u64 * request.count;
    let mut at = 0;
    while at < total {
        if request.stop.load(Ordering::Relaxed) {
            return Err(Met::Stop);
        }
        let length = (total - at).min(buffer.len() as u64) as usize;
        let begin = clock.start();
        generator.fill(at, &mut buffer[..length]);
        let mut sum = Sum::default();
        sum.add(at, &buffer[..length]);
        written.generate_ns += clock.ns(begin, clock.stop());
        blocks(file, request, clock, &buffer[..length], written)?;
        // Added when it is written: what failed is not.
        let bytes = written.sum.bytes;
        written.sum.merge(&sum);
        written.sum.bytes = bytes;
        at += length as u64;
    }
    if request.sync == Sync::Data {
        sync(file, clock, written)?;
    }
    Ok(())
}

/// Writes a buffer in blocks. The clock is read once a buffer, or once a sync: reading it for
/// every block of a byte would cost a fifth of the call.
fn blocks(
    file: &File,
    request: &Request<'_>,
    clock: &Clock,
    bytes: &[u8],
    written: &mut Written,
) -> Result<(), Met> {
    let at_once = if request.sync == Sync::Every { request.block } else { bytes.len() };
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
        result.map_err(|error| Met::Error("write", error))?;
        if request.sync == Sync::Every {
            sync(file, clock, written)?;
            if request.stop.load(Ordering::Relaxed) {
                return Err(Met::Stop);
            }
        }
    }
    Ok(())
}

fn write_all(file: &File, mut block: &[u8], written: &mut Written) -> Result<(), Errno> {
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

fn sync(file: &File, clock: &Clock, written: &mut Written) -> Result<(), Met> {
    // A look at every sync of a block would cost as much as the block.
    if written.syncs == 0 {
        let found = cachestat(file.as_fd(), 0, 0).ok();
        let bytes = |pages: u64| pages * page() as u64;
        written.unsynced = found.map(|found| bytes(found.dirty + found.writeback));
    }
    written.syncs += 1;
    let begin = clock.start();
    let synced = fdatasync(file);
    written.sync_ns += clock.ns(begin, clock.stop());
    synced.map_err(|error| Met::Error("sync", error))
}

/// Closes a file, and says what the kernel said: the last word on whether it was written.
fn close(file: File) -> Result<(), Errno> {
    // SAFETY: the number is that of an open file which nothing else owns any more.
    let done = unsafe { libc::close(file.into_raw_fd()) };
    let error = std::io::Error::last_os_error();
    // Linux has closed it even where it was interrupted.
    match Errno::from_io_error(&error) {
        _ if done == 0 => Ok(()),
        Some(Errno::INTR) => Ok(()),
        error => Err(error.unwrap_or(Errno::IO)),
    }
}
