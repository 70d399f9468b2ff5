//! What the kernel does on its own meanwhile: to memory, to scheduling, to TCP.

use super::rule::{Outcome, Rule, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "damon",
        touches: &["memory.*", "file.*", "os.process.*"],
        effect: "pages of a measured process are reclaimed or moved: accesses fault again",
        look: damon,
    },
    Rule {
        id: "zswap",
        touches: &["memory.*", "file.*"],
        effect: "reclaimed pages are compressed in memory: CPU time, and less memory is free",
        look: zswap,
    },
    Rule {
        id: "ksm",
        touches: &["memory.*", "os.process.fork"],
        effect: "ksmd scans memory on a CPU, and a write to a merged page faults",
        look: ksm,
    },
    Rule {
        id: "autogroup",
        touches: &["os.*", "memory.bandwidth", "memory.latency.loaded"],
        effect: "CPU time is shared by session, so that nice counts within one session only",
        look: autogroup,
    },
    Rule {
        id: "tcp-congestion",
        touches: &["network.*"],
        effect: "bbr paces TCP on loopback too, which bounds its throughput",
        look: congestion,
    },
];

/// Actions that watch pages or sort them, and leave them where they are.
const HARMLESS: [&str; 5] = ["stat", "lru_prio", "lru_deprio", "willneed", "damon_lru_sort"];

fn damon(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.memory.damon.as_deref() {
        None => Outcome::unknown("what DAMON does", "only root reads its state"),
        Some("none") => Outcome::good("no DAMON scheme is active"),
        Some("unknown actions") => {
            Outcome::note("DAMON runs; only root reads its schemes").fix(Fix::ReadDamonAsRoot)
        }
        Some(actions) if actions.split(", ").all(|action| HARMLESS.contains(&action)) => {
            Outcome::note(format!("DAMON schemes: {actions}"))
                .effect("DAMON samples accesses, which takes some CPU time")
                .nothing_to_do(Acceptable::NoPageMoved)
        }
        Some(actions) => Outcome::warning(format!("DAMON schemes: {actions}")).fix(Fix::StopDamon),
    };
    outcome.from(subject, &["memory.damon"])
}

fn zswap(subject: &Subject<'_>) -> Outcome {
    let memory = &subject.host.memory;
    let outcome = match (memory.zswap.enabled, memory.swap_bytes) {
        (None, _) => Outcome::unknown("zswap", "/sys/module/zswap does not have it"),
        (Some(false), _) => Outcome::good("off"),
        (Some(true), Some(0)) => Outcome::good("on, without swap: nothing is compressed"),
        (Some(true), _) => Outcome::note("on").fix(Fix::DisableZswap),
    };
    outcome.from(subject, &["memory.zswap.enabled", "memory.swap_bytes"])
}

fn ksm(subject: &Subject<'_>) -> Outcome {
    let ksm = &subject.host.memory.ksm;
    let outcome = match ksm.run {
        None => Outcome::unknown("KSM", "/sys/kernel/mm/ksm/run cannot be read"),
        Some(1) => {
            Outcome::warning(format!("running, {} pages saved", ksm.pages_sharing.unwrap_or(0)))
                .fix(Fix::StopKsm)
        }
        Some(_) => Outcome::good("not running"),
    };
    outcome.from(subject, &["memory.ksm.run", "memory.ksm.pages_sharing"])
}

fn autogroup(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.autogroup {
        None => Outcome::unknown("autogroup", "this kernel has no switch for it"),
        Some(false) => Outcome::good("off"),
        Some(true) => Outcome::note("on").fix(Fix::DisableAutogroup),
    };
    outcome.from(subject, &["autogroup"])
}

fn congestion(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.tcp.congestion.as_deref() {
        None => Outcome::unknown("TCP congestion control", "/proc/sys/net cannot be read"),
        Some(bbr) if bbr.starts_with("bbr") => {
            Outcome::note(format!("{bbr}, which paces")).fix(Fix::ChooseCubic)
        }
        Some(other) => Outcome::good(other),
    };
    outcome.from(subject, &["tcp.congestion"])
}
