//! Medians and quantiles: the order of the values and nothing else.
//!
//! Not for batches: a percentile of batch means is no percentile of operations (rule 8).

/// A copy of the finite values in ascending order.
pub(crate) fn sorted_finite(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The median of the values, in their unit and in any order; of an even number, the middle of the
/// two in the middle. `None` without a finite value.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted_finite(values))
}

/// The median of values already in ascending order.
pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

/// The quantile `q` (0 to 1) of values in ascending order, in their unit: linear between the two
/// nearest order statistics, type 7 of Hyndman & Fan (The American Statistician 50, 1996), the
/// default of NumPy and R. `None` without values or for a `q` outside 0 to 1.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "quantile wants its values in ascending order");
    if sorted.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high) = (sorted[below], sorted[above]);
    let part = position - below as f64;
    // From the nearer end, as NumPy does: the result is then exact at both ends and never
    // leaves the range between them by rounding.
    let step = high - low;
    Some(if part < 0.5 { low + step * part } else { high - step * (1.0 - part) })
}

/// The values a tail must hold before a quantile is printed (rule 8): 10.
///
/// 1 − 0.9999 is a little less than 0.0001 in binary: 100 000 values must still do for it.
pub(super) const TAIL_VALUES: f64 = 10.0 * (1.0 - 1e-9);

/// [`quantile`], but only where the values can carry it: `None` unless n(1 − q) ≥ 10, so a p99
/// wants 1 000 values and a p99.9 wants 10 000 (rule 8).
#[must_use]
pub fn printable_quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let tail = sorted.len() as f64 * (1.0 - q);
    if tail >= TAIL_VALUES { quantile(sorted, q) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_needs_ten_values_beyond_it() {
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        for (q, needed) in [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000)] {
            assert!(printable_quantile(&values[..needed], q).is_some(), "{q} of {needed}");
            assert!(printable_quantile(&values[..needed - 1], q).is_none(), "{q} of {needed}-1");
        }
        assert!(printable_quantile(&values, 0.9999).is_some());
        assert!(printable_quantile(&values[..99_999], 0.9999).is_none());
    }

    #[test]
    fn a_value_that_is_no_number_does_not_move_the_median() {
        assert_eq!(median(&[f64::NAN, 3.0, f64::INFINITY, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_quantile_outside_nought_to_one_is_none() {
        assert_eq!(quantile(&[1.0, 2.0], -0.1), None);
        assert_eq!(quantile(&[1.0, 2.0], 1.1), None);
        assert_eq!(quantile(&[1.0, 2.0], f64::NAN), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
