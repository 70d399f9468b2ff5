//! Memory for blocks: whole pages, as direct reads want it, touched before it is used.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// From this size on, huge pages are asked for.
const HUGE: usize = 2 << 20;

/// Some pages of zeroes, unmapped when dropped.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to this value alone, like a `Box<[u8]>`.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared reference gives shared bytes only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages for `length` bytes, present in memory.
    pub fn new(length: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping where the kernel finds room touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mut pages = Self { start, length };
        if length >= HUGE {
            // SAFETY: the range is the mapping just made; the advice changes no byte.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        }
        for byte in pages.iter_mut().step_by(page()) {
            *byte = 1;
            std::hint::black_box(&*byte);
            *byte = 0;
        }
        Ok(pages)
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, readable, initialised by the kernel and ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has a reference while this one lives.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

pub(crate) fn page() -> usize {
    rustix::param::page_size()
}
