//! Mean and standard deviation. Never a headline, because one outlier shifts a mean by any amount.

/// The arithmetic mean of the finite values, in their unit. `None` without any.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    let mut finite = values.iter().copied().filter(|v| v.is_finite());
    let first = finite.next()?;
    // Summed relative to the first value: the mean of equal values is exact, and small differences
    // of large time stamps keep their precision.
    let (count, sum) = finite.fold((1.0, 0.0), |(n, sum), v| (n + 1.0, sum + (v - first)));
    Some(first + sum / count)
}

/// The sample standard deviation (n − 1) of the finite values, in their unit. `None` below two.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let (count, squares, residue) = values
        .iter()
        .filter(|v| v.is_finite())
        .map(|v| v - centre)
        .fold((0.0, 0.0, 0.0), |(n, squares, sum), d| (n + 1.0, squares + d * d, sum + d));
    // The residue corrects the rounding of the mean (Chan, Golub & LeVeque, The American
    // Statistician 37, 1983).
    let corrected: f64 = squares - residue * residue / count;
    (count >= 2.0).then(|| (corrected.max(0.0) / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_equal_few_or_infinite_values_are_exact() {
        // Equal and too few values are exact.
        assert_eq!((mean(&[0.1; 3]), standard_deviation(&[0.1; 3])), (Some(0.1), Some(0.0)));
        assert_eq!((mean(&[4.0]), standard_deviation(&[4.0])), (Some(4.0), None));
        assert_eq!(mean(&[]), None);
        // Rounding of the mean is corrected.
        // The mean of 0, 2 and 2 is rounded to 2, as only even numbers exist there.
        let deviation = standard_deviation(&[1e16, 1e16 + 2.0, 1e16 + 2.0]).unwrap();
        assert!((deviation - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{deviation}");
        // Values that are not finite are ignored.
        assert_eq!(mean(&[1.0, f64::NAN, 3.0]), Some(2.0));
        assert_eq!(standard_deviation(&[1.0, f64::NEG_INFINITY, 3.0]), Some(2.0_f64.sqrt()));
    }
}
