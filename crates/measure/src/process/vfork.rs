//! Starting a program without a copy of this process. fork(2) copies page tables, and both sides
//! then copy the pages that they write: 1 ms and more in a coordinator with many samples.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::{null, null_mut};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid, setpgid};

use super::tie::end_with;

/// execvp(3) builds paths on it.
const STACK_BYTES: usize = 64 << 10;
const SIGNAL_MAX: c_int = 64;

/// What the child needs. It runs in the memory of its parent, whose thread waits until the exec: it
/// must not allocate, lock or unwind.
struct VforkProgram {
    parent: Pid,
    /// Ends with a null pointer.
    arguments: Vec<*const c_char>,
    /// The ends of the pipes that become standard input, output and error.
    ends: [OwnedFd; 3],
    error: Error,
}

/// Starts a program, found as by execvp(3), with pipes as its standard input, output and error. It
/// leads a process group, and the kernel kills it when this thread ends.
pub(super) fn start(arguments: &[CString]) -> Result<(Pid, [OwnedFd; 3])> {
    let (stdin, own_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (own_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (own_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut program = VforkProgram {
        parent: getpid(),
        arguments: arguments.iter().map(|it| it.as_ptr()).chain([null()]).collect(),
        ends: [stdin, stdout, stderr],
        error: Error::from_raw_os_error(0),
    };
    let mut stack = Vec::<MaybeUninit<u128>>::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the sets are written before they are read. The child has its own stack, which
    // outlives its use, as does `program`: this thread goes on after the exec or exit of the child.
    let pid = unsafe {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        // No handler of this process may run in the child.
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::clone(exec, top.cast(), flags, (&raw mut program).cast());
        let failure = Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        Pid::from_raw(pid.max(0)).ok_or(failure)?
    };
    if program.error.raw_os_error() != Some(0) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        return Err(program.error);
    }
    Ok((pid, [own_stdin, own_stdout, own_stderr]))
}

/// The child.
extern "C" fn exec(program: *mut c_void) -> c_int {
    // SAFETY: the argument of clone(2) in `start`, which waits.
    let program = unsafe { &mut *program.cast::<VforkProgram>() };
    let prepared = setpgid(None, None).and_then(|()| end_with(program.parent));
    if let Err(error) = prepared {
        program.error = error.into();
        return 1;
    }
    // SAFETY: system calls on this process alone, which has its own descriptors and signal actions;
    // the arguments are C strings of the waiting parent.
    unsafe {
        for (end, number) in program.ends.iter().zip(0..) {
            if libc::dup2(end.as_raw_fd(), number) < 0 {
                program.error = Error::last_os_error();
                return 1;
            }
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        for signal in 1..=SIGNAL_MAX {
            // What is ignored stays ignored, except SIGPIPE, which is ignored by Rust.
            let is_known = libc::sigaction(signal, null(), action.as_mut_ptr()) == 0;
            let handler = (*action.as_ptr()).sa_sigaction;
            if is_known && (handler != libc::SIG_IGN || signal == libc::SIGPIPE) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
        libc::execvp(*program.arguments.as_ptr(), program.arguments.as_ptr());
    }
    program.error = Error::last_os_error();
    1
}
