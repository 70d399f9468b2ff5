//! Links by POSIX semaphores in shared memory.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;

use super::{Link, LinkToken, OnPeerDeath};
use crate::os::shared::{Shareable, SharedPage};
use crate::prelude::*;

/// A peer that waits for its own semaphore and posts the other's.
pub(in crate::os) struct Posix {
    memory: Arc<SharedPage<Semaphores>>,
    own: usize,
}

struct Semaphores {
    semaphores: [Semaphore; 2],
    token: LinkToken,
}

/// Two cache lines: adjacent-line prefetching would otherwise make the peers share one.
#[repr(align(128))]
struct Semaphore(UnsafeCell<libc::sem_t>);

// SAFETY: `sem_init` overwrites the zeroed semaphores before use and makes them process-shared; the
// token is atomic.
unsafe impl Shareable for Semaphores {}

impl Semaphores {
    fn post(&self, index: usize) -> bool {
        // SAFETY: `sem_init` initialized the semaphore, which lives as long as self.
        unsafe { libc::sem_post(self.semaphores[index].0.get()) == 0 }
    }

    fn wait(&self, index: usize) -> bool {
        // SAFETY: as above.
        while unsafe { libc::sem_wait(self.semaphores[index].0.get()) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
        true
    }

    fn close(&self, index: usize) {
        self.token.close();
        self.post(index);
    }
}

pub(in crate::os) fn semaphores() -> Result<Vec<Posix>> {
    let memory = Arc::new(SharedPage::<Semaphores>::zeroed()?);
    for semaphore in &memory.semaphores {
        // SAFETY: the memory is large enough and not shared yet.
        if unsafe { libc::sem_init(semaphore.0.get(), 1, 0) } != 0 {
            return Err(SamplerFault::system("sem_init", io::Error::last_os_error()));
        }
    }
    Ok([0, 1].map(|own| Posix { memory: Arc::clone(&memory), own }).into())
}

impl Link for Posix {
    #[inline]
    fn send(&self, token: u8) -> bool {
        self.memory.token.store(token);
        self.memory.post(1 - self.own)
    }

    #[inline]
    fn receive(&self) -> Option<u8> {
        self.memory.wait(self.own).then(|| self.memory.token.load())?
    }

    fn close(self) {
        self.memory.close(1 - self.own);
    }

    fn on_peer_death(&self) -> Option<OnPeerDeath> {
        let (memory, own) = (Arc::clone(&self.memory), self.own);
        Some(Box::new(move || memory.close(own)))
    }
}
