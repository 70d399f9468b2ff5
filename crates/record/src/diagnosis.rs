//! The document of an examination: whether a machine can be measured well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::run::ClockFacts;
use crate::{Host, Tool};

/// Version of the diagnosis' JSON document; it changes when a reader would break.
pub const DIAGNOSIS_SCHEMA_VERSION: u32 = 2;

/// One JSON document: what was examined, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// [`DIAGNOSIS_SCHEMA_VERSION`].
    pub schema: u32,
    /// The program that made it.
    pub tool: Tool,
    /// When it was made, RFC 3339 in UTC.
    pub examined: String,
    /// The weightiest severity among the findings.
    pub severity: Severity,
    /// The findings, the weightiest first, within a severity in the order of the rules.
    pub findings: Vec<Finding>,
    /// What lasts.
    pub host: Host,
    /// What is so just now.
    pub condition: Condition,
    /// The clock, or why there is none.
    pub clock: ClockState,
}

/// The clock that a run would use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockState {
    /// Its facts, where it could be calibrated.
    pub facts: Option<ClockFacts>,
    /// Why it could not.
    pub failure: Option<String>,
}

/// How much a finding weighs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Looked at, and fine.
    #[default]
    Good,
    /// Worth knowing: a part of what the machine is, or a fact that could not be read.
    Note,
    /// Numbers will be noisier than they could be, or different.
    Warning,
    /// Numbers should not be believed, or cannot be taken.
    Severe,
}

impl Severity {
    /// The severity as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Severe => "severe",
        }
    }
}

/// What one rule found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule, such as `cpu-governor`.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// The fact could not be read: `found` says so and why. It is then a note.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// What was found, with its value.
    pub found: String,
    /// Where it was read: files, instructions or system calls.
    pub read_at: Vec<String>,
    /// Metrics it touches: ids, or beginnings of ids followed by `*`, such as `os.*`.
    pub touches: Vec<String>,
    /// What it does to them; of a good finding, what it would do.
    pub effect: String,
    /// What mends it, or why there is nothing to do; absent where it is good or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Fix>,
}

/// What mends a finding, as data. `report` puts it into words, and names the command to type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fix {
    /// Measure by the kernel's clock.
    UseKernelClock,
    /// Update the firmware, which sets the counters of the CPUs, or do without them.
    UpdateFirmware,
    /// Look for a better clock source.
    FindClockSource,
    /// The finding of this rule says what to do.
    SeeFinding {
        /// The rule.
        id: String,
    },
    /// Look again when the machine is quiet.
    LookWhenQuiet,
    /// A clock jumps: look into the kernel's log.
    FindClockJumps,
    /// The kernel still lists the TSC as a clock source: choose it.
    ChooseTsc,
    /// Look why the kernel gave the TSC up.
    FindTscFailure,
    /// Take the sibling offline while a run lasts.
    TakeSiblingOffline,
    /// Choose a core of the wanted kind.
    ChooseCore,
    /// Bind memory to a NUMA node.
    BindMemory {
        /// The node of the measured CPU, where it is known.
        node: Option<u32>,
    },
    /// Set the governor to `performance`.
    SetGovernor,
    /// Allow more processes.
    RaiseProcessLimit {
        /// As many as will do.
        to: u64,
    },
    /// Allow more open files.
    RaiseFileLimit,
    /// Allow more address space.
    RaiseAddressSpace,
    /// Allow more locked memory.
    RaiseLockedMemory,
    /// Stop what keeps the CPUs busy.
    StopBusyProcesses,
    /// Use a dedicated host, or come back later.
    DedicatedHost,
    /// Wait for the other run.
    WaitForOtherRun,
    /// Wait a minute: a load average lags behind.
    WaitForLoadAverage,
    /// Wait for what waits, or stop it.
    WaitForPressure,
    /// Wait until the machine has settled.
    WaitAfterBoot,
    /// A run may be quieter in some minutes.
    MeasureLater,
    /// Look who holds the memory.
    FindMemoryUsers,
    /// Wait until no page is swapped any more.
    WaitForSwapping,
    /// Randomise the layout of each process.
    RandomiseLayout,
    /// Raise the CPU quota.
    RaiseCpuQuota {
        /// The file that holds it, where it is known.
        file: Option<String>,
    },
    /// Raise the container's CPU limit.
    RaiseContainerCpu,
    /// Raise the memory limit of the control group.
    RaiseMemoryLimit,
    /// Raise the control group's limit on processes.
    RaisePidsMax,
    /// Make /proc visible, or also /sys.
    MountProc {
        /// Whether /sys is missing too.
        and_sys: bool,
    },
    /// Make /sys visible.
    MountSys,
    /// Make /proc visible, which says which CPUs may be used.
    MountProcForCpus,
    /// Allow a second CPU.
    SecondCpu,
    /// Become root, to set the machine for a run.
    BecomeRootToTune,
    /// Become root, to drop every page cache.
    BecomeRootToDropCaches,
    /// Allow io_uring.
    AllowIoUring,
    /// Allow hardware counters.
    AllowPerfEvents,
    /// Keep runs where they can be written.
    KeepElsewhere,
    /// Become root, who can read the schemes of DAMON.
    ReadDamonAsRoot,
    /// Stop the threads of DAMON.
    StopDamon,
    /// Turn zswap off.
    DisableZswap,
    /// Stop KSM.
    StopKsm,
    /// Turn autogroup off.
    DisableAutogroup,
    /// Choose a congestion control that does not pace.
    ChooseCubic,
    /// There is nothing to do.
    Nothing {
        /// Why.
        why: Acceptable,
    },
}

/// Why there is nothing to do about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Acceptable {
    /// The kernel's clock replaces the counter.
    KernelClock,
    /// A run calibrates and checks its clock itself.
    CheckedByRun,
    /// Only machines with the same are comparable.
    CompareWithSame,
    /// Somebody chose it.
    OnPurpose,
    /// The reference spin shows what the frequency does.
    SeenBySpin,
    /// It is the size of the machine.
    SizeOfMachine,
    /// A worker's memory is new.
    NewMemory,
    /// Probes ask for the pages that they need.
    PagesOnRequest,
    /// It is how the machine is set.
    Setting,
    /// A filter or the build of the kernel forbids it.
    Forbidden,
    /// The processor or the hypervisor does not have it.
    NoHardware,
    /// The kernel was built without it.
    KernelBuild,
    /// It binds what runs on several CPUs at once.
    SeveralCpus,
    /// The machine has one CPU.
    OneCpu,
    /// It moves no page of a measured process.
    NoPageMoved,
    /// It is what the machine, or what surrounds it, is.
    Nature,
}
