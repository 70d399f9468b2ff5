//! Figures of the server: those that cannot be reach no record.

use std::ops::RangeInclusive;

use fathom_record::Looks;
use fathom_record::plausible::{self, CONGESTION, CPUS, MEMORY, TOTAL};
use serde::Deserialize;

use crate::control_error::ControlError;

/// Counters of the server at one time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoadTelemetry {
    /// By the server's monotonic clock.
    pub at_ns: u64,
    pub cpu_ns: u64,
    pub resident_bytes: u64,
    pub responses: u64,
    pub bytes_sent: u64,
    pub bytes_on_wire: Option<u64>,
    /// Time in which its threads handled connections.
    pub busy_ns: u64,
    /// CPU time of its reactors, and the time that they were ready and had no CPU.
    pub reactor_cpu_ns: u64,
    pub reactor_wait_ns: u64,
    /// Of all its threads.
    pub run_queue_wait_ns: u64,
    /// Its reactors.
    pub threads: Option<u64>,
    /// CPUs that it may use, by its affinity and its quota.
    pub cpus: Option<f64>,
    pub throttled_ns: Option<u64>,
    /// Fetched from devices by its process.
    pub read_bytes: Option<u64>,
    /// A serial section that it adds to each request, as a known answer.
    pub serial_ns: u64,
    /// The device below the served folder.
    pub device: Option<Device>,
    pub tcp_retransmits: Option<u64>,
    pub congestion: Option<String>,
    /// Whether it evicts each file after its response.
    pub cold: bool,
    /// If it is not by the server, but by its processes.
    #[serde(skip)]
    pub tree: Option<OfTree>,
}

/// What is known of the processes of a server beside the sums of their counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfTree {
    pub tasks: Vec<Task>,
    pub looks: Looks,
}

/// A thread of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process and thread.
    pub id: (u32, u32),
    pub cpu_ns: u64,
    /// Time in which it was ready and had no CPU.
    pub wait_ns: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Device {
    pub reads: u64,
    pub read_bytes: u64,
    pub busy_ns: Option<u64>,
}

/// The result of an eviction or of warming.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CacheChange {
    pub files: u64,
    pub bytes: u64,
    /// Absent if the kernel does not say.
    pub resident_bytes_after: Option<u64>,
}

/// What the server's process read from its device past the page cache.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiskRate {
    /// Bytes in each equal part of the time.
    pub slots: Vec<u64>,
    pub slot_ns: u64,
    pub unavailable: Option<String>,
}

const SLOTS_MAX: u64 = 100_000;

