//! I/O buffers: page-aligned, as direct I/O requires, and faulted in before use.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Huge pages are requested from this size on.
const HUGE: usize = 2 << 20;

/// Zeroed pages, unmapped on drop.
#[derive(Debug)]
pub struct MemoryPages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: this value owns the pages, like a `Box<[u8]>`.
unsafe impl Send for MemoryPages {}
// SAFETY: as above; a shared reference gives shared bytes only.
unsafe impl Sync for MemoryPages {}

impl MemoryPages {
    /// Fails for length 0 and where memory or address space is exhausted.
    pub fn new(length: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel affects no existing memory.
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
        // Fewer TLB misses; smaller buffers cannot contain a huge page.
        if length >= HUGE {
            // SAFETY: the range is the mapping just made; the advice changes no byte.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        }
        // Writes to each page, so that no page fault falls into a timed read. black_box keeps the
        // compiler from removing the first store.
        for byte in pages.iter_mut().step_by(page()) {
            *byte = 1;
            std::hint::black_box(&*byte);
            *byte = 0;
        }
        Ok(pages)
    }
}

impl Deref for MemoryPages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is readable, zeroed by the kernel and owned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for MemoryPages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for MemoryPages {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

pub(crate) fn page() -> usize {
    rustix::param::page_size()
}
