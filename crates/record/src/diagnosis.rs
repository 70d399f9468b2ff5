//! The document of `fathom doctor`: whether a machine can be measured well.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::run::ClockFacts;
use crate::{Host, Tool};

/// Version of the JSON document; it changes when a reader would break.
pub const DIAGNOSIS_SCHEMA_VERSION: u32 = 2;

/// The JSON document of `fathom doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Version of this document.
    pub schema: u32,
    /// The program that wrote it.
    pub tool: Tool,
    /// When the machine was examined, RFC 3339 in UTC.
    pub examined: String,
    /// The highest severity among the findings.
    pub severity: Severity,
    /// The findings, the most severe first, within a severity in the order of the rules.
    pub findings: Vec<Finding>,
    /// Lasting facts.
    pub host: Host,
    /// Momentary facts.
    pub condition: Condition,
    /// The clock, or why there is none.
    pub clock: ClockState,
}

/// The clock that a run would use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockState {
    /// Its calibration, if it succeeded.
    pub facts: Option<ClockFacts>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// Severity of a finding.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Checked, nothing to report.
    #[default]
    Good,
    /// Good to know: a property of the machine, or a fact that could not be read.
    Note,
    /// Numbers will be noisier or different.
    Warning,
    /// No valid numbers, or none at all.
    Severe,
}

words!(Severity.word, Good = "good", Note = "note", Warning = "warning", Severe = "severe");

/// The finding of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable name of the rule, such as `cpu-governor`.
    pub id: String,
    /// Its severity.
    pub severity: Severity,
    /// The fact could not be read, and `found` has the reason. Such a finding is a note.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The fact, with its value.
    pub found: String,
    /// The source of the fact: files, instructions or system calls.
    pub read_at: Vec<String>,
    /// Affected metrics: ids, or prefixes followed by `*`, such as `os.*`.
    pub touches: Vec<String>,
    /// The effect on them; for a good finding, what the effect would be.
    pub effect: String,
    /// The remedy, or why none is needed; absent if the finding is good or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Fix>,
}

/// The remedy for a finding, as data; views add its words and the command to type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fix {
    /// Measure with the kernel's clock.
    UseKernelClock,
    /// Update the firmware, which sets the TSCs of the CPUs, or use another clock.
    UpdateFirmware,
    /// Find a better clock source.
    FindClockSource,
    /// Another finding has the remedy.
    SeeFinding {
        /// The rule of that finding.
        id: String,
    },
    /// Examine again when the machine is quiet.
    LookWhenQuiet,
    /// A clock jumps: check the kernel log.
    FindClockJumps,
    /// Select the TSC, which the kernel lists as a clock source.
    ChooseTsc,
    /// Find out why the kernel marked the TSC unstable.
    FindTscFailure,
    /// Take the SMT sibling offline during a run.
    TakeSiblingOffline,
    /// Select a core of the wanted kind.
    ChooseCore,
    /// Bind memory to a NUMA node.
    BindMemory {
        /// The node of the measured CPU, if known.
        node: Option<u32>,
    },
    /// Set the governor to `performance`.
    SetGovernor,
    /// Raise the limit on processes.
    RaiseProcessLimit {
        /// A sufficient limit.
        to: u64,
    },
    /// Raise the limit on open files.
    RaiseFileLimit,
    /// Raise the limit on address space.
    RaiseAddressSpace,
    /// Raise the limit on locked memory.
    RaiseLockedMemory,
    /// Stop the processes that keep the CPUs busy.
    StopBusyProcesses,
    /// Use a dedicated host, or measure later.
    DedicatedHost,
    /// Wait for the other run to end.
    WaitForOtherRun,
    /// Wait a minute: load averages lag behind.
    WaitForLoadAverage,
    /// Boot with pressure stall information.
    EnablePressure,
    /// Wait for the stalled tasks, or stop them.
    WaitForPressure,
    /// Wait until the machine has settled after boot.
    WaitAfterBoot,
    /// Measure in some minutes.
    MeasureLater,
    /// Find the processes that hold the memory.
    FindMemoryUsers,
    /// Wait until swapping ends.
    WaitForSwapping,
    /// Enable address space layout randomisation.
    RandomiseLayout,
    /// Raise the CPU quota.
    RaiseCpuQuota {
        /// The file that holds it, if known.
        file: Option<String>,
    },
    /// Raise the container's CPU limit.
    RaiseContainerCpu,
    /// Raise the cgroup's memory limit.
    RaiseMemoryLimit,
    /// Raise the cgroup's limit on processes.
    RaisePidsMax,
    /// Mount /proc.
    MountProc {
        /// Whether /sys is missing too.
        and_sys: bool,
    },
    /// Mount /sys.
    MountSys,
    /// Give the machine or container a machine-id.
    SetMachineId,
    /// Mount /proc, which lists the allowed CPUs.
    MountProcForCpus,
    /// Allow a second CPU.
    SecondCpu,
    /// Become root, to use `--tune`.
    BecomeRootToTune,
    /// Become root, to drop the page cache.
    BecomeRootToDropCaches,
    /// Allow io_uring.
    AllowIoUring,
    /// Allow hardware performance counters.
    AllowPerfEvents,
    /// Use a store in a writable place.
    KeepElsewhere,
    /// Become root, to read DAMON's schemes.
    ReadDamonAsRoot,
    /// Stop DAMON.
    StopDamon,
    /// Disable zswap.
    DisableZswap,
    /// Stop KSM.
    StopKsm,
    /// Disable autogroup.
    DisableAutogroup,
    /// Select a congestion control without pacing.
    ChooseCubic,
    /// Set the loopback interface up.
    SetLoopbackUp,
    /// Widen the range of local ports.
    WidenPortRange,
    /// Wait until sockets leave TIME_WAIT.
    WaitForTimeWait,
    /// Raise the limit on accept queues.
    RaiseAcceptQueue,
    /// Raise the limits of autotuned socket buffers.
    RaiseSocketBuffers,
    /// Enable offloads.
    EnableOffloads {
        /// The interface.
        interface: String,
        /// Their names in ethtool, such as `tso`.
        offloads: Vec<String>,
    },
    /// Set the MTU of the loopback interface.
    SetLoopbackMtu,
    /// Check whether a path carries packets of the MTU.
    CheckPathMtu {
        /// The payload of an ICMP echo request that fills the MTU.
        payload_bytes: u32,
    },
    /// No remedy needed or possible.
    Nothing {
        /// Why.
        why: Acceptable,
    },
}

/// Why a finding needs no remedy, or has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Acceptable {
    /// The kernel's clock is used instead.
    KernelClock,
    /// A run calibrates and checks its clock itself.
    CheckedByRun,
    /// Compare only with machines that have the same property.
    CompareWithSame,
    /// The caller expects the load.
    ExpectedLoad,
    /// Set on purpose.
    OnPurpose,
    /// The reference loop shows frequency changes.
    SeenBySpin,
    /// The size of the machine.
    SizeOfMachine,
    /// A worker's memory is freshly allocated.
    NewMemory,
    /// Probes request the page size they need.
    PagesOnRequest,
    /// A setting of the machine.
    Setting,
    /// Forbidden by a seccomp filter or the kernel's configuration.
    Forbidden,
    /// Not provided by the processor or the hypervisor.
    NoHardware,
    /// The kernel is built without it.
    KernelBuild,
    /// Affects only work on several CPUs at once.
    SeveralCpus,
    /// The machine has one CPU.
    OneCpu,
    /// No page of a measured process is moved.
    NoPageMoved,
    /// A property of the machine or its environment.
    Nature,
}
