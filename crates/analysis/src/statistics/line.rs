//! A straight line by least squares: per-iteration cost and fixed overhead from timings of N and
//! 2N iterations (rule 6).
//!
//! Not for drift, where one bad round must not tilt the answer: that is Theil–Sen's.

use super::moments::mean;

/// A line fitted by ordinary least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where it meets x = 0, in the unit of y.
    pub intercept: f64,
    /// Unit of y per unit of x.
    pub slope: f64,
    /// The share of the variance of y that x explains, 0 to 1; 0 where y does not vary.
    pub r_squared: f64,
    /// Standard error of the slope, in its unit, with n − 2 degrees of freedom.
    pub slope_standard_error: f64,
}

/// The least-squares line through the points whose coordinates are both finite. `None` below
/// three of them, since two have no residual and would claim a standard error of nought; or when
/// they all share one x, or `x` and `y` differ in length.
#[must_use]
pub fn line(x: &[f64], y: &[f64]) -> Option<Line> {
    if x.len() != y.len() {
        return None;
    }
    let finite = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let (x, y): (Vec<f64>, Vec<f64>) =
        x.iter().copied().zip(y.iter().copied()).filter(finite).unzip();
    if x.len() < 3 {
        return None;
    }
    let (mean_x, mean_y) = (mean(&x)?, mean(&y)?);
    let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(&y).map(|(x, y)| term(x - mean_x, y - mean_y)).sum()
    };
    let (xx, yy, xy) = (sum(&|dx, _| dx * dx), sum(&|_, dy| dy * dy), sum(&|dx, dy| dx * dy));
    if xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    // From the residuals themselves: 1 − r² would cancel for the nearly perfect lines that
    // timings of N and 2N iterations make.
    let residual = sum(&|dx, dy| (dy - slope * dx).powi(2));
    Some(Line {
        intercept: mean_y - slope * mean_x,
        slope,
        r_squared: if yy > 0.0 { (1.0 - residual / yy).clamp(0.0, 1.0) } else { 0.0 },
        slope_standard_error: (residual / (x.len() - 2) as f64 / xx).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_line_is_found_without_error() {
        let fit = line(&[1.0, 2.0, 4.0], &[12.0, 14.0, 18.0]).unwrap();
        assert!((fit.slope - 2.0).abs() < 1e-14 && (fit.intercept - 10.0).abs() < 1e-13);
        assert!(fit.r_squared > 1.0 - 1e-14 && fit.slope_standard_error < 1e-13);
    }

    #[test]
    fn points_that_fix_no_line_give_none() {
        assert_eq!(line(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(line(&[2.0, 2.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(line(&[1.0, 2.0, 3.0], &[1.0, 2.0]), None);
        assert_eq!(line(&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn a_level_line_explains_nothing() {
        let fit = line(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((fit.slope, fit.r_squared, fit.slope_standard_error), (0.0, 0.0, 0.0));
    }
}
