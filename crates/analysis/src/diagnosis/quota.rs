//! Limits of the cgroup: the CPU quota and what it has cost so far, memory, processes, CPUs.

use super::rule::{Outcome, Rule, Subject, count, list, percent, size};
use fathom_record::Fix;
use fathom_record::condition::QuotaSight;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cgroup-cpu-quota",
        touches: &["*"],
        effect: "the quota stops the worker in the middle of its rounds: every number is noisy",
        look: cpu,
    },
    Rule {
        id: "cgroup-memory",
        touches: &["memory.*", "file.*", "os.process.fork"],
        effect: "the largest sizes are unavailable, and a page cache near the limit is reclaimed",
        look: memory,
    },
    Rule {
        id: "cgroup-pids",
        touches: &["os.process.*", "os.thread.*", "network.*"],
        effect: "processes and threads beyond the limit cannot be started",
        look: pids,
    },
    Rule {
        id: "cpus-allowed",
        touches: &["os.wake.*", "os.switch.*", "memory.*", "network.*"],
        effect: "what needs a second CPU is unavailable, and the coordinator shares the worker's",
        look: allowed,
    },
];

/// A quota up to here stops a worker at least as long as it lets it run.
const QUOTA_SEVERE: f64 = 0.5;
/// A worker wants one CPU whole.
const QUOTA_WHOLE: f64 = 1.0;
/// Share of the periods with a quota in which it stopped the group, above which it bites although
/// it would do for a worker alone.
const THROTTLED_WARNING: f64 = 0.05;
/// So many periods tell something: two seconds' worth of the usual 100 ms.
const PERIODS_MIN: u64 = 20;
/// Below it, metrics of memory lose their larger sizes.
const MEMORY_WARNING_BYTES: u64 = 1 << 30;
/// A run takes a coordinator, a worker and a handful of children and threads.
pub(super) const ROOM_SEVERE: u64 = 16;
/// Below it, metrics with many clients lose their larger counts.
pub(super) const ROOM_WARNING: u64 = 128;

fn cpu(subject: &Subject<'_>) -> Outcome {
    let (host, told) = (subject.host, &subject.condition.throttling);
    let Some(quota) = host.cgroup.cpu_quota else {
        return without_quota(subject);
    };
    let share = match (told.throttled_periods, told.periods) {
        (Some(throttled), Some(periods)) if periods > 0 => {
            Some((throttled as f64 / periods as f64, periods))
        }
        _ => None,
    };
    let so_far = match (share, told.throttled_ns) {
        (Some((share, periods)), Some(ns)) => format!(
            "so far it stopped the group in {} of {}, for {:.1} s",
            percent(share),
            count(periods, "period", "periods"),
            ns as f64 / 1e9
        ),
        (Some((share, periods)), None) => format!(
            "so far it stopped the group in {} of {}",
            percent(share),
            count(periods, "period", "periods")
        ),
        (None, _) => "how often it stopped the group is not told".to_owned(),
    };
    let found = format!("the quota is {quota:.2} CPU; {so_far}");
    let bites =
        share.is_some_and(|(share, periods)| share > THROTTLED_WARNING && periods >= PERIODS_MIN);
    let outcome = if quota <= QUOTA_SEVERE {
        Outcome::severe(found)
            .effect("the worker is stopped at least as long as it runs: no time can be believed")
    } else if quota < QUOTA_WHOLE || bites {
        Outcome::warning(found)
    } else if quota < host.cpu.allowed.len() as f64 {
        return Outcome::note(found)
            .from(subject, &["cgroup.cpu_quota", "throttling"])
            .effect("one worker alone is not stopped; what runs on several CPUs at once is")
            .nothing_to_do(Acceptable::SeveralCpus);
    } else {
        return Outcome::good(found).from(subject, &["cgroup.cpu_quota", "throttling"]);
    };
    let file = host.origins.get("cgroup.cpu_quota").cloned();
    outcome.from(subject, &["cgroup.cpu_quota", "throttling"]).fix(Fix::RaiseCpuQuota { file })
}

