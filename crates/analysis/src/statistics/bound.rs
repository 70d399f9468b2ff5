//! Differences that are printed as a bound instead of a number (rule 6).

use fathom_record::summary::Summary;

/// The largest relative half width of the interval of a number.
const HALF_WIDTH_MAX: f64 = 0.25;

/// The bound of a difference, printed as "≤ bound": `Some` if the half width of its interval
/// exceeds 25 % of it, or if the interval includes 0. `None` for a number, and without an interval.
///
/// A bound is at least half the interval's width: if by chance the whole interval is near or below
/// 0, its upper limit would claim too much.
#[must_use]
pub fn difference_bound(summary: &Summary) -> Option<f64> {
    let [low, high] = summary.limits()?;
    let includes_zero = low <= 0.0 && high >= 0.0;
    let too_wide = (high - low) / 2.0 > HALF_WIDTH_MAX * summary.median.abs();
    let negative = summary.median <= 0.0;
    (includes_zero || too_wide || negative).then(|| high.max((high - low) / 2.0))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Basis, Interval};

    use super::*;

    fn bound(low: f64, median: f64, high: f64) -> Option<f64> {
        let interval = Some(Interval::new([low, high], 0.95, Basis::Processes));
        difference_bound(&Summary { median, interval, ..Summary::default() })
    }

    #[test]
    fn difference_is_a_number_or_a_bound() {
        // Difference within 25 percent is a number.
        assert_eq!(bound(0.75, 1.0, 1.25), None);
        assert_eq!(bound(9.0, 10.0, 11.0), None);
        // Uncertain difference is a bound.
        assert_eq!(bound(0.5, 1.0, 1.25), Some(1.25));
        assert_eq!(bound(-0.01, 0.1, 0.2), Some(0.2));
        assert_eq!(bound(0.0, 10.0, 10.0), Some(10.0));
        assert_eq!(bound(0.0, 0.0, 0.0), Some(0.0));
        // Bound is at least half the interval.
        assert_eq!(bound(-3.0, -1.0, -0.5), Some(1.25));
        assert!(bound(-1.1, -1.0, -0.9).is_some_and(|bound| (bound - 0.1).abs() < 1e-12));
        assert_eq!(bound(-2.0, -1.0, 0.1), Some(1.05));
    }
}
