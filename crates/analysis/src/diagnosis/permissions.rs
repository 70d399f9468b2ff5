//! What this process may do. Nothing here needs to be allowed for a run: what is not is a note.

use super::rule::{Outcome, Rule, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "privileges",
        touches: &["file.*"],
        effect: "the machine cannot be set for a run, and page caches cannot be dropped",
        look: privileges,
    },
    Rule {
        id: "drop-caches",
        touches: &["file.*"],
        effect: "reads from a cold page cache can be had file by file only",
        look: drop_caches,
    },
    Rule {
        id: "io-uring",
        touches: &["file.*", "network.*"],
        effect: "cases that go through io_uring are unavailable",
        look: io_uring,
    },
    Rule {
        id: "perf-events",
        touches: &["cpu.*", "memory.*"],
        effect: "cache misses and bytes on the bus are computed where they could be counted",
        look: perf_events,
    },
];

/// Above it, a process without a capability may count nothing of its own in the kernel.
const PARANOID_GOOD: i32 = 1;

fn privileges(subject: &Subject<'_>) -> Outcome {
    let permissions = &subject.condition.permissions;
    let outcome = match permissions.root {
        Some(true) => Outcome::good("root"),
        Some(false) => {
            let held = match permissions.capabilities.is_empty() {
                true => "no capability that matters".to_owned(),
                false => format!("cap_{}", permissions.capabilities.join(", cap_")),
            };
            Outcome::note(format!("not root; {held}")).fix(Fix::BecomeRootToTune)
        }
        None => Outcome::unknown("whether this is root", "/proc/self/status cannot be read"),
    };
    outcome.from(subject, &["permissions.root", "permissions.capabilities"])
}

fn drop_caches(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.condition.permissions.drop_caches {
        Some(true) => Outcome::good("vm.drop_caches may be written"),
        Some(false) => {
            Outcome::note("vm.drop_caches may not be written").fix(Fix::BecomeRootToDropCaches)
        }
        None => Outcome::unknown("whether page caches may be dropped", "there is no such file"),
    };
    outcome.from(subject, &["permissions.drop_caches"])
}

fn io_uring(subject: &Subject<'_>) -> Outcome {
    let permissions = &subject.condition.permissions;
    let paths = ["permissions.io_uring", "permissions.io_uring_disabled"];
    let switch = permissions
        .io_uring_disabled
        .map_or(String::new(), |value| format!(" (kernel.io_uring_disabled = {value})"));
    let outcome = match permissions.io_uring.as_deref() {
        Some("allowed") => Outcome::good(format!("allowed{switch}")),
        Some(refused) => {
            let outcome = Outcome::note(format!("io_uring_setup says: {refused}{switch}"));
            match permissions.io_uring_disabled {
                Some(1 | 2) => outcome.fix(Fix::AllowIoUring),
                _ => outcome.nothing_to_do(Acceptable::Forbidden),
            }
        }
        None => Outcome::unknown("whether io_uring is allowed", "it was not asked"),
    };
    outcome.from(subject, &paths)
}

fn perf_events(subject: &Subject<'_>) -> Outcome {
    let permissions = &subject.condition.permissions;
    let paths = ["permissions.pmu", "permissions.perf_event_paranoid"];
    let paranoid = permissions.perf_event_paranoid;
    let level =
        paranoid.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid = {level})"));
    let able = permissions.can("perfmon") || permissions.can("sys_admin");
    let outcome = match permissions.pmu {
        Some(false) => Outcome::note(format!("no hardware counters{level}"))
            .nothing_to_do(Acceptable::NoHardware),
        None => Outcome::unknown("whether there are hardware counters", "/sys does not tell"),
        Some(true) => match paranoid {
            _ if able => Outcome::good(format!("hardware counters may be read{level}")),
            Some(value) if value <= PARANOID_GOOD => {
                Outcome::good(format!("hardware counters may be read{level}"))
            }
            Some(_) => Outcome::note(format!("hardware counters may not all be read{level}"))
                .fix(Fix::AllowPerfEvents),
            None => Outcome::note("this kernel has no perf events")
                .nothing_to_do(Acceptable::KernelBuild),
        },
    };
    outcome.from(subject, &paths)
}
