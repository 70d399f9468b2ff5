//! Two runs side by side, case by case (METHOD 27 and 28).
//!
//! A comparison rests on the medians of independent processes and never on pooled rounds. It says
//! what changed and how sure that is; what follows from it, such as an exit status, is for the
//! caller, who has [`Comparison::regressions`].

mod core_speed;
mod differences;
mod families;
mod noise;
mod render;
mod weigh;

pub use core_speed::SlowCore;
pub use differences::{Difference, differences};
pub use noise::{Noise, NoiseBy};
pub use render::render;

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::quantity::at_most;
use fathom_record::{Better, Cause, Document, MetricId, Params, Record, RunState, State, Unit};
use serde::Serialize;

use self::core_speed::Runs;
use self::weigh::Taken;
use crate::cells::Shown;

/// The share of false findings among those reported by [`Comparison::regressions`].
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// Two runs held against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The run compared against; the newest of them where several together are A.
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
    /// Kept runs like the second one, from which the noise between runs was learnt.
    pub noise_runs: usize,
    /// In what the machines and the runs themselves differ.
    pub differences: Vec<Difference>,
    /// How many times slower one and the same core was throughout B than in A, by the quickest
    /// reference spin of each; absent where it was as fast.
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
            row.word == Word::Worse
                && q.is_some_and(|q| q < FALSE_DISCOVERY_RATE)
                && row.loss() > above
        })
    }

    /// Cases that look worse by more than a share, and cannot be decided: by few processes, since a
    /// run is noisy as a whole, or for a slow core. What enough processes of valid runs show, and
    /// the number of cases makes likely by chance, is not among them.
    pub fn suspects(&self, above: f64) -> impl Iterator<Item = &Compared> {
        let noisy = [&self.a, &self.b].into_iter().chain(&self.more_a).any(|it| it.noisy.is_some());
        let looks = move |row: &&Compared| match row.word {
            Word::LooksSlower | Word::LooksWorse => noisy || !row.is_by_chance(),
            Word::CannotTell => row.is_spoiled(),
            _ => false,
        };
        self.rows.iter().filter(looks).filter(move |row| row.loss() > above)
    }

    /// Cases of which nobody can say that they are worse, however much they are: by too few
    /// processes, or since a run as a whole is noisy.
    pub fn undecided(&self) -> usize {
        let words = [Word::Better, Word::Worse, Word::Changed, Word::WithinNoise, Word::NoChange];
        self.rows.iter().filter(|row| !words.contains(&row.word)).count()
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
    /// How far it came.
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
    /// Median of the process medians in A.
    pub a: f64,
    /// Median of the process medians in B.
    pub b: f64,
    /// Runs of A that have it.
    pub runs_a: usize,
    /// Processes in A, of all its runs, without those left out.
    pub processes_a: usize,
    /// Processes in B, likewise.
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
    /// How far runs of this case lie apart where nothing was changed, as a share, where enough
    /// runs tell it: a smaller change is none.
    pub noise: Option<f64>,
    /// The runs that tell it.
    pub noise_by: Option<NoiseBy>,
    /// Processes that met a slow core, where some did.
    pub slow_core: Option<SlowCore>,
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
    /// The interval bears a change out, but runs lie as far apart where nothing was changed.
    WithinNoise,
    /// Enough processes, and no change above 1 % that the interval bears out.
    NoChange,
    /// Too few processes to tell, or too few that met a core at full speed.
    CannotTell,
}

impl Word {
    /// The same where intervals are too narrow to be sure.
    fn doubted(self) -> Self {
        match self {
            Self::Worse => Self::LooksWorse,
            Self::Better => Self::LooksBetter,
            Self::Changed => Self::LooksChanged,
            word => word,
        }
    }

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
            Self::WithinNoise => "within noise",
            Self::NoChange => "no change",
            Self::CannotTell => "cannot tell",
        }
    }

    /// The same of so many cases: `1 looks slower`, `2 look slower`.
    fn of(self, count: usize) -> String {
        let text = match (self, count) {
            (Self::CannotTell, _) => "undecided".to_owned(),
            (_, 1) => self.text().to_owned(),
            _ => self.text().replace("looks ", "look "),
        };
        format!("{count} {text}")
    }
}

/// Holds run `b` against run `a`. The same documents, noise and seed give the same comparison.
pub fn compare(a: &Document, b: &Document, noise: &Noise, seed: u64) -> Comparison {
    compare_to_all(&[a], b, noise, seed)
}

