//! The interval from a single process (rules 15 and 18). It does not include the variation between
//! processes, which is usually larger, and is labelled so.

use super::interval::median_interval;
use super::moments::mean;
use super::series::{block_means, rank_autocorrelation};

/// The fewest blocks, and the smallest effective sample size, with an interval (rule 15).
const BLOCKS_MIN: usize = 6;
/// Blocks need two values to reveal autocorrelation.
const VALUES_MIN: usize = 2 * BLOCKS_MIN;
/// Blocks of a long series: few, so that they are long, but enough for an interval inside their
/// range.
const BLOCKS_MAX: usize = 10;
/// From this length on, a series has more than [`BLOCKS_MIN`] blocks.
const VALUES_LONG: usize = 100;
/// The largest lag-1 autocorrelation of values that count as independent.
const CORRELATION_MAX: f64 = 0.2;

/// The interval of `headline`, the median of the values of one process in order, and its level: by
/// order statistics over the values, or over block means if the lag-1 rank autocorrelation exceeds
/// 0.2. `None` below 12 values, and if their effective sample size is below 6: six blocks would be
/// correlated, and their interval too narrow.
///
/// Block means are distributed around the mean, not the median. For skewed values their interval
/// misses the median: simulated with 1 000 log-normal values (σ = 0.5, ρ = 0.8), it covers 76 %. So
/// the interval is shifted by headline − mean, after which it covers 98 %.
/// docs/evidence/SIMULATION.md has the coverage for other shapes and lengths.
pub(super) fn interval_within(values: &[f64], headline: f64) -> Option<([f64; 2], f64)> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let rho = correlation(values);
    if rho <= CORRELATION_MAX {
        return median_interval(values);
    }
    // Effective sample size (Bayley & Hammersley, Supplement to the J. R. Stat. Soc. 8, 1946, for
    // lag-1 dependence and a long series).
    let independent = (values.len() as f64 * (1.0 - rho) / (1.0 + rho)) as usize;
    if independent < BLOCKS_MIN {
        return None;
    }
    let most = if values.len() < VALUES_LONG { BLOCKS_MIN } else { BLOCKS_MAX };
    let ([low, high], level) = median_interval(&block_means(values, independent.min(most)))?;
    let shift = headline - mean(values)?;
    // The interval always includes the headline.
    Some(([(low + shift).min(headline), (high + shift).max(headline)], level))
}

/// The lag-1 rank autocorrelation, corrected for the bias of −(1 + 4ρ)/n of short series (Marriott
/// & Pope, Biometrika 41, 1954): with 12 values 0.5 appears as 0.25. 0 for equal values.
fn correlation(values: &[f64]) -> f64 {
    let rho = rank_autocorrelation(values, 1).unwrap_or(0.0);
    (rho + (1.0 + 4.0 * rho) / values.len() as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::super::quantile::median;
    use super::*;

    #[test]
    fn interval_needs_values_that_are_independent() {
        // Interval within a run needs twelve values.
        let values = [4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0];
        assert_eq!(interval_within(&values[1..], 3.0), None);
        assert!(interval_within(&values, 3.5).is_some());
        assert!(interval_within(&[7.0; 12], 7.0).is_some(), "equal values are not correlated");
        // Effective sample size below six has no interval.
        // Two levels, first one after the other, then alternating.
        let steps: Vec<f64> = (0..24).map(|i| f64::from(i / 12)).collect();
        assert_eq!(interval_within(&steps, 0.5), None);
        let turns: Vec<f64> = (0..24).map(|i| f64::from(i % 2)).collect();
        assert!(interval_within(&turns, 0.5).is_some());
    }

    #[test]
    fn six_blocks_are_enough_and_a_long_series_has_ten() {
        let level = |count: u32, run: u32| {
            let values: Vec<f64> = (0..count).map(|i| f64::from(i / run % 2)).collect();
            interval_within(&values, 0.5).map(|(_, level)| level)
        };
        // Effective sample sizes of 6.2, 5.5, 6.04 and 5.98.
        let six = Some(1.0 - 2.0 / 64.0);
        assert_eq!([level(16, 3), level(18, 3)], [six, None]);
        assert_eq!([level(27, 4), level(28, 4)], [six, None]);
        // Of 30: ten blocks from 100 values on.
        assert_eq!([level(99, 4), level(100, 4)], [six, Some(1.0 - 2.0 * 11.0 / 1_024.0)]);
    }

    #[test]
    fn autocorrelation_widens_the_interval() {
        let slow = correlated(300, 0.7, &mut Xoshiro256PlusPlus::seed_from_u64(2));
        let shuffled: Vec<f64> = (0..300).map(|i| slow[i * 101 % 300]).collect();
        let width = |values: &[f64]| {
            let ([low, high], level) = interval_within(values, 1.0).unwrap();
            assert!(level >= 0.95);
            high - low
        };
        assert!(width(&slow) > 1.5 * width(&shuffled));
    }

    /// Log-normal values with median 1 and a lag-1 correlation of `rho` between their logarithms.
    fn correlated(count: usize, rho: f64, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut normal = || {
            // The sum of twelve uniform values is nearly normal with a variance of 1.
            let sum: f64 =
                (0..12).map(|_| (random.next_u64() >> 11) as f64 * 2_f64.powi(-53)).sum();
            sum - 6.0
        };
        let mut state = normal();
        (0..count)
            .map(|_| {
                state = rho * state + (1.0 - rho * rho).sqrt() * normal();
                (0.5 * state).exp()
            })
            .collect()
    }

    #[test]
    fn autocorrelated_rounds_keep_their_coverage() {
        // At 0.8, order statistics of the values cover about 60 %, block means that are not shifted
        // to the headline about 90 %.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for rho in [0.0, 0.3, 0.8] {
            let kept = (0..1_000).filter(|_| {
                let values = correlated(300, rho, &mut random);
                let ([low, high], _) = interval_within(&values, median(&values).unwrap()).unwrap();
                low <= 1.0 && 1.0 <= high
            });
            let kept = kept.count() as f64 / 1_000.0;
            assert!(kept >= 0.93, "coverage {kept} at a correlation of {rho}");
        }
    }

    #[test]
    fn burst_leaves_the_median_in_the_interval() {
        let mut values: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i % 3)).collect();
        values[40..50].fill(1_000.0);
        let ([low, high], _) = interval_within(&values, 11.0).unwrap();
        assert!(low <= 11.0 && 11.0 <= high, "{low} to {high}");
    }
}
