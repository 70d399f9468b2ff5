//! os.file_lock: a lock on a whole file that nobody else wants.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Params, Prediction, Remedy};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};

use super::raw_call::system_call;
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.file_lock.
pub struct FileLock;

static ABOUT: About = About {
    id: "os.file_lock",
    title: "file lock and unlock",
    timed: "two system calls by the bare instruction: an exclusive lock of a whole file that \
            nobody else has open, and its release",
    not_timed: "making the file; waiting for another: there is none; what a C library does around \
                the calls",
    model: "posix and flock: an order, ≥ 2 × os.syscall{call=getppid}: two system calls, each of \
            which looks up a descriptor and changes a list under locks; ofd: as posix, ± 30 %, \
            being the same code with another owner",
    source: "Linux fs/locks.c: fcntl_setlk and posix_lock_inode, flock_lock_inode",
    pitfalls: &[
        "a lock that another file system keeps elsewhere (NFS, a cluster, FUSE) is a message to a \
         server: here the file lies in memory (memfd), whose locks are the kernel's own common \
         code, as those of ext4, XFS and tmpfs are",
        "a lock that was not taken costs next to nothing: each call's result is compared, and \
         before the rounds a second description of the file is asked whether it is kept out, and \
         let in again",
        "posix locks belong to the process: two descriptions of one process never exclude each \
         other, and closing any of them drops the lock. Locks of the open file description (ofd) \
         do neither",
        "a list of many locks is walked: here it holds one",
        "on some cores (Zen 4 was seen) these calls cost one of two amounts, a third apart: a \
         state of the predictors, it seems, that follows the layout of the program and what ran \
         before, and that repeating the calls for 100 ms does not settle",
    ],
    parameters: &[Parameter {
        name: "kind",
        values: "posix, ofd, flock",
        meaning: "fcntl F_SETLK · fcntl F_OFD_SETLK · flock",
    }],
    needs: &["os.syscall"],
    ..About::BASE
};

const POSIX: &str = "posix";
const KINDS: [&str; 3] = [POSIX, "ofd", "flock"];

impl Probe for FileLock {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// Calls of other kinds leave the core's predictors in states that slow these, by a quarter
    /// where it was tried.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        KINDS.map(|kind| Case::usual(Params::one("kind", kind))).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        if case.params.text("kind") == Some("ofd") {
            let posix = Params::one("kind", POSIX);
            let terms = [Term { times: 1.0, metric: ABOUT.id, params: posix }];
            let source = "the same code with another owner: Linux fs/locks.c, posix_lock_inode";
            let otherwise = "one of the two kinds takes another way through the kernel";
            return Sum { terms: &terms, tolerance: 0.3, source, otherwise }.predict(known);
        }
        let source = "two system calls, each of which does more than getppid";
        let order = Order { factor: 2.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let kind = Kind::of(case.params.text("kind").unwrap_or_default());
            let locked = kind.and_then(|kind| {
                let lock = Lock::of_new_file(kind)?;
                Ok((lock.excludes()?, lock))
            });
            match locked {
                Ok(((passed, detail), lock)) => {
                    sampler.check(index, "another description is kept out", passed, detail);
                    works.push(Work::batched(index, move |pairs| lock.repeat(pairs)));
                }
                Err(fault) => sampler.fault(index, fault),
            }
        }
        sampler.run(works);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By fcntl, with this command.
    Record(libc::c_int),
    /// By flock.
    Whole,
}

impl Kind {
    fn of(name: &str) -> Result<Self, Fault> {
        match name {
            POSIX => Ok(Self::Record(libc::F_SETLK)),
            "ofd" => Ok(Self::Record(libc::F_OFD_SETLK)),
            "flock" => Ok(Self::Whole),
            _ => Err(Fault::Failed(format!("no file lock is known as {name}"))),
        }
    }
}

/// A file in memory, open twice: it is gone with its descriptors, however the worker ends.
struct Lock {
    kind: Kind,
    file: OwnedFd,
    other: OwnedFd,
}

