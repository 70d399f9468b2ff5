//! The confidence interval of a median by order statistics (rule 15).
//!
//! Exact for independent values of any continuous distribution, because the number of values below
//! the true median is binomial. Values of one process are not independent: see `within_run`.

use statrs::distribution::{ContinuousCDF, Normal};

use super::quantile::sorted_finite;

/// Two order statistics that enclose the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderInterval {
    /// Index in the sorted sample, from 0.
    pub low: usize,
    /// Index in the sorted sample, from 0.
    pub high: usize,
    /// The probability that they enclose the median: at least 0.95 except for 5 values.
    pub level: f64,
}

const LEVEL: f64 = 0.95;
/// The fewest values with an interval; theirs is [min, max] at 93.75 % (rule 15).
const FEWEST: usize = 5;

/// The narrowest symmetric pair of order statistics of `n` values that encloses the median with
/// an exact binomial probability of at least 0.95, or [min, max] for `n` = 5, where that is
/// 0.9375. `None` below 5. (David & Nagaraja, Order Statistics, 3rd ed., § 7.1.)
#[must_use]
pub fn order_interval(n: usize) -> Option<OrderInterval> {
    if n < FEWEST {
        return None;
    }
    // With i of n values below the median, [low, high] encloses it for low < i <= high. The terms
    // are positive and added from the middle outwards, so that nothing overflows, underflows or
    // cancels for large n.
    let mut low = n / 2 - 1;
    let mut term = central_term(n);
    let mut level = if n.is_multiple_of(2) { term } else { 2.0 * term };
    while level < LEVEL && low > 0 {
        term *= (low + 1) as f64 / (n - low) as f64;
        low -= 1;
        level += 2.0 * term;
    }
    Some(OrderInterval { low, high: n - 1 - low, level })
}

/// C(n, ⌊n/2⌋) ÷ 2ⁿ: for even n = 2m the product of (2i − 1) ÷ 2i up to m, and for n − 1 the same.
fn central_term(n: usize) -> f64 {
    (1..=n.div_ceil(2)).map(|i| (2 * i - 1) as f64 / (2 * i) as f64).product()
}

/// The interval of the median of independent values and its actual level. `None` below 5 finite
/// values.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<([f64; 2], f64)> {
    let sorted = sorted_finite(values);
    let interval = order_interval(sorted.len())?;
    Some(([sorted[interval.low], sorted[interval.high]], interval.level))
}

/// The standard error of which an interval of this level is so wide, for normal errors. `None` for
/// a level that no interval has.
#[must_use]
pub fn standard_error([low, high]: [f64; 2], level: f64) -> Option<f64> {
    let level = Some(level).filter(|level| (0.0..=1.0).contains(level))?;
    let deviations = Normal::standard().inverse_cdf((1.0 + level) / 2.0);
    (deviations > 0.0 && deviations.is_finite()).then(|| (high - low) / 2.0 / deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_values_have_no_interval() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, f64::NAN]), None);
    }

    #[test]
    fn standard_error_is_that_of_a_normal_interval() {
        let error = standard_error([-1.959_963_984_540_054, 1.959_963_984_540_054], 0.95).unwrap();
        assert!((error - 1.0).abs() < 1e-9, "{error}");
        for level in [0.0, 1.0, 2.0, -2.0, 1e308, f64::NAN] {
            assert_eq!(standard_error([0.0, 1.0], level), None, "{level}");
        }
    }

    #[test]
    fn interval_level_holds_for_every_size() {
        for n in (6..2_000).chain([9_999, 10_000, 99_999, 100_000]) {
            let interval = order_interval(n).unwrap();
            assert_eq!(interval.low + interval.high, n - 1, "{n} is not symmetric");
            assert!((0.95..0.993).contains(&interval.level), "{n}: {}", interval.level);
        }
    }
}
