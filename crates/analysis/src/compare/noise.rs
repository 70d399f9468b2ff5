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

use fathom_record::{Document, Headline, MetricId, Outline, Params, State, Stratum};
use serde::Serialize;

use crate::choice::are_apart;
use crate::classes::{CASES_MIN, class, is_on_two, slowness};
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
pub(super) struct Pairs {
    /// As a share, 0.02 for 2 %: what one pair in twenty exceeds, at most.
    pub(super) noise: f64,
    pub(super) spread: Spread,
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
            // A valid run is like any; what disturbed another one is no noise of a valid one.
            let is_like = |one: &Outline| {
                let is_valid = one.run.verdict.state == State::Valid;
                let is_other = |it: &Difference| it.what != QUALITY || !is_valid;
                !differences(one, side).iter().any(is_other)
            };
            others.filter(|one| is_like(one)).collect()
        };
        let newest = a.iter().max_by_key(|run| &run.run.id);
        let (like_b, like_a) = (like(b), newest.map(like).unwrap_or_default());
        let alike = if like_a.len() > like_b.len() { like_a } else { like_b };
        // The change in question is between the newest run of A and B.
        let newest = newest.map_or("", |run| run.run.id.as_str());
        let span = newest.min(&b.run.id)..newest.max(&b.run.id);
        let distances: BTreeMap<&str, f64> = alike.iter().filter_map(|run| distance(run)).collect();
        let pairs = |class: Option<&str>, series: &[(&str, f64)]| {
            let asked_about = |at: usize| series[at].0 > span.start && series[at - 1].0 < span.end;
            // What the place of the CPUs makes of work on two is no noise.
            let has_moved = |at: usize| {
                let of = |at: usize| distances.get(series[at].0);
                let both = class.filter(|it| is_on_two(it)).and(of(at - 1).zip(of(at)));
                both.is_some_and(|(a, b)| are_apart(*a, *b))
            };
            let values: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
            apart(&values, &has_moved, &asked_about)
        };
        let by_case = by_case(&alike).into_iter();
        let by_case = by_case.filter_map(|(case, of)| {
            let pairs = pairs(class(&case.0, &case.1), &of)?;
            Some((case, pairs))
        });
        let by_class = by_class(&alike).into_iter();
        let by_class =
            by_class.filter_map(|(class, of)| Some((class, pairs(Some(class), &of)?.spread)));
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

    /// How much a case differs from run to run.
    pub(super) fn of_case(
        &self,
        metric: &MetricId,
        params: &Params,
        stratum: Stratum,
    ) -> Option<&Pairs> {
        self.by_case.get(&(metric.clone(), params.clone(), stratum == Stratum::AsFound))
    }

    /// How much a class differs from run to run.
    pub(super) fn of_class(&self, class: &str) -> Option<Spread> {
        self.by_class.get(class).copied()
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

/// How far apart the CPUs were in a run, with its id.
fn distance(run: &Outline) -> Option<(&str, f64)> {
    let mut of_pairs = run.headlines.iter().filter(|it| it.metric.as_str() == DISTANCE);
    Some((&run.run.id, of_pairs.find_map(|it| it.value)?))
}

/// How slow each class was in each run, relative to the first of them: the sum of the medians of
/// its cases' steps.
fn by_class<'a>(runs: &[&'a Outline]) -> BTreeMap<&'static str, Vec<(&'a str, f64)>> {
    let mut all: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for pair in runs.windows(2) {
        let key = |it: &Headline| (it.metric.clone(), Params::clone(&it.params));
        let before: BTreeMap<_, _> = pair[0].headlines.iter().map(|it| (key(it), it)).collect();
        let mut steps: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for headline in &pair[1].headlines {
            let sign = slowness(headline.better, headline.unit);
            let step = before.get(&key(headline)).and_then(|before| step(before, headline));
            let class = class(&headline.metric, &headline.params);
            if let Some((class, (sign, step))) = class.zip(sign.zip(step)) {
                steps.entry(class).or_default().push(sign * step);
            }
        }
        let steps = steps.into_iter().filter(|(_, of)| of.len() >= CASES_MIN);
        for (class, step) in steps.filter_map(|(class, of)| Some((class, median(&of)?))) {
            let series = all.entry(class).or_insert_with(|| vec![(&pair[0].run.id, 1.0)]);
            let level = series.last().map_or(1.0, |(_, level)| *level);
            series.push((&pair[1].run.id, level * step.exp()));
        }
    }
    all
}

/// The logarithm of the ratio of two numbers of one stratum.
fn step(before: &Headline, now: &Headline) -> Option<f64> {
    let of = |is_found| Some(now.in_stratum(is_found)?.0 / before.in_stratum(is_found)?.0);
    let ratio: f64 = of(false).or_else(|| of(true))?;
    Some(ratio.ln()).filter(|it| it.is_finite())
}

/// The difference of successive values: the smallest that at most one pair in twenty exceeds, or
/// the largest if there are fewer pairs, and their deviation. Steps at change points are excluded.
/// So are pairs between which the CPUs were moved, and the largest of the pairs that may contain
/// the change in question; both functions are given the index of their second value.
fn apart(
    values: &[f64],
    has_moved: &dyn Fn(usize) -> bool,
    asked_about: &dyn Fn(usize) -> bool,
) -> Option<Pairs> {
    let steps = change_points(values, &STRICTNESS);
    let is_step = |at: usize| steps.iter().any(|step| step.index == at) || has_moved(at);
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
    // Successive pairs share a run. A rank says half as much as all distances do, but is not moved
    // by a few disturbed runs of many.
    let (deviation, freedom) = match distances.len() < RANKED_MIN {
        true => {
            let square = distances.iter().map(|it| it * it).sum::<f64>() / count;
            (square.sqrt(), count.powi(2) / (1.5 * count - 0.5))
        }
        false => (noise / Z_95, 0.55 * count),
    };
    Some(Pairs { noise: noise.exp_m1(), spread: Spread { deviation, freedom } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn(usize) -> bool = |_| false;

    fn apart(values: &[f64], asked_about: &dyn Fn(usize) -> bool) -> Option<Pairs> {
        super::apart(values, &NEVER, asked_about)
    }

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
        let noise = noise_of(&mended, &NEVER);
        assert!(noise < 0.01, "{noise}");
        // A step that is too young to have lasted lies between A and B.
        let young = series(&[(215.0, 8), (300.0, 2)]);
        let all = noise_of(&young, &NEVER);
        let without = noise_of(&young, &|at| at >= 6);
        assert!(all > 0.3 && without < 0.01, "{all} {without}");
    }

    #[test]
    fn the_noise_is_what_one_pair_in_twenty_exceeds() {
        assert_eq!(apart(&[1.0, 1.1, 1.0, 1.1], &NEVER), None, "three pairs");
        let close = |pairs: Option<Pairs>, wanted: f64| {
            let share = pairs.expect("enough pairs").noise;
            assert!((share - wanted).abs() < 1e-9, "{share} is not {wanted}");
        };
        close(apart(&[1.0, 1.1, 1.0, 1.1, 1.0], &NEVER), 0.1);
        // Forty pairs of one per cent, and one of fifty: that one is left aside.
        let mut values: Vec<f64> = (0..41).map(|at| if at % 2 == 0 { 1.0 } else { 1.01 }).collect();
        values.push(1.5);
        close(apart(&values, &NEVER), 0.01);
        close(apart(&values[36..], &NEVER), 0.5);
    }
}
