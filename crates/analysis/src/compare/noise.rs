//! A/A noise: how much two runs of one case on one unchanged host differ, from stored runs
//! (METHOD 27).
//!
//! Lasting changes are not noise: they are detected as in a history, and the steps between them are
//! excluded. The rest is order statistics: of n pairs of successive runs, a further pair exceeds
//! the widest with probability 1 in n + 1.
//!
//! Whole classes of cases differ from run to run, too, which no interval of two runs contains: of
//! each pair of successive runs the median of a class is noted, and its deviation kept.

use std::collections::BTreeMap;

use fathom_record::{Document, Headline, MetricId, Outline, Params, Stratum};
use serde::Serialize;

use crate::choice::are_apart;
use crate::classes::{CASES_MIN, class, slowness};
use crate::differences::{Difference, QUALITY, differences};
use crate::history::STRICTNESS;
use crate::statistics::{Z_95, change_points, median};

/// With fewer pairs the noise is unknown.
const PAIRS_MIN: usize = 4;
/// With fewer pairs the widest is too uncertain: their deviation says more.
const RANKED_MIN: usize = 20;
/// How far apart the CPUs are.
const DISTANCE: &str = "memory.core_to_core";
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

/// How much two successive runs differ.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pairs {
    /// As a share: what one pair in twenty exceeds, at most.
    noise: f64,
    spread: Spread,
}

/// The standard deviation of the logarithm of the ratio of two runs, and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) deviation: f64,
    pub(super) freedom: f64,
}

impl Spread {
    /// An error and its degrees of freedom, no less than what kept runs differ by: in theirs that
    /// of processes is contained.
    pub(super) fn at_least(kept: Option<Self>, error: (f64, f64)) -> (f64, f64) {
        let kept = kept.filter(|kept| kept.deviation > error.0);
        kept.map_or(error, |kept| (kept.deviation, kept.freedom))
    }
}

/// The noise of each case with enough runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    by_case: BTreeMap<NoiseKey, Pairs>,
    by_class: BTreeMap<&'static str, Spread>,
    runs: usize,
    limits: BTreeMap<&'static str, f64>,
}

impl Noise {
    /// With fewer runs besides those compared nothing is learned.
    pub const RUNS_MIN: usize = PAIRS_MIN + 1;

    /// The noise between those runs, oldest first, that have no recorded difference from B, or from
    /// the newest run of A if more are like that. The runs of the comparison itself are excluded.
    pub fn learn(history: &[Outline], a: &[Document], b: &Document) -> Self {
        let is_own = |id: &str| a.iter().chain([b]).any(|own| own.run.id == id);
        let like = |side: &Document| -> Vec<&Outline> {
            let others = history.iter().filter(|one| !is_own(&one.run.id));
            let is_other = |it: &Difference| it.what != QUALITY;
            others.filter(|one| !differences(*one, side).iter().any(is_other)).collect()
        };
        let newest = a.iter().max_by_key(|run| &run.run.id);
        let (like_b, like_a) = (like(b), newest.map(like).unwrap_or_default());
        let alike = if like_a.len() > like_b.len() { like_a } else { like_b };
        // The change in question is between the newest run of A and B.
        let newest = newest.map_or("", |run| run.run.id.as_str());
        let span = newest.min(&b.run.id)..newest.max(&b.run.id);
        let pairs = |series: &[(&str, f64)]| {
            let asked_about = |at: usize| series[at].0 > span.start && series[at - 1].0 < span.end;
            let values: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
            apart(&values, &asked_about)
        };
        let by_case = by_case(&alike);
        let by_case = by_case.into_iter().filter_map(|(case, of)| Some((case, pairs(&of)?)));
        let by_class = by_class(&alike).into_iter();
        let by_class = by_class.filter_map(|(class, of)| Some((class, pairs(&of)?.spread)));
        Self {
            by_case: by_case.collect(),
            by_class: by_class.collect(),
            runs: alike.len(),
            limits: BTreeMap::new(),
        }
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
        self.pairs(metric, params, stratum).map(|pairs| pairs.noise)
    }

    /// How much a case differs from run to run.
    pub(super) fn spread(
        &self,
        metric: &MetricId,
        params: &Params,
        stratum: Stratum,
    ) -> Option<Spread> {
        self.pairs(metric, params, stratum).map(|pairs| pairs.spread)
    }

    /// How much a class differs from run to run.
    pub(super) fn of_class(&self, class: &str) -> Option<Spread> {
        self.by_class.get(class).copied()
    }

