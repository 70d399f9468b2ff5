//! What a change of one case amounts to.

use fathom_record::statistics::{benjamini_hochberg, mann_whitney, median, ratio_of_medians};
use fathom_record::{Better, Record, State, Summary, Unit};

use super::{Compared, FALSE_DISCOVERY_RATE as LIMIT, Word};

/// Processes on either side from which on a change may be called one.
const PROCESSES_MIN: usize = 8;
/// A smaller change is not worth a word.
const EFFECT_MIN: f64 = 0.01;

/// Compares two records whose numbers stand and have one unit. `None` where one has no median.
///
/// `noise` is the share by which runs of this case lie apart where nothing was changed.
pub(super) fn weigh(a: &Record, b: &Record, noise: Option<f64>, seed: u64) -> Option<Compared> {
    let (in_a, in_b) = (medians(a.summary.as_ref()?), medians(b.summary.as_ref()?));
    let ratio = ratio_of_medians(&in_a, &in_b, seed);
    let few = in_a.len().min(in_b.len()) < PROCESSES_MIN;
    let word = match &ratio {
        None => Word::CannotTell,
        Some(ratio) => {
            let excludes_one = ratio.low > 1.0 || ratio.high < 1.0;
            let effect = ratio.ratio.ln().abs().exp_m1();
            let changed = excludes_one && effect > noise.unwrap_or(0.0).max(EFFECT_MIN);
            match (changed, few) {
                (true, _) => changed_word(ratio.ratio > 1.0, few, b),
                (false, true) => Word::CannotTell,
                (false, false) => Word::NoChange,
            }
        }
    };
    Some(Compared {
        metric: a.metric.clone(),
        params: a.params.clone(),
        unit: a.unit,
        better: b.better,
        a: median(&in_a)?,
        b: median(&in_b)?,
        processes_a: in_a.len(),
        processes_b: in_b.len(),
        noisy_a: a.verdict.state == State::Noisy,
        noisy_b: b.verdict.state == State::Noisy,
        ratio: ratio.map(|ratio| ratio.ratio),
        interval: ratio.map(|ratio| [ratio.low, ratio.high]),
        p: mann_whitney(&in_a, &in_b).map(|test| test.p),
        p_adjusted: None,
        noise,
        word,
    })
}

/// The finite process medians; the headline alone where there are none.
fn medians(summary: &Summary) -> Vec<f64> {
    let medians = summary.process_medians.iter().copied();
    let medians: Vec<f64> = medians.filter(|median| median.is_finite()).collect();
    if medians.is_empty() { vec![summary.median] } else { medians }
}

fn changed_word(grew: bool, few: bool, record: &Record) -> Word {
    let improved = match record.better {
        Better::Lower => Some(!grew),
        Better::Higher => Some(grew),
        Better::Neither => None,
    };
    let speed = match record.unit {
        Unit::Nanoseconds | Unit::BytesPerSecond | Unit::PerSecond | Unit::Hertz => true,
        Unit::Bytes | Unit::Ratio => false,
    };
    match (improved, few, speed) {
        (Some(true), false, _) => Word::Better,
        (Some(false), false, _) => Word::Worse,
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
        row.word = match row.word {
            Word::Better => Word::LooksBetter,
            Word::Worse => Word::LooksWorse,
            Word::Changed => Word::LooksChanged,
            word => word,
        };
    }
}