type Figure = (&'static str, u64, RangeInclusive<u64>);

fn check(figures: &[Figure]) -> Result<(), ControlError> {
    plausible::implausible(figures).map_or(Ok(()), |name| Err(ControlError::Implausible(name)))
}

fn total((name, value): (&'static str, u64)) -> Figure {
    (name, value, TOTAL)
}

impl LoadTelemetry {
    pub(crate) fn checked(self) -> Result<Self, ControlError> {
        let device = self.device.clone().unwrap_or_default();
        let counters = [
            ("time", self.at_ns),
            ("CPU time", self.cpu_ns),
            ("responses", self.responses),
            ("bytes sent", self.bytes_sent),
            ("bytes on the wire", self.bytes_on_wire.unwrap_or(0)),
            ("busy time", self.busy_ns),
            ("CPU time of reactors", self.reactor_cpu_ns),
            ("waiting time of reactors", self.reactor_wait_ns),
            ("waiting time", self.run_queue_wait_ns),
            ("throttled time", self.throttled_ns.unwrap_or(0)),
            ("bytes read", self.read_bytes.unwrap_or(0)),
            ("serial section", self.serial_ns),
            ("reads of the device", device.reads.max(device.read_bytes)),
            ("busy time of the device", device.busy_ns.unwrap_or(0)),
            ("retransmits", self.tcp_retransmits.unwrap_or(0)),
        ];
        check(&counters.map(total))?;
        // A float above 2⁶⁴ is the largest integer, and one below 0 is 0.
        let cpus = self.cpus.map(|cpus| cpus.ceil() as u64);
        let name = self.congestion.as_ref().filter(|name| !name.is_empty());
        let known = |name, value: Option<u64>, limits| Some((name, value?, limits));
        let figures = [
            known("memory", Some(self.resident_bytes), 0..=*MEMORY.end()),
            known("CPUs", cpus, CPUS),
            known("threads", self.threads, CPUS),
            known("congestion control", name.map(|name| name.len() as u64), CONGESTION),
        ];
        check(&figures.into_iter().flatten().collect::<Vec<Figure>>())?;
        Ok(self)
    }

    /// Whether counters have not gone backwards since an earlier time.
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        let counters = |it: &Self| {
            [
                it.at_ns,
                it.cpu_ns,
                it.responses,
                it.bytes_sent,
                it.busy_ns,
                it.reactor_cpu_ns,
                it.reactor_wait_ns,
                it.run_queue_wait_ns,
            ]
        };
        counters(earlier).iter().zip(counters(self)).all(|(earlier, now)| *earlier <= now)
    }
}

impl CacheChange {
    pub(crate) fn checked(self) -> Result<Self, ControlError> {
        let bytes = self.bytes.max(self.resident_bytes_after.unwrap_or(0));
        check(&[("files", self.files), ("bytes", bytes)].map(total))?;
        Ok(self)
    }
}

impl DiskRate {
    pub(crate) fn checked(self) -> Result<Self, ControlError> {
        let bytes = self.slots.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let slots = ("slots", self.slots.len() as u64, 0..=SLOTS_MAX);
        check(&[slots, total(("bytes read", bytes)), total(("time", self.slot_ns))])?;
        match self.slot_ns {
            0 if self.unavailable.is_none() => Err(ControlError::Implausible("no time")),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    #[test]
    fn figures_that_cannot_be_reach_no_record() {
        fn error_of<T: DeserializeOwned>(
            text: &str,
            checked: fn(T) -> Result<T, ControlError>,
        ) -> String {
            let figures = serde_json::from_str(text).unwrap();
            checked(figures).map_or_else(|error| error.to_string(), |_| "plausible".to_owned())
        }
        let lead = "the far end's figure is implausible: ";
        for (text, what) in [
            (r#"{"cpu_ns": 18446744073709551615}"#, "CPU time"),
            (r#"{"resident_bytes": 140737488355329}"#, "memory"),
            (r#"{"cpus": -1}"#, "CPUs"),
            (r#"{"cpus": 0}"#, "CPUs"),
            (r#"{"threads": 0}"#, "threads"),
            (r#"{"threads": 8193}"#, "threads"),
            (r#"{"cpus": 1e300}"#, "CPUs"),
            (r#"{"congestion": "as long as seventeen"}"#, "congestion control"),
            (
                r#"{"device": {"reads": 0, "read_bytes": 18446744073709551615}}"#,
                "reads of the device",
            ),
        ] {
            assert_eq!(error_of(text, LoadTelemetry::checked), format!("{lead}{what}"), "{text}");
        }
        let largest = r#"{"cpu_ns": 1152921504606846976, "resident_bytes": 140737488355328,
            "cpus": 0.1, "threads": 8192}"#;
        assert_eq!(error_of(largest, LoadTelemetry::checked), "plausible");
        let at = |at_ns, cpu_ns| LoadTelemetry { at_ns, cpu_ns, ..LoadTelemetry::default() };
        assert!(at(2, 1).follows(&at(1, 1)) && !at(2, 1).follows(&at(1, 2)));
        let no_time = r#"{"slots": [1], "slot_ns": 0}"#;
        assert_eq!(error_of(no_time, DiskRate::checked), format!("{lead}no time"));
        let sum = r#"{"slots": [1152921504606846976, 1], "slot_ns": 1}"#;
        assert_eq!(error_of(sum, DiskRate::checked), format!("{lead}bytes read"));
        let after = r#"{"resident_bytes_after": 1152921504606846977}"#;
        assert_eq!(error_of(after, CacheChange::checked), format!("{lead}bytes"));
        let refused = r#"{"slots": [], "slot_ns": 0, "unavailable": "no files"}"#;
        assert_eq!(error_of(refused, DiskRate::checked), "plausible");
    }
}
