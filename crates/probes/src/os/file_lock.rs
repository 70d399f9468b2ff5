//! os.file_lock: an uncontended lock on a whole file.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};

use super::raw_call::system_call;
use crate::prelude::*;

metric!(FileLock, ABOUT);

static ABOUT: About = About {
    id: "os.file_lock",
    title: "file lock and unlock",
    timed: "two system calls by the inlined instruction: an exclusive lock on a whole file that no \
            other process has open, and its release",
    not_timed: "creating the file; contention: there is none; the C library's wrapper",
    model: "posix and flock: a bound, ≥ 2 × os.syscall{call=getppid}: two system calls, each of \
            which looks up a descriptor and changes a list under spinlocks; ofd: posix ± 30 %, \
            the same code with another lock owner. No value for the others: the cost of the lock \
            list is known from this metric alone",
    source: "Linux fs/locks.c: fcntl_setlk and posix_lock_inode, flock_lock_inode",
    pitfalls: &[
        "on NFS, cluster file systems and FUSE a lock may be a message to a server: here the file \
         is a memfd, which uses the kernel's common lock code, as ext4, XFS and tmpfs do",
        "a call that fails to lock is fast: each call's result is compared, and before the rounds \
         a second open file description verifies that the lock excludes it, and no longer does \
         after unlock",
        "posix locks belong to the process: two open file descriptions of one process never \
         exclude each other, and closing either drops the lock. ofd locks belong to the open file \
         description",
        "the kernel walks the list of a file's locks: here it has one entry",
        "on some cores (seen on Zen 4) these calls are bimodal, a third apart: apparently a state \
         of the branch predictors that depends on program layout and on what ran before, and that \
         100 ms of repeated calls do not change",
    ],
    parameters: &[Parameter::new(
        "kind",
        "posix, ofd, flock",
        "fcntl F_SETLK · fcntl F_OFD_SETLK · flock",
    )],
    needs: &["os.syscall"],
    // Other kinds of calls train the branch predictors in ways that slow these by up to a quarter.
    cases_share_visits: false,
    ..About::BASE
};

const POSIX: &str = "posix";
const KINDS: [&str; 3] = [POSIX, "ofd", "flock"];

