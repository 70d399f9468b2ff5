//! A run and its document: what travels as JSON and what the store lists.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, Params, Record, Verdict};

/// One JSON document: a run, the machine it ran on, and its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// [`crate::SCHEMA_VERSION`].
    pub schema: u32,
    /// The program that made it.
    pub tool: Tool,
    /// The run.
    pub run: Run,
    /// The machine; the near one, where a run has two ends.
    pub host: Host,
    /// The hosts at the far ends of its measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<FarHost>,
    /// The results, in the order they were done.
    pub records: Vec<Record>,
}

impl Document {
    /// The host at the far end of a case, which its parameter `to` names; none where it has no far
    /// end, or both are on this host.
    pub fn far_host(&self, params: &Params) -> Option<&Host> {
        let to = params.text("to")?;
        self.far.iter().find(|far| far.name == to).map(|far| &far.host)
    }
}

/// A host at the far end of a run's measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FarHost {
    /// The name by which records refer to it, in their parameter `to`.
    pub name: String,
    /// Its facts.
    pub host: Host,
    /// How its clock relates to the near host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// How the clock of a far host relates to the near one, by exchanges of time stamps. It places
/// series of two hosts on one axis; no duration is computed from two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// Far clock minus near clock when the run began, in nanoseconds.
    pub offset_ns: f64,
    /// How much faster the far clock goes, in parts per million.
    pub drift_ppm: f64,
    /// Half the smallest round trip: the error of the offset, in nanoseconds.
    pub error_ns: f64,
}

/// The program that made a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `fathom`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Identifier: 16 hexadecimal digits, sortable by time.
    pub id: String,
    /// The name that `--label` gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// When it ended; absent while it goes on, or where it was cut off.
    pub ended: Option<String>,
    /// How long it took, in nanoseconds by a clock that nobody steps; absent while it goes on.
    pub duration_ns: Option<f64>,
    /// How thoroughly.
    pub effort: Effort,
    /// Which sampling protocol.
    pub protocol: Protocol,
    /// The seed of every random order in the run.
    pub seed: u64,
    /// What was asked for on the command line; empty means everything.
    pub asked: Vec<String>,
    /// The command that measured by hand, such as `file read`; absent for a battery of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub procedure: Option<String>,
    /// Records the run gives if nothing stops it.
    pub planned: u64,
    /// How far it came.
    pub state: RunState,
    /// The CPU the workers were pinned to.
    pub cpu: u32,
    /// Why that one.
    pub cpu_reason: String,
    /// The reference loop on that CPU; absent where it was not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The clock, its calibration and how it stood the check at the end.
    pub clock: ClockFacts,
    /// What `--tune` changed while the run lasted; empty without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<String>,
    /// What a laboratory imposed on it by the environment, such as `FATHOM_SPIN=os.syscall=40%`;
    /// no history and no noise is learnt from such a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imposed: Vec<String>,
    /// What holds for the run as a whole: drift of the machine, the clock's failure, a stepped
    /// wall clock.
    pub verdict: Verdict,
    /// Facts about the run that spoil nothing, such as settings that `--tune` was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The reference loop of a CPU at full speed, and how many visits met it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// The time of its part that a busy sibling thread slows, in nanoseconds.
    pub loop_ns: f64,
    /// The time of its part that only the frequency slows, in nanoseconds.
    pub frequency_ns: f64,
    /// What makes it full speed.
    pub basis: ReferenceBasis,
    /// Visits whose loops were compared with it.
    pub visits: u32,
    /// Those of them that were clean.
    pub clean: u32,
}

/// Why the fastest loops of a run count as full speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceBasis {
    /// They need the cycles they should at the highest frequency of the CPU.
    HighestFrequency,
    /// They are as fast as in earlier runs on this host.
    EarlierRuns,
    /// Neither is known, or the whole run was slower: they are the fastest in this run.
    ThisRun,
}

impl Run {
    /// Its id, with its label where it has one.
    pub fn name(&self) -> String {
        name(&self.id, self.label.as_deref())
    }
}

/// An id, with the label where there is one.
pub fn name(id: &str, label: Option<&str>) -> String {
    label.map_or_else(|| id.to_owned(), |label| format!("{id} ({label})"))
}

/// Longer labels do not fit beside what they name.
const LABEL_CHARS_MAX: usize = 64;

/// Why a text is no label of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Nothing, or spaces at an end.
    #[error("a label has text, without spaces around it")]
    Blank,
    /// Too long.
    #[error("a label has {LABEL_CHARS_MAX} characters at most, this has {0}; shorten it")]
    Long(usize),
    /// A line break, or another character that moves a cursor.
    #[error("a label has no control characters, such as line breaks; remove them")]
    Control,
    /// Every command that takes runs would read it as something else.
    #[error("`latest…` names the newest runs, and a text with `/` or `.json` a file; change it")]
    Taken,
}

/// A text that can be the label of a run.
///
/// # Errors
/// Why it cannot.
pub fn label(text: &str) -> Result<String, LabelError> {
    match text.chars().count() {
        count if count > LABEL_CHARS_MAX => Err(LabelError::Long(count)),
        0 => Err(LabelError::Blank),
        _ if text.chars().any(char::is_control) => Err(LabelError::Control),
        _ if text.trim() != text => Err(LabelError::Blank),
        _ if text.starts_with("latest") || text.contains('/') || text.ends_with(".json") => {
            Err(LabelError::Taken)
        }
        _ => Ok(text.to_owned()),
    }
}

/// The clock of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// `tsc`, `cntvct`, `monotonic_raw` or `fake`.
    pub source: String,
    /// Why the hardware counter was refused, where it was.
    pub refused: Option<String>,
    /// Ticks per second by calibration.
    pub hz: f64,
    /// The smallest step, in nanoseconds.
    pub resolution_ns: f64,
    /// The cost of one start/stop pair, in nanoseconds.
    pub read_ns: f64,
    /// Deviation against CLOCK_MONOTONIC_RAW over the whole run, in parts per million.
    pub raw_ppm: Option<f64>,
    /// Deviation against CLOCK_MONOTONIC over the whole run, in parts per million.
    pub monotonic_ppm: Option<f64>,
    /// How far somebody set the wall clock during the run, in nanoseconds; 0 where it was put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_step_ns: Option<f64>,
    /// Further figures of the calibration, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, f64>,
}

/// How thoroughly a run measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// 5 processes a case, a fixed share of time.
    Quick,
    /// 10 to 20 processes a case, until the interval is narrow.
    #[default]
    Standard,
    /// 20 to 40 processes a case.
    Thorough,
}

impl Effort {
    /// The effort as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Thorough => "thorough",
        }
    }
}

/// How samples are taken and what the headline is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Median over processes of their medians.
    #[default]
    Median,
    /// The classic trimmed mean of 500 of 800 trials.
    Trimmed,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It goes on, or its process died without a word.
    Running,
    /// Everything asked for was done.
    Complete,
    /// It was stopped: what was done by then is kept.
    Interrupted,
}
