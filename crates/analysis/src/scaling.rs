//! How a time depends on a parameter: a constant, a line or a power law, where one holds.

use crate::statistics::{line, median};

/// The fewest points: two more than a line has parameters.
const POINTS_MIN: usize = 4;
/// A law holds if no point is further from it, relatively.
const DEVIATION_MAX: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    Constant { value: f64 },
    Line { intercept: f64, slope: f64 },
    Power { factor: f64, exponent: f64 },
}

/// A law with the largest relative deviation of a point from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub law: Law,
    pub deviation: f64,
}

impl Law {
    #[must_use]
    pub fn at(self, x: f64) -> f64 {
        match self {
            Self::Constant { value } => value,
            Self::Line { intercept, slope } => intercept + slope * x,
            Self::Power { factor, exponent } => factor * x.powf(exponent),
        }
    }
}

/// The simplest law of these points, by parameters and then by its deviation. `None` if none
/// holds, below four points, or for values that are not positive.
#[must_use]
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let is_positive = |(x, y): &(f64, f64)| x.is_finite() && *x > 0.0 && y.is_finite() && *y > 0.0;
    if points.len() < POINTS_MIN || !points.iter().all(is_positive) {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let fit = |law: Law| {
        let deviation = |(x, y): &(f64, f64)| (law.at(*x) / y - 1.0).abs();
        Fit { law, deviation: points.iter().map(deviation).fold(0.0, f64::max) }
    };
    let constant = fit(Law::Constant { value: median(&y)? });
    if constant.deviation <= DEVIATION_MAX {
        return Some(constant);
    }
    let logarithms = |values: &[f64]| values.iter().map(|it| it.ln()).collect::<Vec<f64>>();
    let straight = line(&x, &y).map(|it| Law::Line { intercept: it.intercept, slope: it.slope });
    let power = line(&logarithms(&x), &logarithms(&y))
        .map(|it| Law::Power { factor: it.intercept.exp(), exponent: it.slope });
    let fits = [straight, power].into_iter().flatten().map(fit);
    let best = fits.min_by(|a, b| a.deviation.total_cmp(&b.deviation))?;
    (best.deviation <= DEVIATION_MAX).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        [1.0, 2.0, 4.0, 8.0, 16.0].map(|x| (x, law(x))).into()
    }

    #[test]
    fn known_laws_are_found() {
        let found = |law: &dyn Fn(f64) -> f64| fit(&points(law)).map(|fit| fit.law);
        let Some(Law::Line { intercept, slope }) = found(&|x| 5.0 + 3.0 * x) else {
            panic!("no line")
        };
        assert!((intercept - 5.0).abs() < 1e-9 && (slope - 3.0).abs() < 1e-9);
        let Some(Law::Power { factor, exponent }) = found(&|x| 2.0 * x.powf(1.5)) else {
            panic!("no power law")
        };
        assert!((factor - 2.0).abs() < 1e-9 && (exponent - 1.5).abs() < 1e-9);
        assert_eq!(found(&|_| 7.0), Some(Law::Constant { value: 7.0 }));
        assert!(
            matches!(found(&|x| 100.0 / x), Some(Law::Power { exponent, .. }) if exponent < -0.99)
        );
    }

    #[test]
    fn no_law_is_forced_on_other_curves() {
        assert_eq!(fit(&points(|x| if x > 3.0 { 50.0 } else { 10.0 })), None);
        assert_eq!(fit(&points(|x| x - 1.0)), None, "a time of 0");
        assert_eq!(fit(&points(|x| x)[..3]), None, "three points");
        let noisy = points(|x| 3.0 * x * if x == 4.0 { 1.03 } else { 1.0 });
        assert!(fit(&noisy).is_some_and(|fit| fit.deviation > 0.005));
    }
}
