//! Background activity of the kernel: memory management, scheduling.

use super::rule::{Rule, RuleOutcome, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "damon",
        touches: &["memory.*", "file.*", "os.process.*"],
        effect: "idle pages are reclaimed or moved within seconds: warm files become cold, large \
                 working sets and idle buffers fault again",
        check: damon,
    },
    Rule {
        id: "zswap",
        touches: &["memory.*", "file.*"],
        effect: "reclaimed pages are compressed in memory: CPU time, and less free memory",
        check: zswap,
    },
    Rule {
        id: "ksm",
        touches: &["memory.*", "os.process.fork"],
        effect: "ksmd scans memory on a CPU, and a write to a merged page faults",
        check: ksm,
    },
    Rule {
        id: "autogroup",
        touches: &["os.*", "memory.bandwidth", "memory.latency.loaded"],
        effect: "CPU time is divided between sessions: nice works within a session only",
        check: autogroup,
    },
];

/// DAMON actions that do not move or reclaim pages.
const HARMLESS: [&str; 5] = ["stat", "lru_prio", "lru_deprio", "willneed", "damon_lru_sort"];

fn damon(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.memory.damon.as_deref() {
        None => RuleOutcome::unknown("DAMON schemes", why_unknown(subject)),
        Some("none") => RuleOutcome::good("no DAMON scheme is active"),
        Some("unknown actions") => {
            let outcome = RuleOutcome::note("DAMON is running; schemes are readable by root only");
            match subject.condition.permissions.root {
                Some(true) => outcome.nothing_to_do(Acceptable::Forbidden),
                _ => outcome.fix(Fix::ReadDamonAsRoot),
            }
        }
        Some(actions) if actions.split(", ").all(|action| HARMLESS.contains(&action)) => {
            RuleOutcome::note(format!("DAMON schemes: {actions}"))
                .effect("DAMON samples accesses: some CPU time")
                .nothing_to_do(Acceptable::NoPageMoved)
        }
        Some(actions) => {
            RuleOutcome::warning(format!("DAMON schemes: {actions}")).fix(Fix::StopDamon)
        }
    };
    outcome.from(subject, &["memory.damon"])
}

/// Why nothing is known of DAMON: without `/sys/kernel/mm`, or of its schemes, which are root's.
fn why_unknown(subject: &Subject<'_>) -> String {
    let memory = &subject.host.memory;
    match memory.thp.is_none() && memory.ksm.run.is_none() {
        true => subject.unread("/sys/kernel/mm"),
        false => "readable by root only, and kernel threads are not visible".to_owned(),
    }
}

fn zswap(subject: &Subject<'_>) -> RuleOutcome {
    let memory = &subject.host.memory;
    let outcome = match (memory.zswap.enabled, memory.swap_bytes) {
        (None, _) => RuleOutcome::unknown("zswap", subject.unread("/sys/module/zswap")),
        (Some(false), _) => RuleOutcome::good("off"),
        (Some(true), Some(0)) => RuleOutcome::good("on, but no swap"),
        (Some(true), _) => RuleOutcome::note("on").fix(Fix::DisableZswap),
    };
    outcome.from(subject, &["memory.zswap.enabled", "memory.swap_bytes"])
}

fn ksm(subject: &Subject<'_>) -> RuleOutcome {
    let ksm = &subject.host.memory.ksm;
    let outcome = match ksm.run {
        None => RuleOutcome::unknown("KSM", subject.unread("/sys/kernel/mm/ksm/run")),
        Some(1) => {
            let saved = ksm.pages_sharing.map(|pages| format!(", {pages} pages saved"));
            RuleOutcome::warning(format!("running{}", saved.unwrap_or_default())).fix(Fix::StopKsm)
        }
        Some(_) => RuleOutcome::good("not running"),
    };
    outcome.from(subject, &["memory.ksm.run", "memory.ksm.pages_sharing"])
}

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";

fn autogroup(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.autogroup {
        None => RuleOutcome::unknown("autogroup", subject.unread(AUTOGROUP)),
        Some(false) => RuleOutcome::good("off"),
        Some(true) => RuleOutcome::note("on").fix(Fix::DisableAutogroup),
    };
    outcome.from(subject, &["autogroup"])
}
