//! A run and its document: the JSON that is exported and stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::omitted::is_default;
use crate::{Host, Params, Protocol, Record, Stratum, Verdict};

/// The JSON document of a run, with its host and its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// Version of this document.
    pub schema: u32,
    /// The program that wrote it.
    pub tool: Tool,
    /// The run.
    pub run: Run,
    /// The host; the near one if a measurement has two ends.
    pub host: Host,
    /// The hosts at the far ends of measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<FarHost>,
    /// The results, in the order measured.
    pub records: Vec<Record>,
}

impl Document {
    /// The far host of a case, named by its parameter `to`; `None` without a far end, or if both
    /// ends are on this host.
    pub fn far_host(&self, params: &Params) -> Option<&Host> {
        RunHead::from(self).far_host(params)
    }

    /// Whether the CPU of an end of a case is emulated.
    pub fn is_emulated(&self, params: &Params) -> bool {
        RunHead::from(self).is_emulated(params)
    }
}

/// A run, or an [outline](crate::Outline) of one, without its results.
#[derive(Clone, Copy, Debug)]
pub struct RunHead<'a> {
    pub tool: &'a Tool,
    pub run: &'a Run,
    pub host: &'a Host,
    pub far: &'a [FarHost],
}

impl<'a> RunHead<'a> {
    /// As [`Document::far_host`].
    pub fn far_host(self, params: &Params) -> Option<&'a Host> {
        let to = params.text("to")?;
        self.far.iter().find(|far| far.name == to).map(|far| &far.host)
    }

    /// As [`Document::is_emulated`].
    pub fn is_emulated(self, params: &Params) -> bool {
        self.host.is_emulated() || self.far_host(params).is_some_and(Host::is_emulated)
    }
}

impl<'a> From<&'a Document> for RunHead<'a> {
    fn from(Document { tool, run, host, far, .. }: &'a Document) -> Self {
        Self { tool, run, host, far }
    }
}

/// A host at the far end of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FarHost {
    /// Its name in the parameter `to` of records.
    pub name: String,
    /// Its facts.
    pub host: Host,
    /// Offset of its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// Offset of a far host's clock, estimated from exchanged time stamps. It places series of both
/// hosts on one time axis; no duration is computed from two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockOffset {
    /// Far clock minus near clock at the start of the run, in nanoseconds.
    pub offset_ns: f64,
    /// Rate of the far clock relative to the near clock − 1, in parts per million.
    pub drift_ppm: f64,
    /// Half the smallest round trip: the error of the offset, in nanoseconds.
    pub error_ns: f64,
}

/// The program that wrote a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `fathom`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The compiler that built it, and its level of optimisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Identifier: 16 hexadecimal digits, sortable by time.
    pub id: String,
    /// The label given by `--label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// End; absent while running, or if the run was killed.
    pub ended: Option<String>,
    /// Duration in nanoseconds by a monotonic clock; absent while running.
    pub duration_ns: Option<f64>,
    /// How thoroughly it measures.
    pub effort: Effort,
    /// The sampling protocol.
    pub protocol: Protocol,
    /// Seed of all random orders in the run.
    pub seed: u64,
    /// The metrics requested on the command line; empty for all.
    pub asked: Vec<String>,
    /// The command of a measurement by hand, such as `file read`; absent for `fathom run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub procedure: Option<String>,
    /// Number of records of the whole run.
    pub planned: u64,
    /// Whether it is complete.
    pub state: RunState,
    /// The CPU that workers were pinned to.
    pub cpu: u32,
    /// Why that CPU.
    pub cpu_reason: String,
    /// The reference loop on that CPU, if calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The clock, its calibration, and its check at the end of the run.
    pub clock: ClockFacts,
    /// The metrics that did not fit into the time of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Where test files were, with the file system: `/var/tmp (ext4)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Settings that `--tune` changed during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<String>,
    /// Faults injected through the environment, such as `FATHOM_SPIN=os.syscall=40%`. Histories and
    /// noise estimates ignore such a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imposed: Vec<String>,
    /// Verdict on the whole run: machine drift, clock failure, a stepped wall clock.
    pub verdict: Verdict,
    /// Notes on the run, such as settings that `--tune` could not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The reference loop of a core to itself, and the states of the core over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    /// Time of the part that a busy SMT sibling slows, in nanoseconds.
    pub loop_ns: f64,
    /// Time of the part that only frequency slows, in nanoseconds.
    pub frequency_ns: f64,
    /// Why a core to itself is so fast.
    pub basis: ReferenceBasis,
    /// Number of visits compared with it.
    pub visits: u32,
    /// Number of visits on a core to itself.
    pub clean: u32,
    /// Number of visits on a shared core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: u32,
    /// Number of visits at a slower clock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slower_clock: u32,
    /// The state that is reported; absent in runs up to version 0.2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Stratum>,
    /// Relative standard deviation of the loop between visits in that state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deviation: f64,
    /// Relative half width by which intervals of what depends on the core are wider than by their
    /// processes alone, because its speed drifted over the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drift: f64,
}

