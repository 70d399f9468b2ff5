//! Two runs side by side, case by case (METHOD 27 and 28).
//!
//! A comparison rests on the medians of independent processes and never on pooled rounds. It says
//! what changed and how sure that is; what follows from it, such as an exit status, is for the
//! caller, who has [`Comparison::regressions`].

mod differences;
mod families;
mod noise;
mod render;
mod weigh;

pub use differences::{Difference, differences};
pub use noise::Noise;
pub use render::render;

use std::collections::BTreeMap;

use fathom_record::{Better, Document, MetricId, Params, Record, Unit};
use serde::Serialize;

use crate::cells::Shown;
use crate::quantity::at_most;

/// The share of false findings among those reported by [`Comparison::regressions`].
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// Two runs held against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The run compared against.
    pub a: Side,
    /// The run compared.
    pub b: Side,
    /// Seed of every bootstrap.
    pub seed: u64,
    /// Kept runs like the second one, from which the noise between runs was learnt.
    pub noise_runs: usize,
    /// In what the machines and the runs themselves differ.
    pub differences: Vec<Difference>,
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
            row.word == Word::Worse
                && q.is_some_and(|q| q < FALSE_DISCOVERY_RATE)
                && row.size().exp_m1() > above
        })
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Its run's id.
    pub id: String,
    /// When it began.
    pub started: String,
    /// The host's name.
    pub host: String,
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
    /// Median of the process medians in A.
    pub a: f64,
    /// Median of the process medians in B.
    pub b: f64,
    /// Processes in A.
    pub processes_a: usize,
    /// Processes in B.
    pub processes_b: usize,
    /// Whether A's record is noisy.
    pub noisy_a: bool,
    /// Whether B's record is noisy.
    pub noisy_b: bool,
    /// b ÷ a; absent where there are too few processes for it.
    pub ratio: Option<f64>,
    /// Its 95 % interval by a seeded bootstrap over processes.
    pub interval: Option<[f64; 2]>,
    /// Two-sided p of Mann and Whitney's test.
    pub p: Option<f64>,
    /// The same, allowing for the number of cases compared (Benjamini and Hochberg).
    pub p_adjusted: Option<f64>,
    /// How far runs of this case lie apart where nothing was changed, as a share, where enough kept
    /// runs tell it: a smaller change is none.
    pub noise: Option<f64>,
    /// What it amounts to.
    pub word: Word,
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
    /// Worse, by enough processes to say so.
    Worse,
    /// Better, by enough processes to say so.
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
    /// Enough processes, and no change above 1 % that the interval bears out.
    NoChange,
    /// Too few processes to tell.
    CannotTell,
}

impl Word {
    /// As it is written in the table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Changed => "changed",
            Self::LooksSlower => "looks slower",
            Self::LooksFaster => "looks faster",
            Self::LooksWorse => "looks worse",
            Self::LooksBetter => "looks better",
            Self::LooksChanged => "looks changed",
            Self::NoChange => "no change",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Holds run `b` against run `a`. The same documents, noise and seed give the same comparison.
pub fn compare(a: &Document, b: &Document, noise: &Noise, seed: u64) -> Comparison {
    let (in_a, in_b) = (by_case(a), by_case(b));
    let mut rows = Vec::new();
    let mut not_comparable = Vec::new();
    for (key, record_a) in &in_a {
        let Some(record_b) = in_b.get(key) else { continue };
        match obstacle(record_a, record_b) {
            Some(reason) => not_comparable.push(NotComparable {
                metric: record_a.metric.clone(),
                params: record_a.params.clone(),
                reason,
            }),
            None => {
                let noise = noise.of(&record_a.metric, &record_a.params);
                rows.extend(weigh::weigh(record_a, record_b, noise, seed));
            }
        }
    }
    weigh::adjust(&mut rows);
    rows.sort_by(|a, b| a.word.cmp(&b.word).then(b.size().total_cmp(&a.size())));
    Comparison {
        a: side(a),
        b: side(b),
        seed,
        noise_runs: noise.runs(),
        differences: differences(a, b),
        rows,
        not_comparable,
        only_a: only(&in_a, &in_b),
        only_b: only(&in_b, &in_a),
    }
}

impl Compared {
    /// |ln ratio|: the size of a change in either direction.
    fn size(&self) -> f64 {
        self.ratio.filter(|ratio| *ratio > 0.0).map_or(0.0, |ratio| ratio.ln().abs())
    }
}

type ByCase<'a> = BTreeMap<(&'a MetricId, &'a Params), &'a Record>;

fn by_case(document: &Document) -> ByCase<'_> {
    document.records.iter().map(|record| ((&record.metric, &record.params), record)).collect()
}

fn side(document: &Document) -> Side {
    Side {
        id: document.run.id.clone(),
        started: document.run.started.clone(),
        host: document.host.name.clone(),
    }
}

fn only(these: &ByCase<'_>, those: &ByCase<'_>) -> Vec<Case> {
    these
        .keys()
        .filter(|key| !those.contains_key(*key))
        .map(|(metric, params)| Case { metric: (*metric).clone(), params: (*params).clone() })
        .collect()
}

/// Why two records of one case cannot be compared; nothing where they can.
fn obstacle(a: &Record, b: &Record) -> Option<String> {
    if let Some(reason) = both_sides(a, b, |record| {
        let state = record.verdict.state;
        (!record.verdict.shows_number()).then(|| state.word().to_owned())
    }) {
        return Some(reason);
    }
    if a.unit != b.unit {
        return Some(format!("{} in A, {} in B", a.unit.symbol(), b.unit.symbol()));
    }
    both_sides(a, b, |record| match Shown::of(record, fathom_record::Protocol::Median) {
        Shown::Number(_) => None,
        Shown::Bound(bound) => Some(format!("only {}", at_most(bound, record.unit))),
        Shown::Text(text) => Some(format!("no quantity, {text},")),
        Shown::Nothing => Some("no value".to_owned()),
    })
}

/// `invalid in A, failed in B`, from what is wrong with one record.
fn both_sides(a: &Record, b: &Record, wrong: impl Fn(&Record) -> Option<String>) -> Option<String> {
    match (wrong(a), wrong(b)) {
        (None, None) => None,
        (Some(a), None) => Some(format!("{a} in A")),
        (None, Some(b)) => Some(format!("{b} in B")),
        (Some(a), Some(b)) if a == b => Some(format!("{a} in both")),
        (Some(a), Some(b)) => Some(format!("{a} in A, {b} in B")),
    }
}
