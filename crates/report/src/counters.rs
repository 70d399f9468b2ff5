//! The disturbance counters of a record as text.

use fathom_record::quantity::{counted, percent, quantity};
use fathom_record::{Disturbance, Record, Unit};

/// The counters of a record: those that moved, those that did not, those whose time is below their
/// resolution, and those that this kernel does not provide.
#[derive(Default)]
pub(crate) struct RecordCounters {
    moved: Vec<String>,
    /// Whether a count is among those that moved, not only shares of the time.
    has_counts: bool,
    still: Vec<&'static str>,
    ticking: Vec<&'static str>,
    unknown: Vec<&'static str>,
}

impl RecordCounters {
    /// All are empty without visits.
    pub(crate) fn from_record(record: &Record) -> Self {
        let (seen, mut all) = (&record.disturbance, Self::default());
        if seen.wall_ns == 0 {
            return all;
        }
        for (name, count) in counts(seen) {
            match count {
                0 => all.still.push(name),
                count => all.moved.push(format!("{name}: {count}")),
            }
        }
        all.has_counts = !all.moved.is_empty() || seen.devices.is_some();
        for (name, ns) in times(seen) {
            match ns {
                None => all.unknown.push(name),
                Some(0) if TICKING.contains(&name) => all.ticking.push(name),
                Some(ns) if (ns as f64) < 0.0005 * seen.wall_ns as f64 => all.still.push(name),
                Some(ns) => {
                    let share = ns as f64 / seen.wall_ns as f64;
                    // Of several threads or children.
                    let sum = if share > 1.0 { ", summed over threads" } else { "" };
                    all.moved.push(format!("{name} {} of the time{sum}", percent(share)));
                }
            }
        }
        all.moved.extend(seen.devices.map(|devices| {
            let each = quantity(devices.per_request_ns(), Unit::Nanoseconds);
            format!("block devices: {} of {each}", counted(devices.requests as usize, "request"))
        }));
        all
    }

    /// `preemptions: 5, run-queue wait 0.1 % of the time`, if any count moved.
    pub(crate) fn moved(&self) -> Option<String> {
        self.has_counts.then(|| self.moved.join(", "))
    }

    /// `preemptions: 5, run-queue wait 0.1 % of the time; none: migrations; …`.
    pub(crate) fn words(&self) -> String {
        let list = |prefix: &str, names: &[&str]| {
            (!names.is_empty()).then(|| format!("{prefix} {}", names.join(", ")))
        };
        let parts = [
            (!self.moved.is_empty()).then(|| self.moved.join(", ")),
            list("none:", &self.still),
            list("less than a 10 ms tick:", &self.ticking),
            list("not provided:", &self.unknown),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Counted in clock ticks: 0 can be up to a tick.
const TICKING: [&str; 2] = ["steal", "interrupts"];

fn counts(seen: &Disturbance) -> [(&'static str, u64); 4] {
    [
        ("preemptions", seen.involuntary_switches),
        ("voluntary switches", seen.voluntary_switches),
        ("major faults", seen.major_faults),
        ("migrations", seen.migrations),
    ]
}

fn times(seen: &Disturbance) -> [(&'static str, Option<u64>); 5] {
    let absent = seen.wall_ns.saturating_sub(seen.cpu_ns);
    [
        ("descheduled", (seen.cpu_ns > 0).then_some(absent)),
        ("run-queue wait", seen.run_queue_ns),
        ("steal", seen.steal_ns),
        ("interrupts", seen.interrupt_ns),
        ("throttled", seen.throttled_ns),
    ]
}

#[cfg(test)]
mod tests {
    use fathom_record::{Better, DeviceTime, MetricId, Params};

    use super::*;

    fn words(disturbance: Disturbance) -> String {
        let (metric, unit) = (MetricId::new("cpu.call"), Unit::Nanoseconds);
        let empty = Record::new(metric, Params::none(), "", unit, Better::Lower);
        RecordCounters::from_record(&Record { disturbance, ..empty }).words()
    }

    #[test]
    fn counters_are_moved_unmoved_or_not_provided() {
        assert_eq!(words(Disturbance::default()), "");
        let text = words(Disturbance {
            wall_ns: 1_000_000,
            cpu_ns: 900_000,
            involuntary_switches: 3,
            major_faults: 1,
            run_queue_ns: Some(20_000),
            interrupt_ns: Some(0),
            devices: Some(DeviceTime { requests: 20, ns: 16_000_000 }),
            ..Disturbance::default()
        });
        assert_eq!(
            text,
            "preemptions: 3, major faults: 1, descheduled 10 % of the time, run-queue wait 2.0 % \
             of the time, block devices: 20 requests of 800.0 µs; none: voluntary switches, \
             migrations; less than a 10 ms tick: interrupts; not provided: steal, throttled"
        );
    }
}
