//! The document of a crosscheck: the same work by Fathom and by another program, in turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, MetricId, Params, Reason, State, Tool, Unit, Verdict};

/// Version of the crosscheck's JSON document; it changes when a reader would break.
pub const CROSSCHECK_SCHEMA_VERSION: u32 = 2;

/// One JSON document: what was compared with what, and how the two stand to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crosscheck {
    /// [`CROSSCHECK_SCHEMA_VERSION`].
    pub schema: u32,
    /// The program that made it.
    pub tool: Tool,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The machine.
    pub host: Host,
    /// The CPU of rows that run on one.
    pub cpu: u32,
    /// Pairs asked for in each row.
    pub pairs: u32,
    /// A person stopped it: rows may be missing, and pairs of the last one.
    pub interrupted: bool,
    /// The rows, by peer.
    pub rows: Vec<CrossRow>,
}

impl Crosscheck {
    /// Whether any row has all its pairs.
    pub fn compares(&self) -> bool {
        self.rows.iter().any(|row| row.outcome == CrossOutcome::Compared)
    }
}

/// The same work by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossRow {
    /// The other program.
    pub peer: String,
    /// The Debian package that has it.
    pub package: String,
    /// Its version, where it tells one.
    pub version: Option<String>,
    /// What is measured.
    pub metric: MetricId,
    /// With which parameters.
    pub params: Params,
    /// The unit of all values.
    pub unit: Unit,
    /// What the peer calls it.
    pub work: String,
    /// What the peer counts or does otherwise: why the ratio may not be 1.
    pub difference: String,
    /// What its number is.
    pub tells: Tells,
    /// The CPUs of both sides.
    pub cpus: Vec<u32>,
    /// Our side, for a shell.
    pub our_command: String,
    /// The peer's side, for a shell, run one after the other in each turn.
    pub peer_commands: Vec<String>,
    /// How it went.
    pub outcome: CrossOutcome,
    /// Why it is missing or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The turns, in the order taken: A B, B A, A B …
    pub turns: Vec<Turn>,
    /// The median of ours.
    pub ours: Option<f64>,
    /// The median of theirs.
    pub theirs: Option<f64>,
    /// Ours ÷ theirs; absent where the pairs disagree.
    pub ratio: Option<PairRatio>,
    /// That the pairs disagree, and how much: there is no ratio then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<String>,
}

/// What a peer makes of its many values: whether time that others took is in its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tells {
    /// Their mean, or all of them as one: all of that time is in it.
    Mean,
    /// Their median: that time is in it where it met most of them.
    Median,
    /// What one byte more takes, over several starts: it moves where one met more than another.
    Slope,
}

/// How a row went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrossOutcome {
    /// All pairs were taken.
    Compared,
    /// The peer is not installed.
    Missing,
    /// One side gave no number.
    Failed,
    /// A person stopped it.
    Interrupted,
}

/// One pair: each side once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Our number.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
    /// Ours ÷ theirs.
    pub ratio: f64,
    /// How far ours can be believed.
    pub our_state: State,
    /// The weightiest reason of that, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_reason: Option<Reason>,
    /// What else the peer said of its number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often in a second the peer lost its CPU to others. Absent where its own processes take
    /// turns on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_preempted_hz: Option<f64>,
    /// The share of its CPUs' time that others had while it ran. Absent where the line above is,
    /// and where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_lost_share: Option<f64>,
}

impl Turn {
    /// Both numbers, and their ratio.
    pub fn new(ours: f64, theirs: f64, detail: String) -> Self {
        Self {
            ours,
            theirs,
            ratio: ours / theirs,
            our_state: State::Valid,
            our_reason: None,
            detail,
            peer_preempted_hz: None,
            peer_lost_share: None,
        }
    }

    /// The same with the verdict on ours.
    #[must_use]
    pub fn judged(self, ours: &Verdict) -> Self {
        Self { our_state: ours.state, our_reason: ours.reasons.first().cloned(), ..self }
    }
}

/// The ratios of some pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRatio {
    /// Their median, taken of their logarithms: 2 and ½ have 1 in the middle.
    pub median: f64,
    /// The lower end of the interval or of the range.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The level of the interval; absent below 5 pairs, of which there is only the range.
    pub level: Option<f64>,
    /// So many pairs.
    pub pairs: u32,
}

impl CrossRow {
    /// A row of this work before its first turn; who does it, and how, is for the caller to say.
    #[must_use]
    pub fn of(metric: MetricId, params: Params, unit: Unit, tells: Tells) -> Self {
        Self {
            peer: String::new(),
            package: String::new(),
            version: None,
            metric,
            params,
            unit,
            work: String::new(),
            difference: String::new(),
            tells,
            cpus: Vec::new(),
            our_command: String::new(),
            peer_commands: Vec::new(),
            outcome: CrossOutcome::Compared,
            reason: None,
            turns: Vec::new(),
            ours: None,
            theirs: None,
            ratio: None,
            inconclusive: None,
        }
    }

    /// The turns in which ours was noisy.
    pub fn noisy(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.our_state == State::Noisy)
    }
}
