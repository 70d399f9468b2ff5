//! What a token is passed through: pipes, FIFOs and sockets, semaphores, futexes.
//!
//! A link is one end's share of it: from it the end takes the token of the end before, and by it
//! passes the token on to the end after. All kinds are used by the same loops, compiled for each
//! kind: no choice is made while it is timed.

pub(super) mod futex;
pub(super) mod pipe;
pub(super) mod posix;
pub(super) mod socket;
pub(super) mod sysv;

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::Signal;

use super::raw_call::system_call;

/// Lets the end that waits know that the other is dead.
pub(super) type Alarm = Box<dyn FnOnce() + Send>;

/// One end's share of what a token is passed through.
pub(super) trait Link: Send + 'static {
    /// Passes the token on: whether that could be done.
    fn pass(&self, token: u8) -> bool;

    /// Waits for the token; none when there will be no more.
    fn take(&self) -> Option<u8>;

    /// Lets the other ends know that there will be no more.
    fn hang_up(self);

    /// The descriptors that an end which is a process keeps; all others it closes.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// What must be done when another end dies, so that this one does not wait for ever; none
    /// where the kernel does it, as at the end of a pipe.
    fn alarm(&self) -> Option<Alarm> {
        None
    }

    /// Prepares an end that is a process for the death of the worker, of which the kernel tells it
    /// by this signal. Async-signal-safe.
    fn signal_of_death(&self) -> Signal {
        Signal::KILL
    }

    /// Removes what would outlive all ends, where the worker cannot. Async-signal-safe.
    fn remove_remains(&self) {}
}

/// Writes a byte by the bare instruction: a procedure around it would end by a return that the core
/// mispredicts, and whether there is one must not be the compiler's choice.
#[inline(always)]
fn write_byte(file: &OwnedFd, byte: u8) -> bool {
    let arguments = [file.as_raw_fd() as usize, (&raw const byte).addr(), 1, 0];
    // SAFETY: one byte is read, which outlives the call.
    unsafe { system_call(libc::SYS_write, arguments) == 1 }
}

/// Reads a byte likewise; none at the end of the file.
#[inline(always)]
fn read_byte(file: &OwnedFd) -> Option<u8> {
    let mut byte = 0_u8;
    let arguments = [file.as_raw_fd() as usize, (&raw mut byte).addr(), 1, 0];
    // SAFETY: one byte is written, which outlives the call.
    let read = unsafe { system_call(libc::SYS_read, arguments) };
    (read == 1).then_some(byte)
}

/// The token beside semaphores and futexes, which carry none: in shared memory, and a flag that
/// there will be no more.
#[derive(Debug, Default)]
struct Token {
    token: AtomicU8,
    gone: AtomicU8,
}

impl Token {
    fn put(&self, token: u8) {
        self.token.store(token, Ordering::Relaxed);
    }

    /// What was put last, unless there will be no more.
    fn get(&self) -> Option<u8> {
        (self.gone.load(Ordering::Relaxed) == 0).then(|| self.token.load(Ordering::Relaxed))
    }

    fn no_more(&self) {
        self.gone.store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
