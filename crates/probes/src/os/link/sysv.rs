//! Links by a System V semaphore set with one semaphore for each peer.
//!
//! A set persists until it is removed. The worker removes it when it drops the last link; if the
//! worker is killed, its peer gets a signal and removes it. It stays (`ipcs -s`) only if both are
//! killed at once.

use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Signal;

use super::{Link, LinkToken, OnPeerDeath};
use crate::os::child::exit_now;
use crate::os::raw_call::system_call;
use crate::os::shared::{Shareable, SharedPage};
use crate::prelude::*;

/// Exit status of a peer that removed the set because the worker was gone.
pub(in crate::os) const REMOVED: i32 = 5;

/// A peer that waits for its own semaphore and posts the other's.
pub(in crate::os) struct SystemV {
    set: Arc<SysvSet>,
    own: u16,
}

/// Dropping it removes the set.
struct SysvSet {
    id: i32,
    token: SharedPage<LinkToken>,
}

// SAFETY: atomics.
unsafe impl Shareable for LinkToken {}

pub(in crate::os) fn semaphores() -> Result<Vec<SystemV>> {
    let token = SharedPage::zeroed()?;
    // SAFETY: takes numbers only.
    let id = unsafe { libc::semget(libc::IPC_PRIVATE, 2, libc::IPC_CREAT | 0o600) };
    if id < 0 {
        return Err(semget_fault(&io::Error::last_os_error()));
    }
    // A new set's semaphores are 0 on Linux.
    let set = Arc::new(SysvSet { id, token });
    Ok([0, 1].map(|own| SystemV { set: Arc::clone(&set), own }).into())
}

fn semget_fault(error: &io::Error) -> SamplerFault {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSPC) => Remedy::RemoveSemaphores,
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => Remedy::kernel_with("CONFIG_SYSVIPC"),
        _ => return SamplerFault::Failed(format!("semget: {error}")),
    };
    SamplerFault::unavailable(format!("semget: {error}"), remedy)
}

impl SystemV {
    /// One operation on one semaphore, by the inlined system call (see `write_byte`).
    #[inline(always)]
    fn operate(&self, semaphore: u16, operation: i16) -> bool {
        let operation = libc::sembuf { sem_num: semaphore, sem_op: operation, sem_flg: 0 };
        let arguments = [self.set.id as usize, (&raw const operation).addr(), 1, 0];
        // SAFETY: the one operation outlives the call.
        unsafe { system_call(libc::SYS_semop, arguments) == 0 }
    }

    #[cfg(test)]
    pub(in crate::os) fn id(&self) -> i32 {
        self.set.id
    }
}

impl Link for SystemV {
    #[inline(always)]
    fn send(&self, token: u8) -> bool {
        self.set.token.store(token);
        self.operate(1 - self.own, 1)
    }

    /// Fails once the set is removed.
    #[inline(always)]
    fn receive(&self) -> Option<u8> {
        self.operate(self.own, -1).then(|| self.set.token.load())?
    }

    fn close(self) {
        remove(self.set.id);
    }

    fn on_peer_death(&self) -> Option<OnPeerDeath> {
        let set = Arc::clone(&self.set);
        Some(Box::new(move || remove(set.id)))
    }

    fn parent_death_signal(&self) -> Signal {
        SET_TO_REMOVE.store(self.set.id, Ordering::Relaxed);
        // SAFETY: zeroed `sigaction` and `sigset_t` are valid; the handler makes two system calls
        // only; SIGTERM is unblocked, because the worker may have blocked it.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = remove_and_exit as *const () as usize;
            libc::sigaction(libc::SIGTERM, &raw const action, ptr::null_mut());
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        }
        Signal::TERM
    }

    fn remove_persistent(&self) {
        remove(self.set.id);
    }
}

impl Drop for SysvSet {
    fn drop(&mut self) {
        remove(self.id);
    }
}

/// Removes a set. Removing it twice is safe: the kernel does not reuse ids soon.
fn remove(id: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
}

/// The set that a peer removes when the worker dies. Written only in the peer's copy of the memory.
static SET_TO_REMOVE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn remove_and_exit(_signal: i32) {
    remove(SET_TO_REMOVE.load(Ordering::Relaxed));
    exit_now(REMOVED);
}
