//! Samples: the values of one case from one fresh process, and the disturbances meanwhile.

use serde::{Deserialize, Serialize};

use crate::{Fact, Histogram, LoadWindow};

/// The values of one case from one worker process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Number of the process within the case, from 0.
    pub process: u32,
    /// The CPU that the worker was pinned to.
    pub cpu: u32,
    /// Of runs up to version 0.2.0: the visit waited for a core at full speed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// When the visit began, in nanoseconds since the run did; absent for a procedure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// Iterations per batch; 1 for single timings.
    pub batch: u64,
    /// One value per batch (or single operation), in the metric's unit, in the order measured.
    pub values: Vec<f64>,
    /// Values per round; 0 if unknown.
    #[serde(default)]
    pub values_per_round: u32,
    /// Indices into `values` of disturbed rounds, by a counter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<u32>,
    /// First rounds dropped because they were outside the range of the others.
    pub warmup_dropped: u32,
    /// Overhead subtracted from each batch, in nanoseconds: what an empty one takes, measured once
    /// for a run. 0 if the value is the difference of two batches.
    pub overhead_ns: f64,
    /// Time per operation of an empty loop of the same shape, subtracted from each value, in
    /// nanoseconds; absent without such a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_ns: Option<f64>,
    /// Single timings, in the metric's unit, if there are too many to keep each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Times of the reference loop before, between and after the rounds, in whole nanoseconds: the
    /// part that a busy SMT sibling slows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_ns: Vec<f64>,
    /// At the same times, the part that only frequency slows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequency_ns: Vec<f64>,
    /// Before and after the rounds, the time of a cache line between the two CPUs of work on two,
    /// in nanoseconds: a hypervisor moves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distance_ns: Vec<f64>,
    /// Before and after the rounds, the time of a load from memory, in nanoseconds, of work that
    /// waits for memory: what others do with it slows both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_ns: Vec<f64>,
    /// Why the values are of another case, by a count of the work: most of them did not wait for a
    /// process that sleeps. The headline is of the other visits, if they are the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// The report of the far end, if the work has two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarEnd>,
    /// Counters over the whole visit.
    pub disturbance: Disturbance,
    /// The probe's checks of its own work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What the probe states beside the values, such as the segment size of a connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Of a load that several generators share: the windows of the step, by which it is merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<LoadWindow>,
}

impl Sample {
    /// The checks of both ends.
    pub fn checks_of_both(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().chain(self.far.iter().flat_map(|far| &far.checks))
    }
}

/// The report of the far end of a visit: a process of its own, on this host or another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FarEnd {
    /// The CPU that it was pinned to.
    pub cpu: u32,
    /// Counters over the whole visit.
    pub disturbance: Disturbance,
    /// Times of its reference loop, in whole nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_ns: Vec<f64>,
    /// Its checks of its own work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// Counters read around a visit. Absent (unknown, not zero) for a counter that this kernel does not
/// provide, or that went backwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// Involuntary context switches of the worker.
    pub involuntary_switches: u64,
    /// Voluntary context switches of the worker.
    pub voluntary_switches: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults, which waited for a device.
    pub major_faults: u64,
    /// Rounds after which the worker was on another CPU.
    pub migrations: u64,
    /// Wall time of the visit's rounds.
    pub wall_ns: u64,
    /// CPU time of the worker and its reaped children over the same rounds.
    pub cpu_ns: u64,
    /// Run-queue wait (`/proc/self/schedstat`).
    pub run_queue_ns: Option<u64>,
    /// Steal time of the pinned CPU (`/proc/stat`).
    pub steal_ns: Option<u64>,
    /// Time the pinned CPU spent in interrupts (`/proc/stat`).
    pub interrupt_ns: Option<u64>,
    /// Time throttled by the CPU cgroup (`cpu.stat`).
    pub throttled_ns: Option<u64>,
    /// Throttled periods.
    pub throttled_periods: Option<u64>,
    /// Elapsed quota periods.
    pub quota_periods: Option<u64>,
    /// CPU pressure: time some task waited for a CPU (`/proc/pressure/cpu`).
    pub cpu_pressure_ns: Option<u64>,
    /// Requests of all processes to block devices; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceTime>,
}

/// What block devices did (`/proc/diskstats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceTime {
    /// Completed requests: reads, writes and flushes.
    pub requests: u64,
    /// The sum of their times, in nanoseconds; counted in milliseconds.
    pub ns: u64,
}

impl DeviceTime {
    /// Nanoseconds of a request, on average.
    #[must_use]
    pub fn per_request_ns(self) -> f64 {
        self.ns as f64 / self.requests.max(1) as f64
    }
}

impl Disturbance {
    /// The sum over visits; a counter unknown in one visit is unknown in the sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            migrations: self.migrations + other.migrations,
            wall_ns: self.wall_ns + other.wall_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            run_queue_ns: sum(self.run_queue_ns, other.run_queue_ns),
            steal_ns: sum(self.steal_ns, other.steal_ns),
            interrupt_ns: sum(self.interrupt_ns, other.interrupt_ns),
            throttled_ns: sum(self.throttled_ns, other.throttled_ns),
            throttled_periods: sum(self.throttled_periods, other.throttled_periods),
            quota_periods: sum(self.quota_periods, other.quota_periods),
            cpu_pressure_ns: sum(self.cpu_pressure_ns, other.cpu_pressure_ns),
            devices: [self.devices, other.devices]
                .into_iter()
                .flatten()
                .reduce(|a, b| DeviceTime { requests: a.requests + b.requests, ns: a.ns + b.ns }),
        }
    }
}

/// A check that a probe made of its own work: children reaped, switches made, bytes read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// What was counted, such as `context switches`.
    pub name: String,
    /// Whether the count was as expected.
    pub passed: bool,
    /// The count and the expected count, in words.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_has_each_counter_unless_one_visit_lacks_it() {
        // Distinct powers of two, so that no counter can stand for another.
        let mut numbers = (0..).map(|power| 1_u64 << power);
        let mut next = || numbers.next().expect("no end");
        let mut value = serde_json::to_value(Disturbance::default()).expect("JSON");
        for (_, counter) in value.as_object_mut().expect("an object") {
            *counter = next().into();
        }
        let one: Disturbance = serde_json::from_value(value.clone()).expect("counters");
        let sum = serde_json::to_value(one.plus(&one)).expect("JSON");
        for (name, counter) in value.as_object().expect("an object") {
            assert_eq!(sum[name], counter.as_u64().expect("a number") * 2, "{name}");
        }
        let unknown = Disturbance { steal_ns: None, ..one.clone() };
        assert_eq!(one.plus(&unknown), Disturbance { steal_ns: None, ..one.plus(&one) });
    }
}
