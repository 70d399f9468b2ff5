//! Change points in a series of results (rule 30).
//!
//! E-divisive (Matteson & James, Journal of the American Statistical Association 109, 2014) splits
//! the series by energy distance. As in Hunter (Fleming et al., arXiv 2301.03034), Student's t-test
//! replaces the permutation test, because it is faster and deterministic; candidates that are not
//! significant between their final neighbours are removed.

use super::moments::mean;
use super::student::student;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Mean of the segment before.
    pub before: f64,
    /// Mean of the segment after.
    pub after: f64,
    /// Two-sided p value of Student's t-test between both segments, times the number of possible
    /// positions (Bonferroni): the best of many splits of noise looks significant, too.
    pub p: f64,
}

/// Thresholds for a change point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strictness {
    pub p_max: f64,
    /// Smallest change, relative to the level before.
    pub effect_min: f64,
    /// Fewest values in a segment.
    pub stretch_min: usize,
}

/// Splits are accepted provisionally below this p value. The actual limit is applied at the end,
/// when a segment with two changes has been split at both.
const P_TRIED: f64 = 0.2;

/// The change points in a series of finite values, oldest first.
#[must_use]
pub fn change_points(values: &[f64], strictness: &Strictness) -> Vec<ChangePoint> {
    Candidates::of_series(values, strictness).confirmed(&|_, _| false)
}

/// Where a series of finite values may change.
#[derive(Debug)]
pub struct Candidates<'v> {
    values: &'v [f64],
    strictness: Strictness,
    /// The first index, the candidates in ascending order, and the length.
    borders: Vec<usize>,
}

impl<'v> Candidates<'v> {
    #[must_use]
    pub fn of_series(values: &'v [f64], strictness: &Strictness) -> Self {
        let mut borders = vec![0, values.len()];
        let mut open = vec![(0, values.len())];
        while let Some((start, end)) = open.pop() {
            let split = best_split(&values[start..end], stretch(strictness));
            let Some(at) = split.map(|at| start + at) else { continue };
            let sure =
                student(&values[start..at], &values[at..end]).is_some_and(|test| test.p < P_TRIED);
            if sure {
                borders.push(at);
                open.extend([(start, at), (at, end)]);
            }
        }
        borders.sort_unstable();
        Self { values, strictness: *strictness, borders }
    }

    /// The significant ones, oldest first, without those that are explained: a predicate over a
    /// change and the indices at which its segment before begins, the one after begins, and that
    /// one ends.
    #[must_use]
    pub fn confirmed(
        &self,
        is_explained: &dyn Fn(&ChangePoint, [usize; 3]) -> bool,
    ) -> Vec<ChangePoint> {
        let Self { values, strictness, borders } = self;
        let places = (values.len() + 1).saturating_sub(2 * stretch(strictness)) as f64;
        // A change, and whether it is none of those that are wanted.
        let judged = |window: &[usize]| {
            let change = change(values, window, places)?;
            let effect = (change.after / change.before - 1.0).abs();
            let fails = change.p > strictness.p_max
                || effect < strictness.effect_min
                || is_explained(&change, [window[0], window[1], window[2]]);
            Some((change, fails))
        };
        let mut borders = borders.clone();
        let mut changes: Vec<_> = borders.windows(3).map(judged).collect();
        // Remove the weakest first: its neighbours, and only they, then have longer segments.
        loop {
            let all = changes.iter().enumerate();
            let failing = all.filter_map(|(at, it)| Some((at, it.as_ref().filter(|it| it.1)?.0.p)));
            let Some((at, _)) = failing.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            changes.remove(at);
            borders.remove(at + 1);
            for near in at.saturating_sub(1)..changes.len().min(at + 1) {
                changes[near] = judged(&borders[near..near + 3]);
            }
        }
        changes.into_iter().flatten().map(|(change, _)| change).collect()
    }
}

fn stretch(strictness: &Strictness) -> usize {
    strictness.stretch_min.max(2)
}

/// The change at the middle one of three borders.
fn change(values: &[f64], window: &[usize], places: f64) -> Option<ChangePoint> {
    let (before, after) = (&values[window[0]..window[1]], &values[window[1]..window[2]]);
    let p = (student(before, after).map_or(1.0, |test| test.p) * places).min(1.0);
    Some(ChangePoint { index: window[1], before: mean(before)?, after: mean(after)?, p })
}

