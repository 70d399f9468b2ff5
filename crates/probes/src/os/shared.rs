//! Memory shared between the worker and its child processes.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::prelude::*;

/// A type that may be placed in shared memory.
///
/// # Safety
/// All bytes zero must be a valid value, and every change through `&T` must be safe from several
/// processes at once: atomics, or objects that the kernel or the C library synchronizes.
pub(crate) unsafe trait Shareable {}

/// A zero-initialized value in an anonymous shared mapping, which the kernel frees with the last
/// process that has it mapped.
#[derive(Debug)]
pub(crate) struct SharedPage<T: Shareable> {
    mapping: *mut T,
    owns: PhantomData<T>,
}

impl<T: Shareable> SharedPage<T> {
    pub(crate) fn zeroed() -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses, page-aligned.
        let mapping = unsafe {
            mmap_anonymous(ptr::null_mut(), size_of::<T>(), protection, MapFlags::SHARED)
        };
        let mapping = mapping.map_err(|error| SamplerFault::system("mmap", error))?;
        Ok(Self { mapping: mapping.cast(), owns: PhantomData })
    }
}

impl<T: Shareable> Deref for SharedPage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping holds a `T`, lives as long as self, and zero bytes are a valid `T`
        // (`Shareable`).
        unsafe { &*self.mapping }
    }
}

// SAFETY: changes through `&T` are synchronized (`Shareable`).
unsafe impl<T: Shareable> Send for SharedPage<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedPage<T> {}

impl<T: Shareable> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to self, and no reference into it outlives self.
        let unmapped = unsafe { munmap(self.mapping.cast(), size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "munmap fails only for an invalid address");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::os::child::fork;

    struct SharedNumber(AtomicU64);

    // SAFETY: an atomic.
    unsafe impl Shareable for SharedNumber {}

    #[test]
    fn parent_reads_what_child_writes() {
        let number = SharedPage::<SharedNumber>::zeroed().unwrap();
        // SAFETY: a single atomic store.
        let child = unsafe {
            fork(|| {
                number.0.store(7, Ordering::Relaxed);
                0
            })
        };
        child.unwrap().wait_for(0).unwrap();
        assert_eq!(number.0.load(Ordering::Relaxed), 7);
    }
}