/// Why the fastest loops of a run count as those of a core to itself at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReferenceBasis {
    /// They take the expected cycles at the CPU's highest frequency.
    HighestFrequency,
    /// They are as fast as in earlier runs on this host.
    EarlierRuns,
    /// Neither is known, or the whole run was slower: the fastest loops of this run.
    #[default]
    ThisRun,
}

/// The fastest state of the core with this share of the visits is reported.
pub const REPORTED_MIN: f64 = 0.3;

impl Reference {
    /// The share of the visits that had the core to themselves.
    pub fn clean_share(&self) -> f64 {
        f64::from(self.clean) / f64::from(self.visits.max(1))
    }

    /// Whether too few visits had it to be the state that is reported: what is over all visits is
    /// of a shared core.
    pub fn is_shared(&self) -> bool {
        self.visits > 0 && self.clean_share() < REPORTED_MIN
    }
}

impl Run {
    /// The id, with the label if there is one.
    pub fn name(&self) -> String {
        name(&self.id, self.label.as_deref())
    }
}

/// The kinds of runs: `run` of `fathom run`, `battery` of one of all metrics, those of commands by
/// hand, and `import` of what another program measured.
pub const KINDS: [&str; 9] =
    ["run", "battery", "file", "load", "transfer", "fetch", "bench", "doctor", IMPORT];

/// The kind of a run whose records another program measured.
pub const IMPORT: &str = "import";

/// The kind of a run with this [`Run::procedure`]: the first word of the command.
pub fn kind(procedure: Option<&str>) -> &str {
    procedure.map_or(KINDS[0], |command| command.split(' ').next().unwrap_or(command))
}

/// An id, with the label if there is one.
pub fn name(id: &str, label: Option<&str>) -> String {
    label.map_or_else(|| id.to_owned(), |label| format!("{id} ({label})"))
}

/// The longest label that fits beside other columns.
const LABEL_CHARS_MAX: usize = 64;

/// Why a text cannot be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("a label must not be empty, or start or end with spaces")]
    Blank,
    #[error("a label has at most {LABEL_CHARS_MAX} characters, this one has {0}")]
    Long(usize),
    #[error("a label must not contain control characters, such as line breaks")]
    Control,
    #[error("a label must not start with `latest`, contain `/` or end with `.json`")]
    Reserved,
}

/// Checks a label.
pub fn label(text: &str) -> Result<String, LabelError> {
    match text.chars().count() {
        count if count > LABEL_CHARS_MAX => Err(LabelError::Long(count)),
        0 => Err(LabelError::Blank),
        _ if text.chars().any(char::is_control) => Err(LabelError::Control),
        _ if text.trim() != text => Err(LabelError::Blank),
        _ if text.starts_with("latest") || text.contains('/') || text.ends_with(".json") => {
            Err(LabelError::Reserved)
        }
        _ => Ok(text.to_owned()),
    }
}

/// The clock of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockFacts {
    /// `tsc`, `cntvct`, `monotonic_raw` or `fake`.
    pub source: String,
    /// Why the hardware counter was not used, if it was not.
    pub refused: Option<String>,
    /// Ticks per second, by calibration.
    pub hz: f64,
    /// Smallest step, in nanoseconds.
    pub resolution_ns: f64,
    /// Cost of one start/stop pair, in nanoseconds.
    pub read_ns: f64,
    /// Deviation from CLOCK_MONOTONIC_RAW over the whole run, in parts per million.
    pub raw_ppm: Option<f64>,
    /// Deviation from CLOCK_MONOTONIC over the whole run, in parts per million.
    pub monotonic_ppm: Option<f64>,
    /// Step of the wall clock during the run, in nanoseconds; 0 if it was stepped back again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_step_ns: Option<f64>,
    /// Further results of the calibration, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, f64>,
}

/// How thoroughly a run measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// A minute, with fewer sizes.
    Quick,
    /// Four minutes.
    #[default]
    Standard,
    /// Twenty minutes, with more sizes.
    Thorough,
}

words!(Effort.word, Quick = "quick", Standard = "standard", Thorough = "thorough");

/// Whether a run is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It is running, or its process was killed.
    Running,
    /// Everything requested was measured.
    #[default]
    Complete,
    /// It was interrupted; the results so far are kept.
    Interrupted,
    /// Its process is in another pid namespace: running, or killed.
    Unknown,
}

words!(
    RunState.word,
    Running = "running",
    Complete = "complete",
    Interrupted = "interrupted",
    Unknown = "unknown"
);
