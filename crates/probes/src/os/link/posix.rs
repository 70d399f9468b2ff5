//! Links by POSIX semaphores in shared memory: a futex each, behind the C library's counters.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;

use fathom_measure::sampler::Fault;

use super::{Alarm, Link, Token};
use crate::os::shared::{Shareable, Shared};

/// An end that waits for its own semaphore and posts the other's.
pub(in crate::os) struct Posix {
    memory: Arc<Shared<Semaphores>>,
    own: usize,
}

/// One semaphore for each end, on cache lines of their own, and the token.
struct Semaphores {
    semaphores: [Semaphore; 2],
    token: Token,
}

#[repr(align(128))]
struct Semaphore(UnsafeCell<libc::sem_t>);

// SAFETY: a semaphore of zeroes is overwritten by `sem_init` before it is used, and is made for
// several processes; the token is atomic.
unsafe impl Shareable for Semaphores {}

impl Semaphores {
    fn post(&self, index: usize) -> bool {
        // SAFETY: the semaphore was made by `sem_init` and lives as long as self.
        unsafe { libc::sem_post(self.semaphores[index].0.get()) == 0 }
    }

    fn wait(&self, index: usize) -> bool {
        // SAFETY: likewise.
        while unsafe { libc::sem_wait(self.semaphores[index].0.get()) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
        true
    }
}

/// Two ends, joined by two semaphores.
pub(in crate::os) fn semaphores() -> Result<Vec<Posix>, Fault> {
    let memory = Arc::new(Shared::<Semaphores>::zeroed()?);
    for semaphore in &memory.semaphores {
        // SAFETY: the place is ours, large enough and shared with nobody yet.
        if unsafe { libc::sem_init(semaphore.0.get(), 1, 0) } != 0 {
            return Err(Fault::system("sem_init", io::Error::last_os_error()));
        }
    }
    Ok([0, 1].map(|own| Posix { memory: Arc::clone(&memory), own }).into())
}

impl Link for Posix {
    #[inline]
    fn pass(&self, token: u8) -> bool {
        self.memory.token.put(token);
        self.memory.post(1 - self.own)
    }

    #[inline]
    fn take(&self) -> Option<u8> {
        self.memory.wait(self.own).then(|| self.memory.token.get())?
    }

    fn hang_up(self) {
        self.memory.token.no_more();
        self.memory.post(1 - self.own);
    }

    fn alarm(&self) -> Option<Alarm> {
        let (memory, own) = (Arc::clone(&self.memory), self.own);
        Some(Box::new(move || {
            memory.token.no_more();
            memory.post(own);
        }))
    }
}
