//! The result of a comparison, as it is serialised.

use fathom_record::{Better, MetricId, Params, RunState, Stratum, Unit};
use serde::Serialize;

use super::noise::NoiseBy;
use crate::classes::slowness;
use crate::differences::Difference;
use crate::suspects::Suspect;

/// The share of false findings among the cases called changed.
pub(super) const FALSE_DISCOVERY_RATE: f64 = 0.05;
/// Smaller changes are not reported.
pub(super) const EFFECT_MIN: f64 = 0.01;
/// Level of the intervals of ratios.
const LEVEL: f64 = 0.95;
/// With fewer processes on a side, the verdict is "looks faster" or "looks slower".
pub(super) const PROCESSES_MIN: usize = 8;

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The run compared against; the newest if A is several.
    pub a: ComparisonSide,
    /// The other runs of A.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_a: Vec<ComparisonSide>,
    /// In what the other runs of A differ from the newest of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within_a: Vec<Difference>,
    /// The run compared.
    pub b: ComparisonSide,
    /// Seed of every bootstrap.
    pub seed: u64,
    /// Stored runs like B, from which the noise between runs was computed.
    pub noise_runs: usize,
    /// In what the machines and the runs themselves differ.
    pub differences: Vec<Difference>,
    /// How many times slower one and the same core was throughout B than in A, by the calibrated
    /// reference loop of each; absent where it was as fast.
    pub core: Option<f64>,
    /// Hours from the end of the earlier side to the start of the later, from one hour on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours_apart: Option<f64>,
    /// How many unchanged cases are expected to look changed by chance.
    pub false_alarms: f64,
    /// What moved together: of each class with enough cases, first those that moved.
    pub factors: Vec<Factor>,
    /// What a gate says, if the caller asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// What could be compared: by weight of the word, then by size of the change.
    pub rows: Vec<Compared>,
    /// What is in both and could not be compared.
    pub not_comparable: Vec<NotComparable>,
    /// Cases only the first run has.
    pub only_a: Vec<ComparisonCase>,
    /// Cases only the second run has.
    pub only_b: Vec<ComparisonCase>,
}

impl Comparison {
    /// How many unchanged cases are expected to look changed: the share of 95 % intervals that
    /// exclude 1 by chance.
    pub(super) fn false_alarms(rows: &[Compared]) -> f64 {
        (1.0 - LEVEL) * rows.iter().filter(|row| row.interval.is_some()).count() as f64
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonSide {
    /// Its run's id.
    pub id: String,
    /// The run's label, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began.
    pub started: String,
    /// The host's name.
    pub host: String,
    /// Whether it is complete.
    pub state: RunState,
    /// Records it has.
    pub records: usize,
    /// Records it was to have; 0 where that is not known.
    pub planned: u64,
    /// Cases that are valid.
    pub valid: usize,
    /// Cases that the run was stopped in the middle of.
    pub in_part: usize,
    /// Why the run as a whole is noisy, or worse, where it is.
    pub noisy: Option<String>,
}

/// A metric with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonCase {
    /// The metric.
    pub metric: MetricId,
    /// Its parameters.
    pub params: Params,
}

/// A case of both runs that could be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The metric.
    pub metric: MetricId,
    /// Its parameters.
    pub params: Params,
    /// The unit of both medians.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The resource that it shares with other cases, if it is one of a class.
    pub class: Option<&'static str>,
    /// The visits that are compared on both sides.
    pub stratum: Stratum,
    /// Median of the process medians in A.
    pub a: f64,
    /// Median of the process medians in B.
    pub b: f64,
    /// Runs of A that have it.
    pub runs_a: usize,
    /// Processes in A, of all its runs.
    pub processes_a: usize,
    /// Processes in B.
    pub processes_b: usize,
    /// Visits from which those of A were selected; 0 where there are none.
    pub visits_a: u32,
    /// Visits from which those of B were selected; 0 where there are none.
    pub visits_b: u32,
    /// Whether A's record is noisy.
    pub noisy_a: bool,
    /// Whether B's record is noisy.
    pub noisy_b: bool,
    /// b ÷ a; absent with too few processes.
    pub ratio: Option<f64>,
    /// Its 95 % interval by a seeded bootstrap over processes.
    pub interval: Option<[f64; 2]>,
    /// Two-sided p of Mann and Whitney's test.
    pub p: Option<f64>,
    /// The same, allowing for the number of cases compared (Benjamini and Hochberg).
    pub p_adjusted: Option<f64>,
    /// A/A noise: how much runs of this case differ if nothing was changed, as a share. Smaller
    /// changes are not reported. Absent with too few runs.
    pub noise: Option<f64>,
    /// Its source.
    pub noise_by: Option<NoiseBy>,
    /// How many times slower the core was for the processes of B than for those of A, by their
    /// reference loops; absent where it was as fast.
    pub core: Option<f64>,
    /// How far apart the CPUs of work on two were in A and in B, in nanoseconds, if the hypervisor
    /// of this host had placed them otherwise.
    pub distances: Option<[f64; 2]>,
    /// Whether it is between two levels of memory in A and in B.
    pub on_edge: bool,
    /// The margin of equivalence as a share, if the word is *unchanged*.
    pub unchanged_within: Option<f64>,
    /// What it amounts to.
    pub word: ComparisonWord,
    /// What is left of it net of its class; absent without a ratio.
    pub net: Option<Net>,
    /// What it is counted as.
    pub share: Share,
    /// The difference by the terms of its model, if that is a sum of inputs that were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
}

