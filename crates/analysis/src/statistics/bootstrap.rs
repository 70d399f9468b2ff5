//! The ratio of two medians with a seeded bootstrap interval over processes (rule 27).
//!
//! Processes are resampled, never rounds: rounds of one process are not independent.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::quantile::{median_of_sorted, quantile, sorted_finite};

/// A ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the second sample ÷ that of the first.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Its 90 % interval, for two one-sided tests of equivalence at 5 % each.
    pub equivalence: [f64; 2],
}

impl Ratio {
    /// The ratio with an independent error whose 95 % half width is this share.
    #[must_use]
    pub fn with_error(self, share: f64) -> Self {
        let Self { ratio, low, high, equivalence } = self;
        let wider = |[low, high]: [f64; 2], error: f64| {
            let [below, above] = [ratio / low, high / ratio].map(|it| it.ln().hypot(error).exp());
            [ratio / below, ratio * above]
        };
        let [low, high] = wider([low, high], share);
        Self { ratio, low, high, equivalence: wider(equivalence, share * Z_90 / Z_95) }
    }
}

/// Half-widths of 90 % and 95 % intervals in standard errors.
pub(crate) const Z_90: f64 = 1.645;
pub(crate) const Z_95: f64 = 1.960;

pub(super) const RATIO_LEVEL: f64 = 0.95;
/// The level at which both ends within a margin are two one-sided tests at 5 % (Schuirmann, Journal
/// of Pharmacokinetics and Biopharmaceutics 15, 1987).
const EQUIVALENCE_LEVEL: f64 = 0.90;
/// Pairs of samples drawn: the limits then repeat to a few per cent of the interval's width from
/// one seed to the next.
const RESAMPLES: usize = 4_000;

/// The median of `b` ÷ the median of `a`, both being medians of independent processes, with the
/// percentile intervals of a bootstrap (Efron, The Annals of Statistics 7, 1979) drawn by
/// Xoshiro256++ from `seed`. The order of the values does not matter.
///
/// `None` if either has fewer than 2 finite values, or if the median of `a` or of most of its
/// resamples is 0.
#[must_use]
pub fn ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Ratio> {
    ratio_to_runs(&[a.to_vec()], b, seed)
}

/// The same against several runs: the median of `b` ÷ the median of all processes of the runs. Runs
/// are resampled first, then processes within each, so that the interval includes the variation
/// between runs (Davison & Hinkley, Bootstrap Methods and their Application, § 3.8).
#[must_use]
pub fn ratio_to_runs(runs: &[Vec<f64>], b: &[f64], seed: u64) -> Option<Ratio> {
    let (a, b) = (BootstrapRuns::from_runs(runs), BootstrapRuns::from_runs(&[b.to_vec()]));
    if a.sorted.len() < 2 || b.sorted.len() < 2 {
        return None;
    }
    let divided = |of_b: f64, of_a: f64| Some(of_b / of_a).filter(|ratio| ratio.is_finite());
    let ratio = divided(median_of_sorted(&b.sorted)?, median_of_sorted(&a.sorted)?)?;

    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut times = vec![0; a.sorted.len().max(b.sorted.len())];
    let drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let from_a = a.resampled_median(&mut times, &mut random);
            let from_b = b.resampled_median(&mut times, &mut random);
            divided(from_b, from_a)
        })
        .collect();
    if drawn.len() < RESAMPLES / 2 {
        return None;
    }
    let drawn = sorted_finite(&drawn);
    let [low, high] = limits(&drawn, RATIO_LEVEL)?;
    Some(Ratio { ratio, low, high, equivalence: limits(&drawn, EQUIVALENCE_LEVEL)? })
}

fn limits(drawn: &[f64], level: f64) -> Option<[f64; 2]> {
    let beyond = (1.0 - level) / 2.0;
    Some([quantile(drawn, beyond)?, quantile(drawn, 1.0 - beyond)?])
}

/// The process medians of some runs.
struct BootstrapRuns {
    sorted: Vec<f64>,
    /// For each run with values, their indices in `sorted`.
    places: Vec<Vec<usize>>,
}

