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
        self.timer.as_ref().is_some_and(|timer| self.note(rustix::io::read(timer, &mut [0_u8; 8])))
    }

    /// Whether the timer was cancelled, now or before: the kernel reports a step once only.
    fn note(&self, read: rustix::io::Result<usize>) -> bool {
        let is_cancelled = read == Err(rustix::io::Errno::CANCELED);
        self.seen.fetch_or(is_cancelled, Ordering::Relaxed) || is_cancelled
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
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn timer_does_not_expire() {
        let timer = timer().expect("a timer that is cancelled by a step");
        // Another process may set the clock.
        assert!(rustix::io::read(&timer, &mut [0_u8; 8]).is_err());
    }

    #[test]
    fn step_is_remembered() {
        let steps = Steps { timer: None, seen: AtomicBool::new(false) };
        let read = [Errno::AGAIN, Errno::CANCELED, Errno::AGAIN];
        assert_eq!(read.map(|error| steps.note(Err(error))), [false, true, true]);
        assert!(!steps.seen(), "without a timer");
    }
}
