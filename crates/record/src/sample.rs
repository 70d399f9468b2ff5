//! What a worker sends back: the values of one case in one fresh process, and what disturbed them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Histogram;

/// The values of one case taken by one worker process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the process within the case, from 0.
    pub process: u32,
    /// The CPU the worker was pinned to.
    pub cpu: u32,
    /// The visit was taken only where the core was at full speed, so that it is none as found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// Iterations in a batch; 1 where operations were timed singly.
    pub batch: u64,
    /// One value a batch (or a single operation), in the metric's unit, in the order taken.
    pub values: Vec<f64>,
    /// Values of each round; 0 where no rounds are known.
    #[serde(default)]
    pub values_per_round: u32,
    /// Indices into `values` whose round a counter says was disturbed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<u32>,
    /// First rounds left out because they lay outside the range of the rest.
    pub warmup_dropped: u32,
    /// What was subtracted from each batch, in nanoseconds, and is not the operation: the clock's
    /// own cost and the kernel's entry, found by timing N and 2N iterations.
    pub overhead_ns: f64,
    /// What a loop of the same shape without the operation took, which was subtracted from each
    /// value, in nanoseconds an operation; absent where there was no such loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_ns: Option<f64>,
    /// Single timed operations, in the metric's unit, where there are too many to keep each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Each time of the reference loop, fixed work that runs before, between and after the rounds,
    /// in whole nanoseconds: the part that a busy sibling thread of the core slows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_ns: Vec<f64>,
    /// As often, the part that only the core's frequency slows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequency_ns: Vec<f64>,
    /// What the far end says of itself, where the work has two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarEnd>,
    /// Counters over the whole visit.
    pub disturbance: Disturbance,
    /// What the probe verified of its own work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl Sample {
    /// What either end verified of its work.
    pub fn checks_of_both(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().chain(self.far.iter().flat_map(|far| &far.checks))
    }
}

/// What the far end of a visit says of itself: a process of its own on this host or another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FarEnd {
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// Counters over the whole visit.
    pub disturbance: Disturbance,
    /// Each time of its reference loop, in whole nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_ns: Vec<f64>,
    /// What it verified of its own work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// Counters read around a visit. `None` is a counter this kernel does not have, or one that went
/// backwards: unknown, which is not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Times the worker was preempted.
    pub involuntary_switches: u64,
    /// Times the worker gave up the CPU itself.
    pub voluntary_switches: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
    /// Rounds after which the worker was found on another CPU.
    pub migrations: u64,
    /// Wall time of the visit's rounds.
    pub wall_ns: u64,
    /// CPU time of the worker and the children it reaped over the same rounds.
    pub cpu_ns: u64,
    /// Time runnable but waiting for a CPU (`/proc/self/schedstat`).
    pub run_queue_ns: Option<u64>,
    /// Time the hypervisor gave the pinned CPU to another guest (`/proc/stat`).
    pub steal_ns: Option<u64>,
    /// Time the pinned CPU spent in interrupts (`/proc/stat`).
    pub interrupt_ns: Option<u64>,
    /// Time the CPU cgroup was throttled (`cpu.stat`).
    pub throttled_ns: Option<u64>,
    /// Periods in which it was.
    pub throttled_periods: Option<u64>,
    /// Periods that ran.
    pub quota_periods: Option<u64>,
    /// Time some task of the machine waited for a CPU (`/proc/pressure/cpu`).
    pub cpu_pressure_ns: Option<u64>,
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
        }
    }
}

/// One thing a probe verified of its own work: children reaped, switches made, bytes read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was counted, such as `context switches`.
    pub name: String,
    /// Whether the count was what the work asked for.
    pub passed: bool,
    /// The count and what was expected, in words.
    pub detail: String,
}
