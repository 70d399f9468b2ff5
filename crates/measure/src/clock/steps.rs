//! Steps of the wall clock, by a timer that the kernel then cancels: a step that is undone later is
//! detected, too.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A date in the far future, so that the timer does not expire.
const NEVER_S: i64 = 1 << 40;

#[derive(Debug)]
pub(super) struct Steps {
    timer: Option<OwnedFd>,
    seen: AtomicBool,
}

impl Steps {
    /// Starts the timer. Without kernel support no step is detected.
    pub(super) fn listen() -> Self {
        Self { timer: timer().ok(), seen: AtomicBool::new(false) }
    }

    pub(super) fn seen(&self) -> bool {
        let cancelled = self.timer.as_ref().is_some_and(|timer| {
            rustix::io::read(timer, &mut [0_u8; 8]) == Err(rustix::io::Errno::CANCELED)
        });
        // The kernel reports a step once only.
        self.seen.fetch_or(cancelled, Ordering::Relaxed) || cancelled
    }
}

fn timer() -> rustix::io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let end = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: NEVER_S, ..zero } };
    // CANCEL_ON_SET requires an absolute time on a clock that can be set.
    let how = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, how, &end)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_does_not_expire() {
        let timer = timer().expect("a timer that is cancelled by a step");
        let read = rustix::io::read(&timer, &mut [0_u8; 8]);
        assert_eq!(read, Err(rustix::io::Errno::AGAIN));
    }
}
