//! Whether a number can be believed, and why not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Remedy;

/// The verdict on a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// Its reasons, the weightiest first; some only when the state is `valid`: what held the number
    /// where it is, such as a cap.
    pub reasons: Vec<Reason>,
}

impl Verdict {
    /// A verdict with one reason.
    pub fn because(state: State, cause: Cause, text: impl Into<String>) -> Self {
        Self { state, reasons: vec![Reason::new(cause, text)] }
    }

    /// Whether the value may be shown as a number at all.
    pub fn shows_number(&self) -> bool {
        self.state.shows_number()
    }

    /// Whether the run was stopped before all processes of the case were done.
    pub fn is_cut_short(&self) -> bool {
        self.reasons.iter().any(|reason| reason.cause == Cause::Interrupted)
    }
}

/// How far a record can be believed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The number stands.
    #[default]
    Valid,
    /// The number stands, marked, with its cause.
    Noisy,
    /// This machine, kernel or permission cannot give it.
    Unavailable,
    /// There is a result, and it must not be believed: no view prints it as a number.
    Invalid,
    /// There is no result: a crash, a time-out, an error.
    Failed,
}

impl State {
    /// Whether a value in this state may be shown as a number at all.
    pub fn shows_number(self) -> bool {
        matches!(self, Self::Valid | Self::Noisy)
    }

    /// The state as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Noisy => "noisy",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }
}

/// How many records are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The number stands.
    pub valid: u32,
    /// The number stands, marked.
    pub noisy: u32,
    /// This machine, kernel or permission cannot give it.
    pub unavailable: u32,
    /// There is a result that must not be believed.
    pub invalid: u32,
    /// There is no result.
    pub failed: u32,
}

impl Counts {
    /// Counts states.
    pub fn of(states: impl IntoIterator<Item = State>) -> Self {
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

    /// All of them.
    pub fn total(&self) -> u32 {
        self.valid + self.noisy + self.unavailable + self.invalid + self.failed
    }
}

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The cause, from a closed list, for programs.
    pub cause: Cause,
    /// The cause in words, with its figure, for people.
    pub text: String,
    /// What to do next; absent where nothing can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl Reason {
    /// A reason with nothing to do next.
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), remedy: None }
    }

    /// The same with the next thing to do.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Option<Remedy>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// The causes that a verdict can name. Each but `Spread` is read from a counter or a check, never
/// from the value that it spoils.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The CPU cgroup's quota stopped the worker.
    Throttled,
    /// The control group's limit on a device held it back.
    Capped,
    /// The hypervisor ran another guest on the pinned CPU.
    Steal,
    /// Another process of this machine ran on the pinned CPU.
    Contention,
    /// Neither the worker nor its children ran, and no other counter says why.
    NotRunning,
    /// Page faults that waited for a device.
    MajorFaults,
    /// The worker was moved to another CPU.
    Migration,
    /// Interrupts on the pinned CPU.
    Interrupts,
    /// The core itself was slow, by a reference spin of fixed work: a neighbour on the same
    /// physical core, or its frequency.
    SlowCore,
    /// The values moved in one direction over the visit.
    Drift,
    /// The machine itself became faster or slower over the run, or came and went.
    MachineDrift,
    /// The interval is wide and no counter says why.
    Spread,
    /// Processes fall into two groups: which one a process joins is decided when it starts.
    TwoClusters,
    /// The values of one process fall into several modes.
    SeveralModes,
    /// The clock disagreed with another, or ran backwards.
    Clock,
    /// The probe's count of its own work was wrong.
    WrongWork,
    /// The work was so short that beginning it is a part of the number.
    TooShort,
    /// Page size, placement or residency was not what was asked for.
    NotAsAsked,
    /// A permission, a limit or a missing part of the kernel or the hardware.
    Missing,
    /// Something it is computed from has no result, or some of its processes gave none.
    MissingInput,
    /// The worker ended by a signal or an error.
    Crashed,
    /// The worker did not answer within its bound.
    TimedOut,
    /// The person or a closed output stopped the run first.
    Interrupted,
}
