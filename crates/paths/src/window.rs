//! A mapped window of a file or device, for calls of the kernel only.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::PathError;

/// Mapped bytes. No reference to them exists: other processes may change or truncate the file.
#[derive(Debug)]
pub(crate) struct Window {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value, which never touches its bytes.
unsafe impl Send for Window {}

impl Window {
    /// Maps `length` bytes at the page-aligned offset `at`, shared with the file.
    pub(crate) fn new(
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
        access: ProtFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address chosen by the kernel affects no existing memory.
        let start = unsafe { mmap(null_mut(), length, access, MapFlags::SHARED, file, at)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, length })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The address and length of a part, for a system call.
    pub(crate) fn part(&self, part: Range<usize>) -> (*mut libc::c_void, usize) {
        assert!(part.start <= part.end && part.end <= self.length, "a part of the window");
        // SAFETY: within the mapping, as just checked.
        let start = unsafe { self.start.as_ptr().add(part.start) };
        (start.cast(), part.len())
    }

    /// Reads up to as many bytes of a file into its beginning.
    pub(crate) fn read_from(&self, file: BorrowedFd<'_>, most: usize) -> Result<usize, PathError> {
        let (start, length) = self.part(0..most);
        // SAFETY: the part is mapped, and no reference to its bytes exists.
        let done = unsafe { libc::read(file.as_raw_fd(), start, length) };
        result(done).map_err(PathError::in_call("read"))
    }

    /// Writes a part of it to a file, from byte `at`.
    pub(crate) fn write_to(
        &self,
        file: BorrowedFd<'_>,
        part: Range<usize>,
        at: u64,
    ) -> Result<usize, PathError> {
        let (start, length) = self.part(part);
        // SAFETY: the part is mapped, and no reference to its bytes exists.
        let done = unsafe { libc::pwrite(file.as_raw_fd(), start, length, at as libc::off_t) };
        result(done).map_err(PathError::in_call("write"))
    }

    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The entry of its first page in /proc/self/pagemap, if that is readable.
    pub(crate) fn pagemap_entry(&self) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;
        let page = self.address() / rustix::param::page_size() as u64;
        let mut entry = [0; 8];
        let file = std::fs::File::open("/proc/self/pagemap").ok()?;
        file.read_exact_at(&mut entry, page * 8).ok()?;
        Some(u64::from_ne_bytes(entry))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and calls that used it have returned.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The result of a system call.
pub(crate) fn result(done: isize) -> Result<usize, Errno> {
    usize::try_from(done).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