impl Compared {
    /// Whether it changed no more than a change of the core's speed explains.
    pub fn is_spoiled(&self) -> bool {
        let is_change = self.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0);
        is_change && self.core.is_some() && self.word == ComparisonWord::Inconclusive
    }

    /// |ln ratio|: the size of a change in either direction.
    pub(super) fn size(&self) -> f64 {
        self.ratio.filter(|ratio| *ratio > 0.0).map_or(0.0, |ratio| ratio.ln().abs())
    }
}

/// A case net of its class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Net {
    /// B ÷ A ÷ the factor of the class, if that moved.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// Two-sided p of Welch's test on the logarithms of process medians, allowing for the number
    /// of cases (Benjamini and Hochberg).
    pub p_adjusted: f64,
    /// The word for what is left.
    pub word: ComparisonWord,
}

/// What a case is counted as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// It differs net of its class.
    Differs,
    /// It moved with its class.
    WithClass,
    /// It differs, between two levels of memory: which part of a cache a run has decides.
    OnEdge,
    /// Its two CPUs are farther apart in B, and it is not shown to be unchanged.
    CpusFarther,
    /// The same, nearer.
    CpusNearer,
    /// It, or its class, is unchanged.
    Unchanged,
    /// Neither a change nor its absence is shown.
    #[default]
    Inconclusive,
    /// The same, with an interval wider than 30 %.
    SaysNothing,
}

/// How much slower the cases of a class are in B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factor {
    pub class: &'static str,
    /// How many times as long a time is; how many times lower a rate.
    pub slower: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// Two-sided, allowing for the number of classes (Holm).
    pub p_adjusted: f64,
    /// Whether it moved: by more than 1 %, by the adjusted p, and most cases agree.
    pub moved: bool,
    /// The standard error of its logarithm, without what differs from run to run.
    #[serde(skip)]
    pub(super) error: f64,
    /// The standard deviation between two of the kept runs of this host, as a share, which the
    /// interval contains; absent with too few runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<f64>,
    /// The margin in which it is unchanged, if that is shown.
    pub unchanged_within: Option<f64>,
    /// How many times more its cases differ from it than their processes explain, at least 1: what
    /// differs from run to run.
    pub scatter: f64,
    /// Cases that agree with the factor within their errors.
    pub agree: usize,
    /// Cases of which it was computed.
    pub members: Vec<ComparisonCase>,
    /// Visits of these: cases of one share its errors.
    pub visits: usize,
    /// How many times slower the core was in the processes of most of these cases, by their
    /// reference loops; absent where it was as fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<f64>,
    /// Whether it moved no more than that explains: no finding of its own.
    pub with_core: bool,
    /// How far apart both CPUs were in A and in B, in nanoseconds, if that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distances: Option<[f64; 2]>,
    /// Recorded differences that can move it, if it moved or a case of it differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Suspect>,
}

impl Factor {
    /// What the factor makes of the number of a case, B ÷ A.
    pub(super) fn effect_on(&self, row: &Compared) -> f64 {
        if slowness(row.better, row.unit) == Some(-1.0) { 1.0 / self.slower } else { self.slower }
    }
}

