//! Links by a System V set of semaphores, one for each end.
//!
//! A set belongs to nobody: it stays until somebody removes it. The worker does when the last link
//! is dropped; if the worker is killed, the other end does, which the kernel tells by a signal.
//! Only where both are killed at once does a set stay (`ipcs -s` lists it).

use fathom_record::Remedy;
use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use fathom_measure::sampler::Fault;
use rustix::process::Signal;

use super::{Alarm, Link, Token};
use crate::os::child::leave;
use crate::os::raw_call::system_call;
use crate::os::shared::{Shareable, Shared};

/// Exit status of an end that removed the set because the worker was gone.
pub(in crate::os) const REMOVED: i32 = 5;

/// An end that waits for its own semaphore and posts the other's.
pub(in crate::os) struct SystemV {
    set: Arc<Set>,
    own: u16,
}

/// The set and the token beside it. Dropping it removes the set.
struct Set {
    id: i32,
    token: Shared<Token>,
}

// SAFETY: atomics.
unsafe impl Shareable for Token {}

/// Two ends, joined by a set of two semaphores.
pub(in crate::os) fn semaphores() -> Result<Vec<SystemV>, Fault> {
    let token = Shared::zeroed()?;
    // SAFETY: takes numbers only.
    let id = unsafe { libc::semget(libc::IPC_PRIVATE, 2, libc::IPC_CREAT | 0o600) };
    if id < 0 {
        return Err(refused(&io::Error::last_os_error()));
    }
    // A private set's semaphores are 0.
    let set = Arc::new(Set { id, token });
    Ok([0, 1].map(|own| SystemV { set: Arc::clone(&set), own }).into())
}

fn refused(error: &io::Error) -> Fault {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSPC) => Remedy::RemoveSemaphores,
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => Remedy::kernel_with("CONFIG_SYSVIPC"),
        _ => return Fault::Failed(format!("semget: {error}")),
    };
    Fault::unavailable(format!("semget: {error}"), remedy)
}

impl SystemV {
    /// One operation on one semaphore. By the bare instruction, as bytes are passed through pipes.
    #[inline(always)]
    fn operate(&self, semaphore: u16, operation: i16) -> bool {
        let operation = libc::sembuf { sem_num: semaphore, sem_op: operation, sem_flg: 0 };
        let arguments = [self.set.id as usize, (&raw const operation).addr(), 1, 0];
        // SAFETY: the operation outlives the call, and there is one of it.
        unsafe { system_call(libc::SYS_semop, arguments) == 0 }
    }

    /// The number by which the kernel and `ipcs -s` know the set.
    #[cfg(test)]
    pub(in crate::os) fn id(&self) -> i32 {
        self.set.id
    }
}

impl Link for SystemV {
    #[inline(always)]
    fn pass(&self, token: u8) -> bool {
        self.set.token.put(token);
        self.operate(1 - self.own, 1)
    }

    /// Waiting for a semaphore of a set that is removed fails.
    #[inline(always)]
    fn take(&self) -> Option<u8> {
        self.operate(self.own, -1).then(|| self.set.token.get())?
    }

    fn hang_up(self) {
        remove(self.set.id);
    }

    fn alarm(&self) -> Option<Alarm> {
        let set = Arc::clone(&self.set);
        Some(Box::new(move || remove(set.id)))
    }

    fn signal_of_death(&self) -> Signal {
        DOOMED.store(self.set.id, Ordering::Relaxed);
        // SAFETY: an all-zero `sigaction` and `sigset_t` are valid; the handler does nothing but
        // two system calls; SIGTERM is let through, whatever the worker did with it.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = remove_and_leave as *const () as usize;
            libc::sigaction(libc::SIGTERM, &raw const action, ptr::null_mut());
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        }
        Signal::TERM
    }

    fn remove_remains(&self) {
        remove(self.set.id);
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        remove(self.id);
    }
}

/// Removes a set; one that is gone already is no other's: the kernel counts the numbers up.
fn remove(id: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
}

/// The set that the other end must remove when the worker is gone. Only its own copy is written.
static DOOMED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn remove_and_leave(_signal: i32) {
    remove(DOOMED.load(Ordering::Relaxed));
    leave(REMOVED);
}
