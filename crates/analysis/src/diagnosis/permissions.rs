//! Permissions of this process. A run needs none of them: what is missing is a note.

use super::rule::{Rule, RuleOutcome, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "privileges",
        touches: &["file.*"],
        effect: "the machine cannot be tuned, and the page cache cannot be dropped",
        check: privileges,
    },
    Rule {
        id: "drop-caches",
        touches: &["file.*"],
        effect: "the page cache can be evicted file by file only",
        check: drop_caches,
    },
    Rule {
        id: "io-uring",
        touches: &["file.*", "network.*"],
        effect: "cases with io_uring are unavailable",
        check: io_uring,
    },
    Rule {
        id: "perf-events",
        touches: &["cpu.*", "memory.*"],
        effect: "cache misses and memory traffic are computed instead of counted",
        check: perf_events,
    },
];

/// Above this level an unprivileged process cannot count events in the kernel.
const PARANOID_GOOD: i32 = 1;

const PMUS: &str = "/sys/bus/event_source/devices";

fn privileges(subject: &Subject<'_>) -> RuleOutcome {
    let permissions = &subject.condition.permissions;
    let outcome = match permissions.root {
        Some(true) => RuleOutcome::good("root"),
        Some(false) => {
            let held = match permissions.capabilities.is_empty() {
                true => "no relevant capability".to_owned(),
                false => format!("cap_{}", permissions.capabilities.join(", cap_")),
            };
            RuleOutcome::note(format!("not root; {held}")).fix(Fix::BecomeRootToTune)
        }
        None => RuleOutcome::unknown("privileges", subject.unread("/proc/self/status")),
    };
    outcome.from(subject, &["permissions.root", "permissions.capabilities"])
}

fn drop_caches(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.condition.permissions.drop_caches {
        Some(true) => RuleOutcome::good("vm.drop_caches is writable"),
        Some(false) => {
            let outcome = RuleOutcome::note("vm.drop_caches is not writable");
            match subject.condition.permissions.root {
                Some(true) => outcome.nothing_to_do(Acceptable::Forbidden),
                _ => outcome.fix(Fix::BecomeRootToDropCaches),
            }
        }
        None => {
            let because = subject.unread("/proc/sys/vm/drop_caches");
            RuleOutcome::unknown("permission to drop the page cache", because)
        }
    };
    outcome.from(subject, &["permissions.drop_caches"])
}

fn io_uring(subject: &Subject<'_>) -> RuleOutcome {
    let permissions = &subject.condition.permissions;
    let paths = ["permissions.io_uring", "permissions.io_uring_disabled"];
    let switch = permissions
        .io_uring_disabled
        .map_or(String::new(), |value| format!(" (kernel.io_uring_disabled = {value})"));
    let outcome = match permissions.io_uring.as_deref() {
        Some("allowed") => RuleOutcome::good(format!("allowed{switch}")),
        Some(refused) => {
            let outcome = RuleOutcome::note(format!("io_uring_setup(2): {refused}{switch}"));
            match permissions.io_uring_disabled {
                Some(1 | 2) => outcome.fix(Fix::AllowIoUring),
                _ => outcome.nothing_to_do(Acceptable::Forbidden),
            }
        }
        None => RuleOutcome::unknown("io_uring", "not tried"),
    };
    outcome.from(subject, &paths)
}

fn perf_events(subject: &Subject<'_>) -> RuleOutcome {
    let permissions = &subject.condition.permissions;
    let paths = ["permissions.pmu", "permissions.perf_event_paranoid"];
    let paranoid = permissions.perf_event_paranoid;
    let level =
        paranoid.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid = {level})"));
    let able = permissions.can("perfmon") || permissions.can("sys_admin");
    let outcome = match permissions.pmu {
        Some(false) => RuleOutcome::note(format!("no hardware counters{level}"))
            .nothing_to_do(Acceptable::NoHardware),
        None => RuleOutcome::unknown("hardware counters", subject.unread(PMUS)),
        Some(true) => match paranoid {
            Some(value) if !able && value > PARANOID_GOOD => {
                RuleOutcome::note(format!("hardware counters are restricted{level}"))
                    .fix(Fix::AllowPerfEvents)
            }
            None if !subject.condition.proc_readable => RuleOutcome::unknown(
                "access to hardware counters",
                subject.unread("/proc/sys/kernel"),
            ),
            None if !able => RuleOutcome::note("this kernel has no perf events")
                .nothing_to_do(Acceptable::KernelBuild),
            _ => RuleOutcome::good(format!("hardware counters are readable{level}")),
        },
    };
    outcome.from(subject, &paths)
}