/// A part of a difference, in the unit of the number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitTerm {
    /// The input of the model.
    pub name: String,
    /// B − A.
    pub difference: f64,
    /// Half of its 95 % interval.
    pub error: f64,
    /// B ÷ A of the input.
    pub ratio: f64,
}

/// A difference and its parts, which add up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// B − A.
    pub difference: f64,
    /// The largest first.
    pub terms: Vec<SplitTerm>,
    /// What no term explains, and half of its 95 % interval.
    pub unexplained: f64,
    pub error: f64,
}

/// A case of both runs that could not be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotComparable {
    /// The metric.
    pub metric: MetricId,
    /// Its parameters.
    pub params: Params,
    /// Why not, such as `invalid in B`.
    pub reason: String,
}

/// What a comparison of one case amounts to, the weightiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonWord {
    /// A time that grew or a rate that fell, by enough processes to say so.
    Slower,
    /// A time that fell or a rate that grew, by enough processes to say so.
    Faster,
    /// Another quantity that got worse, by enough processes to say so.
    Worse,
    /// Another quantity that got better, by enough processes to say so.
    Better,
    /// Changed, where neither direction is better.
    Changed,
    /// A time that grew or a rate that fell, by few processes.
    LooksSlower,
    /// A time that fell or a rate that grew, by few processes.
    LooksFaster,
    /// Another quantity that got worse, by few processes.
    LooksWorse,
    /// Another quantity that got better, by few processes.
    LooksBetter,
    /// Changed, by few processes, where neither direction is better.
    LooksChanged,
    /// The whole interval of the ratio is near 1.
    Unchanged,
    /// Neither a change nor its absence is shown, or the core's speed explains the change.
    Inconclusive,
}

impl ComparisonWord {
    /// Worse by enough processes, and significant among so many cases.
    pub fn is_certainly_worse(self) -> bool {
        matches!(self, Self::Slower | Self::Worse)
    }

    /// The same where intervals are too narrow to be sure.
    pub(crate) fn doubted(self) -> Self {
        match self {
            Self::Slower => Self::LooksSlower,
            Self::Faster => Self::LooksFaster,
            Self::Worse => Self::LooksWorse,
            Self::Better => Self::LooksBetter,
            Self::Changed => Self::LooksChanged,
            word => word,
        }
    }
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonAnswer {
    /// No gateable case may have lost more than the limit.
    Pass,
    /// A gateable case lost more, by the test corrected for the number of cases.
    Fail,
    /// A larger loss is not excluded in a gateable case, or no case is gateable.
    Undecided,
}

/// What would decide a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Stored runs like B, which show the noise: without it, a loss little beyond the limit may be
    /// another run's luck.
    StoredRuns,
    /// More processes on both sides.
    Processes,
    /// Runs that are not of low quality.
    QuietRun,
    /// A core that is as fast in B as in A.
    EqualCore,
    /// Two CPUs that are as far apart in B as in A.
    EqualDistance,
}

/// A case that lost more than the limit, or may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    pub metric: MetricId,
    pub params: Params,
    /// By how much B is worse, as a share of A.
    pub loss: f64,
    /// The largest loss that the 95 % interval of the ratio does not exclude.
    pub possible: f64,
    /// What would decide it; absent for a loss beyond doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
}

/// A case that does not count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotGateable {
    pub metric: MetricId,
    pub params: Params,
    /// The limits above this would count it; absent without a direction or an interval.
    pub above: Option<f64>,
    /// Whether it is, or looks, worse.
    pub worse: bool,
}

/// What a gate says of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// The largest loss that passes, as a share.
    pub limit: f64,
    /// Classes whose factor is no loss of their cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    pub answer: ComparisonAnswer,
    /// What the caller takes *undecided* for; absent where it stays undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided_as: Option<ComparisonAnswer>,
    /// Number of gateable cases.
    pub gateable: usize,
    /// Losses above the limit, the largest first.
    pub lost: Vec<Loss>,
    /// Cases in which a loss above the limit is not excluded, the largest first.
    pub undecided: Vec<Loss>,
    pub not_gateable: Vec<NotGateable>,
}

impl Gate {
    /// The answer as the caller takes it.
    pub fn taken(&self) -> ComparisonAnswer {
        match self.answer {
            ComparisonAnswer::Undecided => self.undecided_as.unwrap_or(ComparisonAnswer::Undecided),
            answer => answer,
        }
    }
}
