//! Limits of this process (`ulimit`).

use super::quota::{ROOM_WARNING, by_room};
use super::rule::{Rule, RuleOutcome, Subject, count, size};
use fathom_record::{Fix, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "limit-processes",
        touches: &["os.process.*", "os.thread.*", "network.*"],
        effect: "workers, children and threads beyond the limit cannot be started",
        check: processes,
    },
    Rule {
        id: "limit-files",
        touches: &["os.select", "os.poll", "os.epoll", "file.*", "network.*"],
        effect: "files and connections beyond the limit cannot be opened",
        check: files,
    },
    Rule {
        id: "limit-address-space",
        touches: &["memory.*", "os.process.fork", "os.thread.*"],
        effect: "cases that cannot map their memory are unavailable",
        check: address_space,
    },
    Rule {
        id: "limit-locked-memory",
        touches: &["memory.*", "file.*"],
        effect: "io_uring buffers cannot be registered",
        check: locked,
    },
];

/// A run opens pipes, the store and counter files.
const FILES_SEVERE: u64 = 64;
/// The default soft limit of distributions.
const FILES_GOOD: u64 = 1024;
/// A worker does not start with less.
const SPACE_SEVERE_BYTES: u64 = 128 << 20;
/// Below this, large working sets are unavailable.
const SPACE_GOOD_BYTES: u64 = 4 << 30;
/// The kernel's default since 5.16.
const LOCKED_GOOD_BYTES: u64 = 8 << 20;

/// The outcome of a limit: unknown if it was not read, good if there is none.
fn limit(
    subject: &Subject<'_>,
    name: &str,
    path: &str,
    max: Option<u64>,
    rate: impl Fn(u64) -> RuleOutcome,
) -> RuleOutcome {
    // An absent limit is unlimited only if it was read.
    if !subject.condition.origins.contains_key(path) {
        return RuleOutcome::unknown(name, subject.unread("/proc/self/limits"));
    }
    max.map_or_else(|| RuleOutcome::good("unlimited"), rate).from(subject, &[path])
}

/// The capability that lifts a limit, if the process has one of these.
fn exempt(subject: &Subject<'_>, capabilities: &[&str]) -> Option<String> {
    let permissions = &subject.condition.permissions;
    let held = capabilities.iter().find(|capability| permissions.can(capability))?;
    Some(format!("cap_{held}"))
}

fn processes(subject: &Subject<'_>) -> RuleOutcome {
    let limits = &subject.condition.limits;
    let root = subject.condition.permissions.root == Some(true);
    let exempt = exempt(subject, &["sys_resource", "sys_admin"]);
    let exempt = exempt.or_else(|| root.then(|| "root".to_owned()));
    limit(subject, "process limit", "limits.processes", limits.processes, |max| {
        if let Some(by) = &exempt {
            return RuleOutcome::good(format!("{max}; not enforced: {by} is exempt"));
        }
        let Some(now) = limits.processes_now else {
            let because = format!("limit {max}, number of processes of this user not readable");
            return RuleOutcome::unknown("free processes below the limit", &because);
        };
        let found = format!(
            "{}, {now} in use by this user",
            count(max, "process or thread", "processes and threads")
        );
        by_room(max, now, found)
            .from(subject, &["limits.processes_now"])
            .fix(Fix::RaiseProcessLimit { to: now + 4 * ROOM_WARNING })
    })
}

fn files(subject: &Subject<'_>) -> RuleOutcome {
    let max = subject.condition.limits.files;
    limit(subject, "open file limit", "limits.files", max, |max| {
        let severity = match max {
            max if max < FILES_SEVERE => Severity::Severe,
            max if max < FILES_GOOD => Severity::Warning,
            _ => Severity::Good,
        };
        RuleOutcome::found(severity, count(max, "file", "files")).fix(Fix::RaiseFileLimit)
    })
}

fn address_space(subject: &Subject<'_>) -> RuleOutcome {
    let max = subject.condition.limits.address_space_bytes;
    limit(subject, "address space limit", "limits.address_space_bytes", max, |max| {
        let severity = match max {
            max if max < SPACE_SEVERE_BYTES => Severity::Severe,
            max if max < SPACE_GOOD_BYTES => Severity::Warning,
            _ => Severity::Good,
        };
        RuleOutcome::found(severity, size(max)).fix(Fix::RaiseAddressSpace)
    })
}

fn locked(subject: &Subject<'_>) -> RuleOutcome {
    let max = subject.condition.limits.locked_bytes;
    let exempt = exempt(subject, &["ipc_lock"]);
    limit(subject, "locked memory limit", "limits.locked_bytes", max, |max| match &exempt {
        Some(by) => RuleOutcome::good(format!("{}; not enforced: {by} is exempt", size(max))),
        None if max < LOCKED_GOOD_BYTES => RuleOutcome::note(size(max)).fix(Fix::RaiseLockedMemory),
        None => RuleOutcome::good(size(max)),
    })
}
