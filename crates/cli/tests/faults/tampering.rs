//! Which system calls are made to fail, where and how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathom_lab::seeded::Seeded;
use fathom_lab::strace::{Call, Fault, Injection};

use crate::amount;

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
    ("clone3", &["EAGAIN", "ENOMEM"]),
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
    "openat", "read", "write", "pread64", "pwrite64", "fsync", "fcntl", "mmap", "clone3", "ppoll",
    "pipe2",
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

/// Every fault that makes sense for these calls, at some of them: each error once and for good, and
/// those that pass twice in a row; a kill; a person's interruption.
pub(crate) fn of(calls: &[Call], store: &Path) -> Vec<Injection> {
    let mut by_name: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    calls.iter().for_each(|call| by_name.entry(&call.name).or_default().push(call));
    let mut injections = Vec::new();
    for (name, calls) in by_name {
        let Some(errors) = errors_of(name) else { continue };
        for at in positions(&calls, store) {
            for error in errors {
                let once = Injection::once(name, at, Fault::Error(error));
                let times = if *error == PASSING { Some(2) } else { None };
                injections.push(Injection { times, ..once.clone() });
                injections.push(once);
            }
            injections.push(Injection::once(name, at, Fault::Kill));
            injections.push(Injection::once(name, at, Fault::Interrupt));
        }
    }
    injections
}

/// Which calls of one name: the first, the last and some between; and of those that concern the
/// store more.
fn positions(calls: &[&Call], store: &Path) -> BTreeSet<usize> {
    let folder = store.parent().unwrap_or(store).to_string_lossy().into_owned();
    let (on_store, elsewhere): (Vec<&Call>, Vec<&Call>) =
        calls.iter().partition(|call| call.line.contains(&folder));
    let spread = |among: &[&Call], count: usize| -> Vec<usize> {
        let count = count.min(among.len());
        let at = |part: usize| among[part * (among.len() - 1) / (count - 1).max(1)].number;
        (0..count).map(at).collect()
    };
    let (more, less) = (spread(&on_store, amount(4, 12)), spread(&elsewhere, amount(3, 5)));
    more.into_iter().chain(less).collect()
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
