//! The interval where only one process can measure (rules 15 and 18).
//!
//! It says how well this one process knows its own median, and nothing of what the next process
//! would find: most error lies between processes. It is labelled so.

use super::interval::median_interval;
use super::moments::mean;
use super::series::{block_means, rank_autocorrelation};

/// The fewest blocks, and the fewest independent values, with an interval (rule 15).
const BLOCKS_MIN: usize = 6;
/// Below two values a block dependence cannot be seen, and what cannot be seen is not ruled out.
const VALUES_MIN: usize = 2 * BLOCKS_MIN;
/// Blocks of a long series: few, so that they are long; and enough that the interval is not their
/// [min, max].
const BLOCKS_MAX: usize = 10;
/// From so many values on, more than [`BLOCKS_MIN`] blocks are made.
const VALUES_LONG: usize = 100;
/// The lag-1 autocorrelation above which neighbours are not independent.
const CORRELATION_MAX: f64 = 0.2;

/// The interval of `headline`, the median of the values of one process in the order taken, and the
/// level it has: order statistics over the values, or over means of blocks of them when their
/// ranks' lag-1 autocorrelation exceeds 0.2. In the unit of the values. `None` below 12 finite
/// values, and where they are worth fewer than 6 independent ones: six blocks would then depend on
/// each other, and their interval be too narrow.
///
/// Means of blocks lie around the mean, not the median, and for skewed values (most times are)
/// their interval misses the median more often the more values there are: simulated, log-normal
/// values (σ = 0.5, 1 000 of them, ρ = 0.8) keep 76 %. So their distances from the mean are laid
/// around the headline: the same simulation keeps 98 %. docs/SIMULATION.md has how many of each
/// shape and length are kept, and how many have no interval.
pub(super) fn interval_within(values: &[f64], headline: f64) -> Option<([f64; 2], f64)> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let rho = correlation(values);
    if rho <= CORRELATION_MAX {
        return median_interval(values);
    }
    // So many independent values tell as much of the mean as these do (Bayley & Hammersley,
    // Supplement to the J. R. Stat. Soc. 8, 1946, for lag-1 dependence and a long series).
    let independent = (values.len() as f64 * (1.0 - rho) / (1.0 + rho)) as usize;
    if independent < BLOCKS_MIN {
        return None;
    }
    let most = if values.len() < VALUES_LONG { BLOCKS_MIN } else { BLOCKS_MAX };
    let ([low, high], level) = median_interval(&block_means(values, independent.min(most)))?;
    let shift = headline - mean(values)?;
    // The headline itself is never left outside, however the blocks fall.
    Some(([(low + shift).min(headline), (high + shift).max(headline)], level))
}

/// The lag-1 autocorrelation of the ranks, without the bias of a short series, (1 + 4ρ)/n downwards
/// (Marriott & Pope, Biometrika 41, 1954), which at 12 values makes 0.5 look like 0.25. Equal
/// values have none.
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
    fn below_twelve_values_one_process_has_no_interval() {
        let values = [4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0];
        assert_eq!(interval_within(&values[1..], 3.0), None);
        assert!(interval_within(&values, 3.5).is_some());
        assert!(interval_within(&[7.0; 12], 7.0).is_some(), "equal values do not hang together");
    }

    #[test]
    fn rounds_worth_fewer_than_six_have_no_interval() {
        // Twenty-four rounds in two levels, and the same in turn.
        let steps: Vec<f64> = (0..24).map(|i| f64::from(i / 12)).collect();
        assert_eq!(interval_within(&steps, 0.5), None);
        let turns: Vec<f64> = (0..24).map(|i| f64::from(i % 2)).collect();
        assert!(interval_within(&turns, 0.5).is_some());
    }

    #[test]
    fn neighbours_that_hang_together_widen_the_interval() {
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
    fn autocorrelated_rounds_keep_their_coverage() {
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
    fn burst_leaves_the_median_in_the_interval() {
        let mut values: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i % 3)).collect();
        values[40..50].fill(1_000.0);
        let ([low, high], _) = interval_within(&values, 11.0).unwrap();
        assert!(low <= 11.0 && 11.0 <= high, "{low} to {high}");
    }
}
