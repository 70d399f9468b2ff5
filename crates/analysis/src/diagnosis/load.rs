//! Who else uses the machine just now: busy CPUs, steal, load, pressure, another run, a machine
//! that has just booted.

use super::rule::{Outcome, Rule, Subject, count, percent};
use fathom_record::condition::{CpuShares, Look};
use fathom_record::{Fix, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-busy",
        touches: &["*"],
        effect: "others take turns with the worker on its CPU: wide intervals, numbers too large",
        look: busy,
    },
    Rule {
        id: "cpu-steal",
        touches: &["*"],
        effect: "the hypervisor runs other guests in the worker's time: single rounds are too long",
        look: steal,
    },
    Rule {
        id: "another-run",
        touches: &["*"],
        effect: "two runs disturb each other: both become noisy",
        look: another_run,
    },
    Rule {
        id: "load-average",
        touches: &["*"],
        effect: "what ran in the last minutes may come back while a run lasts",
        look: load_average,
    },
    Rule {
        id: "pressure",
        touches: &["*"],
        effect: "tasks wait for the same CPU, memory or device as the worker",
        look: pressure,
    },
    Rule {
        id: "uptime",
        touches: &["*"],
        effect: "services that start with the machine run beside the worker, and caches are empty",
        look: uptime,
    },
];

/// Busy from here on is worth a warning: the same share from which a run says "expect noise".
const BUSY_WARNING: f64 = 0.2;
/// From here on others have more of the CPU than the worker can get.
const BUSY_SEVERE: f64 = 0.5;
/// A tick of 10 ms within a short look may be chance; so may two.
const TICKS_MIN: f64 = 2.5;
/// Stolen share from which numbers become noisy (METHOD 22 tells it from there on).
const STEAL_WARNING: f64 = 0.05;
/// Stolen share from which a median over rounds no longer helps.
const STEAL_SEVERE: f64 = 0.25;
/// Waiting threads a CPU in the last minute from which it was busy.
const LOAD_NOTE: f64 = 0.7;
/// The same from which it cannot have been a moment only.
const LOAD_WARNING: f64 = 2.0;
/// Shares of the last 10 s in which some task waited, by what for: from where it is a warning.
/// Memory weighs most: who waits for it is being reclaimed from.
const PRESSURE_WARNING: [(&str, &str, f64); 3] =
    [("cpu", "CPU", 0.25), ("memory", "memory", 0.01), ("io", "input/output", 0.25)];
/// A machine that booted more recently still starts its services.
const SETTLED_S: f64 = 60.0;
/// Until then it is worth a word.
const YOUNG_S: f64 = 300.0;

fn chosen<'a>(subject: &Subject<'a>) -> Option<(u32, &'a Look)> {
    Some((subject.condition.cpu?, subject.condition.look.as_ref()?))
}

