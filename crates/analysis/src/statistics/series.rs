//! Autocorrelation and block means of the values of one process, in the order measured (rule 18).

use super::moments::mean;
use super::quantile::sorted_finite;

/// The autocorrelation of the finite values at `lag`, as R's `acf`. `None` for fewer than `lag` + 2
/// values, and for equal ones.
#[must_use]
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.len() < lag.checked_add(2)? {
        return None;
    }
    let centre = mean(&finite)?;
    let deviations: Vec<f64> = finite.iter().map(|v| v - centre).collect();
    let squares: f64 = deviations.iter().map(|d| d * d).sum();
    let products: f64 = deviations.iter().zip(&deviations[lag..]).map(|(a, b)| a * b).sum();
    (squares > 0.0).then(|| products / squares)
}

/// [`autocorrelation`] of the ranks of the values: like a median, robust to a burst or a tail.
#[must_use]
pub fn rank_autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    autocorrelation(&ranks(values), lag)
}

/// The ranks of the finite values, from 1, in the order of the values. Ties have their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let sorted = sorted_finite(&finite);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|v| v < value);
        let not_above = sorted.partition_point(|v| v <= value);
        (below + 1 + not_above) as f64 / 2.0
    };
    finite.iter().map(rank).collect()
}

/// The means of `blocks` consecutive blocks of the finite values. The lengths of the blocks differ
/// by at most one. With fewer values than blocks, each value is a block.
#[must_use]
pub fn block_means(values: &[f64], blocks: usize) -> Vec<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let blocks = blocks.min(finite.len());
    let start = |block: usize| block * finite.len() / blocks;
    (0..blocks).filter_map(|b| mean(&finite[start(b)..start(b + 1)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_no_autocorrelation() {
        assert_eq!(autocorrelation(&[0.1; 50], 1), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], 1), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], usize::MAX), None);
    }

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(ranks(&[30.0, 10.0, f64::NAN, 20.0, 10.0]), [4.0, 1.5, 3.0, 1.5]);
    }

    #[test]
    fn blocks_use_every_value_once() {
        assert_eq!(block_means(&[1.0, 3.0, 5.0, 7.0, 9.0], 2), [2.0, 7.0]);
        assert_eq!(block_means(&[1.0, 2.0], 6), [1.0, 2.0]);
        assert!(block_means(&[1.0], 0).is_empty());
        assert!(block_means(&[], 6).is_empty());
    }
}
