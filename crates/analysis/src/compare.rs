//! Two runs side by side, case by case (METHOD 27 and 28).
//!
//! A comparison uses the medians of independent processes and never pooled rounds. Exit statuses
//! are the caller's decision, from [`Comparison::gate`].

mod comparison;
mod core_speed;
mod factors;
mod gate;
mod identity;
mod net;
mod noise;
mod obstacle;
mod sides;
mod split;
mod weigh;

pub(crate) use core_speed::{RunRecord, stratum_of};
pub(crate) use weigh::{word_for, word_of};

pub use comparison::{
    Compared, Comparison, ComparisonAnswer, ComparisonCase, ComparisonSide, ComparisonWord, Factor,
    Gate, Loss, Needs, Net, NotComparable, NotGateable, Share, Split, SplitTerm,
};
pub use gate::gate_answer;
pub use noise::{Noise, NoiseBy};
pub use weigh::{UNCHANGED_MIN, UNCHANGED_TIMES};

use std::collections::BTreeMap;

use fathom_record::{Document, Host, MetricId, Params, State, Stratum};

use self::identity::{add_settings, other_commands};
use self::obstacle::{obstacle, other_parameters};
use self::sides::RowSides;
use crate::classes::CORE_SPEED;
use crate::differences::{Difference, differences as of_runs};
use crate::evidence;
use crate::suspects::suspects;

/// Compares run `b` with run `a`. The same documents, noise and seed give the same comparison.
pub fn compare(a: &Document, b: &Document, noise: &Noise, seed: u64) -> Comparison {
    compare_to_all(&[a], b, noise, seed)
}

/// Compares run `b` with several runs of one host together. Their processes are pooled; the
/// variation between the runs is in the interval, and in the noise if no stored runs show it.
///
/// # Panics
/// Without a run to compare against.
pub fn compare_to_all(a: &[&Document], b: &Document, noise: &Noise, seed: u64) -> Comparison {
    let (newest, others) = newest_of(a);
    let in_b = by_case(&[b]);
    let in_a = identity::as_named_in(by_case(a), &in_b);
    let mut differences = of_runs(newest, b);
    let (mut rows, mut sides) = (Vec::new(), Vec::new());
    let mut not_comparable = Vec::new();
    for (key @ (metric, params, _), records_a) in &in_a {
        let Some(record_b) = in_b.get(key).and_then(|records| records.last()) else { continue };
        // Of a parameter's values one is enough.
        let commands = records_a.last().map(|a| other_commands(metric, a.record, record_b.record));
        for one in commands.into_iter().flatten() {
            if differences.iter().all(|known| known.what != one.what) {
                differences.push(one);
            }
        }
        if let Some(a) = records_a.last() {
            add_settings(&mut differences, a.record, record_b.record);
        }
        let obstacles = records_a.iter().map(|one| obstacle(one.record, record_b.record));
        let (fit, unfit): (Vec<_>, Vec<_>) =
            records_a.iter().zip(obstacles).partition(|(_, why)| why.is_none());
        let fit: Vec<RunRecord<'_>> = fit.into_iter().map(|(one, _)| *one).collect();
        match unfit.into_iter().last() {
            Some((_, Some(reason))) if fit.is_empty() => not_comparable.push(NotComparable {
                metric: (*metric).clone(),
                params: (*params).clone(),
                reason,
            }),
            _ => {
                let Some((row, mut processes)) = weigh::weigh(&fit, *record_b, noise, seed) else {
                    continue;
                };
                // What others did to one side looks like a change of the machine. The interval of
                // two CPUs that are otherwise apart is one of each distance.
                processes.is_doubted = row.distances.is_some()
                    || fit.iter().chain([record_b]).any(|one| evidence::is_disturbed(one.record));
                rows.push(row);
                sides.push(processes);
            }
        }
    }
    not_comparable.extend(other_parameters(in_a.keys(), in_b.keys()));
    not_comparable.extend(other_far_hosts(&in_a, &in_b));
    not_comparable.extend(identity::replaced(&in_a, &in_b));
    weigh::adjust(&mut rows);
    doubt(&mut rows, &mut sides, a.iter().chain([&b]));
    let mut factors = factors::factors(&rows, &sides, noise, seed);
    net::set(&mut rows, &sides, &factors, noise);
    net::count(&mut rows, &factors);
    set_suspects(&mut factors, &rows, &differences, [newest, b]);
    split::set(&mut rows, newest);
    rows.sort_by(|a, b| a.word.cmp(&b.word).then(b.size().total_cmp(&a.size())));
    Comparison {
        a: side(newest, &b.host),
        more_a: others.iter().map(|other| side(other, &b.host)).collect(),
        within_a: within(newest, &others),
        b: side(b, &newest.host),
        seed,
        noise_runs: noise.runs(),
        differences,
        core: core_speed::changed(newest, b),
        hours_apart: hours_apart(newest, b),
        false_alarms: Comparison::false_alarms(&rows),
        factors,
        gate: None,
        rows,
        not_comparable,
        only_a: only(&in_a, &in_b),
        only_b: only(&in_b, &in_a),
    }
}

/// Of each class that moved, or of which a case differs.
fn set_suspects(
    factors: &mut [Factor],
    rows: &[Compared],
    differences: &[Difference],
    runs: [&Document; 2],
) {
    let differs = |class: &str| {
        rows.iter().any(|row| row.class == Some(class) && row.share == Share::Differs)
    };
    for factor in factors.iter_mut().filter(|it| it.moved || differs(it.class)) {
        // What moved with the core was not moved by what cannot move the core.
        let class = if factor.with_core { CORE_SPEED } else { factor.class };
        factor.suspects = suspects(class, differences, runs);
    }
}

