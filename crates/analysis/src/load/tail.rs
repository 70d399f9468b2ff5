//! Intervals of quantiles and of shares.

use crate::statistics::student_limit;

/// The fewest batches with an interval.
const BATCHES_MIN: usize = 5;
/// Fewer requests beyond the limit of a quantile leave it open.
const BEYOND_MIN: f64 = 1.0;
/// Two-sided, 95 %.
const TAIL: f64 = 0.025;
/// Of the normal distribution.
const Z: f64 = 1.959_964;

/// The limits of a quantile at 95 %, as quantiles of the same timings: the upper one is absent if
/// too few timings are beyond it.
///
/// Timings of a load depend on each other: a slow moment delays many requests. So the share beyond
/// the quantile is compared between batches. Its variance ÷ that of independent timings is by how
/// much fewer independent timings there are (the design effect of survey sampling; Kish, 1965).
/// The interval of the share is Wilson's, with Student's t for the batches.
///
/// `batches`: timings at the quantile or beyond it, and all.
#[must_use]
pub fn quantile_limits(q: f64, batches: &[(u64, u64)]) -> Option<(f64, Option<f64>)> {
    let batches: Vec<(f64, f64)> =
        batches.iter().filter(|it| it.1 > 0).map(|it| (it.0 as f64, it.1 as f64)).collect();
    let (beyond, all) = batches.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    if batches.len() < BATCHES_MIN {
        return None;
    }
    let share = beyond / all;
    let freedom = batches.len() as f64 - 1.0;
    let deviations = batches.iter().map(|(over, of)| (over - share * of).powi(2) / of);
    let effect = deviations.sum::<f64>() / freedom / (share * (1.0 - share));
    // Not a number if all are beyond it, or none.
    let [low, high] = wilson(1.0 - q, all / effect.max(1.0), student_limit(TAIL, freedom)?);
    Some((1.0 - high, (low * all >= BEYOND_MIN).then_some(1.0 - low)))
}

/// The limits of a share of independent events at 95 %.
#[must_use]
pub fn share_limits(share: f64, all: f64) -> [f64; 2] {
    wilson(share, all, Z)
}

/// Wilson's interval of a share, which is never empty (Wilson, 1927).
fn wilson(share: f64, all: f64, limit: f64) -> [f64; 2] {
    let square = limit * limit;
    // The smaller root by their product: a difference would not be exactly 0 of none.
    let low = |share: f64| {
        let middle = share + square / (2.0 * all);
        let half = limit * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
        share * share / (middle + half)
    };
    [low(share), 1.0 - low(1.0 - share)]
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn shares_have_the_interval_of_wilson() {
        // R: prop.test(10, 1000, correct = FALSE), and z² ÷ (n + z²).
        let near = |found: [f64; 2], expected: [f64; 2]| {
            found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
        };
        assert!(near(share_limits(0.01, 1000.0), [0.005_441, 0.018_309]));
        assert!(near(share_limits(0.0, 1000.0), [0.0, 0.003_827]));
        for all in 1..1000 {
            let all = f64::from(all);
            assert_eq!((share_limits(0.0, all)[0], share_limits(1.0, all)[1]), (0.0, 1.0));
        }
    }

    #[test]
    fn dependent_timings_have_a_wider_interval() {
        let even = quantile_limits(0.99, &[(10, 1_000); 10]).expect("ten batches");
        let bursts: [(u64, u64); 10] =
            std::array::from_fn(|at| (if at == 0 { 100 } else { 0 }, 1_000));
        let burst = quantile_limits(0.99, &bursts).expect("ten batches");
        assert!(even.0 > 0.986 && even.1.is_some_and(|high| high < 0.994), "{even:?}");
        assert!(burst.0 < 0.95, "{burst:?}");
        assert!(burst.1.is_some_and(|high| high > 0.998), "{burst:?}");
        // 100 requests have one beyond the 99th percentile: its upper limit is open.
        let few = quantile_limits(0.99, &[(1, 20), (0, 20), (0, 20), (0, 20), (0, 20)]);
        assert!(few.is_some_and(|(low, high)| low < 0.99 && high.is_none()), "{few:?}");
        assert_eq!(quantile_limits(0.9, &[(1, 10); 4]), None);
        // Ties: all timings are at the quantile.
        let ties = quantile_limits(0.9, &[(100, 100); 10]);
        assert!(ties.is_some_and(|(low, high)| low > 0.85 && high < Some(0.93)), "{ties:?}");
    }

    /// Bursts that slow whole batches, and independent requests: the quantile is in its interval.
    #[test]
    fn interval_of_a_quantile_keeps_its_level() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut uniform = || (random.next_u64() >> 11) as f64 * 2_f64.powi(-53);
        for (bursts, slow) in [(1.0, 0.05), (0.5, 0.1)] {
            let mut kept = 0;
            for _ in 0..1_000 {
                // Slow requests: 5 % of all, in each batch or in every other one.
                let mut batch = || {
                    let share = if uniform() < bursts { slow } else { 0.0 };
                    (0..500).filter(|_| uniform() < share).count() as u64
                };
                let batches: [u64; 10] = std::array::from_fn(|_| batch());
                // All others are of equal length, and so are the slow ones.
                let all_slow: u64 = batches.iter().sum();
                let found = batches.map(|slow| (slow, 500));
                let (low, high) = quantile_limits(0.95, &found).expect("ten batches");
                let beyond = all_slow as f64 / 5_000.0;
                // The true quantile is at the edge: it is kept if neither limit excludes it.
                let is_kept = 1.0 - beyond >= low && high.is_none_or(|high| 1.0 - beyond <= high);
                kept += u32::from(is_kept);
            }
            assert!(kept >= 900, "{kept} of 1 000 with bursts of {bursts}");
        }
    }
}
