//! The document of a crosscheck: the same work by Fathom and by another program, in turn.

use serde::{Deserialize, Serialize};

use crate::{Host, MetricId, Params, Reason, State, Tool, Unit, Verdict};

/// Version of the JSON document; it changes when a reader would break.
pub const CROSSCHECK_SCHEMA_VERSION: u32 = 2;

/// The JSON document of `fathom crosscheck`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crosscheck {
    /// Version of this document.
    pub schema: u32,
    /// The program that wrote it.
    pub tool: Tool,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The host.
    pub host: Host,
    /// The CPU of single-CPU rows.
    pub cpu: u32,
    /// Pairs requested per row.
    pub pairs: u32,
    /// Interrupted: rows, and pairs of the last row, can be missing.
    pub interrupted: bool,
    /// The rows, by peer.
    pub rows: Vec<CrossRow>,
}

impl Crosscheck {
    /// Whether any row is complete.
    pub fn compares(&self) -> bool {
        self.rows.iter().any(|row| row.outcome == CrossOutcome::Compared)
    }
}

/// One case, measured by both programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossRow {
    /// The other program.
    pub peer: String,
    /// Its Debian package.
    pub package: String,
    /// Its version, if it reports one.
    pub version: Option<String>,
    /// The metric.
    pub metric: MetricId,
    /// The parameters of the case.
    pub params: Params,
    /// The unit of all values.
    pub unit: Unit,
    /// The peer's name for the work.
    pub work: String,
    /// What the peer counts or does differently: why the ratio can differ from 1.
    pub difference: String,
    /// Which statistic the peer reports.
    #[serde(rename = "tells")]
    pub statistic: PeerStatistic,
    /// The CPUs of both sides.
    pub cpus: Vec<u32>,
    /// Our command, quoted for a shell.
    pub our_command: String,
    /// The peer's commands, quoted for a shell, run one after another in each turn; a server that
    /// runs meanwhile is first and ends in `&`, and its port differs by turn.
    pub peer_commands: Vec<String>,
    /// Outcome of the row.
    pub outcome: CrossOutcome,
    /// Why it is missing or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pairs, in the order measured: A B, B A, A B …
    pub turns: Vec<Turn>,
    /// Our median.
    pub ours: Option<f64>,
    /// The peer's median.
    pub theirs: Option<f64>,
    /// Ours ÷ theirs; absent if the pairs disagree.
    pub ratio: Option<PairRatio>,
    /// By how much the pairs disagree, if they do; there is no ratio then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<String>,
}

/// Which statistic a peer reports: it decides how CPU time lost to others affects the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeerStatistic {
    /// A mean or a total, which includes all lost time.
    #[default]
    Mean,
    /// A median, affected only if most values lost time.
    Median,
    /// The slope over several starts, affected if some starts lost more time than others.
    Slope,
}

/// Outcome of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CrossOutcome {
    /// All pairs were measured.
    #[default]
    Compared,
    /// The peer is not installed.
    Missing,
    /// One side gave no number.
    Failed,
    /// Interrupted.
    Interrupted,
}

/// One pair: each side measured once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// Our number.
    pub ours: f64,
    /// The peer's number.
    pub theirs: f64,
    /// Ours ÷ theirs.
    pub ratio: f64,
    /// The state of our record.
    pub our_state: State,
    /// The first reason of that state, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_reason: Option<Reason>,
    /// Further output of the peer about its number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Preemptions of the peer per second. Absent if its own processes alternate on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_preempted_hz: Option<f64>,
    /// Share of its CPUs' time that other processes used while it ran. Absent without
    /// `peer_preempted_hz`, and if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_lost_share: Option<f64>,
}

impl Turn {
    pub fn new(ours: f64, theirs: f64, detail: String) -> Self {
        Self { ours, theirs, ratio: ours / theirs, detail, ..Self::default() }
    }

    /// The turn with the verdict on our number.
    #[must_use]
    pub fn judged(self, ours: &Verdict) -> Self {
        Self { our_state: ours.state, our_reason: ours.reasons.first().cloned(), ..self }
    }
}

/// The ratio over several pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairRatio {
    /// Median of the ratios, computed on logarithms: 2 and ½ average to 1.
    pub median: f64,
    /// Lower end of the interval or range.
    pub low: f64,
    /// Upper end of the interval or range.
    pub high: f64,
    /// Level of the interval; absent below 5 pairs, which have only a range.
    pub level: Option<f64>,
    /// Number of pairs.
    pub pairs: u32,
}

impl CrossRow {
    /// A row before its first turn; the caller adds the programs and commands.
    #[must_use]
    pub fn for_metric(
        metric: MetricId,
        params: Params,
        unit: Unit,
        statistic: PeerStatistic,
    ) -> Self {
        Self { metric, params, unit, statistic, ..Self::default() }
    }

    /// The turns in which our number was noisy.
    pub fn noisy(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.our_state == State::Noisy)
    }
}