fn busy(subject: &Subject<'_>) -> Outcome {
    let Some((cpu, look)) = chosen(subject) else {
        return Outcome::unknown("how busy the CPUs are", "/proc/stat tells of none of them");
    };
    let Some(own) = look.of(cpu) else {
        return Outcome::unknown(&format!("how busy CPU {cpu} is"), "/proc/stat does not list it");
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
    let over = format!(
        "over {:.0} ms the allowed CPUs were busy: {}{more}",
        look.length_ns / 1e6,
        each.join(", ")
    );
    let outcome = match own.busy {
        share if share > BUSY_SEVERE => Outcome::severe(format!(
            "even the quietest CPU for a run, {cpu}, is {} busy; {over}",
            percent(share)
        )),
        share if share > BUSY_WARNING => Outcome::warning(format!(
            "the quietest CPU for a run, {cpu}, is {} busy; {over}",
            percent(share)
        )),
        share => Outcome::good(format!("CPU {cpu} was {} busy; {over}", percent(share))),
    };
    let outcome = outcome.from(subject, &["look"]);
    match own.busy > BUSY_WARNING {
        true => outcome.fix(Fix::StopBusyProcesses),
        false => outcome,
    }
}

/// The steal of the CPUs a run may use, over the look.
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

fn steal(subject: &Subject<'_>) -> Outcome {
    if subject.host.virtualization.as_deref() == Some("none") {
        return Outcome::good("no hypervisor, so nothing can be stolen")
            .from(subject, &["virtualization"]);
    }
    if subject.condition.steal_is_told == Some(false) {
        let because = "this hypervisor does not tell its guest of it";
        return Outcome::unknown("stolen time", because).from(subject, &["steal_is_told"]);
    }
    let (now, boot) = (stolen(subject), subject.condition.since_boot.as_ref());
    let Some((share, ticks)) = now else {
        return Outcome::unknown("stolen time", "/proc/stat does not count it");
    };
    // An idle guest has nothing to be stolen from: what counts is its share of the wanted time.
    let before = boot.filter(|boot| boot.busy > 0.0).and_then(|boot| Some(boot.steal? / boot.busy));
    let since = before.map_or(String::new(), |share| {
        format!("; since boot {} of the time that was wanted", percent(share))
    });
    let found = format!("{} of the time just now{since}", percent(share));
    let outcome = if share > STEAL_SEVERE && ticks > TICKS_MIN {
        Outcome::severe(found)
    } else if share > STEAL_WARNING && ticks > TICKS_MIN {
        Outcome::warning(found)
    } else if before.is_some_and(|share| share > STEAL_WARNING) {
        Outcome::warning(format!("{found}: quiet now, but not always"))
    } else {
        return Outcome::good(found).from(subject, &["look", "since_boot"]);
    };
    outcome.from(subject, &["look", "since_boot"]).fix(Fix::DedicatedHost)
}

fn another_run(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.condition.another_run {
        Some(true) => Outcome::warning("another run of Fathom measures on this machine")
            .fix(Fix::WaitForOtherRun),
        Some(false) => Outcome::good("no other run of Fathom"),
        None => Outcome::unknown("whether another run goes on", "no list of sockets can be read"),
    };
    outcome.from(subject, &["another_run"])
}

fn load_average(subject: &Subject<'_>) -> Outcome {
    let condition = subject.condition;
    let Some([one, five, fifteen]) = condition.load_average else {
        return Outcome::unknown("the load average", "/proc/loadavg cannot be read");
    };
    let cpus = subject.host.cpu.logical.max(1);
    let mut found = format!(
        "{one:.2} in the last minute, {five:.2} in five, {fifteen:.2} in fifteen, on {}",
        count(cpus.into(), "CPU", "CPUs")
    );
    if let Some(runnable) = condition.runnable {
        // The reader itself runs.
        let others = runnable.saturating_sub(1);
        found += &format!("; {} ran beside this one", count(others, "thread", "threads"));
    }
    let each = one / f64::from(cpus);
    let outcome = match each {
        each if each > LOAD_WARNING => Outcome::warning(found),
        each if each > LOAD_NOTE => Outcome::note(found),
        _ => Outcome::good(found),
    };
    let outcome = outcome.from(subject, &["load_average"]);
    match each > LOAD_NOTE {
        true => outcome.fix(Fix::WaitForLoadAverage),
        false => outcome,
    }
}

fn pressure(subject: &Subject<'_>) -> Outcome {
    let told = &subject.condition.pressure;
    let mut severity = Severity::Good;
    let mut words = Vec::new();
    for (kind, name, limit) in PRESSURE_WARNING {
        let Some(share) = told.get(kind) else { continue };
        words.push(format!("{name} {}", percent(*share)));
        if *share > limit {
            severity = Severity::Warning;
        }
    }
    if words.is_empty() {
        let because = "this kernel does not tell it, or tells it to others only";
        return Outcome::unknown("how long tasks wait", because);
    }
    let found = format!("of the last 10 s some task waited for: {}", words.join(", "));
    let outcome = Outcome::of(severity, found).from(subject, &["pressure"]);
    match severity {
        Severity::Good => outcome,
        _ => outcome.fix(Fix::WaitForPressure),
    }
}

fn uptime(subject: &Subject<'_>) -> Outcome {
    let Some(seconds) = subject.host.uptime_s else {
        return Outcome::unknown("the time since boot", "/proc/uptime cannot be read");
    };
    let text = match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    };
    let outcome = match seconds {
        s if s < SETTLED_S => {
            Outcome::warning(format!("booted {text} ago: still settling")).fix(Fix::WaitAfterBoot)
        }
        s if s < YOUNG_S => Outcome::note(format!("booted {text} ago")).fix(Fix::MeasureLater),
        _ => Outcome::good(format!("booted {text} ago")),
    };
    outcome.from(subject, &["uptime_s"])
}