impl BootstrapRuns {
    fn from_runs(runs: &[Vec<f64>]) -> Self {
        let mut all: Vec<(f64, usize)> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            all.extend(sorted_finite(run).into_iter().map(|value| (value, number)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places = vec![Vec::new(); runs.len()];
        for (place, (_, number)) in all.iter().enumerate() {
            places[*number].push(place);
        }
        places.retain(|run| !run.is_empty());
        Self { sorted: all.into_iter().map(|(value, _)| value).collect(), places }
    }

    /// The median of one resample: runs with replacement, then values of each with replacement.
    /// `times` counts how often each value was drawn; the values are sorted already, so that the
    /// median needs no sorting.
    fn resampled_median(&self, times: &mut [u32], random: &mut Xoshiro256PlusPlus) -> f64 {
        times[..self.sorted.len()].fill(0);
        let mut drawn = 0;
        for first in &self.places {
            let run = match self.places.len() {
                1 => first,
                runs => &self.places[index(random, runs)],
            };
            run.iter().for_each(|_| times[run[index(random, run.len())]] += 1);
            drawn += run.len();
        }
        let (mut at, mut seen) = (0, times[0] as usize);
        let mut of_rank = |rank: usize| {
            while seen <= rank {
                at += 1;
                seen += times[at] as usize;
            }
            self.sorted[at]
        };
        let lower = of_rank((drawn - 1) / 2);
        f64::midpoint(lower, of_rank(drawn / 2))
    }
}

/// A random index below `n`: the high half of a product (Lemire, arXiv 1805.10941). Its bias of
/// n ÷ 2⁶⁴ is negligible.
pub(crate) fn index(random: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 10] = [9.8, 10.1, 10.0, 9.9, 10.2, 10.0, 9.7, 10.3, 10.1, 9.9];

    #[test]
    fn error_widens_a_ratio_in_logarithms() {
        let exact = Ratio { ratio: 2.0, low: 2.0, high: 2.0, equivalence: [2.0; 2] };
        assert_eq!(exact.with_error(0.0), exact);
        let wide = exact.with_error(0.1);
        assert!((wide.high / 2.0 - 0.1_f64.exp()).abs() < 1e-12, "{wide:?}");
        assert!((2.0 / wide.low - 0.1_f64.exp()).abs() < 1e-12, "{wide:?}");
        assert!(wide.equivalence[1] < wide.high && wide.equivalence[1] > 2.0, "{wide:?}");
        let both = Ratio { high: 2.0 * 0.1_f64.exp(), ..exact }.with_error(0.1);
        assert!((both.high / 2.0 - (0.1 * 2.0_f64.sqrt()).exp()).abs() < 1e-12, "{both:?}");
    }

    #[test]
    fn bootstrap_interval_depends_on_the_seed() {
        let b = A.map(|v| v * v);
        let first = ratio_of_medians(&A, &b, 7).unwrap();
        assert_eq!(Some(first), ratio_of_medians(&A, &b, 7));
        assert_ne!(Some(first), ratio_of_medians(&A, &b, 8));
    }

    #[test]
    fn spread_between_runs_widens_the_interval() {
        let width = |runs: &[Vec<f64>]| {
            let ratio = ratio_to_runs(runs, &A, 7).unwrap();
            ratio.high - ratio.low
        };
        let shifted = |by: f64| A.map(|value| value * by).to_vec();
        let one = width(&[shifted(1.0)]);
        assert!(width(&[shifted(1.0), shifted(1.0), shifted(1.0)]) < one);
        assert!(width(&[shifted(0.9), shifted(1.0), shifted(1.1)]) > 3.0 * one);
        assert_eq!(ratio_to_runs(&[A.to_vec(), vec![]], &A, 7), ratio_of_medians(&A, &A, 7));
    }

    #[test]
    fn ratio_to_zero_or_of_one_process_is_none() {
        assert_eq!(ratio_of_medians(&[0.0, 0.0, 0.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&[-1.0, 1.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&A, &[1.0, f64::NAN], 1), None);
    }
}
