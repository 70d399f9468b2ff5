//! Linear regression by least squares: cost per iteration and fixed overhead (rule 6).
//!
//! Drift uses the Theil–Sen slope instead, which single outliers do not move.

use super::moments::mean;

/// A line fitted by ordinary least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub intercept: f64,
    pub slope: f64,
    /// 0 if y is constant.
    pub r_squared: f64,
    /// With n − 2 degrees of freedom.
    pub slope_standard_error: f64,
}

/// The least-squares line through the points with finite coordinates. `None` below three points
/// (two have no residual and would give a standard error of 0), for equal x, or if `x` and `y`
/// differ in length.
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
    // From the residuals: 1 − r² would cancel for the nearly perfect lines of batch timings.
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
    fn degenerate_points_have_no_line_or_no_correlation() {
        // Too few or vertical points have no line.
        assert_eq!(line(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(line(&[2.0, 2.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(line(&[1.0, 2.0, 3.0], &[1.0, 2.0]), None);
        assert_eq!(line(&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]), None);
        // Constant y has r squared of zero.
        let fit = line(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((fit.slope, fit.r_squared, fit.slope_standard_error), (0.0, 0.0, 0.0));
    }
}
