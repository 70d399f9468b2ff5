//! Which system calls fail, at which position, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathom_lab::strace::{Injection, StraceCall, StraceFault};

use crate::{is_soak, scaled};

/// The errors that each call may return. Other calls do not fail.
const ERRORS: &[(&str, &[&str])] = &[
    ("openat", &["EMFILE", "EACCES", "EIO", "ENOSPC", "EINTR"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("write", &["ENOSPC", "EIO", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC", "EINTR"]),
    ("fdatasync", &["EIO", "ENOSPC", "EINTR"]),
    ("ftruncate", &["EIO", "EINTR"]),
    // F_SETLK does not wait, and so never returns EINTR.
    ("fcntl", &["EACCES", "EIO", "ENOLCK"]),
    ("mkdir", &["EACCES", "ENOSPC", "EIO"]),
    ("unlink", &["EACCES", "EIO"]),
    ("linkat", &["EACCES", "ENOSPC", "EIO"]),
    ("rename", &["EACCES", "ENOSPC", "EIO"]),
    ("renameat2", &["EACCES", "ENOSPC", "EIO"]),
    ("access", &["EACCES", "EIO"]),
    ("statx", &["EACCES", "EIO", "ENOMEM"]),
    ("newfstatat", &["EACCES", "EIO", "ENOMEM"]),
    ("fchown", &["EPERM"]),
    // Linux closes a descriptor even if close(2) fails; strace would leave it open.
    ("close", &[]),
    ("mmap", &["ENOMEM"]),
    ("munmap", &["ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    // It reports failure by its value, not by an error.
    ("brk", &[]),
    ("pipe2", &["EMFILE", "ENFILE"]),
    ("clone", &["EAGAIN", "ENOMEM"]),
    ("clone3", &["EAGAIN", "ENOMEM"]),
    ("socketpair", &["EMFILE", "ENFILE"]),
    ("recvfrom", &["EINTR"]),
    ("prctl", &["EPERM"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
    ("poll", &["EINTR", "ENOMEM"]),
    ("wait4", &["EINTR", "ECHILD"]),
    ("waitid", &["EINTR", "ECHILD"]),
    ("kill", &["EPERM", "ESRCH"]),
    ("socket", &["EMFILE", "EACCES"]),
    ("bind", &["EACCES"]),
    ("listen", &["EACCES"]),
    ("clock_nanosleep", &["EINTR"]),
    ("readlink", &["EACCES", "EIO"]),
    ("getdents64", &["EIO"]),
    ("getrandom", &["EINTR"]),
    ("sched_setaffinity", &["EINVAL", "EPERM"]),
    ("sched_getaffinity", &["EINVAL"]),
    ("sendto", &["ECONNREFUSED"]),
];

/// The faults of `make test`: of calls that store results, that start workers and read from them,
/// and that write files.
const FEW: &[(&str, StraceFault)] = &[
    ("openat", StraceFault::Error("EMFILE")),
    ("openat", StraceFault::Error("EINTR")),
    ("read", StraceFault::Error("EIO")),
    ("read", StraceFault::Error("EINTR")),
    ("write", StraceFault::Error("ENOSPC")),
    ("write", StraceFault::Kill),
    ("pwrite64", StraceFault::Error("ENOSPC")),
    ("pwrite64", StraceFault::Kill),
    ("fsync", StraceFault::Error("EIO")),
    ("fdatasync", StraceFault::Error("EIO")),
    ("fcntl", StraceFault::Error("EIO")),
    ("linkat", StraceFault::Error("ENOSPC")),
    ("rename", StraceFault::Error("EIO")),
    ("mmap", StraceFault::Error("ENOMEM")),
    ("clone3", StraceFault::Error("EAGAIN")),
    ("pipe2", StraceFault::Error("EMFILE")),
    ("ppoll", StraceFault::Interrupt),
    ("ppoll", StraceFault::Error("EINTR")),
];

/// Calls that change the store: `make soak` lets each of them fail.
const WRITES: &[&str] = &["write", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink"];

/// An error after which the caller repeats the call.
pub(crate) const TRANSIENT: &str = "EINTR";

/// The faults of these calls. Each error comes once at every selected call. At a few of those it
/// comes for good, or twice in a row if it is transient; and so do a kill and a SIGINT.
pub(crate) fn plan(calls: &[StraceCall], store: &Path) -> Vec<Injection> {
    let mut by_name: BTreeMap<(&str, &str), Vec<&StraceCall>> = BTreeMap::new();
    for call in calls {
        by_name.entry((&call.name, object_of(&call.line, store))).or_default().push(call);
    }
    let mut planned = Vec::new();
    for ((name, object), calls) in by_name {
        let Some((_, errors)) = ERRORS.iter().find(|(call, _)| *call == name) else { continue };
        let of_store = if WRITES.contains(&name) { usize::MAX } else { 12 };
        let positions = if is_store(object) { scaled(4, of_store) } else { scaled(2, 3) };
        let few = spread(&calls, scaled(4, 5).min(positions));
        for at in spread(&calls, positions) {
            for error in *errors {
                let once = Injection::once(name, at, StraceFault::Error(error));
                let times = if *error == TRANSIENT { Some(2) } else { None };
                if few.contains(&at) {
                    planned.push(Injection { times, ..once.clone() });
                }
                planned.push(once);
            }
            if few.contains(&at) {
                planned.push(Injection::once(name, at, StraceFault::Kill));
                planned.push(Injection::once(name, at, StraceFault::Interrupt));
            }
        }
    }
    planned
}

/// The numbers of `count` of these calls: the first, the last and some between.
fn spread(among: &[&StraceCall], count: usize) -> BTreeSet<usize> {
    let count = count.min(among.len());
    let at = |part: usize| among[part * (among.len() - 1) / (count - 1).max(1)].number;
    (0..count).map(at).collect()
}

/// The kind of file that a line of the log is about.
fn object_of(line: &str, store: &Path) -> &'static str {
    let store = store.to_string_lossy();
    let folder = store.rfind('/').map_or("", |end| &store[..end]);
    let is_file = |suffix: &str| line.contains(&format!("{store}{suffix}"));
    let kinds = [
        (is_file("-wal"), "log"),
        (is_file("-shm"), "index"),
        (is_file("-journal"), "journal"),
        (is_file(""), "store"),
        (line.contains(folder), "folder of the store"),
        (line.contains("<pipe:["), "pipe"),
        (line.contains("<socket:[") || line.contains("<UNIX"), "socket"),
        (line.contains("/proc/"), "/proc"),
        (line.contains("/sys/"), "/sys"),
        (line.contains("</") || line.contains("\"/"), "other file"),
    ];
    kinds.iter().find(|(is_kind, _)| *is_kind).map_or("–", |(_, name)| name)
}

fn is_store(object: &str) -> bool {
    ["log", "index", "journal", "store", "folder of the store"].contains(&object)
}

/// All trials, or one of each of a few faults.
pub(crate) fn sample<T>(trials: Vec<T>, injection_of: impl Fn(&T) -> &Injection) -> Vec<T> {
    if is_soak() {
        return trials;
    }
    let mut sample = Vec::new();
    let mut left = trials;
    for (number, (call, fault)) in FEW.iter().enumerate() {
        let is_so = |one: &Injection| one.call == *call && one.fault == *fault;
        let places = left.iter().enumerate().map(|(place, one)| (injection_of(one), place));
        let mut places: Vec<_> = places.filter(|(one, _)| is_so(one)).collect();
        // Early calls, which every run makes.
        places.sort_by_key(|(one, _)| one.at);
        let place = places.get(number % places.len().clamp(1, 3)).map(|(_, place)| *place);
        sample.extend(place.map(|place| left.remove(place)));
    }
    sample
}
