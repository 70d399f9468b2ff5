//! The known answer: what is injected is what is measured, at full speed and as found. The slope of
//! measured on injected is 1.

use anyhow::Result;
use fathom_analysis::statistics::median;
use fathom_lab::seeded::Seeded;
use fathom_record::{Record, Summary};

use super::imposed::Nothing;
use super::program::{Bench, Launch, Seen};

/// The metric whose kernels do more work.
const METRIC: &str = "cpu.call";
/// The injected shares, in per cent.
const DOSES: [f64; 5] = [0.0, 5.0, 10.0, 15.0, 20.0];
/// Repeated until the slope is as certain as this, within these bounds.
const ERROR_MAX: f64 = 0.02;
const REPEATS: std::ops::RangeInclusive<usize> = 8..=20;
/// How far the slope may be from 1.
const OFF_MAX: f64 = 0.05;

/// A line through points, and the standard error of its slope.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) slope: f64,
    pub(super) error: f64,
    pub(super) at_0: f64,
}

/// The medians of a stratum, of the runs in which every case has one.
struct Points {
    stratum: &'static str,
    of: fn(&Summary) -> Option<f64>,
    points: Vec<(f64, f64)>,
}

impl Points {
    fn both() -> [Self; 2] {
        let full_speed = |summary: &Summary| Some(summary.full_speed.as_ref()?.median);
        let as_found = |summary: &Summary| Some(summary.as_found.as_ref()?.median);
        [
            Self { stratum: "at full speed", of: full_speed, points: Vec::new() },
            Self { stratum: "as found", of: as_found, points: Vec::new() },
        ]
    }

    fn note(&mut self, seen: &Seen, dose: f64) {
        let log = |record: &Record| (self.of)(record.summary.as_ref()?).map(f64::ln);
        let logs: Option<Vec<f64>> = seen.of_metric(METRIC).map(log).collect();
        let Some(logs) = logs.filter(|logs| !logs.is_empty()) else { return };
        self.points.push((dose, (logs.iter().sum::<f64>() / logs.len() as f64).exp()));
    }

    fn line(&self) -> Option<Line> {
        relative(&typical(&self.points))
    }

    fn is_certain(&self) -> bool {
        self.line().is_some_and(|line| line.error <= ERROR_MAX)
    }

    /// How it stands; whether it is right.
    fn judged(&self) -> (String, bool) {
        let Self { stratum, points, .. } = self;
        let Some(line) = self.line() else {
            return (format!("{stratum}: no line through {} runs", points.len()), false);
        };
        let right = (line.slope - 1.0).abs() <= OFF_MAX && self.is_certain();
        let text = format!(
            "{stratum}: slope of measured on injected {:.3} ± {:.3} (standard error) over {} \
             runs, {:.4} ns without: {}",
            line.slope,
            line.error,
            points.len(),
            line.at_0,
            match (right, self.is_certain()) {
                (true, _) => "right",
                (false, true) => "wrong",
                (false, false) => "not certain enough",
            }
        );
        (text, right)
    }
}

/// Measures, and says how it stands in both strata; whether both are right.
pub(super) fn measure(bench: &Bench, random: &mut Seeded) -> Result<(String, bool)> {
    let mut strata = Points::both();
    for repeat in 1..=*REPEATS.end() {
        for index in random.shuffled(DOSES.len()) {
            let dose = format!("{METRIC}={}%", DOSES[index]);
            let environment = vec![("FATHOM_SPIN".to_owned(), dose)];
            let launch = Launch { environment, ..Launch::default() };
            bench.settle();
            let seen = bench.run(METRIC, &launch, &mut Nothing)?;
            strata.iter_mut().for_each(|points| points.note(&seen, DOSES[index] / 100.0));
        }
        if REPEATS.contains(&repeat) && strata.iter().all(Points::is_certain) {
            break;
        }
    }
    let [full_speed, as_found] = strata.map(|points| points.judged());
    let text = format!("injected spin, {}.\nInjected spin, {}", full_speed.0, as_found.0);
    Ok((text, full_speed.1 && as_found.1))
}

/// Of each dose the median of its runs, which one odd run does not move.
fn typical(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let of = |dose: f64| {
        let at = points.iter().filter(|(x, _)| *x == dose);
        let at: Vec<f64> = at.map(|(_, y)| *y).collect();
        median(&at).map(|y| (dose, y))
    };
    DOSES.iter().filter_map(|dose| of(dose / 100.0)).collect()
}

/// The line of least squares, its slope as a share of the value at dose 0.
fn relative(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0 / n, sum.1 + one.1 / n));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xx = sum(&|(x, _)| (x - mean_x).powi(2));
    let slope = sum(&|(x, y)| (x - mean_x) * (y - mean_y)) / xx;
    let at_0 = mean_y - slope * mean_x;
    let rest = sum(&|(x, y)| (y - at_0 - slope * x).powi(2));
    let error = (rest / (n - 2.0) / xx).sqrt();
    (n > 2.0 && xx > 0.0).then(|| Line { slope: slope / at_0, error: error / at_0, at_0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_run_does_not_move_a_dose() {
        let points = [(0.0, 2.0), (0.05, 3.0), (0.0, 9.0), (0.0, 2.1), (0.05, 3.0)];
        assert_eq!(typical(&points), [(0.0, 2.1), (0.05, 3.0)]);
    }

    #[test]
    fn a_line_has_its_slope_and_an_error_as_wide_as_the_points_lie_off_it() {
        let exact: Vec<(f64, f64)> = DOSES.iter().map(|x| (*x, 4.0 + 2.0 * x)).collect();
        let line = relative(&exact).unwrap();
        assert!((line.slope - 0.5).abs() < 1e-9 && line.error < 1e-9, "{line:?}");
        let off: Vec<(f64, f64)> = vec![(0.0, 1.0), (0.0, 3.0), (1.0, 3.0), (1.0, 5.0)];
        // Residuals ±1, 2 degrees of freedom, Σ(x − x̄)² = 1: error √(4 ÷ 2 ÷ 1) ÷ 2.
        let line = relative(&off).unwrap();
        assert!((line.slope - 1.0).abs() < 1e-9, "{line:?}");
        assert!((line.error - 2.0_f64.sqrt() / 2.0).abs() < 1e-9, "{line:?}");
    }
}
