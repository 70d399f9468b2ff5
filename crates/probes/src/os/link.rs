//! Links that a token is passed through: pipes, FIFOs, sockets, semaphores, futexes.
//!
//! A link is one process's share: it receives from the process before and sends to the one after.
//! All kinds run in the same generic loops, compiled for each kind, so nothing is dispatched while
//! timed.

pub(super) mod futex;
pub(super) mod pipe;
pub(super) mod posix;
pub(super) mod socket;
pub(super) mod sysv;

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::Signal;

use super::raw_call::system_call;

/// Ends the wait for a dead peer.
pub(super) type OnPeerDeath = Box<dyn FnOnce() + Send>;

pub(super) trait Link: Send + 'static {
    /// Sends the token to the next peer; false if that failed.
    fn send(&self, token: u8) -> bool;

    /// Waits for the token; `None` once the link is closed.
    fn receive(&self) -> Option<u8>;

    /// Closes the link, so that peers stop waiting.
    fn close(self);

    /// Descriptors that a peer process keeps open.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// What to run when a peer dies, so that this side stops waiting; `None` where the kernel
    /// reports it, as end of file on a pipe.
    fn on_peer_death(&self) -> Option<OnPeerDeath> {
        None
    }

    /// The signal that a peer process gets when the worker dies; installs its handler.
    /// Async-signal-safe.
    fn parent_death_signal(&self) -> Signal {
        Signal::KILL
    }

    /// Removes kernel objects that outlive their processes. Async-signal-safe.
    fn remove_persistent(&self) {}
}

/// Writes a byte by the inlined system call: the return from a function after a system call is
/// mispredicted, and the compiler's inlining must not decide whether there is one.
#[inline(always)]
fn write_byte(file: &OwnedFd, byte: u8) -> bool {
    let arguments = [file.as_raw_fd() as usize, (&raw const byte).addr(), 1, 0];
    // SAFETY: the byte outlives the call, which reads one byte.
    unsafe { system_call(libc::SYS_write, arguments) == 1 }
}

/// Reads a byte, inlined as [`write_byte`]; `None` at end of file.
#[inline(always)]
fn read_byte(file: &OwnedFd) -> Option<u8> {
    let mut byte = 0_u8;
    let arguments = [file.as_raw_fd() as usize, (&raw mut byte).addr(), 1, 0];
    // SAFETY: the byte outlives the call, which writes one byte.
    let read = unsafe { system_call(libc::SYS_read, arguments) };
    (read == 1).then_some(byte)
}

/// The token in shared memory, for links that carry no data: semaphores and futexes.
#[derive(Debug, Default)]
struct LinkToken {
    token: AtomicU8,
    closed: AtomicU8,
}

impl LinkToken {
    fn store(&self, token: u8) {
        // Relaxed: posting the semaphore or changing the futex word publishes it.
        self.token.store(token, Ordering::Relaxed);
    }

    /// The stored token, unless the link is closed.
    fn load(&self) -> Option<u8> {
        (self.closed.load(Ordering::Relaxed) == 0).then(|| self.token.load(Ordering::Relaxed))
    }

    fn close(&self) {
        self.closed.store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
