//! Processes that end with the one that started them.

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// No worker outlives its coordinator: the kernel kills it when the thread that started it ends.
///
/// # Errors
/// `SRCH` where it has ended already.
pub fn end_with(coordinator: Pid) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the line above.
    match rustix::process::getppid() {
        Some(parent) if parent == coordinator => Ok(()),
        _ => Err(Errno::SRCH),
    }
}
