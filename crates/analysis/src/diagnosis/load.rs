//! Load of the machine: busy CPUs, steal, load average, pressure, other runs, a recent boot.

use super::rule::{Rule, RuleOutcome, Subject, count, percent};
use fathom_record::condition::{CpuShares, Look};
use fathom_record::{Fix, Severity};

/// Rules on the load of other programs of this machine.
pub(super) const OF_OTHERS: &[&str] = &["cpu-busy", "load-average", "pressure"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-busy",
        touches: &["*"],
        effect: "other tasks preempt the worker: wide intervals, times too long",
        check: busy,
    },
    Rule {
        id: "cpu-steal",
        touches: &["*"],
        effect: "the hypervisor runs other guests on the worker's CPU: outliers",
        check: steal,
    },
    Rule {
        id: "another-run",
        touches: &["*"],
        effect: "two runs disturb each other: both become noisy",
        check: another_run,
    },
    Rule {
        id: "load-average",
        touches: &["*"],
        effect: "recent load may return during a run",
        check: load_average,
    },
    Rule {
        id: "pressure",
        touches: &["*"],
        effect: "tasks wait for the same CPU, memory or device as the worker",
        check: pressure,
    },
    Rule {
        id: "uptime",
        touches: &["*"],
        effect: "services still start, and caches are cold",
        check: uptime,
    },
];

/// The share at which a run warns of noise, too.
pub(super) const BUSY_WARNING: f64 = 0.2;
/// The worker gets less than half of the CPU.
pub const BUSY_SEVERE: f64 = 0.5;
/// Up to two ticks of 10 ms within the sampling interval may be chance.
const TICKS_MIN: f64 = 2.5;
/// Above this share numbers become noisy (METHOD 22).
const STEAL_WARNING: f64 = 0.05;
/// Above this share medians over rounds are shifted, too.
const STEAL_SEVERE: f64 = 0.25;
/// Load average per CPU.
const LOAD_NOTE: f64 = 0.7;
const LOAD_WARNING: f64 = 2.0;
/// Share of the last 10 s in which some task waited, by resource. Lowest for memory, because a task
/// that waits for memory is being reclaimed from.
const PRESSURE_WARNING: [(&str, &str, f64); 3] =
    [("cpu", "CPU", 0.25), ("memory", "memory", 0.01), ("io", "I/O", 0.25)];
const UPTIME_WARNING_S: f64 = 60.0;
const UPTIME_NOTE_S: f64 = 300.0;

fn measured_cpu<'a>(subject: &Subject<'a>) -> Option<(u32, &'a Look)> {
    Some((subject.condition.cpu?, subject.condition.look.as_ref()?))
}

fn busy(subject: &Subject<'_>) -> RuleOutcome {
    let Some((cpu, look)) = measured_cpu(subject) else {
        let because = match subject.condition.proc_readable {
            true => "/proc/stat lists no CPU".to_owned(),
            false => subject.unread("/proc/stat"),
        };
        return RuleOutcome::unknown("CPU utilization", because);
    };
    let Some(own) = look.shares_of(cpu) else {
        return RuleOutcome::unknown(
            &format!("utilization of CPU {cpu}"),
            "/proc/stat does not list it",
        );
    };
    let allowed = &subject.host.cpu.allowed;
    let each: Vec<String> = look
        .cpus
        .iter()
        .filter_map(|one| Some((one.cpu?, one.busy)))
        .filter(|(cpu, _)| allowed.contains(cpu))
        .take(8)
        .map(|(cpu, busy)| format!("CPU {cpu}: {}", percent(busy)))
        .collect();
    let more = if allowed.len() > 8 { ", …" } else { "" };
    let found = format!(
        "CPU {cpu}, which a run would use, is {} busy (all allowed, over {:.0} ms: {}{more})",
        percent(own.busy),
        look.length_ns / 1e6,
        each.join(", ")
    );
    let severity = match own.busy {
        share if share > BUSY_SEVERE => Severity::Severe,
        share if share > BUSY_WARNING => Severity::Warning,
        _ => Severity::Good,
    };
    RuleOutcome::found(severity, found).from(subject, &["look"]).fix(Fix::StopBusyProcesses)
}

/// Steal on the allowed CPUs during the sampling interval: as a share, and in ticks.
fn stolen(subject: &Subject<'_>) -> Option<(f64, f64)> {
    let look = subject.condition.look.as_ref()?;
    let allowed = |one: &&CpuShares| {
        one.cpu.is_some_and(|cpu| subject.host.cpu.allowed.contains(&cpu)) && one.ticks > 0
    };
    let (mut steal, mut ticks) = (0.0, 0.0);
    for one in look.cpus.iter().filter(allowed) {
        steal += one.steal? * one.ticks as f64;
        ticks += one.ticks as f64;
    }
    (ticks > 0.0).then_some((steal / ticks, steal))
}

