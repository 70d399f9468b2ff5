//! The size of a change: the ratio of two medians, with the interval of a seeded bootstrap over
//! processes (rule 27).
//!
//! Processes are drawn, never rounds: rounds of one process are not independent of each other.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::quantile::{median_of_sorted, quantile, sorted_finite};

/// A ratio and its interval; no unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the second sample ÷ that of the first.
    pub ratio: f64,
    /// Lower limit of its 95 % interval.
    pub low: f64,
    /// Upper limit of its 95 % interval.
    pub high: f64,
}

/// The level of its interval.
pub(super) const RATIO_LEVEL: f64 = 0.95;
/// Pairs of samples drawn: the limits then repeat to a few per cent of the interval's width from
/// one seed to the next.
const RESAMPLES: usize = 4_000;

/// The median of `b` ÷ the median of `a`, both being medians of independent processes, with the
/// 95 % percentile interval of a bootstrap (Efron, The Annals of Statistics 7, 1979) drawn by
/// Xoshiro256++ from `seed`. The order of the values does not matter.
///
/// `None` when either has fewer than 2 finite values, the median of `a` is 0, or most samples
/// drawn from it have that median: a ratio to nothing has no size.
#[must_use]
pub fn ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Ratio> {
    let (a, b) = (sorted_finite(a), sorted_finite(b));
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let divided = |b: f64, a: f64| Some(b / a).filter(|ratio| ratio.is_finite());
    let ratio = divided(median_of_sorted(&b)?, median_of_sorted(&a)?)?;

    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut times = vec![0; a.len().max(b.len())];
    let drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let from_a = resampled_median(&a, &mut times, &mut random);
            let from_b = resampled_median(&b, &mut times, &mut random);
            divided(from_b, from_a)
        })
        .collect();
    if drawn.len() < RESAMPLES / 2 {
        return None;
    }
    let drawn = sorted_finite(&drawn);
    let beyond = (1.0 - RATIO_LEVEL) / 2.0;
    Some(Ratio { ratio, low: quantile(&drawn, beyond)?, high: quantile(&drawn, 1.0 - beyond)? })
}

/// The median of as many values as there are, each drawn from all of them. How often each was
/// drawn is counted in `times`: the values are in order already, and need no sorting.
fn resampled_median(sorted: &[f64], times: &mut [u32], random: &mut Xoshiro256PlusPlus) -> f64 {
    let n = sorted.len();
    times[..n].fill(0);
    (0..n).for_each(|_| times[index(random, n)] += 1);
    let (mut at, mut seen) = (0, times[0] as usize);
    let mut of_rank = |rank: usize| {
        while seen <= rank {
            at += 1;
            seen += times[at] as usize;
        }
        sorted[at]
    };
    let lower = of_rank((n - 1) / 2);
    f64::midpoint(lower, of_rank(n / 2))
}

/// A random index below `n`: the high half of a product (Lemire, arXiv 1805.10941). Its bias, n in
/// 2⁶⁴, is far below what any number of resamples could show.
fn index(random: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 10] = [9.8, 10.1, 10.0, 9.9, 10.2, 10.0, 9.7, 10.3, 10.1, 9.9];

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let b = A.map(|v| v * v);
        let first = ratio_of_medians(&A, &b, 7).unwrap();
        assert_eq!(Some(first), ratio_of_medians(&A, &b, 7));
        assert_ne!(Some(first), ratio_of_medians(&A, &b, 8));
    }

    #[test]
    fn doubling_is_found_and_a_sample_against_itself_is_no_change() {
        let doubled = ratio_of_medians(&A, &A.map(|v| 2.0 * v), 1).unwrap();
        assert_eq!(doubled.ratio, 2.0);
        assert!(doubled.low > 1.9 && doubled.low < 2.0 && doubled.high > 2.0 && doubled.high < 2.1);
        let same = ratio_of_medians(&A, &A, 1).unwrap();
        assert!(same.ratio == 1.0 && same.low < 1.0 && same.high > 1.0);
    }

    #[test]
    fn a_ratio_to_nothing_or_from_one_process_is_none() {
        assert_eq!(ratio_of_medians(&[0.0, 0.0, 0.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&[-1.0, 1.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &A, 1), None);
        assert_eq!(ratio_of_medians(&A, &[1.0, f64::NAN], 1), None);
    }
}