    fn pairs(&self, metric: &MetricId, params: &Params, stratum: Stratum) -> Option<&Pairs> {
        self.by_case.get(&(metric.clone(), params.clone(), stratum == Stratum::AsFound))
    }

    /// The number of runs behind it.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }
}

/// The numbers of each case, with their runs.
fn by_case<'a>(runs: &[&'a Outline]) -> BTreeMap<NoiseKey, Vec<(&'a str, f64)>> {
    let mut all: BTreeMap<NoiseKey, Vec<(&str, f64)>> = BTreeMap::new();
    for (run, headline) in runs.iter().flat_map(|run| run.headlines.iter().map(move |it| (run, it)))
    {
        for is_found in [false, true] {
            let value = headline.in_stratum(is_found).map(|(value, _)| value);
            let Some(value) = value.filter(|value| *value > 0.0) else { continue };
            let params = Params::clone(&headline.params);
            let case = (headline.metric.clone(), params, is_found);
            all.entry(case).or_default().push((run.run.id.as_str(), value));
        }
    }
    all
}

/// How slow each class was in each run, relative to the first of them: the sum of the medians of
/// its cases' steps. Runs between which the host moved the CPUs say nothing of noise.
fn by_class<'a>(runs: &[&'a Outline]) -> BTreeMap<&'static str, Vec<(&'a str, f64)>> {
    let mut all: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for pair in runs.windows(2) {
        let before: BTreeMap<_, _> = pair[0].headlines.iter().filter_map(number).collect();
        let mut steps: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut has_moved = false;
        for headline in &pair[1].headlines {
            let Some((key, now)) = number(headline) else { continue };
            let Some(before) = before.get(&key) else { continue };
            has_moved |= headline.metric.as_str() == DISTANCE && are_apart(*before, now);
            let sign = slowness(headline.better, headline.unit);
            if let Some((class, sign)) = class(key.0, key.1).zip(sign) {
                steps.entry(class).or_default().push(sign * (now / before).ln());
            }
        }
        let steps = steps.into_iter().filter(|(_, of)| !has_moved && of.len() >= CASES_MIN);
        for (class, step) in steps.filter_map(|(class, of)| Some((class, median(&of)?))) {
            let series = all.entry(class).or_insert_with(|| vec![(&pair[0].run.id, 1.0)]);
            let level = series.last().map_or(1.0, |(_, level)| *level);
            series.push((&pair[1].run.id, level * step.exp()));
        }
    }
    all
}

fn number(headline: &Headline) -> Option<((&MetricId, &Params), f64)> {
    let of = |is_found| headline.in_stratum(is_found).map(|(value, _)| value);
    let value = of(false).or_else(|| of(true)).filter(|value| *value > 0.0)?;
    Some(((&headline.metric, &headline.params), value))
}

/// The difference of successive values: the smallest that at most one pair in twenty exceeds, or
/// the largest if there are fewer pairs, and their deviation. Steps at change points are excluded.
/// So is the largest of the pairs that may contain the change in question; `asked_about` is given
/// the index of their second value.
fn apart(values: &[f64], asked_about: &dyn Fn(usize) -> bool) -> Option<Pairs> {
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
    let count = distances.len() as f64;
    let rank = ((1.0 - BEYOND) * (count + 1.0)).ceil() as usize;
    let noise = distances[rank.min(distances.len()) - 1];
    // A few disturbed runs of many say nothing of the others.
    let deviation = match distances.len() < RANKED_MIN {
        true => (distances.iter().map(|it| it * it).sum::<f64>() / count).sqrt(),
        false => noise / Z_95,
    };
    Some(Pairs { noise: noise.exp_m1(), spread: Spread { deviation, freedom: count } })
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
        let noise_of = |values: &[f64], asked: &dyn Fn(usize) -> bool| {
            apart(values, asked).expect("enough pairs").noise
        };
        let noise = noise_of(&mended, &NOT_ASKED);
        assert!(noise < 0.01, "{noise}");
        // A step that is too young to have lasted lies between A and B.
        let young = series(&[(215.0, 8), (300.0, 2)]);
        let all = noise_of(&young, &NOT_ASKED);
        let without = noise_of(&young, &|at| at >= 6);
        assert!(all > 0.3 && without < 0.01, "{all} {without}");
    }

    #[test]
    fn the_noise_is_what_one_pair_in_twenty_exceeds() {
        assert_eq!(apart(&[1.0, 1.1, 1.0, 1.1], &NOT_ASKED), None, "three pairs");
        let close = |pairs: Option<Pairs>, wanted: f64| {
            let share = pairs.expect("enough pairs").noise;
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