fn steal(subject: &Subject<'_>) -> RuleOutcome {
    if subject.host.virtualization.as_deref() == Some("none") {
        return RuleOutcome::good("no hypervisor").from(subject, &["virtualization"]);
    }
    if subject.condition.steal_is_told == Some(false) {
        let because = "not reported by this hypervisor";
        return RuleOutcome::unknown("CPU steal", because).from(subject, &["steal_is_told"]);
    }
    let (now, boot) = (stolen(subject), subject.condition.since_boot.as_ref());
    let Some((share, ticks)) = now else {
        let because = match subject.condition.proc_readable {
            true => "/proc/stat does not count it".to_owned(),
            false => subject.unread("/proc/stat"),
        };
        return RuleOutcome::unknown("CPU steal", because);
    };
    // Without CPUID, only steal itself shows that it is reported.
    let is_none = share == 0.0 && boot.and_then(|boot| boot.steal).is_none_or(|it| it == 0.0);
    if is_none && subject.condition.steal_is_told.is_none() {
        return RuleOutcome::unknown("CPU steal", "none so far, and it may not be reported");
    }
    // An idle guest has no steal: relative to busy time, steal is comparable between guests.
    let before = boot.filter(|boot| boot.busy > 0.0).and_then(|boot| Some(boot.steal? / boot.busy));
    let since = before
        .map_or(String::new(), |share| format!("; {} of busy time since boot", percent(share)));
    let found = format!("{} of CPU time{since}", percent(share));
    let outcome = if share > STEAL_SEVERE && ticks > TICKS_MIN {
        RuleOutcome::severe(found)
    } else if share > STEAL_WARNING && ticks > TICKS_MIN {
        RuleOutcome::warning(found)
    } else if before.is_some_and(|share| share > STEAL_WARNING) {
        RuleOutcome::warning(format!("{found}: low now, but not always"))
    } else {
        RuleOutcome::good(found)
    };
    outcome.from(subject, &["look", "since_boot"]).fix(Fix::DedicatedHost)
}

fn another_run(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.condition.another_run {
        Some(true) => RuleOutcome::warning("another run of Fathom is in progress on this machine"),
        Some(false) => RuleOutcome::good("no other run of Fathom"),
        None => RuleOutcome::unknown("other runs of Fathom", "no list of sockets can be read"),
    };
    outcome.from(subject, &["another_run"]).fix(Fix::WaitForOtherRun)
}

fn load_average(subject: &Subject<'_>) -> RuleOutcome {
    let condition = subject.condition;
    let Some([one, five, fifteen]) = condition.load_average else {
        return RuleOutcome::unknown("load average", subject.unread("/proc/loadavg"));
    };
    let cpus = subject.host.cpu.logical;
    let mut found = format!("{one:.2} {five:.2} {fifteen:.2} (1, 5, 15 min)");
    if cpus == 0 {
        let what = format!("load average per CPU: {found}");
        return RuleOutcome::unknown(&what, "the number of CPUs is unknown");
    }
    found += &format!(" on {}", count(cpus.into(), "CPU", "CPUs"));
    if let Some(runnable) = condition.runnable {
        // This process is one of them.
        let others = runnable.saturating_sub(1);
        found += &format!("; {}", count(others, "other runnable thread", "other runnable threads"));
    }
    let severity = match one / f64::from(cpus) {
        each if each > LOAD_WARNING => Severity::Warning,
        each if each > LOAD_NOTE => Severity::Note,
        _ => Severity::Good,
    };
    RuleOutcome::found(severity, found)
        .from(subject, &["load_average"])
        .fix(Fix::WaitForLoadAverage)
}

fn pressure(subject: &Subject<'_>) -> RuleOutcome {
    let pressure = &subject.condition.pressure;
    let mut severity = Severity::Good;
    let mut shares = Vec::new();
    for (kind, name, limit) in PRESSURE_WARNING {
        let Some(share) = pressure.get(kind) else { continue };
        shares.push(format!("{name} {}", percent(*share)));
        if *share > limit {
            severity = Severity::Warning;
        }
    }
    if shares.is_empty() {
        let because = match &subject.condition.pressure_missing {
            Some(why) if subject.condition.proc_readable => why.clone(),
            _ => subject.unread("/proc/pressure"),
        };
        return RuleOutcome::unknown("pressure", because);
    }
    let found = format!("some tasks stalled in the last 10 s: {}", shares.join(", "));
    RuleOutcome::found(severity, found).from(subject, &["pressure"]).fix(Fix::WaitForPressure)
}

fn uptime(subject: &Subject<'_>) -> RuleOutcome {
    let Some(seconds) = subject.host.uptime_s else {
        return RuleOutcome::unknown("time since boot", subject.unread("/proc/uptime"));
    };
    let text = match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    };
    let found = format!("booted {text} ago");
    let outcome = match seconds {
        s if s < UPTIME_WARNING_S => RuleOutcome::warning(found).fix(Fix::WaitAfterBoot),
        s if s < UPTIME_NOTE_S => RuleOutcome::note(found).fix(Fix::MeasureLater),
        _ => RuleOutcome::good(found),
    };
    outcome.from(subject, &["uptime_s"])
}
