//! The Theil–Sen slope: the median of the slopes between all pairs of points (rules 9 and 23).
//!
//! Up to 29 % of the points may be outliers. It does not distinguish a steady drift from a step.

/// A slope and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    pub slope: f64,
    pub low: f64,
    pub high: f64,
}

/// 400 points have 79 800 slopes, which take a millisecond.
const POINTS_MAX: usize = 400;
/// The 97.5 % quantile of the normal distribution.
const DEVIATE_95: f64 = 1.959_963_984_540_054;

/// The Theil–Sen slope of the points with finite coordinates and its 95 % interval (Sen, JASA 63,
/// 1968; as SciPy's `theilslopes`). `None` below two different x, or if `x` and `y` differ in
/// length.
///
/// More than 400 points are thinned to 400 at regular distances, which bounds the cost and widens
/// the interval a little.
#[must_use]
pub fn theil_sen(x: &[f64], y: &[f64]) -> Option<Trend> {
    if x.len() != y.len() {
        return None;
    }
    let points: Vec<(f64, f64)> = x
        .iter()
        .copied()
        .zip(y.iter().copied())
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let points = thinned(points);
    let mut slopes = slopes(&points);
    if slopes.is_empty() {
        return None;
    }
    let (low, high) = limits(slopes.len(), &points);
    let middle = slopes.len() / 2;
    let slope = if slopes.len() % 2 == 1 {
        ranked(&mut slopes, middle)
    } else {
        f64::midpoint(ranked(&mut slopes, middle - 1), ranked(&mut slopes, middle))
    };
    Some(Trend { slope, low: ranked(&mut slopes, low), high: ranked(&mut slopes, high) })
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let last = points.len() - 1;
    (0..POINTS_MAX).map(|i| points[i * last / (POINTS_MAX - 1)]).collect()
}

/// The value of a rank. Four selections are much cheaper than sorting.
fn ranked(values: &mut [f64], rank: usize) -> f64 {
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

/// The slopes between all pairs of points with different x, unordered.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (i, (x0, y0)) in points.iter().enumerate() {
        for (x1, y1) in &points[i + 1..] {
            let slope = (y1 - y0) / (x1 - x0);
            // Infinite or NaN for equal x.
            if slope.is_finite() {
                slopes.push(slope);
            }
        }
    }
    slopes
}

/// The ranks of the limits of the 95 % interval among `slopes` sorted slopes: Sen's equation 2.6,
/// with the variance of Kendall's S corrected for ties in x and y.
fn limits(slopes: usize, points: &[(f64, f64)]) -> (usize, usize) {
    let kendall = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties = |mut values: Vec<f64>| -> f64 {
        values.sort_unstable_by(f64::total_cmp);
        values.chunk_by(|a, b| a == b).map(|tied| kendall(tied.len() as f64)).sum()
    };
    let x_ties = ties(points.iter().map(|p| p.0).collect());
    let y_ties = ties(points.iter().map(|p| p.1).collect());
    // With ties in both, the corrections overlap and may exceed the total.
    let variance = ((kendall(points.len() as f64) - x_ties - y_ties) / 18.0).max(0.0);
    let reach = DEVIATE_95 * variance.sqrt();
    // Half to even, as NumPy rounds.
    let low = ((slopes as f64 - reach) / 2.0).round_ties_even() - 1.0;
    let high = ((slopes as f64 + reach) / 2.0).round_ties_even();
    ((low.max(0.0) as usize).min(slopes - 1), (high as usize).min(slopes - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlier_does_not_change_the_slope() {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|x| 100.0 + 0.5 * x).collect();
        y[19] = 1e6;
        assert_eq!(theil_sen(&x, &y).unwrap().slope, 0.5);
    }

    #[test]
    fn thousands_of_points_keep_their_slope() {
        let x: Vec<f64> = (0..5_000).map(f64::from).collect();
        let y: Vec<f64> = x.iter().map(|x| 3.0 - 0.25 * x).collect();
        assert_eq!(theil_sen(&x, &y).unwrap(), Trend { slope: -0.25, low: -0.25, high: -0.25 });
        let kept = thinned(x.iter().copied().zip(y).collect());
        assert_eq!((kept.len(), kept[0].0, kept[399].0), (400, 0.0, 4_999.0));
    }

    #[test]
    fn few_points_have_the_range_of_slopes_or_none() {
        // Few points have the range of slopes.
        let two = theil_sen(&[1.0, 2.0], &[3.0, 5.0]).unwrap();
        assert_eq!(two, Trend { slope: 2.0, low: 2.0, high: 2.0 });
        let three = theil_sen(&[0.0, 1.0, 2.0], &[0.0, 1.0, 3.0]).unwrap();
        assert_eq!(three, Trend { slope: 1.5, low: 1.0, high: 2.0 });
        let kept = thinned(vec![(1.0, 2.0); POINTS_MAX]);
        assert_eq!(kept.len(), POINTS_MAX);
        // Too few points have no slope.
        assert_eq!(theil_sen(&[], &[]), None);
        assert_eq!(theil_sen(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(theil_sen(&[1.0, 2.0], &[1.0]), None);
    }
}
