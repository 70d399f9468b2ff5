//! A known answer: the slope of measured on injected work must be 1, at full speed and unfiltered.
//!
//! The dose is a chain of dependent additions. What is measured is a chain too, of loads from the
//! first cache: what slows one slows the other alike. A busy sibling slows calls and loops and not
//! the dose, which would lower the unfiltered slope although the measurement is right.

use anyhow::Result;
use fathom_analysis::statistics::median;
use fathom_lab::seeded::Seeded;
use fathom_record::{Record, Summary};

use super::guard::NoGuard;
use super::program::{Launch, ProgramBench, RunResult};

const METRIC: &str = "memory.latency";
const CASES: &str = "memory.latency{set_bytes=4096,set_bytes=8192,set_bytes=16384}";
/// Injected work in per cent.
const DOSES: [f64; 5] = [0.0, 5.0, 10.0, 15.0, 20.0];
/// Maximum standard error of the slope, and the repeats until it is reached.
const ERROR_MAX: f64 = 0.02;
const REPEATS: std::ops::RangeInclusive<usize> = 8..=40;
/// A repeat with fewer doses has no slope: not every run has undisturbed visits.
const DOSES_MIN: usize = 4;
/// Maximum distance of the slope from 1.
const OFF_MAX: f64 = 0.05;

/// The median of the slopes of all repeats, with its standard error.
#[derive(Debug)]
struct Slope {
    slope: f64,
    error: f64,
    repeats: usize,
}

/// Dose and median of a stratum for the runs of each repeat in which every case has one.
struct SlopePoints {
    stratum: &'static str,
    median_of: fn(&Summary) -> Option<f64>,
    repeats: Vec<Vec<(f64, f64)>>,
}

impl SlopePoints {
    fn of_both_strata() -> [Self; 2] {
        let full_speed = |summary: &Summary| Some(summary.in_state.as_ref()?.median);
        let as_found = |summary: &Summary| Some(summary.as_found.as_ref()?.median);
        [
            Self { stratum: "at full speed", median_of: full_speed, repeats: Vec::new() },
            Self { stratum: "unfiltered", median_of: as_found, repeats: Vec::new() },
        ]
    }

    /// Adds the geometric mean of the cases to the last repeat.
    fn add(&mut self, run: &RunResult, dose: f64) {
        let log = |record: &Record| (self.median_of)(record.summary.as_ref()?).map(f64::ln);
        let logs: Option<Vec<f64>> = run.of_metric(METRIC).map(log).collect();
        let Some(logs) = logs.filter(|logs| !logs.is_empty()) else { return };
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        self.repeats.last_mut().into_iter().for_each(|repeat| repeat.push((dose, mean)));
    }

    fn slope(&self) -> Option<Slope> {
        let whole = self.repeats.iter().filter(|repeat| repeat.len() >= DOSES_MIN);
        median_slope(&whole.filter_map(|repeat| relative_slope(repeat)).collect::<Vec<f64>>())
    }

    fn is_precise(&self) -> bool {
        self.slope().is_some_and(|slope| slope.error <= ERROR_MAX)
    }

    /// The result as text, and whether it is right.
    fn judge(&self) -> (String, bool) {
        let stratum = self.stratum;
        let Some(Slope { slope, error, repeats }) = self.slope() else {
            return (format!("{stratum}: no slope from {} repeats", self.repeats.len()), false);
        };
        let right = (slope - 1.0).abs() <= OFF_MAX && self.is_precise();
        let word = match (right, self.is_precise()) {
            (true, _) => "right",
            (false, true) => "wrong",
            (false, false) => "inconclusive",
        };
        let text = format!(
            "{stratum}: slope of measured on injected {slope:.3} ± {error:.3} (standard error) \
             over {repeats} repeats of {} doses: {word}",
            DOSES.len(),
        );
        (text, right)
    }
}

/// Measures both strata; returns the result as text, and whether both are right.
pub(super) fn measure(bench: &ProgramBench, random: &mut Seeded) -> Result<(String, bool)> {
    let mut strata = SlopePoints::of_both_strata();
    for repeat in 1..=*REPEATS.end() {
        strata.iter_mut().for_each(|points| points.repeats.push(Vec::new()));
        for index in random.shuffled(DOSES.len()) {
            let dose = format!("{METRIC}={}%", DOSES[index]);
            let environment = vec![("FATHOM_SPIN".to_owned(), dose)];
            let launch = Launch { environment, ..Launch::default() };
            bench.settle();
            let run = bench.run(CASES, &launch, &mut NoGuard)?;
            strata.iter_mut().for_each(|points| points.add(&run, DOSES[index] / 100.0));
        }
        if REPEATS.contains(&repeat) && strata.iter().all(SlopePoints::is_precise) {
            break;
        }
    }
    let [full_speed, as_found] = strata.map(|points| points.judge());
    let text = format!("injected spin, {}.\nInjected spin, {}", full_speed.0, as_found.0);
    Ok((text, full_speed.1 && as_found.1))
}

/// The median, which outliers do not move, with its standard error from the median absolute
/// deviation (normal distribution assumed). `None` for fewer than three slopes.
fn median_slope(slopes: &[f64]) -> Option<Slope> {
    let slope = median(slopes)?;
    let deviations: Vec<f64> = slopes.iter().map(|one| (one - slope).abs()).collect();
    let sd = 1.482_6 * median(&deviations)?;
    // A median is √(π/2) times less certain than a mean.
    let error = std::f64::consts::FRAC_PI_2.sqrt() * sd / (slopes.len() as f64).sqrt();
    (slopes.len() > 2).then_some(Slope { slope, error, repeats: slopes.len() })
}

/// The slope by least squares, relative to the value at dose 0.
fn relative_slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0 / n, sum.1 + one.1 / n));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xx = sum(&|(x, _)| (x - mean_x).powi(2));
    let slope = sum(&|(x, y)| (x - mean_x) * (y - mean_y)) / xx;
    (xx > 0.0).then(|| slope / (mean_y - slope * mean_x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_relative_to_dose_0() {
        let points: Vec<(f64, f64)> = DOSES.iter().map(|x| (*x, 4.0 + 2.0 * x)).collect();
        assert!((relative_slope(&points).unwrap() - 0.5).abs() < 1e-9);
        assert!(relative_slope(&[(0.1, 1.0)]).is_none());
    }

    #[test]
    fn outlier_does_not_move_the_median_slope() {
        let slope = median_slope(&[1.0, 0.9, 1.1, 0.95, 9.0]).unwrap();
        // Deviations 0, 0.1, 0.1, 0.05, 8: their median is 0.1.
        assert!((slope.slope - 1.0).abs() < 1e-9 && slope.repeats == 5, "{slope:?}");
        assert!((slope.error - 1.253_314 * 0.148_26 / 5.0_f64.sqrt()).abs() < 1e-6, "{slope:?}");
        assert!(median_slope(&[1.0, 1.0]).is_none());
    }
}
