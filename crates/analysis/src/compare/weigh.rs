//! The verdict on one case of a comparison.

use fathom_record::{Better, Estimate, Fact, NotSelected, State, Unit};

use super::comparison::{
    Compared, ComparisonWord, EFFECT_MIN, FALSE_DISCOVERY_RATE as LIMIT, PROCESSES_MIN, Share,
};
use super::core_speed::{RunRecord, distances, explains, slower, stratum_of};
use super::noise::{Noise, NoiseBy};
use super::sides::RowSides;
use crate::classes::class;
use crate::statistics::{
    Ratio, Z_90, Z_95, benjamini_hochberg, mann_whitney, median, prediction_half_width,
    ratio_to_runs,
};

/// The smallest margin of equivalence.
pub const UNCHANGED_MIN: f64 = 0.02;
/// The interval of an unchanged ratio is about as wide as the noise and is anywhere within it, so a
/// margin equal to the noise would contain hardly any. Of (1.64 + 1.64) ÷ 1.96 times the noise it
/// contains nine in ten: z for 5 % of the interval, and for the power.
pub const UNCHANGED_TIMES: f64 = 1.7;
/// Equivalence within a larger margin is not worth reporting.
const UNCHANGED_MAX: f64 = 0.3;

/// Compares the records of A, one per run, with that of B, in a stratum that all of them have.
/// Their numbers are valid or noisy, in the same unit. `None` if one side has no median.
pub(super) fn weigh(
    a: &[RunRecord<'_>],
    b: RunRecord<'_>,
    learned: &Noise,
    seed: u64,
) -> Option<(Compared, RowSides)> {
    let first = a.first()?.record;
    let all: Vec<RunRecord<'_>> = a.iter().copied().chain([b]).collect();
    let stratum = stratum_of(all.iter().map(|one| (one.stratum(), one.run)));
    let sides: Option<Vec<_>> = a.iter().map(|one| one.estimate(stratum)).collect();
    let (sides, of_b) = (sides?, b.estimate(stratum)?);
    let runs: Vec<Vec<f64>> = sides.iter().map(|side| side.process_medians.clone()).collect();
    let (in_a, in_b, record) = (runs.concat(), of_b.process_medians.clone(), b.record);
    let within = within_runs(&sides, &of_b);
    let ratio = ratio_to_runs(&runs, &in_b, seed).or(within);
    let ratio = ratio.map(|ratio| ratio.with_error(drift(a, b)));
    let limit = learned.limit(&first.metric);
    let kept = learned.of_case(&first.metric, &first.params, stratum).map(|it| it.noise);
    let (noise, noise_by) = match (kept, between(&runs)) {
        (Some(noise), _) => (Some(noise), Some(NoiseBy::Kept)),
        (None, Some(noise)) => (Some(noise), Some(NoiseBy::A)),
        (None, None) => (None, None),
    };
    let core = slower(a, b, stratum);
    let few = in_a.len().min(in_b.len()) < PROCESSES_MIN;
    let mut unchanged_within = None;
    let word = ratio.as_ref().map_or(ComparisonWord::Inconclusive, |ratio| {
        let is_borne_out = ratio.low > 1.0 || ratio.high < 1.0;
        // An interval within a run knows nothing of what differs between runs.
        let between = noise.or(limit.filter(|_| within.is_some())).unwrap_or(0.0);
        let is_large = (ratio.ratio - 1.0).abs() > EFFECT_MIN.max(between);
        let margins = margins(noise, limit);
        let limits = [ratio.low, ratio.high];
        let is_core = || core.is_some_and(|core| explains(core, limits, record.better, margins[0]));
        let is_changed = is_borne_out && is_large && !is_core();
        // A margin above the noise must not hide a change.
        let margins = if is_changed { &margins[..1] } else { &margins[..] };
        if within.is_none() || noise.is_some() {
            unchanged_within = margins.iter().copied().find(|margin| is_equal(ratio, *margin));
        }
        match (unchanged_within, is_changed) {
            (Some(_), _) => ComparisonWord::Unchanged,
            (None, true) => word_for(ratio.ratio > 1.0, few, record.better, record.unit),
            (None, false) => ComparisonWord::Inconclusive,
        }
    });
    let row = Compared {
        metric: first.metric.clone(),
        params: first.params.clone(),
        unit: first.unit,
        better: record.better,
        class: class(&first.metric, &first.params),
        stratum,
        a: median(&in_a)?,
        b: median(&in_b)?,
        runs_a: runs.len(),
        processes_a: in_a.len(),
        processes_b: in_b.len(),
        visits_a: sides.iter().map(|side| side.of).sum(),
        visits_b: of_b.of,
        noisy_a: a.iter().any(|one| one.record.verdict.state == State::Noisy),
        noisy_b: record.verdict.state == State::Noisy,
        ratio: ratio.map(|ratio| ratio.ratio),
        interval: ratio.map(|ratio| [ratio.low, ratio.high]),
        p: mann_whitney(&in_a, &in_b).map(|test| test.p),
        p_adjusted: None,
        noise,
        noise_by,
        core,
        distances: distances(a, b),
        on_edge: all.iter().all(|one| Fact::are_on_edge(&one.record.facts)),
        unchanged_within,
        word,
        net: None,
        share: Share::default(),
        split: None,
    };
    Some((row, RowSides { drift: drift(a, b), ..RowSides::new(record, &runs, &in_b) }))
}

/// The error of a ratio because the core's speed drifted on both sides, as a share.
fn drift(a: &[RunRecord<'_>], b: RunRecord<'_>) -> f64 {
    let of = |one: &RunRecord<'_>| {
        let is_of_device = one.record.summary.as_ref()?.not_selected == Some(NotSelected::Device);
        one.run.run.reference.filter(|_| !is_of_device).map(|reference| reference.drift)
    };
    let squares = a.iter().filter_map(of).map(|drift| drift.powi(2)).sum::<f64>();
    (squares / a.len().pow(2) as f64 + of(&b).unwrap_or(0.0).powi(2)).sqrt()
}

/// The ratio of one process to one other, from their intervals within the run: the limits of both
/// in logarithms, added as independent errors (Zou and Donner, Statistics in Medicine 27, 2008).
fn within_runs(a: &[Estimate], b: &Estimate) -> Option<Ratio> {
    let [a] = a else { return None };
    let is_single = |side: &Estimate| side.process_medians.len() == 1;
    if !is_single(a) || !is_single(b) {
        return None;
    }
    let logarithms = |side: &Estimate| {
        let interval = side.interval?;
        let all = [interval.low, side.median, interval.high].map(f64::ln);
        all.iter().all(|it| it.is_finite()).then_some(all)
    };
    let ([low_a, middle_a, high_a], [low_b, middle_b, high_b]) = (logarithms(a)?, logarithms(b)?);
    let below = (middle_b - low_b).hypot(high_a - middle_a);
    let above = (high_b - middle_b).hypot(middle_a - low_a);
    let at = |times: f64| {
        let middle = middle_b - middle_a;
        [middle - times * below, middle + times * above].map(f64::exp)
    };
    let [low, high] = at(1.0);
    Some(Ratio { ratio: b.median / a.median, low, high, equivalence: at(Z_90 / Z_95) })
}

/// The margins within which a ratio may be unchanged, the narrowest first: the noise between runs,
/// and [`UNCHANGED_TIMES`] times that; the metric's noise limit where the noise is unknown.
fn margins(noise: Option<f64>, limit: Option<f64>) -> [f64; 2] {
    let wide = match noise {
        Some(noise) => UNCHANGED_TIMES * noise,
        None => limit.unwrap_or(0.0),
    };
    [noise.unwrap_or(0.0), wide].map(|margin| margin.max(UNCHANGED_MIN))
}

fn is_equal(ratio: &Ratio, margin: f64) -> bool {
    margin <= UNCHANGED_MAX && ratio.equivalence.iter().all(|end| (end - 1.0).abs() <= margin)
}

/// The 95 % prediction interval of one more run, as a share (Student's t).
fn between(runs: &[Vec<f64>]) -> Option<f64> {
    let headlines = runs.iter().filter_map(|run| median(run)).filter(|headline| *headline > 0.0);
    let logarithms: Vec<f64> = headlines.map(f64::ln).collect();
    prediction_half_width(&logarithms).map(f64::exp_m1)
}

/// What a ratio over `hosts` amounts to, and the margin within which it is unchanged. What one run
/// differs from the next in on each host is in its interval.
pub(crate) fn word_of(
    ratio: &Ratio,
    hosts: usize,
    (better, unit): (Better, Unit),
    limit: Option<f64>,
) -> (ComparisonWord, Option<f64>) {
    let is_borne_out = ratio.low > 1.0 || ratio.high < 1.0;
    let is_changed = is_borne_out && (ratio.ratio - 1.0).abs() > EFFECT_MIN;
    let margins = margins(None, limit);
    // A margin above the noise must not hide a change.
    let margins = if is_changed { &margins[..1] } else { &margins[..] };
    match margins.iter().copied().find(|margin| is_equal(ratio, *margin)) {
        Some(margin) => (ComparisonWord::Unchanged, Some(margin)),
        None if is_changed => {
            (word_for(ratio.ratio > 1.0, hosts < PROCESSES_MIN, better, unit), None)
        }
        None => (ComparisonWord::Inconclusive, None),
    }
}

pub(crate) fn word_for(grew: bool, few: bool, better: Better, unit: Unit) -> ComparisonWord {
    let speed = match unit {
        Unit::Nanoseconds | Unit::BytesPerSecond | Unit::PerSecond | Unit::Hertz => true,
        Unit::Bytes | Unit::Ratio => false,
    };
    match (better.improves(grew), few, speed) {
        (Some(true), false, true) => ComparisonWord::Faster,
        (Some(false), false, true) => ComparisonWord::Slower,
        (Some(true), false, false) => ComparisonWord::Better,
        (Some(false), false, false) => ComparisonWord::Worse,
        (None, false, _) => ComparisonWord::Changed,
        (Some(true), true, true) => ComparisonWord::LooksFaster,
        (Some(false), true, true) => ComparisonWord::LooksSlower,
        (Some(true), true, false) => ComparisonWord::LooksBetter,
        (Some(false), true, false) => ComparisonWord::LooksWorse,
        (None, true, _) => ComparisonWord::LooksChanged,
    }
}

/// Sets `p_adjusted` over all rows that have a p, and weakens the words of those that are not
/// significant among so many.
pub(super) fn adjust(rows: &mut [Compared]) {
    let (tested, p): (Vec<usize>, Vec<f64>) =
        rows.iter().enumerate().filter_map(|(i, row)| Some((i, row.p?))).unzip();
    for (row, adjusted) in tested.into_iter().zip(benjamini_hochberg(&p)) {
        rows[row].p_adjusted = Some(adjusted);
    }
    for row in rows.iter_mut().filter(|row| row.p_adjusted.is_none_or(|q| q >= LIMIT)) {
        row.word = row.word.doubted();
    }
}