/// Without a quota that can be seen.
fn without_quota(subject: &Subject<'_>) -> Outcome {
    let told = &subject.condition.throttling;
    let outcome = match told.sight {
        QuotaSight::Hidden if told.throttled_ns.is_some_and(|ns| ns > 0) => {
            let seconds = told.throttled_ns.unwrap_or(0) as f64 / 1e9;
            Outcome::warning(format!(
                "a quota of a group that this container hides stopped it for {seconds:.1} s so far"
            ))
            .fix(Fix::RaiseContainerCpu)
        }
        QuotaSight::Hidden => {
            Outcome::unknown("the CPU quota", "this container hides the groups above its own")
        }
        QuotaSight::Unknown => Outcome::unknown("the CPU quota", "no CPU cgroup can be found"),
        QuotaSight::Limited | QuotaSight::Unlimited => Outcome::good("no CPU quota"),
    };
    outcome.from(subject, &["throttling"])
}

fn memory(subject: &Subject<'_>) -> Outcome {
    let host = subject.host;
    let held = subject.condition.cgroup_memory_bytes;
    let held = held.map_or(String::new(), |bytes| format!("; the group holds {} now", size(bytes)));
    let paths = ["cgroup.memory_limit_bytes", "cgroup_memory_bytes"];
    match host.cgroup.memory_limit_bytes {
        Some(limit) if limit < MEMORY_WARNING_BYTES => {
            Outcome::warning(format!("the group may hold {}{held}", size(limit)))
                .from(subject, &paths)
                .fix(Fix::RaiseMemoryLimit)
        }
        Some(limit) => {
            Outcome::good(format!("the group may hold {}{held}", size(limit))).from(subject, &paths)
        }
        None if host.cgroup.version.is_none() => {
            Outcome::unknown("the cgroup's memory limit", "no cgroup can be found")
        }
        None => Outcome::good("no memory limit can be seen").from(subject, &["cgroup.version"]),
    }
}

fn pids(subject: &Subject<'_>) -> Outcome {
    let paths = ["cgroup.pids_max", "pids"];
    let Some(max) = subject.host.cgroup.pids_max else {
        return match subject.host.cgroup.version {
            Some(_) => Outcome::good("no limit on processes can be seen")
                .from(subject, &["cgroup.version"]),
            None => Outcome::unknown("the cgroup's limit on processes", "no cgroup can be found"),
        };
    };
    let Some(now) = subject.condition.pids else {
        return Outcome::unknown(
            "the room below the cgroup's limit on processes",
            &format!("of {max} it is not told how many there are"),
        )
        .from(subject, &paths);
    };
    let room = max.saturating_sub(now);
    let found = format!("{now} of {max} processes and threads, room for {room}");
    let outcome = match room {
        room if room < ROOM_SEVERE => Outcome::severe(found),
        room if room < ROOM_WARNING => Outcome::warning(found),
        _ => return Outcome::good(found).from(subject, &paths),
    };
    outcome.from(subject, &paths).fix(Fix::RaisePidsMax)
}

fn allowed(subject: &Subject<'_>) -> Outcome {
    let (cpu, cpuset) = (&subject.host.cpu, &subject.host.cgroup.cpus);
    let paths = ["cpu.allowed", "cpu.logical", "cgroup.cpus"];
    let allowed = u32::try_from(cpu.allowed.len()).unwrap_or(u32::MAX);
    if allowed == 0 {
        return Outcome::severe("no CPU is known to be allowed to this process")
            .effect("a run cannot choose a CPU to measure on, and refuses")
            .fix(Fix::MountProcForCpus)
            .from(subject, &paths);
    }
    let by = if cpuset.len() < cpu.logical as usize && !cpuset.is_empty() {
        " (the cgroup's cpuset)"
    } else {
        " (the affinity of this process)"
    };
    let found = format!("CPU {} of {}{by}", list(&cpu.allowed), cpu.logical);
    let outcome = match allowed {
        all if all >= cpu.logical && all == 1 => {
            Outcome::note("the machine has one CPU").nothing_to_do(Acceptable::OneCpu)
        }
        all if all >= cpu.logical => {
            Outcome::good(format!("all {} may be used", count(cpu.logical.into(), "CPU", "CPUs")))
        }
        1 => Outcome::warning(found).fix(Fix::SecondCpu),
        _ => Outcome::note(found)
            .effect("what runs on all CPUs at once runs on these only")
            .nothing_to_do(Acceptable::OnPurpose),
    };
    outcome.from(subject, &paths)
}
