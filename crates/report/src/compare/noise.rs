//! How far two runs lie apart where nothing was changed: the noise between runs of one case on one
//! host, learnt from runs that were kept (METHOD 27).
//!
//! Order statistics again: of n pairs of successive runs, another pair lies beyond the widest with
//! a chance of 1 in n + 1.

use std::collections::BTreeMap;

use fathom_record::{Document, MetricId, Outline, Params};
use serde::Serialize;

use super::differences;

/// Fewer pairs tell nothing.
const PAIRS_MIN: usize = 4;
/// The share of pairs that may lie beyond the noise.
const BEYOND: f64 = 0.05;

/// Which runs tell how far runs lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseBy {
    /// Kept runs like B.
    Kept,
    /// Those of A, which are several.
    A,
}

/// The noise of each case, where enough runs tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    by_case: BTreeMap<(MetricId, Params), f64>,
    runs: usize,
}

impl Noise {
    /// Learns it from runs, oldest first: from those that differ in nothing that was recorded from
    /// the run that is to be compared. The runs of the comparison themselves teach nothing.
    pub fn learn(history: &[Outline], a: &[Document], b: &Document) -> Self {
        let is_own = |id: &str| a.iter().chain([b]).any(|own| own.run.id == id);
        let alike: Vec<&Outline> = history
            .iter()
            .filter(|one| !is_own(&one.document.run.id))
            .filter(|one| differences(&one.document, b).is_empty())
            .collect();
        let mut headlines: BTreeMap<(MetricId, Params), Vec<f64>> = BTreeMap::new();
        for headline in alike.iter().flat_map(|outline| &outline.headlines) {
            if let Some(value) = headline.value.filter(|value| *value > 0.0) {
                let case = (headline.metric.clone(), headline.params.clone());
                headlines.entry(case).or_default().push(value);
            }
        }
        let by_case =
            headlines.into_iter().filter_map(|(case, values)| Some((case, apart(&values)?)));
        Self { by_case: by_case.collect(), runs: alike.len() }
    }

    /// The noise of a case, as a share: 0.02 for 2 %.
    pub(super) fn of(&self, metric: &MetricId, params: &Params) -> Option<f64> {
        self.by_case.get(&(metric.clone(), params.clone())).copied()
    }

    /// The runs it was learnt from.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }
}

/// How far successive values lie apart, as a share: the smallest distance that at most one pair in
/// twenty exceeds, or the widest where there are fewer pairs.
fn apart(values: &[f64]) -> Option<f64> {
    let mut distances: Vec<f64> =
        values.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs()).collect();
    if distances.len() < PAIRS_MIN {
        return None;
    }
    distances.sort_unstable_by(f64::total_cmp);
    let rank = ((1.0 - BEYOND) * (distances.len() + 1) as f64).ceil() as usize;
    distances.get(rank.min(distances.len()) - 1).map(|distance| distance.exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_what_one_pair_in_twenty_exceeds() {
        assert_eq!(apart(&[1.0, 1.1, 1.0, 1.1]), None, "three pairs");
        let close = |share: Option<f64>, wanted: f64| {
            let share = share.expect("a share");
            assert!((share - wanted).abs() < 1e-9, "{share} is not {wanted}");
        };
        close(apart(&[1.0, 1.1, 1.0, 1.1, 1.0]), 0.1);
        // Forty pairs of one per cent, and one of fifty: that one is left aside.
        let mut values: Vec<f64> = (0..41).map(|at| if at % 2 == 0 { 1.0 } else { 1.01 }).collect();
        values.push(1.5);
        close(apart(&values), 0.01);
        close(apart(&values[36..]), 0.5);
    }
}