/// A lock of a whole file, as fcntl takes it.
fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

impl Lock {
    fn of_new_file(kind: Kind) -> Result<Self, Fault> {
        let unavailable = |call: &str, error: rustix::io::Errno, remedy| {
            Fault::unavailable(format!("{call}: {error}"), remedy)
        };
        let file = memfd_create(c"fathom-lock", MemfdFlags::CLOEXEC)
            .map_err(|error| unavailable("memfd_create", error, Remedy::kernel("3.17")))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = CString::new(path).map_err(|error| Fault::Failed(error.to_string()))?;
        let other = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let other =
            other.map_err(|error| unavailable("open /proc/self/fd", error, Remedy::MountProc))?;
        Ok(Self { kind, file, other })
    }

    /// The calls that lock and unlock: number and arguments. Addresses are of these two locks.
    fn calls(&self, file: &OwnedFd, taken: &libc::flock, free: &libc::flock) -> [Call; 2] {
        let file = file.as_raw_fd() as usize;
        match self.kind {
            Kind::Record(command) => [taken, free].map(|lock| Call {
                number: libc::SYS_fcntl,
                arguments: [file, command as usize, std::ptr::from_ref(lock) as usize, 0],
            }),
            Kind::Whole => [libc::LOCK_EX | libc::LOCK_NB, libc::LOCK_UN].map(|operation| Call {
                number: libc::SYS_flock,
                arguments: [file, operation as usize, 0, 0],
            }),
        }
    }

    /// Locks and unlocks that often, and returns how often both calls succeeded.
    fn repeat(&self, pairs: u64) -> u64 {
        let (taken, free) = (whole(libc::F_WRLCK), whole(libc::F_UNLCK));
        let [lock, unlock] = self.calls(&self.file, &taken, &free);
        let mut done = 0;
        for _ in 0..pairs {
            // SAFETY: the descriptor is open and the two locks live until the last call.
            let (locked, unlocked) = unsafe { (lock.make(), unlock.make()) };
            done += u64::from((locked | unlocked) == 0);
        }
        done
    }

    /// Whether the lock keeps a second description out while it is held, and only then.
    fn excludes(&self) -> Result<(bool, String), Fault> {
        let (taken, free) = (whole(libc::F_WRLCK), whole(libc::F_UNLCK));
        let [lock, unlock] = self.calls(&self.file, &taken, &free);
        // SAFETY: as above.
        let locked = unsafe { lock.make() };
        if locked != 0 {
            return Err(refused(locked));
        }
        let while_held = self.other_is_kept_out()?;
        // SAFETY: as above.
        let unlocked = unsafe { unlock.make() };
        if unlocked != 0 {
            return Err(refused(unlocked));
        }
        let afterwards = self.other_is_kept_out()?;
        let detail = format!("while it is held: {while_held}, afterwards: {afterwards}");
        Ok((while_held && !afterwards, detail))
    }

    /// Whether the second description may not lock now.
    fn other_is_kept_out(&self) -> Result<bool, Fault> {
        let other = self.other.as_raw_fd() as usize;
        let lock = |operation: libc::c_int| {
            // SAFETY: the descriptor is open; flock takes no pointer.
            unsafe { system_call(libc::SYS_flock, [other, operation as usize, 0, 0]) }
        };
        match self.kind {
            Kind::Record(_) => {
                // Asked as a description of its own, it is kept out by locks of both owners.
                let mut asked = whole(libc::F_WRLCK);
                let arguments = [other, libc::F_OFD_GETLK as usize, &raw mut asked as usize, 0];
                // SAFETY: the descriptor is open, and the lock writable until the call returns.
                match unsafe { system_call(libc::SYS_fcntl, arguments) } {
                    0 => Ok(asked.l_type != libc::F_UNLCK as libc::c_short),
                    error => Err(refused(error)),
                }
            }
            Kind::Whole => match lock(libc::LOCK_EX | libc::LOCK_NB) {
                0 => match lock(libc::LOCK_UN) {
                    0 => Ok(false),
                    error => Err(refused(error)),
                },
                error if error == -(libc::EWOULDBLOCK as isize) => Ok(true),
                error => Err(refused(error)),
            },
        }
    }
}

