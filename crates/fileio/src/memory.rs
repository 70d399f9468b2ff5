//! I/O buffers: page-aligned, as direct I/O requires, and faulted in before a timed use.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

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
        let mut pages = Self::untouched(length)?;
        // Writes to each page, so that no page fault falls into a timed read. black_box keeps the
        // compiler from removing the first store.
        for byte in pages.iter_mut().step_by(page()) {
            *byte = 1;
            std::hint::black_box(&*byte);
            *byte = 0;
        }
        Ok(pages)
    }

    /// As [`Self::new`], faulted in when it is used: for what is seldom used.
    pub(crate) fn untouched(length: usize) -> rustix::io::Result<Self> {
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
        // Fewer TLB misses; smaller buffers cannot contain a huge page.
        if length >= HUGE {
            // SAFETY: the range is the mapping just made; the advice changes no byte.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        }
        Ok(Self { start, length })
    }
}

/// Buffers that are used again: to fault one in takes as long as to read it several times.
#[derive(Debug, Default)]
pub(crate) struct MemoryPool(Mutex<Vec<MemoryPages>>);

impl MemoryPool {
    pub(crate) fn take(&self, length: usize) -> rustix::io::Result<MemoryPages> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match free.iter().position(|pages| pages.length == length) {
            Some(at) => Ok(free.swap_remove(at)),
            None => MemoryPages::new(length),
        }
    }

    pub(crate) fn give(&self, pages: MemoryPages) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(pages);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_one_size_are_used_again() {
        let pool = MemoryPool::default();
        let place = |pages: &MemoryPages| (pages.start, pages.length);
        let [small, large] = [4096, HUGE].map(|length| pool.take(length).unwrap());
        let known = [place(&small), place(&large)];
        pool.give(small);
        pool.give(large);
        let again = [4096, HUGE].map(|length| pool.take(length).unwrap());
        assert_eq!(again.each_ref().map(place), known);
        let other = pool.take(HUGE).unwrap();
        assert_ne!(place(&other), known[1], "one user at a time");
    }
}
