//! The interval where only one process can measure (rules 15 and 18).
//!
//! It says how well this one process knows its own median, and nothing of what the next process
//! would find: most error lies between processes. It is labelled so.

use super::interval::median_interval;
use super::moments::mean;
use super::series::{autocorrelation, block_means};

/// The fewest values, and the fewest blocks, with an interval.
const BLOCKS_MIN: usize = 6;
/// Blocks of a long series: few, so that they are long; and enough that the interval is not their
/// [min, max].
const BLOCKS: usize = 10;
/// From so many values on, [`BLOCKS`] are made; below, [`BLOCKS_MIN`].
const VALUES_LONG: usize = 100;
/// The lag-1 autocorrelation above which neighbours are not independent.
const CORRELATION_MAX: f64 = 0.2;

/// The interval of `headline`, the median of the values of one process in the order taken, and the
/// level it has: order statistics over the values, or over means of blocks of them when their
/// lag-1 autocorrelation exceeds 0.2. In the unit of the values. `None` below 6 finite values.
///
/// Means of blocks lie around the mean, not the median, and for skewed values (most times are)
/// their interval misses the median more often the more values there are: simulated, log-normal
/// values (σ = 0.5, 1 000 of them, ρ = 0.8) keep 76 %. So their distances from the mean are laid
/// around the headline: the same simulation keeps 98 %, and every shape, length from 100 up and
/// ρ up to 0.8 tried 93 % or more. Below 100 values strong correlation cannot be made good: at 50
/// values and ρ = 0.8, 92 % is kept.
pub(super) fn interval_within(values: &[f64], headline: f64) -> Option<([f64; 2], f64)> {
    if values.len() < BLOCKS_MIN {
        return None;
    }
    let dependent = autocorrelation(values, 1).is_some_and(|rho| rho > CORRELATION_MAX);
    // Below two values a block there are no blocks; so few values cannot show dependence either.
    if !dependent || values.len() < 2 * BLOCKS_MIN {
        return median_interval(values);
    }
    let blocks = if values.len() < VALUES_LONG { BLOCKS_MIN } else { BLOCKS };
    let ([low, high], level) = median_interval(&block_means(values, blocks))?;
    let shift = headline - mean(values)?;
    // The headline itself is never left outside, however the blocks fall.
    Some(([(low + shift).min(headline), (high + shift).max(headline)], level))
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::super::quantile::median;
    use super::*;

    #[test]
    fn below_six_values_one_process_has_no_interval() {
        assert_eq!(interval_within(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0), None);
        assert!(interval_within(&[4.0, 1.0, 5.0, 2.0, 6.0, 3.0], 3.5).is_some());
    }

    #[test]
    fn neighbours_that_hang_together_widen_the_interval() {
        let slow: Vec<f64> = (0..300).map(|i| (f64::from(i) / 20.0).sin()).collect();
        let shuffled: Vec<f64> = (0..300).map(|i| slow[i * 101 % 300]).collect();
        let width = |values: &[f64]| {
            let ([low, high], level) = interval_within(values, 0.0).unwrap();
            assert!(level >= 0.95);
            high - low
        };
        assert!(width(&slow) > 3.0 * width(&shuffled));
    }

    /// Log-normal values with median 1 and a lag-1 correlation of `rho` between their logarithms.
    fn correlated(count: usize, rho: f64, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut normal = || {
            // Twelve uniform values have a variance of one, and a sum that is normal enough.
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
    fn the_interval_holds_the_median_although_rounds_hang_together_and_are_skewed() {
        // At 0.8, order statistics of the values themselves keep some 60 %, and means of blocks
        // that are not laid around the headline some 90 %.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for rho in [0.0, 0.3, 0.8] {
            let kept = (0..1_000).filter(|_| {
                let values = correlated(300, rho, &mut random);
                let ([low, high], _) = interval_within(&values, median(&values).unwrap()).unwrap();
                low <= 1.0 && 1.0 <= high
            });
            let kept = kept.count() as f64 / 1_000.0;
            assert!(kept >= 0.93, "at a correlation of {rho} only {kept} is kept");
        }
    }

    #[test]
    fn one_long_burst_does_not_push_the_interval_off_the_headline() {
        let mut values: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i % 3)).collect();
        values[40..50].fill(1_000.0);
        let ([low, high], _) = interval_within(&values, 11.0).unwrap();
        assert!(low <= 11.0 && 11.0 <= high, "{low} to {high}");
    }
}
