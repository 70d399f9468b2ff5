//! Momentary facts about a machine, such as its load. Lasting facts are in [`crate::Host`];
//! `measure` reads both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Momentary facts about the machine. A fact that cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Condition {
    /// The CPU that a run would measure on now.
    pub cpu: Option<u32>,
    /// Why that CPU.
    pub cpu_reason: String,
    /// CPU activity over a short observation.
    pub look: Option<Look>,
    /// CPU activity since boot.
    /// Time since boot by what the CPUs did in it.
    pub since_boot: Option<CpuShares>,
    /// Whether the hypervisor reports steal time to the guest; absent without a hypervisor.
    pub steal_is_told: Option<bool>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Runnable threads, including the one that read the count.
    pub runnable: Option<u64>,
    /// Pressure stall information: share of the last 10 s in which some task was stalled on `cpu`,
    /// `memory` or `io`.
    pub pressure: BTreeMap<String, f64>,
    /// Why pressure is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_missing: Option<String>,
    /// Swap space in use, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Throttling by the CPU cgroup since it was created.
    pub throttling: Throttling,
    /// Processes and threads in the cgroup with the tightest limit on them.
    pub pids: Option<u64>,
    /// Memory charged to the cgroup, including its page cache.
    pub cgroup_memory_bytes: Option<u64>,
    /// What this process is permitted to do.
    pub permissions: Permissions,
    /// Resource limits of this process; absent if unlimited or unknown (unknown limits have no
    /// entry in `origins`).
    pub limits: Limits,
    /// TCP sockets in TIME_WAIT, each of which may hold a local port.
    #[serde(default)]
    pub time_wait: Option<u64>,
    /// Whether another run is measuring on this machine.
    pub another_run: Option<bool>,
    /// Where runs are stored.
    pub store: Option<StorePlace>,
    /// Whether `/proc` is readable for processes and CPUs.
    pub proc_readable: bool,
    /// Whether `/sys` is readable for CPUs.
    pub sys_readable: bool,
    /// Disturbance counters that this kernel does not provide.
    pub counters_missing: Vec<String>,
    /// The source of each fact: dotted path (`load_average`) → file or system call.
    pub origins: BTreeMap<String, String>,
}

/// CPU activity over a short observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// Its duration, in nanoseconds.
    pub length_ns: f64,
    /// The online CPUs.
    pub cpus: Vec<CpuShares>,
    /// Pages swapped in or out meanwhile.
    pub swapped_pages: Option<u64>,
    /// The programs that took most of the CPUs meanwhile, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<BusyProgram>,
}

/// All processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyProgram {
    pub name: String,
    /// CPUs that they used, in user and kernel mode.
    pub cpus: f64,
}

/// Shares of a CPU's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuShares {
    /// The CPU; absent for the sum over all CPUs.
    pub cpu: Option<u32>,
    /// Share not idle, including steal.
    pub busy: f64,
    /// Share of steal; absent if the kernel does not count it.
    pub steal: Option<f64>,
    /// Clock ticks observed: the resolution of the shares.
    pub ticks: u64,
}

/// Throttling by the CPU cgroup since it was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throttling {
    /// Which quotas are visible.
    pub sight: QuotaSight,
    /// Periods with the quota in force.
    pub periods: Option<u64>,
    /// Throttled periods.
    pub throttled_periods: Option<u64>,
    /// Throttled time, in nanoseconds.
    pub throttled_ns: Option<u64>,
}

/// Whether every CPU quota up to the root cgroup is visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QuotaSight {
    /// No CPU controller found.
    #[default]
    Unknown,
    /// A visible quota is set.
    Limited,
    /// All cgroups are visible, and no quota is set.
    Unlimited,
    /// A container hides the cgroups above its own.
    Hidden,
}

/// What this process is permitted to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Permissions {
    /// Whether it runs as root.
    pub root: Option<bool>,
    /// Its relevant effective capabilities, such as `sys_nice`.
    pub capabilities: Vec<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// Whether the kernel supports hardware performance counters here.
    pub pmu: Option<bool>,
    /// `kernel.io_uring_disabled`.
    pub io_uring_disabled: Option<u32>,
    /// The error of `io_uring_setup` for this process, or `allowed`.
    pub io_uring: Option<String>,
    /// Whether `vm.drop_caches` is writable, by access(2); nothing is written.
    pub drop_caches: Option<bool>,
}

/// Soft resource limits of this process (getrlimit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Processes and threads of this user (`ulimit -u`).
    pub processes: Option<u64>,
    /// Current processes and threads of this user, as far as visible in `/proc`.
    pub processes_now: Option<u64>,
    /// Open files (`ulimit -n`).
    pub files: Option<u64>,
    /// Locked memory (`ulimit -l`).
    pub locked_bytes: Option<u64>,
    /// Address space (`ulimit -v`).
    pub address_space_bytes: Option<u64>,
}

/// Where runs are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorePlace {
    /// Path of the store.
    pub path: String,
    /// Why it is not writable; absent if it is.
    pub refused: Option<String>,
}

impl Condition {
    pub fn origin(&mut self, path: &str, origin: impl Into<String>) {
        self.origins.insert(path.to_owned(), origin.into());
    }
}

impl Permissions {
    /// Whether the process has a capability; root has all that its set contains.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }
}

impl Look {
    pub fn shares_of(&self, cpu: u32) -> Option<&CpuShares> {
        self.cpus.iter().find(|shares| shares.cpu == Some(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_cpu_are_found_by_its_number() {
        let of = |cpu| CpuShares { cpu, ..CpuShares::default() };
        let look = Look { cpus: vec![of(None), of(Some(3)), of(Some(1))], ..Look::default() };
        assert_eq!(look.shares_of(1).and_then(|shares| shares.cpu), Some(1));
        assert!(look.shares_of(2).is_none());
    }

    #[test]
    fn only_named_capabilities_are_held() {
        let capabilities = vec!["CAP_SYS_NICE".to_owned(), "CAP_NET_RAW".to_owned()];
        let held = Permissions { capabilities, ..Permissions::default() };
        assert!(held.can("CAP_NET_RAW") && !held.can("CAP_SYS_ADMIN"));
        assert!(!Permissions::default().can("CAP_NET_RAW"));
    }
}
