//! The clock: its counter, its calibration, the kernel's clock source.

use super::rule::{Rule, RuleOutcome, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "clock-counter",
        touches: &["*"],
        effect: "a clock with a coarse resolution or slow reads needs longer batches",
        check: counter,
    },
    Rule {
        id: "clock-calibration",
        touches: &["*"],
        effect: "the error of the clock rate is in every time",
        check: calibration,
    },
    Rule {
        id: "clock-source",
        touches: &["os.vdso.*", "os.*", "network.*"],
        effect: "clock reads of measured programs are system calls",
        check: source,
    },
];

/// With reads in user space, a substitute for the hardware counter only needs longer batches.
const READ_GOOD_NS: f64 = 200.0;
const STEP_GOOD_NS: f64 = 100.0;
/// Above these limits a batch is so long that it includes timer interrupts, and single operations
/// are shorter than a clock read.
const READ_POOR_NS: f64 = 2_000.0;
const STEP_POOR_NS: f64 = 10_000.0;
/// Disagreement of the two halves of a calibration (METHOD 3): expected,
const REPEAT_GOOD_PPM: f64 = 1.0;
/// far below every interval,
const REPEAT_NOTE_PPM: f64 = 10.0;
/// and the limit above which runs reject the clock.
const REPEAT_SEVERE_PPM: f64 = 50.0;
/// Clock sources that programs can read without a system call.
const READ_IN_USER_SPACE: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen"];

fn no_clock(subject: &Subject<'_>) -> RuleOutcome {
    let because = subject.clock.failure.as_deref().unwrap_or("not tried");
    RuleOutcome::severe(format!("calibration failed: {because}"))
        .effect("runs fail without a clock")
        .fix(Fix::UseKernelClock)
}

fn counter(subject: &Subject<'_>) -> RuleOutcome {
    let Some(clock) = &subject.clock.facts else {
        return no_clock(subject);
    };
    let fine = format!("resolution {}, read cost {}", ns(clock.resolution_ns), ns(clock.read_ns));
    let measured = "50 ms of calibration";
    let Some(refused) = &clock.refused else {
        let found = format!("{} at {:.4} GHz, {fine}", clock.source, clock.hz / 1e9);
        return RuleOutcome::good(found).read(measured).from(subject, &["clocksource"]);
    };
    let found = format!("hardware counter rejected: {refused}; {} instead, {fine}", clock.source);
    let (read, step) = (clock.read_ns, clock.resolution_ns);
    let outcome = if clock.details.contains_key("out_of_order_ticks") {
        RuleOutcome::severe(found)
            .effect("time goes backwards between CPUs, by the kernel's clock, too: runs fail")
            .fix(Fix::UpdateFirmware)
    } else if read > READ_POOR_NS || step > STEP_POOR_NS {
        RuleOutcome::severe(found)
            .effect("short operations cannot be timed with this clock")
            .fix(for_clock_source(subject, Fix::FindClockSource))
    } else if read > READ_GOOD_NS || step > STEP_GOOD_NS {
        let see = Fix::SeeFinding { id: "clock-source".to_owned() };
        RuleOutcome::warning(found).fix(for_clock_source(subject, see))
    } else {
        RuleOutcome::note(found).effect("longer batches").nothing_to_do(Acceptable::KernelClock)
    };
    outcome.read(measured).from(subject, &["cpu.flags", "clocksource"])
}

/// The remedy for a slow clock source, where another one can be faster: not the clock of an
/// emulator, nor one that is read in user space already.
fn for_clock_source(subject: &Subject<'_>, fix: Fix) -> Fix {
    let current = subject.host.clocksource.as_deref();
    match current.is_some_and(|it| READ_IN_USER_SPACE.contains(&it)) {
        _ if subject.host.is_emulated() => Fix::Nothing { why: Acceptable::Nature },
        true => Fix::Nothing { why: Acceptable::KernelClock },
        false => fix,
    }
}

fn calibration(subject: &Subject<'_>) -> RuleOutcome {
    let Some(clock) = &subject.clock.facts else {
        return RuleOutcome::unknown("calibration error", "no calibration");
    };
    if clock.source == "monotonic_raw" {
        return RuleOutcome::good("not needed for the kernel's clock").read("clock_gettime(2)");
    }
    let Some(ppm) = clock.details.get("calibration_repeat_ppm").copied() else {
        return RuleOutcome::unknown("calibration error", "not recorded");
    };
    let found = format!("halves of 50 ms differ by {ppm:.2} ppm of CLOCK_MONOTONIC_RAW");
    let outcome = match ppm {
        ppm if ppm <= REPEAT_GOOD_PPM => RuleOutcome::good(found),
        ppm if ppm <= REPEAT_NOTE_PPM => RuleOutcome::note(found)
            .effect("far below every interval")
            .nothing_to_do(Acceptable::CheckedByRun),
        ppm if ppm <= REPEAT_SEVERE_PPM => RuleOutcome::warning(found).fix(Fix::LookWhenQuiet),
        _ => RuleOutcome::severe(found).fix(Fix::FindClockJumps),
    };
    outcome.read("50 ms of calibration")
}

fn source(subject: &Subject<'_>) -> RuleOutcome {
    let host = subject.host;
    let Some(current) = host.clocksource.as_deref() else {
        let folder = "/sys/devices/system/clocksource/clocksource0";
        return RuleOutcome::unknown("clock source of the kernel", subject.unread(folder));
    };
    let others = &host.clocksources_available;
    let available = match others.is_empty() {
        true => String::new(),
        false => format!(" (available: {})", others.join(", ")),
    };
    let found = format!("{current}{available}");
    let outcome = match READ_IN_USER_SPACE.contains(&current) {
        true => RuleOutcome::good(found),
        false => RuleOutcome::warning(found),
    };
    let is_usable = others.iter().any(|other| other == "tsc");
    let fix = match is_usable {
        true => Fix::ChooseTsc,
        // Only x86 has a TSC to be marked as unstable.
        false if host.cpu.architecture == "aarch64" => Fix::FindClockSource,
        false => Fix::FindTscFailure,
    };
    let paths = ["clocksource", "clocksources_available"];
    outcome.from(subject, &paths).fix(for_clock_source(subject, fix))
}

fn ns(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1} ms", value / 1e6),
        value if value >= 1e4 => format!("{:.1} µs", value / 1e3),
        value if value >= 10.0 => format!("{value:.0} ns"),
        value => format!("{value:.2} ns"),
    }
}
