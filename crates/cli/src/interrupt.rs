//! Ctrl-C and its kin: the run ends after what it is doing, keeps what is done, and says so.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fathom_metric::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Becomes readable when a signal asked the program to stop, and stays so.
pub struct Interrupt {
    reader: OwnedFd,
}

impl Interrupt {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// When no descriptor or signal handler can be had.
    pub fn listen() -> std::io::Result<Self> {
        // No pair of sockets, which a sandbox may forbid. Registering makes the writer never wait.
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { reader })
    }

    /// Whether a signal arrived.
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

/// Listens to the same signals for a procedure, which looks at flags between its calls. The first
/// is obeyed in order, the second at once: what has no name yet is gone with the process.
///
/// # Errors
/// When no signal handler can be had.
pub fn stop() -> std::io::Result<Stop> {
    let (now, by_person) = (Arc::default(), Arc::default());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&by_person))?;
        flag::register(signal, Arc::clone(&by_person))?;
        flag::register(signal, Arc::clone(&now))?;
    }
    // Ignored: a write beyond a limit on the size of files then fails, and says so.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(Stop::new(now, by_person, give_up))
}

fn give_up() -> ! {
    crate::terminal::warn("a read does not return within the time limit; given up");
    std::process::exit(1)
}