/// Holds run `b` against several runs of one host together. Their processes are pooled; how the
/// runs themselves lie apart is in the interval, and in the noise where no kept runs tell that.
///
/// # Panics
/// Without a run to compare against.
pub fn compare_to_all(a: &[&Document], b: &Document, noise: &Noise, seed: u64) -> Comparison {
    let (newest, others) = newest_of(a);
    let runs = Runs::of(a, b);
    let (in_a, in_b) = (by_case(a, &runs), by_case(&[b], &runs));
    let mut rows = Vec::new();
    let mut not_comparable = Vec::new();
    for (key @ (metric, params), records_a) in &in_a {
        let Some(record_b) = in_b.get(key).and_then(|records| records.last()) else { continue };
        let obstacles = records_a.iter().map(|taken| obstacle(taken.record, record_b.record));
        let (fit, unfit): (Vec<_>, Vec<_>) =
            records_a.iter().zip(obstacles).partition(|(_, why)| why.is_none());
        let fit: Vec<Taken<'_>> = fit.into_iter().map(|(taken, _)| *taken).collect();
        match unfit.into_iter().last() {
            Some((_, Some(reason))) if fit.is_empty() => not_comparable.push(NotComparable {
                metric: (*metric).clone(),
                params: (*params).clone(),
                reason,
            }),
            _ => rows.extend(weigh::weigh(&fit, *record_b, noise.of(metric, params), seed)),
        }
    }
    not_comparable.extend(other_parameters(&in_a, &in_b));
    weigh::adjust(&mut rows);
    // Intervals over processes are too narrow where the machine itself came and went.
    if a.iter().chain([&b]).any(|run| run.run.verdict.state != State::Valid) {
        rows.iter_mut().for_each(|row| row.word = row.word.doubted());
    }
    rows.sort_by(|a, b| a.word.cmp(&b.word).then(b.size().total_cmp(&a.size())));
    let mut within_a: Vec<Difference> = Vec::new();
    for difference in others.iter().flat_map(|other| differences(other, newest)) {
        if !within_a.contains(&difference) {
            within_a.push(difference);
        }
    }
    Comparison {
        a: side(newest),
        more_a: others.into_iter().map(side).collect(),
        within_a,
        b: side(b),
        seed,
        noise_runs: noise.runs(),
        differences: differences(newest, b),
        core: core_speed::change(a, b),
        rows,
        not_comparable,
        only_a: only(&in_a, &in_b),
        only_b: only(&in_b, &in_a),
    }
}

/// The newest run by its id, which sorts by time, and the others from the newest to the oldest.
fn newest_of<'a>(runs: &[&'a Document]) -> (&'a Document, Vec<&'a Document>) {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| b.run.id.cmp(&a.run.id));
    let newest = runs.remove(0);
    (newest, runs)
}

impl Compared {
    /// Whether too few of its processes met a core at full speed.
    pub fn is_spoiled(&self) -> bool {
        self.slow_core.is_some_and(|slow| !slow.left_out)
    }

    /// By what share it is worse: of a time what came on top, of a rate what was lost. Halved is
    /// worse by 50 %, as `history` has it.
    fn loss(&self) -> f64 {
        match (self.ratio, self.better) {
            (Some(ratio), Better::Higher) => 1.0 - ratio,
            (Some(ratio), Better::Lower) => ratio - 1.0,
            (_, Better::Neither) | (None, _) => 0.0,
        }
    }

    /// Whether it has the processes that a word needs, and lost it to the number of cases.
    fn is_by_chance(&self) -> bool {
        let enough = self.processes_a.min(self.processes_b) >= weigh::PROCESSES_MIN;
        enough && self.p_adjusted.is_some_and(|q| q >= FALSE_DISCOVERY_RATE)
    }

    /// |ln ratio|: the size of a change in either direction.
    fn size(&self) -> f64 {
        self.ratio.filter(|ratio| *ratio > 0.0).map_or(0.0, |ratio| ratio.ln().abs())
    }
}

/// The records of each case, one of each run that has it.
type ByCase<'a> = BTreeMap<(&'a MetricId, &'a Params), Vec<Taken<'a>>>;

fn by_case<'a>(documents: &[&'a Document], runs: &Runs<'_>) -> ByCase<'a> {
    let mut cases = ByCase::new();
    for document in documents {
        let full_speed = runs.full_speed(document);
        for record in &document.records {
            let taken = Taken { record, full_speed };
            cases.entry((&record.metric, &record.params)).or_default().push(taken);
        }
    }
    cases
}

fn side(document: &Document) -> Side {
    Side {
        id: document.run.id.clone(),
        started: document.run.started.clone(),
        host: document.host.name.clone(),
        state: document.run.state,
        records: document.records.len(),
        planned: document.run.planned,
        valid: document.records.iter().filter(|it| it.verdict.state == State::Valid).count(),
        in_part: document.records.iter().filter(|record| is_in_part(record)).count(),
        noisy: match document.run.verdict.state {
            State::Valid => None,
            _ => document.run.verdict.reasons.first().map(|reason| reason.text.clone()),
        },
    }
}

fn is_in_part(record: &Record) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.cause == Cause::Interrupted)
}

/// Metrics of both sides whose cases have parameters of other names on each: what the parameters
/// mean has changed, and no case of one side is one of the other.
fn other_parameters(in_a: &ByCase<'_>, in_b: &ByCase<'_>) -> Vec<NotComparable> {
    let (a, b) = (parameter_names(in_a), parameter_names(in_b));
    let differ = |(metric, in_a): (&&MetricId, &BTreeSet<String>)| {
        let in_b = b.get(metric).filter(|in_b| in_a.is_disjoint(in_b))?;
        let listed = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<&str>>().join(" or ")
        };
        Some(NotComparable {
            metric: (**metric).clone(),
            params: Params::none(),
            reason: format!("its parameters are {} in A, {} in B", listed(in_a), listed(in_b)),
        })
    };
    a.iter().filter_map(differ).collect()
}

/// The names of parameters that the cases of each metric have, `{page, set_bytes}`.
fn parameter_names<'a>(cases: &ByCase<'a>) -> BTreeMap<&'a MetricId, BTreeSet<String>> {
    let mut names: BTreeMap<&MetricId, BTreeSet<String>> = BTreeMap::new();
    for (metric, params) in cases.keys() {
        let of_case: Vec<&str> = params.0.keys().map(String::as_str).collect();
        names.entry(metric).or_default().insert(format!("{{{}}}", of_case.join(", ")));
    }
    names
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
