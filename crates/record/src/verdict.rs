//! Verdicts: whether a number can be trusted, and why not.

use serde::{Deserialize, Serialize};

use crate::Remedy;

/// The verdict on a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Its state.
    pub state: State,
    /// The reasons, the most important first. A valid record can have some, such as a cap that
    /// limited the number.
    pub reasons: Vec<Reason>,
}

impl Verdict {
    pub fn because(state: State, cause: Cause, text: impl Into<String>) -> Self {
        Self { state, reasons: vec![Reason::new(cause, text)] }
    }

    pub fn shows_number(&self) -> bool {
        self.state.shows_number()
    }

    /// Whether the number is that of an emulated CPU, which is compared with no other run.
    pub fn is_emulated(&self) -> bool {
        self.reasons.iter().any(|reason| reason.cause == Cause::Emulated)
    }

    /// Whether the run was interrupted, or the CPU lost, before all processes of the case had run.
    pub fn is_cut_short(&self) -> bool {
        let ends = [Cause::Interrupted, Cause::CpuOffline];
        self.reasons.iter().any(|reason| ends.contains(&reason.cause))
    }
}

/// Whether a record can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing speaks against the number.
    #[default]
    Valid,
    /// The number holds with more uncertainty; the cause is given.
    Noisy,
    /// This machine, kernel or permission does not allow the measurement.
    Unavailable,
    /// The result is wrong or not the requested one, and is never shown.
    Invalid,
    /// No result: a crash, a timeout, an error.
    Failed,
}

words!(
    State.word,
    Valid = "valid",
    Noisy = "noisy",
    Unavailable = "unavailable",
    Invalid = "invalid",
    Failed = "failed"
);

impl State {
    pub fn shows_number(self) -> bool {
        matches!(self, Self::Valid | Self::Noisy)
    }
}

/// Number of records in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Valid records.
    pub valid: u32,
    /// Noisy records.
    pub noisy: u32,
    /// Unavailable records.
    pub unavailable: u32,
    /// Invalid records.
    pub invalid: u32,
    /// Failed records.
    pub failed: u32,
}

impl Counts {
    pub fn from_states(states: impl IntoIterator<Item = State>) -> Self {
        let mut counts = Self::default();
        for state in states {
            *match state {
                State::Valid => &mut counts.valid,
                State::Noisy => &mut counts.noisy,
                State::Unavailable => &mut counts.unavailable,
                State::Invalid => &mut counts.invalid,
                State::Failed => &mut counts.failed,
            } += 1;
        }
        counts
    }

    pub fn total(&self) -> u32 {
        self.valid + self.noisy + self.unavailable + self.invalid + self.failed
    }
}

/// A reason for a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// The cause, from a closed list, for programs.
    pub cause: Cause,
    /// The cause with its figures, for people.
    pub text: String,
    /// The remedy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl Reason {
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), remedy: None }
    }

    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Option<Remedy>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// Causes of a verdict. Most are detected by a counter, a sensor or a check. `Spread`, `Stalled`,
/// `Drift`, `FewProcesses`, `TwoClusters`, `LevelOfProcess` and `SeveralModes` describe the values
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The cgroup's CPU quota stopped the worker.
    Throttled,
    /// The cgroup's limit on a device held the work back.
    Capped,
    /// The hypervisor ran another guest on the pinned CPU.
    Steal,
    /// Another process ran on the pinned CPU.
    Contention,
    /// Neither the worker nor its children ran, and no other counter explains it.
    NotRunning,
    /// Page faults that waited for a device.
    MajorFaults,
    /// The worker migrated to another CPU.
    Migration,
    /// Interrupts on the pinned CPU.
    Interrupts,
    /// The core was slow (reference loop): SMT contention or frequency.
    SlowCore,
    /// The core was shared, or its clock slower, in all of the run, which says it once.
    CoreShared,
    /// Loads from memory took longer in some processes: other CPUs or guests used it.
    SlowMemory,
    /// Block devices took longer for a request in some processes than in others.
    SlowDevice,
    /// The values drifted during the visit.
    Drift,
    /// The machine became faster or slower during the run, or its speed is autocorrelated.
    MachineDrift,
    /// The interval is wide because it is over few processes: more, as different as they are, would
    /// narrow it to the limit.
    FewProcesses,
    /// The interval is wide, and no counter explains it.
    Spread,
    /// Bimodal across processes: the mode of a process is decided at its start.
    TwoClusters,
    /// The rounds of a process agree, the processes do not: the level of each is decided at its
    /// start, or lasts longer than its visit.
    LevelOfProcess,
    /// Several modes within a process.
    SeveralModes,
    /// The clock disagreed with another clock, or ran backwards.
    Clock,
    /// The probe's count of its own work was wrong.
    WrongWork,
    /// The work was too short: its start-up is a part of the number.
    TooShort,
    /// Page size, placement or residency differed from the request, or a condition of the case was
    /// not met, such as that a woken process slept.
    NotAsAsked,
    /// A permission, a limit, or a missing feature of the kernel or hardware.
    Missing,
    /// The load generator was the limit, not the server.
    LoadGenerator,
    /// An input has no result, or some of its processes gave none.
    MissingInput,
    /// The worker ended by a signal or an error.
    Crashed,
    /// The far end on another host could not be reached, or its connection ended.
    FarEndLost,
    /// A CPU of the work went offline during the run, or was no longer allowed.
    CpuOffline,
    /// An answer of the far end took far longer than the others.
    Stalled,
    /// The worker exceeded its time limit.
    TimedOut,
    /// The run was interrupted, by a signal or a closed output.
    Interrupted,
    /// The search ended at the largest value that it was to try.
    SearchLimit,
    /// The CPU is emulated: times and rates are the emulator's. Counts hold.
    Emulated,
}

impl Cause {
    /// Whether it says no more than that processes differ, so that any other cause explains more.
    #[must_use]
    pub const fn is_of_spread(self) -> bool {
        matches!(self, Self::Spread | Self::FewProcesses | Self::LevelOfProcess)
    }
}
