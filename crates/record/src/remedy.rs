//! Remedies for noisy or missing numbers, as data; `report` adds the words.

use serde::{Deserialize, Serialize};

/// What to do next, as data. The name is stable; views add the words and the options of the
/// program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remedy {
    /// Raise or remove the cgroup's CPU quota.
    RaiseCpuQuota,
    /// Raise the cgroup's limit on a device, or measure outside the cgroup.
    RaiseDeviceLimit,
    /// Use a dedicated host, or one with fewer neighbours.
    QuieterHost,
    /// Stop the processes that used the CPU, or measure on another CPU.
    QuietCpu,
    /// Stop the processes that used the CPU, if no other CPU can be selected.
    StopOthers,
    /// Move interrupts to other CPUs, or measure on another CPU.
    MoveInterrupts,
    /// Find what else runs on the CPU, or measure on another CPU.
    OtherCpu,
    /// Find what changes the affinity of processes.
    FindAffinityChanges,
    /// Keep the SMT sibling idle and the frequency of the core fixed.
    QuietCore,
    /// Free memory, to avoid swapping.
    AvoidSwap,
    /// Measure more processes, to get the share of each cluster.
    CountGroups,
    /// Measure longer visits, to see the drift.
    FollowDrift,
    /// Measure more processes, for a narrower interval.
    MeasureLonger,
    /// Wait until frequency and temperature are steady.
    LetSettle,
    /// Wait until frequency and temperature are steady, or measure longer.
    LetSettleOrMeasureLonger,
    /// Let the run finish.
    RunToEnd,
    /// Use more bytes per pass, so that processes overlap.
    MoreBytes,
    /// Syncs do not reach the device: a power cut loses data.
    DistrustSyncs,
    /// Run outside the sandbox that forbids a system call.
    LeaveSandbox,
    /// Run outside that sandbox, or on a kernel that has the system call.
    AllowCall,
    /// Use a newer kernel.
    NewerKernel {
        /// The first sufficient version.
        version: String,
    },
    /// Use a kernel built with an option.
    KernelWith {
        /// The option.
        option: String,
    },
    /// Raise one of these limits.
    RaiseLimit {
        /// `ulimit -n`, or the name of a sysctl.
        limits: Vec<String>,
    },
    /// Do this: about a failed system call, or with an option of the command itself.
    Do {
        /// What to do.
        action: String,
    },
    /// Measure longer with a command that is not `run`.
    Repeat {
        /// The option of that command that does so, if it has one.
        option: Option<String>,
    },
    /// Measure for this long, each of what is compared.
    MeasureFor {
        /// Whole fives, or whole minutes.
        seconds: u64,
    },
    /// Send fewer requests a second.
    LowerRate,
    /// Send fewer requests a second, or leave the load generator a CPU of its own.
    LowerRateOrOwnCpu,
    /// Let the server evict each file after its response.
    EvictEach,
    /// Remove unused semaphore sets, or raise their limit.
    RemoveSemaphores,
    /// Allow ICMP echo to this user: a group in net.ipv4.ping_group_range, or CAP_NET_RAW.
    AllowIcmp,
    /// Allow the process a second CPU.
    SecondCpu,
    /// Allow the process more cores.
    MoreCores,
    /// Bring this CPU online, or allow the process to use it.
    AllowCpu {
        /// Number of the CPU.
        cpu: u32,
    },
    /// Mount /proc.
    MountProc,
    /// Install /bin/sh.
    InstallShell,
    /// Allow executing memfds.
    AllowMemoryPrograms,
    /// Set TMPDIR to a directory that allows FIFOs.
    FifoFolder,
    /// Set TMPDIR to a directory on a disk.
    DiskFolder,
    /// Free space in the temporary directory, or use another.
    FreeTemporarySpace,
    /// Select a clock source that is readable in user space.
    ReadableClockSource,
    /// Allow transparent huge pages to this process.
    AllowHugePages,
    /// Start it from a parent that does not disable huge pages.
    StartWithHugePages,
    /// Set transparent huge pages to `madvise`.
    AdviseHugePages,
    /// Free memory, or raise the cgroup's limit.
    FreeMemory,
    /// Allow overcommit, or free memory.
    AllowOvercommit,
    /// Free space in the directory of test files, or use another.
    FreeSpace,
    /// Use another directory for test files.
    OtherFolder,
    /// Serve a file of this size at the far end.
    ServeFile {
        /// Size of the file.
        bytes: u64,
    },
    /// Use another directory, or allow one that keeps files in memory.
    OtherFolderOrMemory,
}

impl Remedy {
    pub fn raise(limits: &[&str]) -> Self {
        Self::RaiseLimit { limits: limits.iter().map(|limit| (*limit).to_owned()).collect() }
    }

    pub fn kernel(version: &str) -> Self {
        Self::NewerKernel { version: version.to_owned() }
    }

    pub fn kernel_with(option: &str) -> Self {
        Self::KernelWith { option: option.to_owned() }
    }

    /// The remedy for a command that selects no CPU and has no efforts; `repeat` is its option to
    /// measure longer, if it has one.
    #[must_use]
    pub fn for_procedure(self, repeat: Option<&str>) -> Self {
        match self {
            Self::QuietCpu | Self::MoveInterrupts | Self::OtherCpu => Self::StopOthers,
            Self::QuietCore => Self::QuieterHost,
            Self::CountGroups
            | Self::FollowDrift
            | Self::MeasureLonger
            | Self::LetSettleOrMeasureLonger => Self::Repeat { option: repeat.map(str::to_owned) },
            other => other,
        }
    }
}