/// The split with the largest weighted energy distance between both parts. `None` if the series is
/// too short.
fn best_split(values: &[f64], stretch: usize) -> Option<usize> {
    let count = values.len();
    if count < 2 * stretch {
        return None;
    }
    // Sums of distances within both parts and across. Moving one value from the second part to the
    // first changes them by the distances of that value only.
    let sorted = Sorted::from_values(values);
    let to_all: Vec<f64> = (0..count).map(|index| sorted.to_all(index)).collect();
    let mut within_second = to_all.iter().sum::<f64>() / 2.0;
    let (mut within_first, mut across) = (0.0, 0.0);
    let mut first = ChangePointFirst::new(count);
    let mut best: Option<(f64, usize)> = None;
    for split in 1..=count - stretch {
        let (moved, rank) = (sorted.values[split - 1], sorted.ranks[split - 1]);
        let to_first = first.distances_to(moved, rank);
        first.add(moved, rank);
        let to_second = to_all[split - 1] - to_first;
        within_first += to_first;
        within_second -= to_second;
        across += to_second - to_first;
        if split < stretch {
            continue;
        }
        let (n, m) = (split as f64, (count - split) as f64);
        let pairs = |size: f64| size * (size - 1.0) / 2.0;
        let energy = 2.0 * across / (n * m) - within_first / pairs(n) - within_second / pairs(m);
        let weighted = n * m / (n + m) * energy;
        if best.is_none_or(|(most, _)| weighted > most) {
            best = Some((weighted, split));
        }
    }
    best.map(|(_, split)| split)
}

/// Values less their mean, so that sums of them lose few digits, and their order.
struct Sorted {
    values: Vec<f64>,
    /// The rank of each value, from 0.
    ranks: Vec<usize>,
    /// The sum of the values below each rank, and of all.
    below: Vec<f64>,
}

impl Sorted {
    fn from_values(values: &[f64]) -> Self {
        let centre = mean(values).unwrap_or(0.0);
        let values: Vec<f64> = values.iter().map(|value| value - centre).collect();
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        let mut ranks = vec![0; values.len()];
        let mut below = vec![0.0];
        for (rank, index) in order.into_iter().enumerate() {
            ranks[index] = rank;
            below.push(below[rank] + values[index]);
        }
        Self { values, ranks, below }
    }

    /// The sum of the distances of a value to all others.
    fn to_all(&self, index: usize) -> f64 {
        let (value, rank) = (self.values[index], self.ranks[index]);
        let (all, above) = (self.values.len(), self.values.len() - 1 - rank);
        let (below, rest) = (self.below[rank], self.below[all] - self.below[rank + 1]);
        (value * rank as f64 - below) + (rest - value * above as f64)
    }
}

/// The values of the first part by rank: a binary indexed tree (Fenwick, Software: Practice and
/// Experience 24, 1994) of their number and their sum.
struct ChangePointFirst {
    tree: Vec<(f64, f64)>,
    all: (f64, f64),
}

impl ChangePointFirst {
    fn new(ranks: usize) -> Self {
        Self { tree: vec![(0.0, 0.0); ranks + 1], all: (0.0, 0.0) }
    }

