//! Child processes that are killed and reaped whatever happens to the parent's code.
//!
//! Between fork and `_exit` only async-signal-safe code is allowed: the memory is a copy made at an
//! arbitrary moment, with locks that other threads may have held.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::raw_call::system_call;
use crate::prelude::*;

/// Exit status of a child whose work panicked.
const PANICKED: i32 = 101;
/// Exit status of a child whose parent died before the child could be tied to it.
pub(crate) const ORPHANED: i32 = 102;

/// A child that has not been reaped; dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: libc::pid_t,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildExit {
    pub(crate) status: ExitStatus,
    pub(crate) switches: Switches,
}

/// Context switches of a thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

impl Switches {
    pub(crate) fn from_usage(usage: &libc::rusage) -> Self {
        // The kernel's counts are never negative.
        Self { voluntary: usage.ru_nvcsw as u64, involuntary: usage.ru_nivcsw as u64 }
    }

    /// Of the calling thread since it started.
    pub(crate) fn of_this_thread() -> Self {
        Self::from_usage(&thread_usage())
    }

    pub(crate) fn total(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }
}

/// Forks through the C library. The child runs `work` and calls `_exit` with the status it returns,
/// so no destructor and no exit handler runs.
///
/// # Safety
/// `work` must be async-signal-safe: no lock, no memory from the heap.
#[inline(always)]
pub(crate) unsafe fn fork(work: impl FnOnce() -> i32) -> io::Result<Child> {
    // SAFETY: the child runs nothing but `work`, which the caller guarantees is safe.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => run_and_exit(work),
        pid => Ok(Child { pid }),
    }
}

/// Forks a long-running child that receives `signal` when the forking thread dies and keeps only
/// the descriptors `kept`. `work` gets whether that thread was still alive when the child started.
///
/// # Safety
/// As for [`fork`]; `work` must use no other descriptor.
pub(crate) unsafe fn fork_beside(
    kept: &[RawFd],
    signal: Signal,
    work: impl FnOnce(bool) -> i32,
) -> io::Result<Child> {
    let parent = getpid();
    // SAFETY: only system calls and `work`; no lock, no heap.
    unsafe {
        fork(|| {
            let armed = set_parent_process_death_signal(Some(signal));
            // Without close_range (before Linux 5.9) all descriptors stay open.
            let _ = close_all_but(kept);
            // If the parent died before the signal was armed, the signal never comes.
            work(armed.is_ok() && getppid() == Some(parent))
        })
    }
}

/// Closes all descriptors but these. An inherited write end of another pipe would keep its reader
/// from seeing end of file. `CLOSE_RANGE_UNSHARE` gives a thread its own descriptor table first, so
/// other threads keep theirs.
pub(crate) fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let (mut first, mut outcome) = (0, Ok(()));
    loop {
        // The lowest descriptor to keep that is not below `first`. Sorting might allocate.
        let next = kept.iter().map(|kept| *kept as u32).filter(|kept| *kept >= first).min();
        let last = next.map_or(u32::MAX, |next| next.wrapping_sub(1));
        if next != Some(first) {
            let flags = libc::CLOSE_RANGE_UNSHARE;
            // SAFETY: the caller uses no descriptor but those kept.
            if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } != 0 {
                outcome = Err(io::Error::last_os_error());
            }
        }
        match next {
            Some(next) => first = next + 1,
            None => return outcome,
        }
    }
}

/// Forks by the clone system call and returns twice: 0 in the child, the input of [`Child::of`] in
/// the parent. Not through the C library, whose fork runs handlers in the child that enter the
/// kernel; inlined, because a function call would write to the stack and cause a copy-on-write
/// fault.
///
/// # Safety
/// The child must end by [`exit_now`]. Until then it may do only what [`fork`] allows, must not
/// panic, and must not call the C library, whose thread data is still the parent's.
#[inline(always)]
pub(crate) unsafe fn bare_fork() -> isize {
    // SAFETY: clone with SIGCHLD alone and no stack is fork; it ignores its pointers.
    unsafe { system_call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0]) }
}

