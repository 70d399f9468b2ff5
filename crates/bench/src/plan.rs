//! How often each command runs: decided once, by a pilot, and extended at most once.

use fathom_analysis::statistics::{median, median_interval};
use fathom_record::Unit;
use fathom_record::quantity::{counted, quantity_within};

use crate::request::BenchSettings;

/// The time of all runs of a command, and the fewest and most runs that it is used for.
const TIME_NS: f64 = 10e9;
const RUNS_MIN: usize = 9;
const RUNS_MAX: usize = 500;
/// Half the width of an interval, relative, above which runs are doubled.
const WIDE: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BenchPlan {
    pub(crate) runs: usize,
    /// With the extension.
    pub(crate) most: usize,
}

impl BenchPlan {
    /// `pilot`: the time of a run of each command. Not used for a fixed number of runs.
    pub(crate) fn new(settings: &BenchSettings, pilot: &[f64]) -> Self {
        if let Some(runs) = settings.runs {
            return Self { runs: runs as usize, most: runs as usize };
        }
        let time_ns = settings.time_s.map_or(TIME_NS, |seconds| seconds * 1e9);
        let block_ns = pilot.iter().sum::<f64>().max(1.0);
        // Saturates; all commands have the same number, since each is in each block.
        let runs = (time_ns * pilot.len() as f64 / block_ns) as usize;
        let runs = runs.clamp(RUNS_MIN, RUNS_MAX);
        let most = if settings.time_s.is_some() { runs } else { 2 * runs };
        Self { runs, most }
    }

    /// What is about to be done. `block_ns`: a block with its hooks, if known.
    pub(crate) fn words(self, commands: usize, block_ns: Option<f64>) -> String {
        let runs = counted(self.runs, "run");
        let turns = match commands {
            1 => String::new(),
            some => format!(" of each of {some} commands, in {} blocks of random order", self.runs),
        };
        let time = |number: usize| {
            block_ns.map_or(String::new(), |ns| {
                format!(", about {}", quantity_within(ns * number as f64, Unit::Nanoseconds, 6))
            })
        };
        let more = match self.most > self.runs {
            true => format!("; {} if an interval is wider than ± 2 %", self.most),
            false => String::new(),
        };
        format!("{runs}{turns}{}{more}", time(self.runs))
    }
}

/// Whether the interval of the median is so wide that the declared extension is made.
pub(crate) fn is_wide(values: &[f64]) -> bool {
    let Some(([low, high], _)) = median_interval(values) else { return true };
    median(values).is_none_or(|median| (high - low) / 2.0 > WIDE * median.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pilot_sets_the_number_of_runs() {
        let plan = |settings: &BenchSettings, pilot: &[f64]| BenchPlan::new(settings, pilot);
        let usual = BenchSettings::default();
        assert_eq!(plan(&usual, &[100e6]), BenchPlan { runs: 100, most: 200 });
        assert_eq!(plan(&usual, &[100e6, 300e6]), BenchPlan { runs: 50, most: 100 });
        assert_eq!(plan(&usual, &[5e9]), BenchPlan { runs: 9, most: 18 });
        assert_eq!(plan(&usual, &[1e3]), BenchPlan { runs: 500, most: 1000 });
        let time = BenchSettings { time_s: Some(1.0), ..BenchSettings::default() };
        assert_eq!(plan(&time, &[20e6]), BenchPlan { runs: 50, most: 50 });
        let fixed = BenchSettings { runs: Some(3), time_s: Some(1.0), ..BenchSettings::default() };
        assert_eq!(plan(&fixed, &[]), BenchPlan { runs: 3, most: 3 });
    }

    #[test]
    fn extension_is_said_first() {
        let words = BenchPlan { runs: 9, most: 18 }.words(2, Some(1e9));
        let parts = ["9 runs of each of 2 commands", "9 blocks", "about 9.0", "18 if an interval"];
        assert!(parts.iter().all(|part| words.contains(part)), "{words}");
        assert_eq!(BenchPlan { runs: 1, most: 1 }.words(1, None), "1 run");
    }

    #[test]
    fn only_wide_intervals_are_extended() {
        let values = |spread: f64| (0..20).map(|it| 100.0 + spread * f64::from(it % 2)).collect();
        let wide: Vec<f64> = values(10.0);
        let narrow: Vec<f64> = values(1.0);
        assert!(is_wide(&wide) && !is_wide(&narrow) && is_wide(&[1.0; 4]));
    }
}
