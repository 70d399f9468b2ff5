//! What to do about a number that is noisy or missing, as data. `report` puts it into words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do next. The name is stable; how it reads, with the options of the program that it
/// needs, is a matter of the views.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remedy {
    /// Raise or remove the CPU quota of the control group.
    RaiseCpuQuota,
    /// Raise the control group's limit on a device, or measure outside the group.
    RaiseDeviceLimit,
    /// Use a host with fewer or no neighbours.
    QuieterHost,
    /// Stop the processes that held the CPU, or measure on another.
    QuietCpu,
    /// Stop the processes that held the CPU, where no other can be chosen.
    StopOthers,
    /// Move interrupts to other CPUs, or measure on another.
    MoveInterrupts,
    /// Look for what else runs on the CPU, or measure on another.
    OtherCpu,
    /// Look for what changes the affinity of processes.
    FindAffinityChanges,
    /// Keep the sibling and the frequency of the core quiet.
    QuietCore,
    /// Free memory, so that nothing is swapped.
    AvoidSwap,
    /// More processes show how many fall into each group.
    CountGroups,
    /// Longer visits show what drifts.
    FollowDrift,
    /// More processes narrow the interval.
    MeasureLonger,
    /// Wait until frequency and temperature are steady.
    LetSettle,
    /// The same, or measure for longer.
    LetSettleOrMeasureLonger,
    /// Let the run come to its end.
    RunToEnd,
    /// More bytes a pass, so that processes overlap.
    MoreBytes,
    /// A sync that never reached the device: a loss of power loses data.
    DistrustSyncs,
    /// Run without the sandbox that forbids a system call.
    LeaveSandbox,
    /// Run without that sandbox, or on a kernel that has the call.
    AllowCall,
    /// A newer kernel.
    NewerKernel {
        /// The first that will do.
        version: String,
    },
    /// A kernel built with an option.
    KernelWith {
        /// The option.
        option: String,
    },
    /// Raise one of these limits.
    RaiseLimit {
        /// `ulimit -n`, or the name of a kernel setting.
        limits: Vec<String>,
    },
    /// Remove old semaphore sets, or allow more.
    RemoveSemaphores,
    /// Allow the process a second CPU.
    SecondCpu,
    /// Allow the process more cores.
    MoreCores,
    /// Allow the process this CPU.
    AllowCpu {
        /// Its number.
        cpu: u32,
    },
    /// Make /proc visible.
    MountProc,
    /// Install /bin/sh.
    InstallShell,
    /// Allow programs without a file.
    AllowMemoryPrograms,
    /// Let TMPDIR name a folder in which a FIFO may be made.
    FifoFolder,
    /// Let TMPDIR name a folder on a disk.
    DiskFolder,
    /// Free space in the temporary folder, or name another.
    FreeTemporarySpace,
    /// Choose a clock source that programs can read.
    ReadableClockSource,
    /// Allow transparent huge pages to this process.
    AllowHugePages,
    /// Start from a parent that does not forbid huge pages.
    StartWithHugePages,
    /// Allow huge pages to programs that ask for them.
    AdviseHugePages,
    /// Free memory, or raise the limit of the control group.
    FreeMemory,
    /// Allow overcommitment, or free memory.
    AllowOvercommit,
    /// Free space in the folder of files, or name another.
    FreeSpace,
    /// Name another folder for files.
    OtherFolder,
    /// The same, or allow one that keeps files in memory.
    OtherFolderOrMemory,
}

impl Remedy {
    /// To raise one of these limits.
    pub fn raise(limits: &[&str]) -> Self {
        Self::RaiseLimit { limits: limits.iter().map(|limit| (*limit).to_owned()).collect() }
    }

    /// A kernel of this version or later.
    pub fn kernel(version: &str) -> Self {
        Self::NewerKernel { version: version.to_owned() }
    }

    /// A kernel that was built with this option.
    pub fn kernel_with(option: &str) -> Self {
        Self::KernelWith { option: option.to_owned() }
    }

    /// The same where no CPU can be chosen.
    #[must_use]
    pub fn without_choice_of_cpu(self) -> Self {
        match self {
            Self::QuietCpu | Self::MoveInterrupts | Self::OtherCpu => Self::StopOthers,
            other => other,
        }
    }
}
