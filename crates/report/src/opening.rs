//! The opening of a run: run, machine, clock, CPU.

use fathom_record::quantity::{binary_size, quantity};
use fathom_record::{Document, FarHost, Host, Run, Unit};

use crate::case::counted;
use crate::paint::{FAINT, paint};
use crate::wrap::{NARROWEST, clean, glued, wrapped};

pub(crate) const LABEL: usize = 9;

/// Run, machine, clock, CPU and far hosts, one per line if they fit, and a blank line.
pub fn opening(document: &Document, width: usize) -> String {
    let Document { run, host, far, .. } = document;
    let by = document.records.iter().find_map(|record| record.measured_by.as_ref());
    let mut lines = match by {
        // Nothing is known of its clock and CPU.
        Some(by) => vec![
            ("run", format!("{}, {}, of {}", clean(&run.name()), run.asked.join(" "), run.started)),
            ("measured", format!("by {}", by.words())),
            ("machine", machine(host)),
        ],
        None => vec![
            ("run", run_words(run)),
            ("machine", machine(host)),
            ("clock", clock(run)),
            ("cpu", cpu(run, host)),
        ],
    };
    lines.extend(far.iter().map(|far| ("far end", far_end(far))));
    let mut text = String::new();
    for (label, words) in lines {
        text += &labelled(label, &words, width.max(NARROWEST));
    }
    text + "\n"
}

/// A time stamp to the minute: `2026-03-01 12:00`.
pub(crate) fn minute(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}

/// Text beside a faint label, with further lines indented.
pub(crate) fn labelled(label: &str, words: &str, width: usize) -> String {
    let indent = " ".repeat(LABEL);
    let lines = wrapped(words, width, &indent, &indent);
    let body = lines.get(LABEL..).unwrap_or_default();
    format!("{}{body}", paint(FAINT, &format!("{label:<LABEL$}")))
}

fn run_words(run: &Run) -> String {
    let started = clean(&run.started);
    let mut words = format!(
        "{}, {}, started {started}, seed {}",
        clean(&run.name()),
        run.effort.word(),
        run.seed
    );
    if !run.asked.is_empty() {
        words += &format!(", metrics {}", run.asked.join(" "));
    }
    words
}

/// A far host, by the name in the records, and the uncertainty of its clock offset.
fn far_end(far: &FarHost) -> String {
    let mut words = machine(&far.host);
    if far.host.name != far.name {
        words = format!("{}: {words}", far.name);
    }
    if let Some(clock) = far.clock {
        let error = glued(&quantity(clock.error_ns, Unit::Nanoseconds));
        words += &format!("; its clock is known to ± {error}");
    }
    words
}

/// The machine in one line of text.
pub(crate) fn machine(host: &Host) -> String {
    let cpu = &host.cpu;
    let mut parts = vec![or_unknown(&cpu.model, "unknown CPU")];
    parts.extend((cpu.logical > 0 || !cpu.allowed.is_empty()).then(|| logical_cpus(host)));
    parts.extend(
        host.memory
            .total_bytes
            .map(|bytes| glued(&format!("{} memory", quantity(bytes as f64, Unit::Bytes)))),
    );
    match host.virtualization.as_deref() {
        Some("none") => parts.push("no virtualisation".to_owned()),
        // What a guest cannot know: the pages beneath its own, and which CPUs share a core.
        Some(kind) => {
            parts.push(format!("{kind} (page=huge is guest-huge, CPU topology unverified)"));
        }
        None => {}
    }
    parts.extend(host.container.iter().map(|kind| format!("in {kind}")));
    let name = if host.name.is_empty() { String::new() } else { format!("{}: ", host.name) };
    parts.push(format!("kernel {}", or_unknown(&host.kernel, "unknown")));
    name + &parts.join(", ")
}

fn logical_cpus(host: &Host) -> String {
    let cpu = &host.cpu;
    let allowed = cpu.allowed.len();
    let mut words = match cpu.logical {
        0 => counted(allowed, "allowed CPU"),
        all => counted(all as usize, "logical CPU"),
    };
    if allowed > 0 && allowed < cpu.logical as usize {
        words += &format!(" ({allowed} allowed)");
    }
    if let Some(quota) = host.cgroup.cpu_quota {
        words += &format!(", CPU quota {quota:.2}");
    }
    if let Some(limit) = host.cgroup.memory_limit_bytes {
        let limit = binary_size(i64::try_from(limit).unwrap_or(i64::MAX));
        words += &format!(", memory limit {limit}");
    }
    words
}

pub(crate) fn clock(run: &Run) -> String {
    let clock = &run.clock;
    let ns = |value| glued(&quantity(value, Unit::Nanoseconds));
    let mut words = clock.source.clone();
    if clock.hz > 0.0 {
        words += &format!(" at {}", glued(&quantity(clock.hz, Unit::Hertz)));
    }
    if clock.resolution_ns > 0.0 {
        words += &format!(", resolution {}", ns(clock.resolution_ns));
    }
    if clock.read_ns > 0.0 {
        words += &format!(", read cost {}", ns(clock.read_ns));
    }
    if let Some(reason) = &clock.refused {
        words += &format!("; hardware counter not used: {reason}");
    }
    words
}

pub(crate) fn cpu(run: &Run, host: &Host) -> String {
    let mut words = format!("{}, {}", run.cpu, or_unknown(&run.cpu_reason, "reason unknown"));
    if let Some(governor) = &host.cpu.governor {
        words += &format!("; governor {governor}");
    }
    words
}

fn or_unknown(text: &str, unknown: &str) -> String {
    if text.is_empty() { unknown.to_owned() } else { text.to_owned() }
}
