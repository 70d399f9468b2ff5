//! Limits of the cgroup: CPU quota and throttling, memory, processes, CPUs.

use super::rule::{Rule, RuleOutcome, Subject, count, list, percent, size};
use fathom_record::condition::QuotaSight;
use fathom_record::diagnosis::Acceptable;
use fathom_record::{Fix, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cgroup-cpu-quota",
        touches: &["*"],
        effect: "the worker is throttled within its rounds: every number is noisy",
        check: cpu,
    },
    Rule {
        id: "cgroup-memory",
        touches: &["memory.*", "file.*", "os.process.fork"],
        effect: "large working sets are unavailable, and page cache near the limit is reclaimed",
        check: memory,
    },
    Rule {
        id: "cgroup-pids",
        touches: &["os.process.*", "os.thread.*", "network.*"],
        effect: "processes and threads beyond the limit cannot be started",
        check: pids,
    },
    Rule {
        id: "cpus-allowed",
        touches: &["os.wake.*", "os.switch.*", "memory.*", "network.*"],
        effect: "cases on two CPUs are unavailable, and the coordinator shares the worker's CPU",
        check: allowed,
    },
];

/// With this quota a worker is throttled for at least half of the time.
const QUOTA_SEVERE: f64 = 0.5;
/// A worker uses one whole CPU.
const QUOTA_WHOLE: f64 = 1.0;
/// Share of throttled periods above which a quota of more than one CPU disturbs, too.
const THROTTLED_WARNING: f64 = 0.05;
/// The fewest periods for that share: 2 s of the usual 100 ms.
const PERIODS_MIN: u64 = 20;
/// Below this, metrics of memory lose their larger sizes.
const MEMORY_WARNING_BYTES: u64 = 1 << 30;
/// A run needs a coordinator, a worker and some children and threads.
const ROOM_SEVERE: u64 = 16;
/// Below this, metrics with many clients lose their larger counts.
pub(super) const ROOM_WARNING: u64 = 128;

/// Rates a limit on processes by how many more may be started.
pub(super) fn by_room(max: u64, now: u64, found: String) -> RuleOutcome {
    let room = max.saturating_sub(now);
    let severity = match room {
        room if room < ROOM_SEVERE => Severity::Severe,
        room if room < ROOM_WARNING => Severity::Warning,
        _ => Severity::Good,
    };
    RuleOutcome::found(severity, format!("{found}, {room} free"))
}

fn cpu(subject: &Subject<'_>) -> RuleOutcome {
    let (host, throttling) = (subject.host, &subject.condition.throttling);
    let Some(quota) = host.cgroup.cpu_quota else {
        return without_quota(subject);
    };
    let share = match (throttling.throttled_periods, throttling.periods) {
        (Some(throttled), Some(periods)) if periods > 0 => {
            Some((throttled as f64 / periods as f64, periods))
        }
        _ => None,
    };
    let duration = throttling.throttled_ns.map(|ns| format!(", {:.1} s", ns as f64 / 1e9));
    let so_far = match share {
        Some((share, periods)) => format!(
            "throttled in {} of {}{}",
            percent(share),
            count(periods, "period", "periods"),
            duration.unwrap_or_default()
        ),
        None => "throttled periods unknown".to_owned(),
    };
    let found = format!("{quota:.2} CPU; {so_far}");
    let is_throttled =
        share.is_some_and(|(share, periods)| share > THROTTLED_WARNING && periods >= PERIODS_MIN);
    let file = host.origins.get("cgroup.cpu_quota").cloned();
    let outcome = if quota <= QUOTA_SEVERE {
        RuleOutcome::severe(found)
            .effect("the worker is throttled at least half of the time: times are wrong")
    } else if quota < QUOTA_WHOLE || is_throttled {
        RuleOutcome::warning(found)
    } else if quota < host.cpu.allowed.len() as f64 {
        return RuleOutcome::note(found)
            .from(subject, &["cgroup.cpu_quota", "throttling"])
            .effect("cases on several CPUs are throttled, a single worker is not")
            .nothing_to_do(Acceptable::SeveralCpus);
    } else {
        RuleOutcome::good(found)
    };
    outcome.from(subject, &["cgroup.cpu_quota", "throttling"]).fix(Fix::RaiseCpuQuota { file })
}

