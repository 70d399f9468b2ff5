//! What an end does when its socket is not ready.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr::null_mut;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde::{Deserialize, Serialize};

use crate::PathError;

/// How the calls on a socket wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// They block.
    Blocking,
    /// They return at once, and poll(2) waits.
    Nonblocking,
    /// They return at once, and the kernel sends SIGIO when the socket is ready (O_ASYNC). The path
    /// `uring` waits for completions instead.
    Async,
}

fathom_record::words!(
    Io.name.ALL,
    Blocking = "blocking",
    Nonblocking = "nonblocking",
    Async = "async"
);

/// A signal may have been taken by a wait before: then the state decides.
const SIGNAL_WAIT: Duration = Duration::from_millis(100);

/// Prepares sockets, and waits for them. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Waiter {
    io: Io,
    /// The longest wait without progress.
    limit: Duration,
}

impl Waiter {
    /// # Errors
    /// If SIGIO cannot be blocked.
    pub fn new(io: Io, limit: Duration) -> io::Result<Self> {
        if io == Io::Async {
            block_signal()?;
        }
        Ok(Self { io, limit })
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Sets a socket up. `by_ring`: io_uring waits for it, and its calls must block.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn prepare(&self, socket: BorrowedFd<'_>, by_ring: bool) -> io::Result<()> {
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(socket, which, Some(self.limit))?;
        }
        if by_ring { Ok(()) } else { self.set_flags(socket) }
    }

    /// Sets how calls on a socket or device wait.
    pub(crate) fn set_flags(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let more = match self.io {
            Io::Blocking => OFlags::empty(),
            Io::Nonblocking => OFlags::NONBLOCK,
            Io::Async => {
                own_signal(socket)?;
                OFlags::NONBLOCK | OFlags::from_bits_retain(libc::O_ASYNC as u32)
            }
        };
        Ok(fcntl_setfl(socket, fcntl_getfl(socket)? | more)?)
    }

    /// Waits until the socket or device is ready for the events.
    pub(crate) fn wait(&self, socket: BorrowedFd<'_>, events: PollFlags) -> Result<(), PathError> {
        let failed = PathError::TimedOut(self.limit);
        match self.io {
            // SO_RCVTIMEO or SO_SNDTIMEO.
            Io::Blocking => Err(failed),
            Io::Nonblocking => {
                if is_ready(socket, events, self.limit)? {
                    Ok(())
                } else {
                    Err(failed)
                }
            }
            Io::Async => {
                let mut waited = Duration::ZERO;
                while !is_ready(socket, events, Duration::ZERO)? {
                    if waited >= self.limit {
                        return Err(failed);
                    }
                    if !wait_for_signal(SIGNAL_WAIT) {
                        waited += SIGNAL_WAIT;
                    }
                }
                Ok(())
            }
        }
    }
}

fn is_ready(socket: BorrowedFd<'_>, events: PollFlags, limit: Duration) -> Result<bool, PathError> {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), events)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(PathError::Call { call: "poll", error }),
    }
}

/// The set of SIGIO alone.
fn signal_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        set.assume_init()
    }
}

/// Its default action would end the process.
fn block_signal() -> io::Result<()> {
    // SAFETY: the set outlives the call.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signal_set(), null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// `struct f_owner_ex`, and its type for a thread.
#[repr(C)]
struct WaiterOwner {
    kind: libc::c_int,
    id: libc::pid_t,
}

const OWNER_THREAD: libc::c_int = 0;
const F_SETOWN_EX: libc::c_int = 15;

/// Only this thread has the signal blocked.
fn own_signal(socket: BorrowedFd<'_>) -> io::Result<()> {
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    let owner = WaiterOwner { kind: OWNER_THREAD, id };
    // SAFETY: the structure has the kernel's layout, and outlives the call.
    match unsafe { libc::fcntl(socket.as_raw_fd(), F_SETOWN_EX, &raw const owner) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the signal came in time.
fn wait_for_signal(limit: Duration) -> bool {
    let timeout =
        libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    // SAFETY: set and time outlive the call.
    unsafe { libc::sigtimedwait(&signal_set(), null_mut(), &raw const timeout) == libc::SIGIO }
}