impl Probe for FileLock {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        KINDS.map(|kind| ProbeCase::usual(Params::one("kind", kind))).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        if case.params.text("kind") == Some("ofd") {
            let source = "the same code with another owner: Linux fs/locks.c, posix_lock_inode";
            let otherwise = "one of the two kinds takes another path through the kernel";
            let posix = (ABOUT.id, Params::one("kind", POSIX));
            return same_as(posix, 0.3, (source, otherwise), known);
        }
        at_least_getppid(2.0, "two system calls, each of which does more than getppid", known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each(cases, sampler, |index, case, sampler| {
            let kind = FileLockKind::from_name(case.params.text("kind").unwrap_or_default())?;
            let lock = Lock::of_new_file(kind)?;
            let (passed, detail) = lock.excludes()?;
            sampler.check(index, "lock excludes a second open", passed, detail);
            sampler.run(vec![SamplerWork::batched(index, move |pairs| lock.repeat(pairs))]);
            Ok(())
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileLockKind {
    /// With this command.
    Fcntl(libc::c_int),
    Flock,
}

impl FileLockKind {
    fn from_name(name: &str) -> Result<Self> {
        match name {
            POSIX => Ok(Self::Fcntl(libc::F_SETLK)),
            "ofd" => Ok(Self::Fcntl(libc::F_OFD_SETLK)),
            "flock" => Ok(Self::Flock),
            _ => Err(SamplerFault::Failed(format!("unknown file lock kind: {name}"))),
        }
    }
}

/// A memfd with two open file descriptions, which the kernel frees with the process.
struct Lock {
    kind: FileLockKind,
    file: OwnedFd,
    other: OwnedFd,
}

/// An fcntl lock of the whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

impl Lock {
    fn of_new_file(kind: FileLockKind) -> Result<Self> {
        let unavailable = |call: &str, error: rustix::io::Errno, remedy| {
            SamplerFault::unavailable(format!("{call}: {error}"), remedy)
        };
        let file = memfd_create(c"fathom-lock", MemfdFlags::CLOEXEC)
            .map_err(|error| unavailable("memfd_create", error, Remedy::kernel("3.17")))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = CString::new(path).map_err(|error| SamplerFault::Failed(error.to_string()))?;
        // A second open file description: a dup would share the lock.
        let other = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let other =
            other.map_err(|error| unavailable("open /proc/self/fd", error, Remedy::MountProc))?;
        Ok(Self { kind, file, other })
    }

    /// The calls that lock and unlock; their arguments point to `write` and `free`.
    fn calls(&self, file: &OwnedFd, write: &libc::flock, free: &libc::flock) -> [FileLockCall; 2] {
        let file = file.as_raw_fd() as usize;
        match self.kind {
            FileLockKind::Fcntl(command) => [write, free].map(|lock| FileLockCall {
                number: libc::SYS_fcntl,
                arguments: [file, command as usize, std::ptr::from_ref(lock) as usize, 0],
            }),
            FileLockKind::Flock => {
                [libc::LOCK_EX | libc::LOCK_NB, libc::LOCK_UN].map(|operation| FileLockCall {
                    number: libc::SYS_flock,
                    arguments: [file, operation as usize, 0, 0],
                })
            }
        }
    }

    /// Locks and unlocks `pairs` times; returns how often both calls succeeded.
    fn repeat(&self, pairs: u64) -> u64 {
        let (write, free) = (whole_file(libc::F_WRLCK), whole_file(libc::F_UNLCK));
        let [lock, unlock] = self.calls(&self.file, &write, &free);
        let mut done = 0;
        for _ in 0..pairs {
            // SAFETY: the descriptor is open; `write` and `free` outlive the loop.
            let (locked, unlocked) = unsafe { (lock.make(), unlock.make()) };
            // One comparison without a branch: 0 only if both results are 0.
            done += u64::from((locked | unlocked) == 0);
        }
        done
    }

    /// Whether the lock excludes a second open file description while it is held, and only then.
    fn excludes(&self) -> Result<(bool, String)> {
        let (write, free) = (whole_file(libc::F_WRLCK), whole_file(libc::F_UNLCK));
        let [lock, unlock] = self.calls(&self.file, &write, &free);
        // SAFETY: as above.
        succeeded(unsafe { lock.make() })?;
        let held = self.other_is_excluded()?;
        // SAFETY: as above.
        succeeded(unsafe { unlock.make() })?;
        let released = self.other_is_excluded()?;
        let detail = format!("excluded while held: {held}, after release: {released}");
        Ok((held && !released, detail))
    }

    /// Whether the second open file description cannot lock now.
    fn other_is_excluded(&self) -> Result<bool> {
        let other = self.other.as_raw_fd() as usize;
        let flock = |operation: libc::c_int| {
            // SAFETY: the descriptor is open; flock takes no pointer.
            unsafe { system_call(libc::SYS_flock, [other, operation as usize, 0, 0]) }
        };
        match self.kind {
            FileLockKind::Fcntl(_) => {
                // F_OFD_GETLK reports conflicts with both posix and ofd locks.
                let mut conflict = whole_file(libc::F_WRLCK);
                let arguments = [other, libc::F_OFD_GETLK as usize, &raw mut conflict as usize, 0];
                // SAFETY: the descriptor is open, and the lock writable until the call returns.
                succeeded(unsafe { system_call(libc::SYS_fcntl, arguments) })?;
                Ok(conflict.l_type != libc::F_UNLCK as libc::c_short)
            }
            FileLockKind::Flock => match flock(libc::LOCK_EX | libc::LOCK_NB) {
                0 => succeeded(flock(libc::LOCK_UN)).map(|()| false),
                error if error == -(libc::EWOULDBLOCK as isize) => Ok(true),
                error => Err(lock_fault(error)),
            },
        }
    }
}

#[derive(Clone, Copy)]
struct FileLockCall {
    number: i64,
    arguments: [usize; 4],
}

impl FileLockCall {
    /// # Safety
    /// As for [`system_call`].
    #[inline(always)]
    unsafe fn make(&self) -> isize {
        // SAFETY: the caller vouches for the arguments.
        unsafe { system_call(self.number, self.arguments) }
    }
}

fn succeeded(result: isize) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(lock_fault(result)) }
}

/// The fault for a lock call that failed with this negative errno.
fn lock_fault(result: isize) -> SamplerFault {
    let errno = -result as i32;
    let error = std::io::Error::from_raw_os_error(errno);
    match errno {
        libc::EINVAL | libc::ENOSYS | libc::EPERM | libc::EACCES | libc::ENOLCK => {
            SamplerFault::unavailable(format!("file lock: {error}"), Remedy::kernel("3.15"))
        }
        _ => SamplerFault::system("file lock", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contended_lock_is_neither_counted_nor_awaited() {
        for kind in ["ofd", "flock"] {
            let lock = Lock::of_new_file(FileLockKind::from_name(kind).unwrap()).unwrap();
            assert_eq!(lock.repeat(100), 100, "{kind}");
            let (write, free) = (whole_file(libc::F_WRLCK), whole_file(libc::F_UNLCK));
            let [acquire, release] = lock.calls(&lock.other, &write, &free);
            // SAFETY: the descriptor is open; `write` and `free` outlive the calls.
            assert_eq!(unsafe { acquire.make() }, 0, "{kind}");
            assert_eq!(lock.repeat(100), 0, "{kind}: the other description holds it");
            // SAFETY: as above.
            assert_eq!(unsafe { release.make() }, 0, "{kind}");
            assert_eq!(lock.repeat(100), 100, "{kind}");
        }
    }

    #[test]
    fn lock_without_exclusion_fails_the_check() {
        for kind in KINDS {
            let lock = Lock::of_new_file(FileLockKind::from_name(kind).unwrap()).unwrap();
            assert!(lock.excludes().unwrap().0, "{kind}");
            let elsewhere = Lock::of_new_file(lock.kind).unwrap();
            let mixed = Lock { kind: lock.kind, file: lock.file, other: elsewhere.other };
            assert!(!mixed.excludes().unwrap().0, "{kind}: two different files");
        }
    }

    #[test]
    fn missing_call_is_unavailable_other_errors_fail() {
        assert!(matches!(lock_fault(-(libc::EINVAL as isize)), SamplerFault::Unavailable(..)));
        assert!(matches!(lock_fault(-(libc::EBADF as isize)), SamplerFault::Failed(_)));
    }
}
