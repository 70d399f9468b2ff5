//! Processes of this program that end with the one that started them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// The path of the running program.
///
/// # Errors
/// When it cannot be told.
pub fn this_program() -> std::io::Result<PathBuf> {
    // The link still works when the file was replaced or removed by an update during the run.
    let link = PathBuf::from("/proc/self/exe");
    match link.canonicalize() {
        Ok(program) => Ok(program),
        // Without /proc: as the program was called, which the shell may have made a path.
        Err(_) if !link.exists() => called_as(),
        Err(_) => Ok(link),
    }
}

/// The file that was executed, by the kernel's word to the new process.
fn called_as() -> std::io::Result<PathBuf> {
    let told = rustix::param::linux_execfn();
    let path = PathBuf::from(OsStr::from_bytes(told.to_bytes()));
    path.canonicalize()
}

/// Starts a process that is tied to this one before it is a program: one that is stopped while it
/// starts would do nothing about it, and stay. A sandbox may forbid what the library needs to run
/// anything before exec (a pair of sockets); then the process ties itself later.
///
/// # Errors
/// When it cannot be started.
pub fn start_tied(command: impl Fn() -> std::io::Result<Command>) -> std::io::Result<Child> {
    let coordinator = rustix::process::getpid();
    let mut tied = command()?;
    // SAFETY: two bare system calls between fork and exec; no lock, no heap.
    unsafe { tied.pre_exec(move || Ok(end_with(coordinator)?)) };
    match tied.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => command()?.spawn(),
        outcome => outcome,
    }
}

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
