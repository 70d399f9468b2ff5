//! Which system calls are made to fail, where and how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathom_lab::seeded::Seeded;
use fathom_lab::strace::{Call, Fault, Injection};

use crate::count;

/// Which errors a call may meet. What is not here is not made to fail.
const ERRORS: &[(&str, &[&str])] = &[
    ("openat", &["EMFILE", "EACCES", "EIO", "ENOSPC", "EINTR"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("write", &["ENOSPC", "EIO", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC", "EINTR"]),
    ("fdatasync", &["EIO", "ENOSPC", "EINTR"]),
    ("ftruncate", &["EIO", "EINTR"]),
    // F_SETLK does not wait, and is not interrupted.
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
    // Linux has closed what it says it failed to close; strace would leave it open.
    ("close", &[]),
    ("mmap", &["ENOMEM"]),
    ("munmap", &["ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    // It fails by its value, not by an error.
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

/// Calls by which results are kept, and workers are started and heard.
const WEIGHTY: &[&str] = &[
    "openat",
    "read",
    "write",
    "pread64",
    "pwrite64",
    "fsync",
    "fdatasync",
    "linkat",
    "rename",
    "fcntl",
    "mmap",
    "clone",
    "clone3",
    "ppoll",
    "pipe2",
    "socketpair",
    "recvfrom",
];

/// The system restarts what a signal interrupts, so an error of this kind passes.
pub(crate) const PASSING: &str = "EINTR";

/// The errors that a call may meet; `None` where nothing is done to it.
fn errors_of(name: &str) -> Option<&'static [&'static str]> {
    ERRORS.iter().find(|(call, _)| *call == name).map(|(_, errors)| *errors)
}

/// The names of the calls to which nothing is done.
pub(crate) fn untouched(calls: &[Call]) -> String {
    let names: BTreeSet<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| errors_of(name).is_none()).collect();
    names.join(" ")
}

/// A fault of a call, and on what that call is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlannedFault {
    pub(crate) injection: Injection,
    pub(crate) on: &'static str,
}

/// Every fault that makes sense for these calls. Each error comes once at every chosen call; at a
/// few of those it comes for good, or twice in a row where it passes, and so do a kill and a
/// person's interruption.
pub(crate) fn of(calls: &[Call], store: &Path) -> Vec<PlannedFault> {
    let mut by_name: BTreeMap<(&str, &'static str), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_name.entry((&call.name, place_of(&call.line, store))).or_default().push(call);
    }
    let mut chosen = Vec::new();
    for ((name, on), calls) in by_name {
        let Some(errors) = errors_of(name) else { continue };
        let often = if is_of_the_store(on) { count(4, usize::MAX) } else { count(2, 3) };
        let few = spread(&calls, count(4, 5).min(often));
        for at in spread(&calls, often) {
            let mut take = |injection| chosen.push(PlannedFault { injection, on });
            for error in errors {
                let once = Injection::once(name, at, Fault::Error(error));
                let times = if *error == PASSING { Some(2) } else { None };
                if few.contains(&at) {
                    take(Injection { times, ..once.clone() });
                }
                take(once);
            }
            if few.contains(&at) {
                take(Injection::once(name, at, Fault::Kill));
                take(Injection::once(name, at, Fault::Interrupt));
            }
        }
    }
    chosen
}

/// The numbers of `count` of these calls: the first, the last and some between.
fn spread(among: &[&Call], count: usize) -> BTreeSet<usize> {
    let count = count.min(among.len());
    let at = |part: usize| among[part * (among.len() - 1) / (count - 1).max(1)].number;
    (0..count).map(at).collect()
}

/// On what a call is made, by its line in the log.
fn place_of(line: &str, store: &Path) -> &'static str {
    let store = store.to_string_lossy();
    let folder = store.rfind('/').map_or("", |end| &store[..end]);
    let is_store = |suffix: &str| line.contains(&format!("{store}{suffix}"));
    let known = [
        (is_store("-wal"), "log"),
        (is_store("-shm"), "index"),
        (is_store("-journal"), "journal"),
        (is_store(""), "store"),
        (line.contains(folder), "folder of the store"),
        (line.contains("<pipe:["), "pipe"),
        (line.contains("<socket:[") || line.contains("<UNIX"), "socket"),
        (line.contains("/proc/"), "/proc"),
        (line.contains("/sys/"), "/sys"),
        (line.contains("</") || line.contains("\"/"), "other file"),
    ];
    known.iter().find(|(fits, _)| *fits).map_or("–", |(_, name)| name)
}

/// Whether what is done there is storing.
fn is_of_the_store(env: &str) -> bool {
    ["log", "index", "journal", "store", "folder of the store"].contains(&env)
}

/// All trials, or a sample that has some of every call, and more of those that concern the store
/// and the workers.
pub(crate) fn sample<T>(trials: Vec<T>, call_of: impl Fn(&T) -> &String) -> Vec<T> {
    let mut by_call: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for trial in trials {
        by_call.entry(call_of(&trial).clone()).or_default().push(trial);
    }
    let mut seeds = Seeded(3);
    let mut chosen = Vec::new();
    for (call, mut trials) in by_call {
        let short = if WEIGHTY.contains(&call.as_str()) { 8 } else { 2 };
        for _ in 0..amount(short, trials.len()).min(trials.len()) {
            chosen.push(trials.swap_remove(seeds.below(trials.len() as u64) as usize));
        }
    }
    chosen
}
