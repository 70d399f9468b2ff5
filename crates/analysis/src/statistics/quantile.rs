//! Medians and quantiles.
//!
//! Not for quantiles of batches: a percentile of batch means is no percentile of operations
//! (rule 8).

/// A copy of the finite values in ascending order.
pub(crate) fn sorted_finite(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The median of the finite values, in any order. `None` without any.
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

/// The interquartile range ÷ the median of the finite values. `None` without any, or for a median
/// of 0.
#[must_use]
pub fn relative_spread(values: &[f64]) -> Option<f64> {
    let sorted = sorted_finite(values);
    let range = quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?;
    median_of_sorted(&sorted).filter(|median| *median != 0.0).map(|median| range / median.abs())
}

/// The quantile `q` (0 to 1) of values in ascending order, interpolated: type 7 of Hyndman & Fan
/// (The American Statistician 50, 1996), the default of NumPy and R. `None` without values or for a
/// `q` outside 0 to 1.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "quantile needs values in ascending order");
    if sorted.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high) = (sorted[below], sorted[above]);
    let part = position - below as f64;
    // From the nearer end, as NumPy does: rounding then never leaves the range of both values.
    let step = high - low;
    Some(if part < 0.5 { low + step * part } else { high - step * (1.0 - part) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ignores_values_that_are_not_finite() {
        assert_eq!(median(&[f64::NAN, 3.0, f64::INFINITY, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quantile_outside_0_to_1_is_none() {
        assert_eq!(quantile(&[1.0, 2.0], -0.1), None);
        assert_eq!(quantile(&[1.0, 2.0], 1.1), None);
        assert_eq!(quantile(&[1.0, 2.0], f64::NAN), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
