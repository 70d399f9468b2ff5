//! Waiting for connections.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

/// Events of a wait, at most.
pub(super) const EVENTS_MAX: usize = 256;

/// epoll_wait with a time-out in nanoseconds: in milliseconds short think times would be rounded.
pub(super) fn wait(
    epoll: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    timeout_ns: u64,
) -> rustix::io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the list has room for `EVENTS_MAX` events, of which the kernel writes as many as it
    // returns; `epoll::Event` has the layout of `struct epoll_event`.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_fd().as_raw_fd(),
            events.as_mut_ptr(),
            EVENTS_MAX as libc::c_int,
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    if let Ok(count) = usize::try_from(count) {
        // SAFETY: the kernel has written that many events.
        unsafe { events.set_len(count) };
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        // Before Linux 5.11.
        Some(Errno::NOSYS) => {
            let timeout =
                rustix::time::Timespec { tv_sec: timeout.tv_sec, tv_nsec: timeout.tv_nsec };
            epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&timeout)).map(drop)
        }
        error => Err(error.unwrap_or(Errno::IO)),
    }
}
