//! Figures of the server: those that cannot be reach no record.

use serde::Deserialize;

use crate::control_error::ControlError;

/// Counters of the server at one time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Telemetry {
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
    pub threads: u64,
    /// CPUs that it may use, by its affinity and its quota.
    pub cpus: f64,
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

/// Beyond every counter: about 36 years in nanoseconds, and small enough that sums do not overflow.
const COUNTER_MAX: u64 = 1 << 60;
/// A pebibyte, far above the memory of any host.
pub(crate) const MEMORY_MAX: u64 = 1 << 50;
pub(crate) const CPUS_MAX: u64 = 1 << 16;
const SLOTS_MAX: usize = 100_000;
/// Of the name of a congestion control, in the kernel.
const NAME_MAX: u64 = 16;

/// The first figure that cannot be.
pub(crate) fn implausible(figures: &[(&'static str, u64, u64)]) -> Result<(), ControlError> {
    let found = figures.iter().find(|(_, value, most)| value > most);
    found.map_or(Ok(()), |(name, ..)| Err(ControlError::Implausible(name)))
}

impl Telemetry {
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
        implausible(&counters.map(|(name, value)| (name, value, COUNTER_MAX)))?;
        // A float above 2⁶⁴ is the largest integer.
        let cpus = if self.cpus >= 0.0 { self.cpus.ceil() as u64 } else { u64::MAX };
        implausible(&[
            ("memory", self.resident_bytes, MEMORY_MAX),
            ("CPUs", cpus, CPUS_MAX),
            ("threads", self.threads, CPUS_MAX),
            (
                "congestion control",
                self.congestion.as_ref().map_or(0, String::len) as u64,
                NAME_MAX,
            ),
        ])?;
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
        implausible(&[("files", self.files, COUNTER_MAX), ("bytes", bytes, COUNTER_MAX)])?;
        Ok(self)
    }
}

impl DiskRate {
    pub(crate) fn checked(self) -> Result<Self, ControlError> {
        let bytes = self.slots.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let slots = if self.slots.len() > SLOTS_MAX { u64::MAX } else { 0 };
        let figures = [("slots", slots), ("bytes read", bytes), ("time", self.slot_ns)];
        implausible(&figures.map(|(name, value)| (name, value, COUNTER_MAX)))?;
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
        fn of<T: DeserializeOwned>(
            text: &str,
            checked: fn(T) -> Result<T, ControlError>,
        ) -> String {
            let figures = serde_json::from_str(text).unwrap();
            checked(figures).map_or_else(|error| error.to_string(), |_| "plausible".to_owned())
        }
        let lead = "the far end's figure is implausible: ";
        for (text, what) in [
            (r#"{"cpu_ns": 18446744073709551615}"#, "CPU time"),
            (r#"{"resident_bytes": 1125899906842625}"#, "memory"),
            (r#"{"cpus": -1}"#, "CPUs"),
            (r#"{"cpus": 1e300}"#, "CPUs"),
            (r#"{"congestion": "as long as seventeen"}"#, "congestion control"),
            (
                r#"{"device": {"reads": 0, "read_bytes": 18446744073709551615}}"#,
                "reads of the device",
            ),
        ] {
            assert_eq!(of(text, Telemetry::checked), format!("{lead}{what}"), "{text}");
        }
        let largest = r#"{"cpu_ns": 1152921504606846976, "resident_bytes": 1125899906842624}"#;
        assert_eq!(of(largest, Telemetry::checked), "plausible");
        let at = |at_ns, cpu_ns| Telemetry { at_ns, cpu_ns, ..Telemetry::default() };
        assert!(at(2, 1).follows(&at(1, 1)) && !at(2, 1).follows(&at(1, 2)));
        let no_time = r#"{"slots": [1], "slot_ns": 0}"#;
        assert_eq!(of(no_time, DiskRate::checked), format!("{lead}no time"));
        let sum = r#"{"slots": [1152921504606846976, 1], "slot_ns": 1}"#;
        assert_eq!(of(sum, DiskRate::checked), format!("{lead}bytes read"));
        let after = r#"{"resident_bytes_after": 1152921504606846977}"#;
        assert_eq!(of(after, CacheChange::checked), format!("{lead}bytes"));
        let refused = r#"{"slots": [], "slot_ns": 0, "unavailable": "no files"}"#;
        assert_eq!(of(refused, DiskRate::checked), "plausible");
    }
}