#[inline(always)]
fn run_and_exit(work: impl FnOnce() -> i32) -> ! {
    /// Exits when unwinding drops it: a panic must not unwind into a second copy of the parent.
    struct ExitOnPanic;
    impl Drop for ExitOnPanic {
        fn drop(&mut self) {
            exit_now(PANICKED);
        }
    }
    let _on_panic = ExitOnPanic;
    exit_now(work())
}

/// Calls `_exit`: no destructor and no exit handler runs.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: ends this process; nothing runs after it.
    unsafe { libc::_exit(status) }
}

impl Child {
    pub(crate) fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// The child that [`bare_fork`] returned to the parent.
    pub(crate) fn from_result(result: isize) -> io::Result<Self> {
        match result {
            pid if pid > 0 => Ok(Self { pid: pid as libc::pid_t }),
            errno => Err(io::Error::from_raw_os_error(-errno as i32)),
        }
    }

    pub(crate) fn wait(self) -> Result<ChildExit> {
        let exit = reap(self.pid);
        std::mem::forget(self);
        exit.map_err(|error| SamplerFault::system("wait4", error))
    }

    /// Waits for the child; any end but `_exit(expected)` is wrong work.
    pub(crate) fn wait_for(self, expected: i32) -> Result<()> {
        let status = self.wait()?.status;
        match status.code() {
            Some(code) if code == expected => Ok(()),
            _ => Err(SamplerFault::WrongWork(format!(
                "child ended with {status}; expected exit status: {expected}"
            ))),
        }
    }

    /// Sends SIGKILL; does not wait.
    pub(crate) fn kill(&self) {
        // SAFETY: the child is not reaped yet, so its pid cannot have been reused.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        let _ = reap(self.pid);
    }
}

fn reap(pid: libc::pid_t) -> io::Result<ChildExit> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the type that the call writes.
        let reaped = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: a zeroed `rusage` is valid, whatever the kernel wrote.
    let usage = unsafe { usage.assume_init() };
    Ok(ChildExit { status: ExitStatus::from_raw(status), switches: Switches::from_usage(&usage) })
}

/// The fault for a process or thread that could not be created. Limits of the machine or user make
/// the metric unavailable; anything else is a failure.
pub(crate) fn creation_fault(call: &str, error: &io::Error) -> SamplerFault {
    let remedy = match error.raw_os_error() {
        Some(libc::EAGAIN) => Remedy::raise(&["`ulimit -u`", "pids.max"]),
        Some(libc::ENOMEM) => Remedy::AllowOvercommit,
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Remedy::LeaveSandbox,
        _ => return SamplerFault::Failed(format!("{call}: {error}")),
    };
    SamplerFault::unavailable(format!("{call}: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn unexpected_exit_status_is_wrong_work() {
        // SAFETY: the child does nothing.
        let child = unsafe { fork(|| 7) }.unwrap();
        assert_eq!(child.wait_for(7), Ok(()));
        // SAFETY: as above.
        let result = unsafe { bare_fork() };
        if result == 0 {
            exit_now(8);
        }
        let child = Child::from_result(result).unwrap();
        let fault = child.wait_for(7);
        assert!(
            matches!(&fault, Err(SamplerFault::WrongWork(text)) if text.contains("exit status: 8"))
        );
    }

    #[test]
    fn dropped_child_is_killed_and_reaped() {
        // SAFETY: pausing is async-signal-safe.
        let child = unsafe { fork(|| libc::pause()) }.unwrap();
        assert!(!smoke::has_no_children());
        drop(child);
        assert!(smoke::has_no_children());
    }

    #[test]
    fn limit_is_unavailable_other_errors_fail() {
        let refusal = |errno| creation_fault("fork", &io::Error::from_raw_os_error(errno));
        let limits = Remedy::raise(&["`ulimit -u`", "pids.max"]);
        assert!(
            matches!(refusal(libc::EAGAIN), SamplerFault::Unavailable(_, it) if it == Some(limits))
        );
        assert!(matches!(refusal(libc::EPERM), SamplerFault::Unavailable(..)));
        assert!(matches!(refusal(libc::EINVAL), SamplerFault::Failed(_)));
    }
}
