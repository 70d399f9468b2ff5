//! SIGINT, SIGTERM and SIGHUP: the command finishes its current step and keeps its results.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fathom_metric::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// A pipe that becomes readable when a termination signal arrives, and stays readable.
#[derive(Clone)]
pub struct Interrupt {
    reader: Arc<OwnedFd>,
}

impl Interrupt {
    /// Registers the signal handlers.
    ///
    /// # Errors
    /// If no pipe can be created or no handler registered.
    pub fn listen() -> std::io::Result<Self> {
        // A pipe, since a sandbox may forbid sockets. Registering makes the writer non-blocking.
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        for signal in caught() {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { reader: Arc::new(reader) })
    }

    /// As [`Interrupt::listen`], and a second signal ends the process at once.
    ///
    /// # Errors
    /// As [`Interrupt::listen`].
    pub fn listen_then_quit() -> std::io::Result<Self> {
        let was_first = Arc::default();
        for signal in caught() {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&was_first))?;
            flag::register(signal, Arc::clone(&was_first))?;
        }
        Self::listen()
    }

    pub fn arrived(&self) -> bool {
        let mut wait = [rustix::event::PollFd::new(&self.reader, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut wait, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

/// Registers handlers for a procedure, which polls flags between its system calls. The first signal
/// ends it in order, a SIGINT after it at once: its unnamed temporary files vanish with the
/// process. SIGTERM never does, since timeout(1) sends it twice; nor does a SIGINT where the
/// machine must be `restored` first.
pub(crate) fn stop(restored: bool) -> std::io::Result<Stop> {
    let (now, by_signal) = (Arc::default(), Arc::default());
    if !restored {
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&by_signal))?;
    }
    for signal in caught() {
        flag::register(signal, Arc::clone(&by_signal))?;
        flag::register(signal, Arc::clone(&now))?;
    }
    Ok(Stop::new(now, by_signal, give_up))
}

/// The signals that end a command in order. SIGHUP stays ignored where it was, as by nohup(1).
fn caught() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignores = ignores_hangup(&status);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| *signal != SIGHUP || !ignores)
}

/// Bit 0 of the mask is signal 1, SIGHUP.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|it| it & 1 == 1)
}

/// Lets a write beyond RLIMIT_FSIZE fail with EFBIG instead of ending the process, in workers and
/// far ends too. By a handler, which programs that are started do not inherit.
pub fn survive_file_size_limit() {
    // Without it, such a write ends the process, which is reported as its signal.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

fn give_up() -> ! {
    crate::terminal::warn("a read did not return within the time limit: aborted");
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangup_ignored_by_nohup_stays_ignored() {
        assert!(ignores_hangup("Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n") && !ignores_hangup(""));
    }
}
