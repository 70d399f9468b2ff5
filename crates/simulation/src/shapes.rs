//! Distributions of timings, with a median of 0 and a scale of one deviation.

use crate::Source;

/// Draws a series of values.
pub type Draw = fn(&mut Source, usize) -> Vec<f64>;

/// A distribution of independent values with one mode.
pub struct SimulationShape {
    pub name: &'static str,
    pub one: fn(&mut Source) -> f64,
}

pub const OUTLIERS: &str = "normal with one in ten far out on either side";

pub const SHAPES: [SimulationShape; 6] = [
    SimulationShape { name: "normal", one: Source::normal },
    SimulationShape { name: "log-normal", one: |s| s.normal().exp() - 1.0 },
    SimulationShape { name: "heavy-tailed (t2)", one: |s| s.student(2) },
    SimulationShape { name: "t3", one: |s| s.student(3) },
    SimulationShape {
        name: "skewed (exponential)",
        one: |s| -s.uniform().ln() / std::f64::consts::LN_2 - 1.0,
    },
    SimulationShape {
        name: OUTLIERS,
        one: |s| {
            if s.uniform() < 0.1 { 100.0 * s.normal() } else { s.normal() }
        },
    },
];

pub(crate) fn normal(source: &mut Source, count: usize) -> Vec<f64> {
    (0..count).map(|_| source.normal()).collect()
}

/// σ = 1: a sharp left edge and a long right tail.
pub(crate) fn log_normal(source: &mut Source, count: usize) -> Vec<f64> {
    (0..count).map(|_| source.normal().exp() - 1.0).collect()
}

/// Student's t with two degrees of freedom, which has no finite variance.
pub(crate) fn heavy(source: &mut Source, count: usize) -> Vec<f64> {
    (0..count).map(|_| source.student(2)).collect()
}

/// 60 % at one level, 40 % fifteen deviations higher.
pub(crate) fn two_levels(source: &mut Source, count: usize) -> Vec<f64> {
    // The median is the five sixths quantile of the lower level.
    let median = 0.967_421_566_101_701;
    let one = |source: &mut Source| {
        let level = if source.uniform() < 0.6 { 0.0 } else { 15.0 };
        level + source.normal() - median
    };
    (0..count).map(|_| one(source)).collect()
}

/// One in ten is slower by at least 5 deviations, on average by 25.
pub(crate) fn slow_outliers(source: &mut Source, count: usize) -> Vec<f64> {
    // The median is the five ninths quantile of the others.
    let median = 0.139_710_298_881_862_12;
    let one = |source: &mut Source| {
        let slow = source.uniform() < 0.1;
        let value = if slow { 5.0 - 20.0 * source.uniform().ln() } else { source.normal() };
        value - median
    };
    (0..count).map(|_| one(source)).collect()
}

/// AR(1) with normal innovations and correlation `rho`.
pub(crate) fn autoregressive(source: &mut Source, count: usize, rho: f64) -> Vec<f64> {
    let innovation = (1.0 - rho * rho).sqrt();
    let mut state = source.normal();
    let mut next = || {
        let value = state;
        state = rho * value + innovation * source.normal();
        value
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn ar_08(source: &mut Source, count: usize) -> Vec<f64> {
    autoregressive(source, count, 0.8)
}

pub(crate) fn ar_03(source: &mut Source, count: usize) -> Vec<f64> {
    autoregressive(source, count, 0.3)
}

/// Log-normal values whose logarithms are AR(1) with 0.8.
pub(crate) fn log_normal_ar_08(source: &mut Source, count: usize) -> Vec<f64> {
    ar_08(source, count).into_iter().map(|value| value.exp() - 1.0).collect()
}

/// Normal values on a linear trend of ten deviations.
pub(crate) fn drifting(source: &mut Source, count: usize) -> Vec<f64> {
    let last = (count - 1).max(1) as f64;
    (0..count).map(|i| source.normal() + 10.0 * (i as f64 / last - 0.5)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shapes_have_a_median_of_zero() {
        let draws: [(&str, Draw); 8] = [
            ("normal", normal),
            ("log-normal", log_normal),
            ("heavy", heavy),
            ("two levels", two_levels),
            ("outliers", slow_outliers),
            ("alike", ar_08),
            ("skewed alike", log_normal_ar_08),
            ("drifting", drifting),
        ];
        for (name, draw) in draws {
            let mut source = Source::named(1, name);
            let below = |_| draw(&mut source, 40).iter().filter(|v| **v < 0.0).count();
            let below = (0..5_000).map(below).sum::<usize>() as f64 / 200_000.0;
            // The effective number of autocorrelated values is a ninth: 3 deviations are 0.01.
            assert!((below - 0.5).abs() < 0.01, "{name}: {below}");
        }
        for shape in &SHAPES {
            let mut source = Source::named(2, shape.name);
            let below = (0..100_000).filter(|_| (shape.one)(&mut source) < 0.0).count();
            assert!((below as f64 / 1e5 - 0.5).abs() < 0.006, "{}: {below}", shape.name);
        }
    }

    #[test]
    fn autocorrelated_shapes_have_their_correlation() {
        let mut source = Source::new(3);
        let correlation = |values: &[f64]| {
            fathom_analysis::statistics::autocorrelation(values, 1).expect("a long series")
        };
        assert!((correlation(&ar_08(&mut source, 100_000)) - 0.8).abs() < 0.01);
        assert!((correlation(&ar_03(&mut source, 100_000)) - 0.3).abs() < 0.02);
    }
}