/// Weakens the words of rows whose intervals are too narrow.
fn doubt<'a>(
    rows: &mut [Compared],
    sides: &mut [RowSides],
    mut runs: impl Iterator<Item = &'a &'a Document>,
) {
    // Unfiltered intervals are too narrow while the speed of the machine drifts or is
    // autocorrelated.
    let is_low = runs.any(|run| run.run.verdict.state != State::Valid);
    for (row, sides) in rows.iter_mut().zip(sides) {
        sides.is_doubted |= is_low && row.stratum == Stratum::AsFound;
        if sides.is_doubted {
            row.word = row.word.doubted();
        }
    }
}

/// In what the other runs of A differ from the newest of them.
fn within(newest: &Document, others: &[&Document]) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for difference in others.iter().flat_map(|other| of_runs(*other, newest)) {
        if !all.contains(&difference) {
            all.push(difference);
        }
    }
    all
}

/// A comparison of two sides that are no runs, by its rows.
pub(crate) fn of_rows(
    [a, b]: [ComparisonSide; 2],
    differences: Vec<Difference>,
    (mut rows, not_comparable): (Vec<Compared>, Vec<NotComparable>),
    seed: u64,
) -> Comparison {
    weigh::adjust(&mut rows);
    net::count(&mut rows, &[]);
    rows.sort_by(|a, b| a.word.cmp(&b.word).then(b.size().total_cmp(&a.size())));
    Comparison {
        a,
        more_a: Vec::new(),
        within_a: Vec::new(),
        b,
        seed,
        noise_runs: 0,
        differences,
        core: None,
        hours_apart: None,
        false_alarms: Comparison::false_alarms(&rows),
        // What one host differs from the next in is no error of a class.
        factors: Vec::new(),
        gate: None,
        rows,
        not_comparable,
        only_a: Vec::new(),
        only_b: Vec::new(),
    }
}

/// The newest run by its id, which sorts by time, and the others from the newest to the oldest.
fn newest_of<'a>(runs: &[&'a Document]) -> (&'a Document, Vec<&'a Document>) {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| b.run.id.cmp(&a.run.id));
    let newest = runs.remove(0);
    (newest, runs)
}

/// With fewer hours between both sides, nothing is said of them.
const HOURS_APART: f64 = 1.0;

/// Hours from the end of the earlier run to the start of the later, if they are many.
fn hours_apart(a: &Document, b: &Document) -> Option<f64> {
    let moment = |text: &str| Some(text.parse::<jiff::Timestamp>().ok()?.as_millisecond() as f64);
    let span = |run: &Document| {
        let start = moment(&run.run.started)?;
        Some((start, run.run.ended.as_deref().and_then(moment).unwrap_or(start)))
    };
    let ((start_a, end_a), (start_b, end_b)) = (span(a)?, span(b)?);
    let hours = (start_a - end_b).max(start_b - end_a) / 3_600_000.0;
    (hours >= HOURS_APART).then_some(hours)
}

/// A case, with what the host at its far end is known by; empty without one.
type CompareKey<'a> = (&'a MetricId, &'a Params, &'a str);

/// The records of each case, one of each run that has it.
type ByCase<'a> = BTreeMap<CompareKey<'a>, Vec<RunRecord<'a>>>;

fn by_case<'a>(documents: &[&'a Document]) -> ByCase<'a> {
    let mut cases = ByCase::new();
    for document in documents {
        for record in &document.records {
            let one = RunRecord { record, run: document };
            let far = document.far_host(&record.params).map_or("", Host::identity);
            cases.entry((&record.metric, &record.params, far)).or_default().push(one);
        }
    }
    cases
}

/// A run with its host as people tell it from `other`.
fn side(document: &Document, other: &Host) -> ComparisonSide {
    ComparisonSide {
        id: document.run.id.clone(),
        label: document.run.label.clone(),
        started: document.run.started.clone(),
        host: document.host.label([other]),
        state: document.run.state,
        records: document.records.len(),
        planned: document.run.planned,
        valid: document.records.iter().filter(|it| it.verdict.state == State::Valid).count(),
        in_part: document.records.iter().filter(|it| it.verdict.is_cut_short()).count(),
        noisy: match document.run.verdict.state {
            State::Valid => None,
            _ => document.run.verdict.reasons.first().map(|reason| reason.text.clone()),
        },
    }
}

fn only(these: &ByCase<'_>, those: &ByCase<'_>) -> Vec<ComparisonCase> {
    let has = |(metric, params, _): &CompareKey<'_>| {
        those.keys().any(|(its_metric, its_params, _)| (its_metric, its_params) == (metric, params))
    };
    these
        .keys()
        .filter(|key| !has(key))
        .map(|(metric, params, _)| ComparisonCase {
            metric: (*metric).clone(),
            params: (*params).clone(),
        })
        .collect()
}

/// The cases of both whose far ends are two hosts, though they may have one name.
fn other_far_hosts(a: &ByCase<'_>, b: &ByCase<'_>) -> Vec<NotComparable> {
    let differ = a.keys().filter(|key| {
        !b.contains_key(*key) && b.keys().any(|other| (other.0, other.1) == (key.0, key.1))
    });
    let reason = "its far end is another host in B".to_owned();
    let made = |(metric, params, _): &CompareKey<'_>| NotComparable {
        metric: (*metric).clone(),
        params: (*params).clone(),
        reason: reason.clone(),
    };
    differ.map(made).collect()
}
