//! Memory that the worker shares with the processes it makes.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use fathom_measure::sampler::Fault;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What may lie in shared memory.
///
/// # Safety
/// All bytes zero must be a valid value, and every change must be one that several processes may
/// make at once: atomics, or what the kernel or the C library guards.
pub(crate) unsafe trait Shareable {}

/// A value in a mapping of its own, zero at first. It has no name, and is gone with the last
/// process that has it mapped, however that ends.
#[derive(Debug)]
pub(crate) struct Shared<T: Shareable> {
    place: *mut T,
    owns: PhantomData<T>,
}

impl<T: Shareable> Shared<T> {
    pub(crate) fn zeroed() -> Result<Self, Fault> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses, aligned to a page.
        let place = unsafe {
            mmap_anonymous(ptr::null_mut(), size_of::<T>(), protection, MapFlags::SHARED)
        };
        let place = place.map_err(|error| Fault::system("mmap", error))?;
        Ok(Self { place: place.cast(), owns: PhantomData })
    }
}

impl<T: Shareable> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is as large as the value, lives as long as self, and is a valid one
        // from the first moment, as `Shareable` says.
        unsafe { &*self.place }
    }
}

// SAFETY: what can be changed through `&T` may be changed by several at once, as `Shareable` says.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: likewise.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.place.cast(), size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::os::child::fork;
    use crate::smoke;

    struct Number(AtomicU64);

    // SAFETY: an atomic.
    unsafe impl Shareable for Number {}

    #[test]
    fn what_a_child_writes_is_seen() {
        let _alone = smoke::alone();
        let number = Shared::<Number>::zeroed().unwrap();
        // SAFETY: a store and no more.
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