fn without_quota(subject: &Subject<'_>) -> RuleOutcome {
    let throttling = &subject.condition.throttling;
    let outcome = match (throttling.sight, throttling.throttled_ns) {
        (QuotaSight::Hidden, Some(ns)) if ns > 0 => {
            let seconds = ns as f64 / 1e9;
            RuleOutcome::warning(format!(
                "throttled for {seconds:.1} s by a quota outside this container"
            ))
            .fix(Fix::RaiseContainerCpu)
        }
        (QuotaSight::Hidden, _) => {
            RuleOutcome::unknown("CPU quota", "parent cgroups are hidden by this container")
        }
        (QuotaSight::Unknown, _) => {
            RuleOutcome::unknown("CPU quota", no_cgroup(subject, "no CPU cgroup is mounted"))
        }
        (QuotaSight::Limited | QuotaSight::Unlimited, _) => RuleOutcome::good("no CPU quota"),
    };
    outcome.from(subject, &["throttling"])
}

/// Why cgroups are unknown.
fn no_cgroup(subject: &Subject<'_>, because: &str) -> String {
    match subject.condition.proc_readable {
        true => because.to_owned(),
        false => subject.unread("/proc/self/cgroup"),
    }
}

/// Without a limit: good, if those of all groups up to the root are known.
fn without_limit(subject: &Subject<'_>, what: &str) -> RuleOutcome {
    match subject.host.cgroup.sees_root {
        Some(true) => {
            let paths = ["cgroup.version", "cgroup.sees_root"];
            RuleOutcome::good(format!("no {what}")).from(subject, &paths)
        }
        Some(false) => RuleOutcome::unknown(what, "parent cgroups are hidden by this container"),
        None => RuleOutcome::unknown(what, no_cgroup(subject, "no cgroup is mounted")),
    }
}

fn memory(subject: &Subject<'_>) -> RuleOutcome {
    let cgroup = &subject.host.cgroup;
    let Some(limit) = cgroup.memory_limit_bytes else {
        return without_limit(subject, "memory limit");
    };
    let used = subject.condition.cgroup_memory_bytes;
    let used = used.map_or(String::new(), |bytes| format!(", {} in use", size(bytes)));
    let is_low = limit < MEMORY_WARNING_BYTES;
    let severity = if is_low { Severity::Warning } else { Severity::Good };
    RuleOutcome::found(severity, format!("{}{used}", size(limit)))
        .from(subject, &["cgroup.memory_limit_bytes", "cgroup_memory_bytes"])
        .fix(Fix::RaiseMemoryLimit)
}

fn pids(subject: &Subject<'_>) -> RuleOutcome {
    let paths = ["cgroup.pids_max", "pids"];
    let Some(max) = subject.host.cgroup.pids_max else {
        return without_limit(subject, "limit on processes");
    };
    let Some(now) = subject.condition.pids else {
        let because = format!("limit {max}, current number not readable");
        return RuleOutcome::unknown("free processes in the cgroup", &because)
            .from(subject, &paths);
    };
    let found = format!("{now} of {max} processes and threads");
    by_room(max, now, found).from(subject, &paths).fix(Fix::RaisePidsMax)
}

fn allowed(subject: &Subject<'_>) -> RuleOutcome {
    let (cpu, cpuset) = (&subject.host.cpu, &subject.host.cgroup.cpus);
    let paths = ["cpu.allowed", "cpu.logical", "cgroup.cpus"];
    let allowed = u32::try_from(cpu.allowed.len()).unwrap_or(u32::MAX);
    let isolated = cpu.isolated.iter().flatten().filter(|one| !cpu.allowed.contains(one)).count();
    let by = if cpuset.len() < cpu.logical as usize && !cpuset.is_empty() {
        "cgroup cpuset"
    } else if isolated > 0 && cpu.allowed.len() + isolated == cpu.logical as usize {
        "isolcpus"
    } else {
        "CPU affinity"
    };
    let found = format!("CPU {} of {} ({by})", list(&cpu.allowed), cpu.logical);
    let outcome = match allowed {
        0 => RuleOutcome::severe("no allowed CPU known")
            .effect("a run cannot choose a CPU and fails")
            .fix(Fix::MountProcForCpus),
        _ if cpu.logical == 0 => {
            let what = format!("CPUs besides the allowed {}", list(&cpu.allowed));
            RuleOutcome::unknown(&what, subject.unread("/sys/devices/system/cpu"))
        }
        all if all >= cpu.logical && all == 1 => {
            RuleOutcome::note("the machine has one CPU").nothing_to_do(Acceptable::OneCpu)
        }
        all if all >= cpu.logical => {
            RuleOutcome::good(format!("all {} allowed", count(cpu.logical.into(), "CPU", "CPUs")))
        }
        1 => RuleOutcome::warning(found).fix(Fix::SecondCpu),
        _ => RuleOutcome::note(found)
            .effect("cases on all CPUs use these only")
            .nothing_to_do(Acceptable::OnPurpose),
    };
    outcome.from(subject, &paths)
}
