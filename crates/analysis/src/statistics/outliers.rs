//! Outliers by Tukey's fences: counted and shown, never removed (rule 16).

use super::quantile::{quantile, sorted_finite};
use fathom_record::summary::Outliers;

/// Counts the finite values beyond Tukey's fences: mild beyond 1.5 and severe beyond 3
/// interquartile ranges from the nearer quartile, with quartiles of type 7 (Tukey, Exploratory Data
/// Analysis, 1977). A value on a fence is inside.
///
/// If a coarse clock makes both quartiles equal, every other value is a severe outlier: one reason
/// why outliers are not removed.
#[must_use]
pub fn tukey_outliers(values: &[f64]) -> Outliers {
    let sorted = sorted_finite(values);
    let (Some(q1), Some(q3)) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75)) else {
        return Outliers::default();
    };
    let range = q3 - q1;
    let below = |fence: f64| sorted.partition_point(|&v| v < fence) as u64;
    let above = |fence: f64| (sorted.len() - sorted.partition_point(|&v| v <= fence)) as u64;
    let (low_severe, high_severe) = (below(q1 - 3.0 * range), above(q3 + 3.0 * range));
    Outliers {
        low_severe,
        low_mild: below(q1 - 1.5 * range) - low_severe,
        high_mild: above(q3 + 1.5 * range) - high_severe,
        high_severe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_beyond_the_fences() {
        // Outliers are counted by side and severity.
        // Quartiles 2 and 6: mild beyond -4 and 12, severe beyond -10 and 18.
        let values = [-11.0, -5.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 6.0, 13.0, 19.0];
        let counts = tukey_outliers(&values);
        let expected = Outliers { low_severe: 1, low_mild: 1, high_mild: 1, high_severe: 1 };
        assert_eq!(counts, expected);
        // Value on a fence is no outlier.
        // Quartiles 1 and 3: fences at -2 and 6.
        assert_eq!(tukey_outliers(&[-2.0, 1.0, 2.0, 3.0, 6.0]), Outliers::default());
        assert_eq!(tukey_outliers(&[]), Outliers::default());
    }
}
