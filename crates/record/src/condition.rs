//! The state a machine is in just now: the shape of its momentary facts. What lasts is in
//! [`crate::Host`]; reading them is `measure`'s work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Momentary facts. What cannot be read is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The CPU that a run would measure on just now.
    pub cpu: Option<u32>,
    /// Why that one.
    pub cpu_reason: String,
    /// What the CPUs did over a short look.
    pub look: Option<Look>,
    /// Time since boot by what the CPUs did in it.
    pub since_boot: Option<CpuShares>,
    /// Whether the hypervisor tells its guest of stolen time; without one, it has nothing to tell.
    pub steal_is_told: Option<bool>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Threads that ran or waited for a CPU when it was read, this one included.
    pub runnable: Option<u64>,
    /// Share of the last 10 s in which some task waited, by what it waited for: `cpu`, `memory`,
    /// `io`.
    pub pressure: BTreeMap<String, f64>,
    /// Swap space in use.
    pub swap_used_bytes: Option<u64>,
    /// What the CPU cgroup counted since it was made.
    pub throttling: Throttling,
    /// Processes and threads in the cgroup whose limit on them is the tightest.
    pub pids: Option<u64>,
    /// Memory that the cgroup holds, its page cache included.
    pub cgroup_memory_bytes: Option<u64>,
    /// What this process may do.
    pub permissions: Permissions,
    /// Limits of this process; absent where they are unlimited or unknown, which
    /// [`Condition::origins`] tells apart.
    pub limits: Limits,
    /// Whether another run measures on this machine.
    pub another_run: Option<bool>,
    /// Where a run would be kept.
    pub store: Option<StorePlace>,
    /// Whether `/proc` tells of processes and CPUs.
    pub proc_readable: bool,
    /// Whether `/sys` tells of the CPUs.
    pub sys_readable: bool,
    /// Counters of disturbance that this kernel does not have.
    pub counters_missing: Vec<String>,
    /// Where each fact was read: dotted path (`load_average`) → file or system call.
    pub origins: BTreeMap<String, String>,
}

/// What the CPUs did over a short look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// How long it was, in nanoseconds.
    pub length_ns: f64,
    /// Each CPU that was online.
    pub cpus: Vec<CpuShares>,
    /// Pages that were swapped in or out.
    pub swapped_pages: Option<u64>,
}

/// Shares of a CPU's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// The CPU; absent where all of them are meant.
    pub cpu: Option<u32>,
    /// Not idle, stolen time included.
    pub busy: f64,
    /// Stolen by the hypervisor; absent where the kernel does not count it.
    pub steal: Option<f64>,
    /// Clock ticks these shares are of: fewer make them coarser.
    pub ticks: u64,
}

/// What the CPU cgroup counted since it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throttling {
    /// How much of the hierarchy can be seen.
    pub sight: QuotaSight,
    /// Periods in which the quota was in force.
    pub periods: Option<u64>,
    /// Periods in which it stopped the group.
    pub throttled_periods: Option<u64>,
    /// How long it stopped it, in nanoseconds.
    pub throttled_ns: Option<u64>,
}

/// Whether every CPU quota on the way to the root can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaSight {
    /// No CPU controller was found.
    #[default]
    Unknown,
    /// There is a quota, and it can be seen.
    Limited,
    /// All groups can be seen, and none has a quota.
    Unlimited,
    /// A container hides the groups above its own.
    Hidden,
}

/// What this process may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    /// Whether it runs as root.
    pub root: Option<bool>,
    /// Its effective capabilities among those that matter here, such as `sys_nice`.
    pub capabilities: Vec<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// Whether the kernel drives hardware performance counters.
    pub pmu: Option<bool>,
    /// `kernel.io_uring_disabled`.
    pub io_uring_disabled: Option<u32>,
    /// Why `io_uring_setup` refused this process; `allowed` where it did not.
    pub io_uring: Option<String>,
    /// Whether `vm.drop_caches` may be written, by access(2); nothing was written.
    pub drop_caches: Option<bool>,
}

/// Limits of this process (getrlimit), the soft ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Processes and threads of this user: `ulimit -u`.
    pub processes: Option<u64>,
    /// Processes and threads that this user has, as far as `/proc` shows them.
    pub processes_now: Option<u64>,
    /// Open files: `ulimit -n`.
    pub files: Option<u64>,
    /// Locked memory: `ulimit -l`.
    pub locked_bytes: Option<u64>,
    /// Address space: `ulimit -v`.
    pub address_space_bytes: Option<u64>,
}

/// Where a run would be kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorePlace {
    /// The file.
    pub path: String,
    /// Why it cannot be written; absent where it can.
    pub refused: Option<String>,
}

impl Condition {
    /// Notes where a fact was read.
    pub fn origin(&mut self, path: &str, origin: impl Into<String>) {
        self.origins.insert(path.to_owned(), origin.into());
    }
}

impl Permissions {
    /// Whether it has a capability; root's are told like everyone's.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }
}

impl Look {
    /// The shares of one CPU.
    pub fn of(&self, cpu: u32) -> Option<&CpuShares> {
        self.cpus.iter().find(|shares| shares.cpu == Some(cpu))
    }
}
