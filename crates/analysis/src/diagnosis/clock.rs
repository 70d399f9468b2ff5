//! The clock: which counter, why not the hardware's, how well it was calibrated.

use super::rule::{Outcome, Rule, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "clock-counter",
        touches: &["*"],
        effect: "every time is read from it: a coarse or dear clock needs longer batches",
        look: counter,
    },
    Rule {
        id: "clock-calibration",
        touches: &["*"],
        effect: "an error of its rate is an error of every number",
        look: calibration,
    },
    Rule {
        id: "clock-source",
        touches: &["os.vdso.*", "os.*", "network.*"],
        effect: "each clock read of the programs that are measured is a system call",
        look: source,
    },
];

/// A clock in place of the counter that is read within so many nanoseconds, and steps by no more,
/// costs longer batches and nothing else: reads that stay in user space do.
const READ_GOOD_NS: f64 = 200.0;
const STEP_GOOD_NS: f64 = 100.0;
/// Beyond these a batch that the clock can time meets every timer interrupt, and what is timed
/// singly is lost in the clock's own cost.
const READ_POOR_NS: f64 = 2_000.0;
const STEP_POOR_NS: f64 = 10_000.0;
/// The two halves of a calibration agree to this (METHOD 3).
const REPEAT_GOOD_PPM: f64 = 1.0;
/// Up to here a disagreement is far below every interval.
const REPEAT_NOTE_PPM: f64 = 10.0;
/// Beyond it the clock is not believed (METHOD 3).
const REPEAT_SEVERE_PPM: f64 = 50.0;
/// Clock sources that programs can read without a system call.
const READ_IN_USER_SPACE: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen"];

fn no_clock(subject: &Subject<'_>) -> Outcome {
    let because = subject.clock.failure.as_deref().unwrap_or("it was not asked");
    Outcome::severe(format!("no clock could be calibrated: {because}"))
        .effect("a run refuses to begin without a clock")
        .fix(Fix::UseKernelClock)
}

fn counter(subject: &Subject<'_>) -> Outcome {
    let Some(clock) = &subject.clock.facts else {
        return no_clock(subject);
    };
    let fine = format!(
        "smallest step {}, reading it costs {}",
        ns(clock.resolution_ns),
        ns(clock.read_ns)
    );
    let measured = "50 ms of calibration";
    let Some(refused) = &clock.refused else {
        let found = format!("{} at {:.4} GHz, {fine}", clock.source, clock.hz / 1e9);
        return Outcome::good(found).read(measured).from(subject, &["clocksource"]);
    };
    let found =
        format!("the hardware counter is not used: {refused}; {} instead, {fine}", clock.source);
    let (read, step) = (clock.read_ns, clock.resolution_ns);
    let outcome = if clock.details.contains_key("out_of_order_ticks") {
        Outcome::severe(found)
            .effect("time runs backwards between CPUs, by the kernel's clock as well: runs fail")
            .fix(Fix::UpdateFirmware)
    } else if read > READ_POOR_NS || step > STEP_POOR_NS {
        Outcome::severe(found)
            .effect("this clock is no good substitute: short operations cannot be timed")
            .fix(Fix::FindClockSource)
    } else if read > READ_GOOD_NS || step > STEP_GOOD_NS {
        Outcome::warning(found).fix(Fix::SeeFinding { id: "clock-source".to_owned() })
    } else {
        Outcome::note(found)
            .effect("batches are longer, and nothing else")
            .nothing_to_do(Acceptable::KernelClock)
    };
    outcome.read(measured).from(subject, &["cpu.flags", "clocksource"])
}

fn calibration(subject: &Subject<'_>) -> Outcome {
    let Some(clock) = &subject.clock.facts else {
        return Outcome::unknown("the error of the calibration", "there was none");
    };
    if clock.source == "monotonic_raw" {
        return Outcome::good("the kernel's clock needs none").read("clock_gettime(2)");
    }
    let Some(ppm) = clock.details.get("calibration_repeat_ppm").copied() else {
        return Outcome::unknown("the error of the calibration", "it was not noted");
    };
    let found = format!("two halves of 50 ms agree within {ppm:.2} ppm of CLOCK_MONOTONIC_RAW");
    let outcome = match ppm {
        ppm if ppm <= REPEAT_GOOD_PPM => Outcome::good(found),
        ppm if ppm <= REPEAT_NOTE_PPM => Outcome::note(found)
            .effect("far below every interval")
            .nothing_to_do(Acceptable::CheckedByRun),
        ppm if ppm <= REPEAT_SEVERE_PPM => Outcome::warning(found).fix(Fix::LookWhenQuiet),
        _ => Outcome::severe(found).fix(Fix::FindClockJumps),
    };
    outcome.read("the time stamps of 50 ms")
}

fn source(subject: &Subject<'_>) -> Outcome {
    let host = subject.host;
    let Some(current) = host.clocksource.as_deref() else {
        return Outcome::unknown("the kernel's clock source", "/sys does not tell it");
    };
    let others = &host.clocksources_available;
    let could = match others.is_empty() {
        true => String::new(),
        false => format!(" (it could use {})", others.join(", ")),
    };
    let found = format!("the kernel keeps time by {current}{could}");
    let paths = ["clocksource", "clocksources_available"];
    if READ_IN_USER_SPACE.contains(&current) {
        return Outcome::good(found).from(subject, &paths);
    }
    let outcome = Outcome::warning(found).from(subject, &paths);
    let is_usable = others.iter().any(|other| other == "tsc");
    outcome.fix(if is_usable { Fix::ChooseTsc } else { Fix::FindTscFailure })
}

/// Nanoseconds as a person reads them.
fn ns(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1} ms", value / 1e6),
        value if value >= 1e4 => format!("{:.1} µs", value / 1e3),
        value if value >= 10.0 => format!("{value:.0} ns"),
        value => format!("{value:.2} ns"),
    }
}
