//! The terminal of this process: a hook has it until its end, as a command of a shell has.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

pub(crate) struct Terminal {
    file: File,
    /// A hook that is killed while it reads a password leaves the terminal without echo.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None` without a terminal, or in its background.
    pub(crate) fn open() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let is_foreground = tcgetpgrp(&file).is_ok_and(|group| group == getpgrp());
        let modes = tcgetattr(&file).ok();
        is_foreground.then_some(Self { file, modes })
    }

    pub(crate) fn take_back(&self) {
        self.give(getpgrp());
        if let Some(modes) = &self.modes {
            // A terminal that hung up has no modes.
            let _ = tcsetattr(&self.file, OptionalActions::Drain, modes);
        }
    }

    /// Stops this process with its stopped child, as the user wants, until both go on.
    pub(crate) fn suspend(&self, child: Pid) {
        self.take_back();
        // Neither can fail: both groups exist.
        let _ = kill_current_process_group(Signal::TSTP);
        self.give(child);
        let _ = kill_process_group(child, Signal::CONT);
    }

    fn give(&self, group: Pid) {
        // SAFETY: the sets are written before they are read; system calls only. SIGTTOU would stop
        // this process, since it is in the background. A terminal that hung up has no foreground.
        unsafe {
            let (mut blocked, mut own) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut blocked);
            libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut own);
            let _ = tcsetpgrp(&self.file, group);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const own, std::ptr::null_mut());
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
