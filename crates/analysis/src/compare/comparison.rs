//! The result of a comparison, as it is serialised.

use fathom_record::{Better, MetricId, Params, RunState, Stratum, Unit};
use serde::Serialize;

use super::noise::NoiseBy;
use crate::differences::Difference;

/// The share of false findings among those reported by [`Comparison::regressions`].
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;
/// With fewer processes on a side, the verdict is "looks faster" or "looks slower".
pub(super) const PROCESSES_MIN: usize = 8;

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The run compared against; the newest if A is several.
    pub a: Side,
    /// The other runs of A.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_a: Vec<Side>,
    /// In what the other runs of A differ from the newest of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within_a: Vec<Difference>,
    /// The run compared.
    pub b: Side,
    /// Seed of every bootstrap.
    pub seed: u64,
    /// Stored runs like B, from which the noise between runs was computed.
    pub noise_runs: usize,
    /// In what the machines and the runs themselves differ.
    pub differences: Vec<Difference>,
    /// How many times slower one and the same core was throughout B than in A, by the calibrated
    /// reference loop of each; absent where it was as fast.
    pub core: Option<f64>,
    /// What could be compared: by weight of the word, then by size of the change.
    pub rows: Vec<Compared>,
    /// What is in both and could not be compared.
    pub not_comparable: Vec<NotComparable>,
    /// Cases only the first run has.
    pub only_a: Vec<Case>,
    /// Cases only the second run has.
    pub only_b: Vec<Case>,
}

impl Comparison {
    /// Changes for the worse above a share (0.05 for 5 %) that remain when the number of cases
    /// compared is allowed for.
    pub fn regressions(&self, above: f64) -> impl Iterator<Item = &Compared> {
        self.rows.iter().filter(move |row| {
            let q = row.p_adjusted;
            matches!(row.word, Word::Slower | Word::Worse)
                && q.is_some_and(|q| q < FALSE_DISCOVERY_RATE)
                && row.loss() > above
        })
    }

    /// Cases that look worse by more than a share and are undecided: too few processes, a noisy
    /// run, or a slow core. Cases that have enough processes but are not significant among so many
    /// are excluded.
    pub fn suspects(&self, above: f64) -> impl Iterator<Item = &Compared> {
        let noisy = [&self.a, &self.b].into_iter().chain(&self.more_a).any(|it| it.noisy.is_some());
        let looks = move |row: &&Compared| match row.word {
            Word::LooksSlower | Word::LooksWorse => noisy || !row.is_by_chance(),
            Word::Inconclusive => row.is_spoiled(),
            _ => false,
        };
        self.rows.iter().filter(looks).filter(move |row| row.loss() > above)
    }

    /// Whether nothing regressed, or looks regressed, by more than a share. At least one case must
    /// be decided: otherwise nothing was tested.
    pub fn passes(&self, above: f64) -> bool {
        let is_sound = self.regressions(above).next().or(self.suspects(above).next()).is_none();
        is_sound && self.undecided() < self.rows.len()
    }

    /// Undecided cases: too few processes, or a noisy run.
    pub fn undecided(&self) -> usize {
        let is_open = |word| {
            (Word::LooksSlower..=Word::LooksChanged).contains(&word) || word == Word::Inconclusive
        };
        self.rows.iter().filter(|row| is_open(row.word)).count()
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
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
pub struct Case {
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
    /// The margin of equivalence as a share, if the word is *unchanged*.
    pub unchanged_within: Option<f64>,
    /// What it amounts to.
    pub word: Word,
}

impl Compared {
    /// Whether it changed no more than a change of the core's speed explains.
    pub fn is_spoiled(&self) -> bool {
        let is_change = self.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0);
        is_change && self.core.is_some() && self.word == Word::Inconclusive
    }

    /// The share by which B is worse: the increase of a time or the loss of a rate. A rate that is
    /// halved is worse by 50 %, as in `history`.
    fn loss(&self) -> f64 {
        match (self.ratio, self.better) {
            (Some(ratio), Better::Higher) => 1.0 - ratio,
            (Some(ratio), Better::Lower) => ratio - 1.0,
            (_, Better::Neither) | (None, _) => 0.0,
        }
    }

    /// Whether it has the processes that a word needs, and lost it to the number of cases.
    fn is_by_chance(&self) -> bool {
        let enough = self.processes_a.min(self.processes_b) >= PROCESSES_MIN;
        enough && self.p_adjusted.is_some_and(|q| q >= FALSE_DISCOVERY_RATE)
    }

    /// |ln ratio|: the size of a change in either direction.
    pub(super) fn size(&self) -> f64 {
        self.ratio.filter(|ratio| *ratio > 0.0).map_or(0.0, |ratio| ratio.ln().abs())
    }
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
pub enum Word {
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

impl Word {
    /// The same where intervals are too narrow to be sure.
    pub(super) fn doubted(self) -> Self {
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
