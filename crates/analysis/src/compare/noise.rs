//! A/A noise: how much two runs of one case on one unchanged host differ, from stored runs
//! (METHOD 27).
//!
//! Lasting changes are not noise: they are detected as in a history, and the steps between them are
//! excluded. The rest is order statistics: of n pairs of successive runs, a further pair exceeds
//! the widest with probability 1 in n + 1.

use std::collections::BTreeMap;

use fathom_record::{Document, MetricId, Outline, Params, Stratum};
use serde::Serialize;

use crate::differences::differences;
use crate::history::STRICTNESS;
use crate::statistics::change_points;

/// With fewer pairs the noise is unknown.
const PAIRS_MIN: usize = 4;
/// The share of pairs that exceed the noise.
const BEYOND: f64 = 0.05;

/// The source of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseBy {
    /// Stored runs like B.
    Kept,
    /// The runs of A, if there are several.
    A,
}

/// A case, at full speed or unfiltered.
type NoiseKey = (MetricId, Params, bool);

/// The noise of each case with enough runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    by_case: BTreeMap<NoiseKey, f64>,
    runs: usize,
    limits: BTreeMap<&'static str, f64>,
}

impl Noise {
    /// The noise between those runs, oldest first, that have no recorded difference from B. The
    /// runs of the comparison itself are excluded.
    pub fn learn(history: &[Outline], a: &[Document], b: &Document) -> Self {
        let is_own = |id: &str| a.iter().chain([b]).any(|own| own.run.id == id);
        let alike: Vec<&Outline> = history
            .iter()
            .filter(|one| !is_own(&one.run.id))
            .filter(|one| differences(*one, b).is_empty())
            .collect();
        // The change in question is between the newest run of A and B.
        let newest = a.iter().map(|run| run.run.id.as_str()).max().unwrap_or("");
        let span = newest.min(&b.run.id)..newest.max(&b.run.id);
        let mut headlines: BTreeMap<NoiseKey, Vec<(&str, f64)>> = BTreeMap::new();
        for outline in &alike {
            for headline in &outline.headlines {
                for is_found in [false, true] {
                    let value = headline.in_stratum(is_found).map(|(value, _)| value);
                    let Some(value) = value.filter(|value| *value > 0.0) else { continue };
                    let params = Params::clone(&headline.params);
                    let case = (headline.metric.clone(), params, is_found);
                    let run = outline.run.id.as_str();
                    headlines.entry(case).or_default().push((run, value));
                }
            }
        }
        let by_case = headlines.into_iter().filter_map(|(case, series)| {
            let asked_about = |at: usize| series[at].0 > span.start && series[at - 1].0 < span.end;
            let values: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
            Some((case, apart(&values, &asked_about)?))
        });
        Self { by_case: by_case.collect(), runs: alike.len(), limits: BTreeMap::new() }
    }

    /// With the noise limits of metrics, as shares: the margin of cases whose noise is unknown.
    #[must_use]
    pub fn with_limits(mut self, limits: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        self.limits.extend(limits);
        self
    }

    pub(super) fn limit(&self, metric: &MetricId) -> Option<f64> {
        self.limits.get(metric.as_str()).copied()
    }

    /// The noise of a case as a share: 0.02 for 2 %.
    pub(super) fn limit_for(
        &self,
        metric: &MetricId,
        params: &Params,
        stratum: Stratum,
    ) -> Option<f64> {
        let is_found = stratum == Stratum::AsFound;
        self.by_case.get(&(metric.clone(), params.clone(), is_found)).copied()
    }

    /// The number of runs behind it.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }
}

/// The difference of successive values as a share: the smallest that at most one pair in twenty
/// exceeds, or the largest if there are fewer pairs. Steps at change points are excluded. So is the
/// largest of the pairs that may contain the change in question; `asked_about` is given the index
/// of their second value.
fn apart(values: &[f64], asked_about: &dyn Fn(usize) -> bool) -> Option<f64> {
    let steps = change_points(values, &STRICTNESS);
    let is_step = |at: usize| steps.iter().any(|step| step.index == at);
    let distance = |at: usize| (values[at] / values[at - 1]).ln().abs();
    let within: Vec<usize> = (1..values.len()).filter(|at| !is_step(*at)).collect();
    let asked = within.iter().copied().filter(|at| asked_about(*at));
    let widest = asked.max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    let mut distances: Vec<f64> =
        within.into_iter().filter(|at| Some(*at) != widest).map(distance).collect();
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

    const NOT_ASKED: fn(usize) -> bool = |_| false;

    #[test]
    fn lasting_changes_are_not_noise() {
        let wobble = |level: f64, at: usize| level * if at.is_multiple_of(2) { 1.0 } else { 1.003 };
        // A regression of 50 % that was mended again.
        let series = |levels: &[(f64, usize)]| -> Vec<f64> {
            let of_level = |&(level, count): &(f64, usize)| (0..count).map(move |at| (level, at));
            levels.iter().flat_map(of_level).map(|(level, at)| wobble(level, at)).collect()
        };
        let mended = series(&[(215.0, 6), (324.0, 6), (216.0, 6)]);
        let noise = apart(&mended, &NOT_ASKED).expect("enough pairs");
        assert!(noise < 0.01, "{noise}");
        // A step that is too young to have lasted lies between A and B.
        let young = series(&[(215.0, 8), (300.0, 2)]);
        let all = apart(&young, &NOT_ASKED).expect("enough pairs");
        let without = apart(&young, &|at| at >= 6).expect("enough pairs");
        assert!(all > 0.3 && without < 0.01, "{all} {without}");
    }

    #[test]
    fn the_noise_is_what_one_pair_in_twenty_exceeds() {
        assert_eq!(apart(&[1.0, 1.1, 1.0, 1.1], &NOT_ASKED), None, "three pairs");
        let close = |share: Option<f64>, wanted: f64| {
            let share = share.expect("a share");
            assert!((share - wanted).abs() < 1e-9, "{share} is not {wanted}");
        };
        close(apart(&[1.0, 1.1, 1.0, 1.1, 1.0], &NOT_ASKED), 0.1);
        // Forty pairs of one per cent, and one of fifty: that one is left aside.
        let mut values: Vec<f64> = (0..41).map(|at| if at % 2 == 0 { 1.0 } else { 1.01 }).collect();
        values.push(1.5);
        close(apart(&values, &NOT_ASKED), 0.01);
        close(apart(&values[36..], &NOT_ASKED), 0.5);
    }
}
