//! A child process that does one small thing and leaves, and that is reaped on every way out.
//!
//! Between fork and `_exit` a child may only do what a signal handler may: its memory is a copy
//! taken at any moment, locks included.

use fathom_record::Remedy;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use fathom_measure::sampler::Fault;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::raw_call::system_call;

/// Exit status of a child whose work panicked.
const PANICKED: i32 = 101;
/// Exit status of a child whose parent was gone before it began.
pub(crate) const ORPHANED: i32 = 102;

/// A child that has not been reaped. Dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: libc::pid_t,
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) switches: Switches,
}

/// Times a thread or process was switched out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Because it waited.
    pub(crate) voluntary: u64,
    /// Because another was preferred.
    pub(crate) involuntary: u64,
}

impl Switches {
    pub(crate) fn of(usage: &libc::rusage) -> Self {
        // The kernel's counts are never negative.
        Self { voluntary: usage.ru_nvcsw as u64, involuntary: usage.ru_nivcsw as u64 }
    }

    /// Those since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }
}

/// Forks as a program does, through the C library. The child does `work` and leaves with the exit
/// status it returns; no destructor and no exit handler runs.
///
/// # Safety
/// `work` must be async-signal-safe: no lock, no memory from the heap.
#[inline(always)]
pub(crate) unsafe fn fork(work: impl FnOnce() -> i32) -> io::Result<Child> {
    // SAFETY: the child does only what the caller vouches for.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => leave_with(work),
        pid => Ok(Child { pid }),
    }
}

/// Forks a child that works beside this process for a while: it gets this signal when the thread
/// that made it dies, and keeps no descriptor but these. `work` is told whether that thread was
/// still there when the child began.
///
/// # Safety
/// As for [`fork`]; and `work` must use no other descriptor.
pub(crate) unsafe fn fork_beside(
    kept: &[RawFd],
    signal: Signal,
    work: impl FnOnce(bool) -> i32,
) -> io::Result<Child> {
    let parent = getpid();
    // SAFETY: bare system calls beside what the caller vouches for; no lock, no heap.
    unsafe {
        fork(|| {
            let tied = set_parent_process_death_signal(Some(signal));
            // Before Linux 5.9 there is no such call, and all stay open.
            let _ = close_all_but(kept);
            // A parent that died before the first of these calls sends no signal any more.
            work(tied.is_ok() && getppid() == Some(parent))
        })
    }
}

/// Closes all descriptors but these, other ends' pipes above all: as long as anybody holds the
/// writing end, nobody sees the end of a pipe. A thread gets a table of descriptors of its own
/// first, as a child process has one, and no other thread loses any.
pub(crate) fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let (mut first, mut outcome) = (0, Ok(()));
    loop {
        // The lowest that is kept of those not yet passed: nothing is sorted, for that may need
        // memory.
        let next = kept.iter().map(|kept| *kept as u32).filter(|kept| *kept >= first).min();
        let last = next.map_or(u32::MAX, |next| next.wrapping_sub(1));
        if next != Some(first) {
            let flags = libc::CLOSE_RANGE_UNSHARE;
            // SAFETY: the caller uses no descriptor but those that are spared.
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

/// Forks by the bare system call, and returns twice: 0 in the child, what [`Child::of`] reads in
/// the parent. The child has then done nothing at all: the C library's fork runs handlers in it,
/// some of which enter the kernel, and even a procedure call would write to the stack, which
/// copies a page.
///
/// # Safety
/// The child must end by [`leave`]. Until then it may do only what [`fork`] allows, must not panic,
/// and must not call the C library, which still knows the parent's thread.
#[inline(always)]
pub(crate) unsafe fn bare_fork() -> isize {
    // SAFETY: with SIGCHLD alone and no stack, clone is fork, and its pointers are not looked at.
    unsafe { system_call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0]) }
}

#[inline(always)]
fn leave_with(work: impl FnOnce() -> i32) -> ! {
    // A panic must not unwind into the parent's half of the program.
    let on_panic = Leave;
    let status = work();
    std::mem::forget(on_panic);
    leave(status)
}

