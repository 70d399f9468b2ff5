//! The interval of a median by order statistics (rule 15).
//!
//! Exact for independent values of any continuous shape, since it rests only on how many of them
//! fall below the true median: a fair coin. It knows nothing of dependence: values from within
//! one process go through the blocks of `within_run` first.

use super::quantile::sorted_finite;

/// Two order statistics that enclose the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderInterval {
    /// Index of the lower one in the sorted sample, from 0.
    pub low: usize,
    /// Index of the upper one in the sorted sample, from 0.
    pub high: usize,
    /// The probability that they enclose the median: at least 0.95 except for 5 values.
    pub level: f64,
}

/// The level an interval is meant to reach.
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
    // With i of n values below the median, [low, high] encloses it for low < i <= high. Adding
    // the terms from the middle outwards, none of them negative, nothing overflows, underflows
    // or cancels, however large n is.
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

/// The interval of the median of independent values, in their unit, and the level it really has.
/// `None` below 5 finite values.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<([f64; 2], f64)> {
    let sorted = sorted_finite(values);
    let interval = order_interval(sorted.len())?;
    Some(([sorted[interval.low], sorted[interval.high]], interval.level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_ranks_are_those_of_the_method() {
        for (n, low, high, level) in
            [(5, 0, 4, 0.9375), (10, 1, 8, 0.978_515_625), (20, 5, 14, 0.958_610_534_667_968_8)]
        {
            let interval = order_interval(n).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{n} processes");
            assert!((interval.level - level).abs() < 1e-15, "{n} processes: {}", interval.level);
        }
    }

    #[test]
    fn below_five_values_there_is_no_interval() {
        for n in 0..5 {
            assert_eq!(order_interval(n), None);
        }
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, f64::NAN]), None);
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