    fn add(&mut self, value: f64, rank: usize) {
        self.all = (self.all.0 + 1.0, self.all.1 + value);
        let mut at = rank + 1;
        while at < self.tree.len() {
            let (count, sum) = &mut self.tree[at];
            (*count, *sum) = (*count + 1.0, *sum + value);
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the distances of a value that is not among them.
    fn distances_to(&self, value: f64, rank: usize) -> f64 {
        let (mut count, mut sum) = (0.0, 0.0);
        let mut at = rank;
        while at > 0 {
            count += self.tree[at].0;
            sum += self.tree[at].1;
            at -= at & at.wrapping_neg();
        }
        (value * count - sum) + ((self.all.1 - sum) - value * (self.all.0 - count))
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    const USUAL: Strictness = Strictness { p_max: 0.01, effect_min: 0.01, stretch_min: 3 };

    /// Levels with their lengths, plus normal noise.
    fn series(seed: u64, levels: &[(f64, usize)], deviation: f64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut values = Vec::new();
        for &(level, count) in levels {
            for _ in 0..count {
                // Twelve uniform numbers are close to normal.
                let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                values.push(level + deviation * normal);
            }
        }
        values
    }

    #[test]
    fn split_is_where_all_distances_say() {
        // By the definition: each distance within the parts and across.
        let by_definition = |values: &[f64], stretch: usize| {
            let sum = |a: &[f64], b: &[f64]| -> f64 {
                a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs())).sum()
            };
            let weight = |split: &usize| {
                let (first, second) = values.split_at(*split);
                let (n, m) = (first.len() as f64, second.len() as f64);
                let within = |part: &[f64], n: f64| sum(part, part) / (n * (n - 1.0));
                let energy =
                    2.0 * sum(first, second) / (n * m) - within(first, n) - within(second, m);
                n * m / (n + m) * energy
            };
            let splits = stretch..=values.len() - stretch;
            splits.max_by(|a, b| weight(a).total_cmp(&weight(b)))
        };
        for seed in 0..40 {
            let level = 1e3 + seed as f64;
            let mut values = series(seed, &[(level, 23), (level + 2.0, 31), (level, 9)], 1.0);
            if seed % 2 == 0 {
                // Equal values, too.
                values.iter_mut().for_each(|value| *value = value.round());
            }
            let found = best_split(&values, 3).map(|at| at as f64);
            let expected = by_definition(&values, 3).map(|at| at as f64);
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn removal_looks_at_the_neighbours_only() {
        // Steps that are all explained: each candidate is removed, one by one.
        let levels: Vec<(f64, usize)> = (0..40).map(|at| (1.02_f64.powi(at), 20)).collect();
        let values = series(1, &levels, 1e-3);
        let candidates = Candidates::of_series(&values, &USUAL);
        let judged = std::cell::Cell::new(0);
        let counted = |_: &ChangePoint, _: [usize; 3]| {
            judged.set(judged.get() + 1);
            true
        };
        assert!(candidates.borders.len() > 30 && candidates.confirmed(&counted).is_empty());
        let most = 3 * candidates.borders.len();
        assert!(judged.get() <= most, "{} of at most {most}", judged.get());
    }

    fn places(values: &[f64]) -> Vec<usize> {
        change_points(values, &USUAL).iter().map(|change| change.index).collect()
    }

    #[test]
    fn steps_are_located_with_their_size() {
        let values = series(1, &[(100.0, 20), (110.0, 15), (95.0, 25)], 1.0);
        let changes = change_points(&values, &USUAL);
        assert_eq!(changes.iter().map(|change| change.index).collect::<Vec<_>>(), [20, 35]);
        assert!((changes[0].before - 100.0).abs() < 1.0 && (changes[0].after - 110.0).abs() < 1.0);
        assert!((changes[1].before - 110.0).abs() < 1.0 && (changes[1].after - 95.0).abs() < 1.0);
    }

    #[test]
    fn noise_has_a_change_in_at_most_2_percent() {
        let alarms =
            (0..400).filter(|&seed| !places(&series(seed, &[(100.0, 60)], 2.0)).is_empty());
        let alarms = alarms.count();
        assert!(alarms <= 8, "{alarms} of 400 series of noise have a change");
    }

    #[test]
    fn three_sigma_step_is_located_within_one_run() {
        let found = (0..200).filter(|&seed| {
            let values = series(seed, &[(100.0, 15), (106.0, 15)], 2.0);
            places(&values).iter().any(|place| place.abs_diff(15) <= 1)
        });
        assert!(found.count() >= 180);
    }

    #[test]
    fn significant_but_small_change_is_ignored() {
        let values = series(3, &[(100.0, 30), (100.5, 30)], 0.01);
        assert!(places(&values).is_empty());
        let finer = Strictness { effect_min: 0.001, ..USUAL };
        assert_eq!(change_points(&values, &finer)[0].index, 30);
    }

    #[test]
    fn short_or_constant_series_has_no_change() {
        assert!(places(&[]).is_empty() && places(&[1.0; 5]).is_empty());
        assert!(places(&[7.0; 100]).is_empty());
        let exact: Vec<f64> = [vec![1.0; 10], vec![2.0; 10]].concat();
        assert_eq!(places(&exact), [10]);
    }

    #[test]
    fn split_agrees_with_the_definition() {
        let values = series(5, &[(10.0, 7), (11.0, 9)], 1.0);
        let mean_distance = |a: &[f64], b: &[f64]| {
            let all: f64 = a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs())).sum();
            all / (a.len() * b.len()) as f64
        };
        // Within a sample each value also meets itself: n² pairs become n (n − 1).
        let within = |a: &[f64]| mean_distance(a, a) * a.len() as f64 / (a.len() as f64 - 1.0);
        let weighted = |split: &usize| {
            let (a, b) = values.split_at(*split);
            let (n, m) = (a.len() as f64, b.len() as f64);
            n * m / (n + m) * (2.0 * mean_distance(a, b) - within(a) - within(b))
        };
        let by_definition =
            (2..=values.len() - 2).max_by(|a, b| weighted(a).total_cmp(&weighted(b)));
        assert_eq!(best_split(&values, 2), by_definition);
    }

    /// No single split separates the levels of such a series.
    #[test]
    fn excursion_in_the_middle_is_two_changes() {
        let wobble = |at: usize| 1.0 + 0.003 * (at % 3) as f64;
        let levels = [215.0; 5].into_iter().chain([324.0; 3]).chain([216.0; 4]);
        let values: Vec<f64> = levels.enumerate().map(|(at, level)| level * wobble(at)).collect();
        let found: Vec<usize> =
            change_points(&values, &USUAL).iter().map(|change| change.index).collect();
        assert_eq!(found, [5, 8]);
    }
}
