//! Whether somebody set the wall clock: the kernel cancels a timer when that happens, so that a
//! step which was put back before anybody looked is known as well.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A date that no run reaches: the timer must not end by itself.
const NEVER_S: i64 = 1 << 40;

/// Listens for a step of the wall clock.
#[derive(Debug)]
pub(super) struct Steps {
    timer: Option<OwnedFd>,
    seen: AtomicBool,
}

impl Steps {
    /// Listens from now on. A kernel without such timers tells nothing.
    pub(super) fn listen() -> Self {
        Self { timer: timer().ok(), seen: AtomicBool::new(false) }
    }

    /// Whether the wall clock was stepped since then.
    pub(super) fn seen(&self) -> bool {
        let cancelled = self.timer.as_ref().is_some_and(|timer| {
            rustix::io::read(timer, &mut [0_u8; 8]) == Err(rustix::io::Errno::CANCELED)
        });
        // The kernel tells of a step once.
        self.seen.fetch_or(cancelled, Ordering::Relaxed) || cancelled
    }
}

fn timer() -> rustix::io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let end = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: NEVER_S, ..zero } };
    let how = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, how, &end)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_such_a_timer_and_it_has_not_ended() {
        let timer = timer().expect("a timer that is cancelled by a step");
        let read = rustix::io::read(&timer, &mut [0_u8; 8]);
        assert_eq!(read, Err(rustix::io::Errno::AGAIN));
    }
}
