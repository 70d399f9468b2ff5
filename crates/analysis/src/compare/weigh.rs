//! What a change of one case amounts to.

use fathom_record::{Record, State, Unit};

use super::comparison::{Compared, FALSE_DISCOVERY_RATE as LIMIT, PROCESSES_MIN, Word};
use super::core_speed::{Process, leave_out_slow, processes};
use super::noise::NoiseBy;
use crate::statistics::{benjamini_hochberg, mann_whitney, median, next_within, ratio_to_runs};

/// A smaller change is not worth a word.
const EFFECT_MIN: f64 = 0.01;

/// A record, and the reference spin of a core at full speed in its run.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    pub(super) record: &'a Record,
    pub(super) full_speed: Option<f64>,
}

/// Compares the records of A, one of each run, with that of B. Their numbers stand and have one
/// unit. `None` where one side has no median.
///
/// `kept` is the share by which kept runs of this case lie apart where nothing was changed.
pub(super) fn weigh(
    a: &[Taken<'_>],
    b: Taken<'_>,
    kept: Option<f64>,
    seed: u64,
) -> Option<Compared> {
    let first = a.first()?.record;
    let runs = a.iter().filter_map(|taken| processes(taken.record, taken.full_speed));
    let (mut runs, mut in_b) = (runs.collect(), processes(b.record, b.full_speed)?);
    let slow_core = leave_out_slow(&mut runs, &mut in_b);
    let runs: Vec<Vec<f64>> = runs.iter().map(|run| medians(run)).collect();
    let (in_a, in_b, b) = (runs.concat(), medians(&in_b), b.record);
    let ratio = ratio_to_runs(&runs, &in_b, seed);
    let (noise, noise_by) = match (kept, between(&runs)) {
        (Some(noise), _) => (Some(noise), Some(NoiseBy::Kept)),
        (None, Some(noise)) => (Some(noise), Some(NoiseBy::A)),
        (None, None) => (None, None),
    };
    let spoiled = slow_core.filter(|slow| !slow.left_out);
    // What is left of several runs may be one, which does not show how far they lie apart.
    let is_alone = a.len() > 1 && runs.len() == 1 && kept.is_none();
    let few = in_a.len().min(in_b.len()) < PROCESSES_MIN || is_alone || spoiled.is_some();
    let word = match &ratio {
        None => Word::Inconclusive,
        Some(ratio) if spoiled.is_some_and(|slow| slow.explains([ratio.low, ratio.high])) => {
            Word::Inconclusive
        }
        Some(ratio) => {
            let excludes_one = ratio.low > 1.0 || ratio.high < 1.0;
            let effect = ratio.ratio.ln().abs().exp_m1();
            let borne_out = excludes_one && effect > EFFECT_MIN;
            let is_noise = noise.is_some_and(|noise| effect <= noise);
            match (borne_out, is_noise, few) {
                (true, false, _) => changed_word(ratio.ratio > 1.0, few, b),
                (true, true, _) => Word::WithinNoise,
                (false, _, true) => Word::Inconclusive,
                (false, _, false) => Word::NoChange,
            }
        }
    };
    Some(Compared {
        metric: first.metric.clone(),
        params: first.params.clone(),
        unit: first.unit,
        better: b.better,
        a: median(&in_a)?,
        b: median(&in_b)?,
        runs_a: runs.len(),
        processes_a: in_a.len(),
        processes_b: in_b.len(),
        noisy_a: a.iter().any(|taken| taken.record.verdict.state == State::Noisy),
        noisy_b: b.verdict.state == State::Noisy,
        ratio: ratio.map(|ratio| ratio.ratio),
        interval: ratio.map(|ratio| [ratio.low, ratio.high]),
        // A test of what the core did says nothing, and has no place among the others.
        p: mann_whitney(&in_a, &in_b).map(|test| test.p).filter(|_| spoiled.is_none()),
        p_adjusted: None,
        noise,
        noise_by,
        slow_core,
        word,
    })
}

/// How far one more run may lie from these by chance alone, as a share: with Student's t, which is
/// large where there are few, since two runs show little of a third.
fn between(runs: &[Vec<f64>]) -> Option<f64> {
    let headlines = runs.iter().filter_map(|run| median(run)).filter(|headline| *headline > 0.0);
    let logarithms: Vec<f64> = headlines.map(f64::ln).collect();
    next_within(&logarithms).map(f64::exp_m1)
}

fn medians(processes: &[Process]) -> Vec<f64> {
    processes.iter().map(|process| process.median).collect()
}

fn changed_word(grew: bool, few: bool, record: &Record) -> Word {
    let speed = match record.unit {
        Unit::Nanoseconds | Unit::BytesPerSecond | Unit::PerSecond | Unit::Hertz => true,
        Unit::Bytes | Unit::Ratio => false,
    };
    match (record.better.improves(grew), few, speed) {
        (Some(true), false, true) => Word::Faster,
        (Some(false), false, true) => Word::Slower,
        (Some(true), false, false) => Word::Better,
        (Some(false), false, false) => Word::Worse,
        (None, false, _) => Word::Changed,
        (Some(true), true, true) => Word::LooksFaster,
        (Some(false), true, true) => Word::LooksSlower,
        (Some(true), true, false) => Word::LooksBetter,
        (Some(false), true, false) => Word::LooksWorse,
        (None, true, _) => Word::LooksChanged,
    }
}

/// Sets each `p_adjusted`, over all rows that have a p, and takes back the words that do not stand
/// up to their number.
pub(super) fn adjust(rows: &mut [Compared]) {
    let (tested, p): (Vec<usize>, Vec<f64>) =
        rows.iter().enumerate().filter_map(|(i, row)| Some((i, row.p?))).unzip();
    for (row, adjusted) in tested.into_iter().zip(benjamini_hochberg(&p)) {
        rows[row].p_adjusted = Some(adjusted);
    }
    // A change that many comparisons bring about by chance is not called one.
    for row in rows.iter_mut().filter(|row| row.p_adjusted.is_none_or(|q| q >= LIMIT)) {
        row.word = row.word.doubted();
    }
}
