//! Limits of this process (`ulimit`).

use super::quota::{ROOM_SEVERE, ROOM_WARNING};
use super::rule::{Outcome, Rule, Subject, count, size};
use fathom_record::{Fix, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "limit-processes",
        touches: &["os.process.*", "os.thread.*", "network.*"],
        effect: "workers, children and threads beyond the limit cannot be started",
        look: processes,
    },
    Rule {
        id: "limit-files",
        touches: &["os.select", "os.poll", "os.epoll", "file.*", "network.*"],
        effect: "files and connections beyond the limit cannot be opened",
        look: files,
    },
    Rule {
        id: "limit-address-space",
        touches: &["memory.*", "os.process.fork", "os.thread.*"],
        effect: "what cannot be mapped is unavailable",
        look: address_space,
    },
    Rule {
        id: "limit-locked-memory",
        touches: &["memory.*", "file.*"],
        effect: "buffers that must stay in memory cannot be registered",
        look: locked,
    },
];

/// A run opens pipes, the store and some counter files.
const FILES_SEVERE: u64 = 64;
/// The soft limit that every distribution gives.
const FILES_GOOD: u64 = 1024;
/// A worker does not start in less.
const SPACE_SEVERE_BYTES: u64 = 128 << 20;
/// Below it, sizes of memory are lost.
const SPACE_GOOD_BYTES: u64 = 4 << 30;
/// What kernels have given since 5.16.
const LOCKED_GOOD_BYTES: u64 = 8 << 20;

/// Whether a limit was read; without, it is unknown, which is not unlimited.
fn is_read(subject: &Subject<'_>, name: &str) -> bool {
    subject.condition.origins.contains_key(name)
}

fn unknown(what: &str) -> Outcome {
    Outcome::unknown(what, "/proc/self/limits cannot be read")
}

/// Whether a capability lifts a limit.
fn exempt(subject: &Subject<'_>, capabilities: &[&str]) -> Option<String> {
    let permissions = &subject.condition.permissions;
    let held = capabilities.iter().find(|capability| permissions.can(capability))?;
    Some(format!("cap_{held}"))
}

fn processes(subject: &Subject<'_>) -> Outcome {
    let (limits, path) = (&subject.condition.limits, "limits.processes");
    if !is_read(subject, path) {
        return unknown("the limit on processes");
    }
    let Some(max) = limits.processes else {
        return Outcome::good("unlimited").from(subject, &[path]);
    };
    let root = subject.condition.permissions.root == Some(true);
    let lifted = exempt(subject, &["sys_resource", "sys_admin"]);
    if let Some(by) = lifted.or_else(|| root.then(|| "root".to_owned())) {
        return Outcome::good(format!("{max}, which does not bind {by}")).from(subject, &[path]);
    }
    let Some(now) = limits.processes_now else {
        return Outcome::unknown(
            "the room below the limit on processes",
            &format!("of {max} it is not told how many this user has"),
        )
        .from(subject, &[path]);
    };
    let room = max.saturating_sub(now);
    let found = format!(
        "{}, and this user has {now}: room for {room}",
        count(max, "process or thread", "processes and threads")
    );
    let outcome = match room {
        room if room < ROOM_SEVERE => Outcome::severe(found),
        room if room < ROOM_WARNING => Outcome::warning(found),
        _ => return Outcome::good(found).from(subject, &[path, "limits.processes_now"]),
    };
    outcome
        .from(subject, &[path, "limits.processes_now"])
        .fix(Fix::RaiseProcessLimit { to: now + 4 * ROOM_WARNING })
}

/// A limit of which more is better, and what is said of it.
struct Limit {
    path: &'static str,
    what: &'static str,
    told: Option<(Severity, String)>,
    remedy: Fix,
}

impl Limit {
    /// Unknown where it was not read, good where there is none, else as told.
    fn outcome(self, subject: &Subject<'_>) -> Outcome {
        if !is_read(subject, self.path) {
            return unknown(self.what);
        }
        let outcome = match self.told {
            None => Outcome::good("unlimited"),
            Some((Severity::Good, found)) => Outcome::good(found),
            Some((severity, found)) => Outcome::of(severity, found).fix(self.remedy),
        };
        outcome.from(subject, &[self.path])
    }
}

fn files(subject: &Subject<'_>) -> Outcome {
    let severity = |max| match max {
        max if max < FILES_SEVERE => Severity::Severe,
        max if max < FILES_GOOD => Severity::Warning,
        _ => Severity::Good,
    };
    let max = subject.condition.limits.files;
    let found = |max| format!("{} may be open", count(max, "file", "files"));
    Limit {
        path: "limits.files",
        what: "the limit on open files",
        told: max.map(|max| (severity(max), found(max))),
        remedy: Fix::RaiseFileLimit,
    }
    .outcome(subject)
}

fn address_space(subject: &Subject<'_>) -> Outcome {
    let severity = |max| match max {
        max if max < SPACE_SEVERE_BYTES => Severity::Severe,
        max if max < SPACE_GOOD_BYTES => Severity::Warning,
        _ => Severity::Good,
    };
    let max = subject.condition.limits.address_space_bytes;
    Limit {
        path: "limits.address_space_bytes",
        what: "the limit on address space",
        told: max.map(|max| (severity(max), format!("{} may be mapped", size(max)))),
        remedy: Fix::RaiseAddressSpace,
    }
    .outcome(subject)
}

fn locked(subject: &Subject<'_>) -> Outcome {
    let path = "limits.locked_bytes";
    let max = subject.condition.limits.locked_bytes;
    if let (Some(by), Some(max)) = (exempt(subject, &["ipc_lock"]), max) {
        let found = format!("{} may be locked, which does not bind {by}", size(max));
        return Outcome::good(found).from(subject, &[path]);
    }
    let severity = |max| if max < LOCKED_GOOD_BYTES { Severity::Note } else { Severity::Good };
    Limit {
        path,
        what: "the limit on locked memory",
        told: max.map(|max| (severity(max), format!("{} may be locked", size(max)))),
        remedy: Fix::RaiseLockedMemory,
    }
    .outcome(subject)
}