/// One system call with its arguments.
#[derive(Clone, Copy)]
struct Call {
    number: i64,
    arguments: [usize; 4],
}

impl Call {
    /// # Safety
    /// As for [`system_call`].
    #[inline(always)]
    unsafe fn make(&self) -> isize {
        // SAFETY: the caller answers for the arguments.
        unsafe { system_call(self.number, self.arguments) }
    }
}

/// What it means that a lock could not be had.
fn refused(result: isize) -> Fault {
    let errno = -result as i32;
    let error = std::io::Error::from_raw_os_error(errno);
    match errno {
        libc::EINVAL | libc::ENOSYS | libc::EPERM | libc::EACCES | libc::ENOLCK => {
            Fault::unavailable(format!("file lock: {error}"), Remedy::kernel("3.15"))
        }
        _ => Fault::system("file lock", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn each_kind_is_taken_and_keeps_another_out() {
        for (case, sample) in smoke::run(&FileLock) {
            let sample = sample.unwrap_or_else(|fault| panic!("{}: {fault}", case.params));
            assert_eq!(sample.checks[0].name, "another description is kept out");
        }
    }

    #[test]
    fn a_lock_that_another_holds_is_not_counted_and_not_waited_for() {
        let _alone = smoke::alone();
        for kind in ["ofd", "flock"] {
            let lock = Lock::of_new_file(Kind::of(kind).unwrap()).unwrap();
            assert_eq!(lock.repeat(100), 100, "{kind}");
            let (taken, free) = (whole(libc::F_WRLCK), whole(libc::F_UNLCK));
            let [take, give] = lock.calls(&lock.other, &taken, &free);
            // SAFETY: the descriptor is open and the two locks live until the last call.
            assert_eq!(unsafe { take.make() }, 0, "{kind}");
            assert_eq!(lock.repeat(100), 0, "{kind}: another description holds it");
            // SAFETY: as above.
            assert_eq!(unsafe { give.make() }, 0, "{kind}");
            assert_eq!(lock.repeat(100), 100, "{kind}");
        }
    }

    #[test]
    fn a_lock_that_keeps_nobody_out_fails_the_check() {
        let _alone = smoke::alone();
        for kind in KINDS {
            let lock = Lock::of_new_file(Kind::of(kind).unwrap()).unwrap();
            assert!(lock.excludes().unwrap().0, "{kind}");
            let elsewhere = Lock::of_new_file(lock.kind).unwrap();
            let mixed = Lock { kind: lock.kind, file: lock.file, other: elsewhere.other };
            assert!(!mixed.excludes().unwrap().0, "{kind}: they are two files");
        }
    }

    #[test]
    fn a_call_that_is_not_there_is_unavailable_and_anything_else_a_failure() {
        assert!(matches!(refused(-(libc::EINVAL as isize)), Fault::Unavailable(..)));
        assert!(matches!(refused(-(libc::EBADF as isize)), Fault::Failed(_)));
        assert!(matches!(Kind::of("lease"), Err(Fault::Failed(_))));
    }

    #[test]
    fn a_pair_costs_two_calls_at_least_and_both_owners_the_same() {
        let records = [
            smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0),
            smoke::record(ABOUT.id, &Params::one("kind", POSIX), 800.0, 1.0),
        ];
        let predicted = |kind: &str| {
            let case = Case::usual(Params::one("kind", kind));
            FileLock.predict(&case, &Host::default(), &Inputs::new(&records)).unwrap()
        };
        assert_eq!(predicted(POSIX).low, Some(200.0));
        assert_eq!(predicted("flock").low, Some(200.0));
        assert_eq!(predicted("ofd").value, Some(800.0));
    }
}