/// Leaves at once: no destructor and no exit handler runs.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: ends this process; nothing runs after it.
    unsafe { libc::_exit(status) }
}

/// Leaves when it is dropped.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        leave(PANICKED);
    }
}

impl Child {
    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// The child that [`bare_fork`] made, seen by the parent.
    pub(crate) fn of(result: isize) -> io::Result<Self> {
        match result {
            pid if pid > 0 => Ok(Self { pid: pid as libc::pid_t }),
            errno => Err(io::Error::from_raw_os_error(-errno as i32)),
        }
    }

    /// Waits until it has ended, and reaps it.
    pub(crate) fn wait(self) -> Result<Ended, Fault> {
        let ended = reap(self.pid);
        std::mem::forget(self);
        ended.map_err(|error| Fault::system("wait4", error))
    }

    /// Counters, and takes any end but `_exit(status)` for wrong work.
    pub(crate) fn wait_for(self, status: i32) -> Result<(), Fault> {
        let ended = self.wait()?;
        match ended.status.code() {
            Some(code) if code == status => Ok(()),
            _ => Err(Fault::WrongWork(format!(
                "the child should have left with exit status {status} but ended with {}",
                ended.status
            ))),
        }
    }

    /// Kills it without waiting for it.
    pub(crate) fn kill(&self) {
        // SAFETY: the child is not reaped yet, so its number is nobody else's.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        // There is nobody to tell.
        let _ = reap(self.pid);
    }
}

fn reap(pid: libc::pid_t) -> io::Result<Ended> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the type the call fills.
        let reaped = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: an all-zero `rusage` is a valid one, whatever the kernel filled in.
    let usage = unsafe { usage.assume_init() };
    Ok(Ended { status: ExitStatus::from_raw(status), switches: Switches::of(&usage) })
}

/// What it means that the kernel refused a process or a thread: a limit of this machine or this
/// user, not an error of ours.
pub(crate) fn refused(call: &str, error: &io::Error) -> Fault {
    let remedy = match error.raw_os_error() {
        Some(libc::EAGAIN) => Remedy::raise(&["`ulimit -u`", "pids.max"]),
        Some(libc::ENOMEM) => Remedy::AllowOvercommit,
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Remedy::LeaveSandbox,
        _ => return Fault::Failed(format!("{call}: {error}")),
    };
    Fault::unavailable(format!("{call}: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn a_child_that_leaves_with_another_status_is_wrong_work() {
        let _alone = smoke::alone();
        // SAFETY: the child does nothing.
        let child = unsafe { fork(|| 7) }.unwrap();
        assert_eq!(child.wait_for(7), Ok(()));
        // SAFETY: likewise.
        let result = unsafe { bare_fork() };
        if result == 0 {
            leave(8);
        }
        let child = Child::of(result).unwrap();
        let fault = child.wait_for(7);
        assert!(matches!(&fault, Err(Fault::WrongWork(text)) if text.contains("exit status: 8")));
    }

    #[test]
    fn a_child_that_is_dropped_is_killed_and_reaped() {
        let _alone = smoke::alone();
        // SAFETY: pausing is async-signal-safe.
        let child = unsafe { fork(|| libc::pause()) }.unwrap();
        assert!(!smoke::has_no_children());
        drop(child);
        assert!(smoke::has_no_children());
    }

    #[test]
    fn a_limit_is_unavailable_and_anything_else_a_failure() {
        let refusal = |errno| refused("fork", &io::Error::from_raw_os_error(errno));
        let limits = Remedy::raise(&["`ulimit -u`", "pids.max"]);
        assert!(matches!(refusal(libc::EAGAIN), Fault::Unavailable(_, it) if it == Some(limits)));
        assert!(matches!(refusal(libc::EPERM), Fault::Unavailable(..)));
        assert!(matches!(refusal(libc::EINVAL), Fault::Failed(_)));
    }
}
