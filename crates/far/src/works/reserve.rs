//! The space that rounds of files may take together: half of what is free.
//!
//! Each far end is a process of its own. A reservation is a shared lock on a range of the folder,
//! which stands for that many bytes: the kernel ends it with its process, and the ranges of all
//! rounds into this folder are disjoint. It lasts while files are received; from then on they are
//! no longer free space.

use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use fathom_fileio::folder::space;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::protocol::WAIT_NS;
use crate::protocol::channel::Deadline;
use crate::protocol::error::FarError;

/// Another round holds the folder only while it looks for its range.
const RETRY: Duration = Duration::from_millis(1);

/// Space for a round, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    _folder: OwnedFd,
}

impl Reserve {
    /// # Errors
    /// If rounds would take more than half of the free space.
    pub(crate) fn new(folder: &Path, bytes: u64) -> Result<Self, FarError> {
        let own = File::open(folder).map_err(FarError::system("open the folder"))?;
        let until = Deadline::after(WAIT_NS);
        while let Err(error) = flock(&own, FlockOperation::NonBlockingLockExclusive) {
            if error != Errno::WOULDBLOCK || until.is_over() {
                return Err(FarError::errno("lock the folder")(error));
            }
            std::thread::sleep(RETRY);
        }
        let free = space(folder).map_err(FarError::errno("statvfs"))?.free;
        let mut others = 0_u64;
        // A range of no bytes would be one without an end.
        let length = bytes.max(1);
        while others.saturating_add(bytes) <= free / 2 {
            // Any lock would be in the way of this one, which is only asked about.
            let found = lock(&own, libc::F_OFD_GETLK, libc::F_WRLCK, (others, length))?;
            if found.l_type == libc::F_UNLCK as libc::c_short {
                lock(&own, libc::F_OFD_SETLK, libc::F_RDLCK, (others, length))?;
                flock(&own, FlockOperation::Unlock).map_err(FarError::errno("unlock"))?;
                return Ok(Self { _folder: own.into() });
            }
            others = match found.l_len {
                // Up to the end, by another program.
                0 => u64::MAX,
                taken => (found.l_start + taken) as u64,
            };
        }
        Err(FarError::NoSpace { bytes, others, free })
    }
}

/// Locks a range, or asks which lock is in the way. Its owner is the open file, not the process.
fn lock(
    folder: &File,
    command: libc::c_int,
    kind: libc::c_int,
    (start, length): (u64, u64),
) -> Result<libc::flock, FarError> {
    // SAFETY: all zeroes are a value of the structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    (lock.l_start, lock.l_len) = (start as libc::off_t, length as libc::off_t);
    // SAFETY: the structure outlives the call.
    match unsafe { libc::fcntl(folder.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(FarError::system("lock a range of the folder")(Error::last_os_error())),
        _ => Ok(lock),
    }
}
