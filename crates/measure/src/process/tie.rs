//! Processes that end with their parent.

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// Has the kernel kill this process when the thread that started it ends.
///
/// # Errors
/// `SRCH` if the coordinator has ended already.
pub fn end_with(coordinator: Pid) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the call above.
    match rustix::process::getppid() {
        Some(parent) if parent == coordinator => Ok(()),
        _ => Err(Errno::SRCH),
    }
}
