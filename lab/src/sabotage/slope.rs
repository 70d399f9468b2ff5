//! A known answer: the slope of measured on injected work must be 1, at full speed and as found.

use anyhow::Result;
use fathom_analysis::statistics::median;
use fathom_lab::seeded::Seeded;
use fathom_record::{Record, Summary};

use super::guard::NoGuard;
use super::program::{Bench, Launch, RunResult};

const METRIC: &str = "cpu.call";
/// Injected work in per cent.
const DOSES: [f64; 5] = [0.0, 5.0, 10.0, 15.0, 20.0];
/// Maximum standard error of the slope, and the repeats until it is reached.
const ERROR_MAX: f64 = 0.02;
const REPEATS: std::ops::RangeInclusive<usize> = 8..=20;
/// Maximum distance of the slope from 1.
const OFF_MAX: f64 = 0.05;

/// A line with the standard error of its slope.
#[derive(Debug)]
struct Line {
    slope: f64,
    error: f64,
    at_0: f64,
}

/// Dose and median of a stratum for each run in which every case has one.
struct Points {
    stratum: &'static str,
    median_of: fn(&Summary) -> Option<f64>,
    points: Vec<(f64, f64)>,
}

impl Points {
    fn of_both_strata() -> [Self; 2] {
        let full_speed = |summary: &Summary| Some(summary.full_speed.as_ref()?.median);
        let as_found = |summary: &Summary| Some(summary.as_found.as_ref()?.median);
        [
            Self { stratum: "at full speed", median_of: full_speed, points: Vec::new() },
            Self { stratum: "as found", median_of: as_found, points: Vec::new() },
        ]
    }

    /// Adds the geometric mean of the cases.
    fn add(&mut self, run: &RunResult, dose: f64) {
        let log = |record: &Record| (self.median_of)(record.summary.as_ref()?).map(f64::ln);
        let logs: Option<Vec<f64>> = run.of_metric(METRIC).map(log).collect();
        let Some(logs) = logs.filter(|logs| !logs.is_empty()) else { return };
        self.points.push((dose, (logs.iter().sum::<f64>() / logs.len() as f64).exp()));
    }

    fn line(&self) -> Option<Line> {
        fit_relative(&medians_by_dose(&self.points))
    }

    fn is_precise(&self) -> bool {
        self.line().is_some_and(|line| line.error <= ERROR_MAX)
    }

    /// The result as text, and whether it is right.
    fn judge(&self) -> (String, bool) {
        let Self { stratum, points, .. } = self;
        let Some(line) = self.line() else {
            return (format!("{stratum}: no line through {} runs", points.len()), false);
        };
        let right = (line.slope - 1.0).abs() <= OFF_MAX && self.is_precise();
        let text = format!(
            "{stratum}: slope of measured on injected {:.3} ± {:.3} (standard error) over {} \
             runs, {:.4} ns without: {}",
            line.slope,
            line.error,
            points.len(),
            line.at_0,
            match (right, self.is_precise()) {
                (true, _) => "right",
                (false, true) => "wrong",
                (false, false) => "inconclusive",
            }
        );
        (text, right)
    }
}

/// Measures both strata; returns the result as text, and whether both are right.
pub(super) fn measure(bench: &Bench, random: &mut Seeded) -> Result<(String, bool)> {
    let mut strata = Points::of_both_strata();
    for repeat in 1..=*REPEATS.end() {
        for index in random.shuffled(DOSES.len()) {
            let dose = format!("{METRIC}={}%", DOSES[index]);
            let environment = vec![("FATHOM_SPIN".to_owned(), dose)];
            let launch = Launch { environment, ..Launch::default() };
            bench.settle();
            let run = bench.run(METRIC, &launch, &mut NoGuard)?;
            strata.iter_mut().for_each(|points| points.add(&run, DOSES[index] / 100.0));
        }
        if REPEATS.contains(&repeat) && strata.iter().all(Points::is_precise) {
            break;
        }
    }
    let [full_speed, as_found] = strata.map(|points| points.judge());
    let text = format!("injected spin, {}.\nInjected spin, {}", full_speed.0, as_found.0);
    Ok((text, full_speed.1 && as_found.1))
}

/// The median of each dose, which an outlier does not move.
fn medians_by_dose(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let of = |dose: f64| {
        let values = points.iter().filter(|(x, _)| *x == dose);
        let values: Vec<f64> = values.map(|(_, y)| *y).collect();
        median(&values).map(|y| (dose, y))
    };
    DOSES.iter().filter_map(|dose| of(dose / 100.0)).collect()
}

/// Least squares; the slope is relative to the value at dose 0.
fn fit_relative(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0 / n, sum.1 + one.1 / n));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xx = sum(&|(x, _)| (x - mean_x).powi(2));
    let slope = sum(&|(x, y)| (x - mean_x) * (y - mean_y)) / xx;
    let at_0 = mean_y - slope * mean_x;
    let residual = sum(&|(x, y)| (y - at_0 - slope * x).powi(2));
    let error = (residual / (n - 2.0) / xx).sqrt();
    (n > 2.0 && xx > 0.0).then(|| Line { slope: slope / at_0, error: error / at_0, at_0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlier_does_not_move_a_dose() {
        let points = [(0.0, 2.0), (0.05, 3.0), (0.0, 9.0), (0.0, 2.1), (0.05, 3.0)];
        assert_eq!(medians_by_dose(&points), [(0.0, 2.1), (0.05, 3.0)]);
    }

    #[test]
    fn slope_and_standard_error_follow_from_residuals() {
        let exact: Vec<(f64, f64)> = DOSES.iter().map(|x| (*x, 4.0 + 2.0 * x)).collect();
        let line = fit_relative(&exact).unwrap();
        assert!((line.slope - 0.5).abs() < 1e-9 && line.error < 1e-9, "{line:?}");
        let off: Vec<(f64, f64)> = vec![(0.0, 1.0), (0.0, 3.0), (1.0, 3.0), (1.0, 5.0)];
        // Residuals ±1, 2 degrees of freedom, Σ(x − x̄)² = 1: error √(4 ÷ 2 ÷ 1) ÷ 2.
        let line = fit_relative(&off).unwrap();
        assert!((line.slope - 1.0).abs() < 1e-9, "{line:?}");
        assert!((line.error - 2.0_f64.sqrt() / 2.0).abs() < 1e-9, "{line:?}");
    }
}
