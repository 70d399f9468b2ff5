//! The processes behind a row of a comparison: resampled, and their deviation.

use fathom_record::Record;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::comparison::PROCESSES_MIN;
use crate::statistics::{index, mean, qn, qn_freedom, standard_deviation};

/// Pairs of samples drawn for an error: it repeats to 4 %.
pub(super) const RESAMPLES: usize = 300;

/// The processes behind a row.
pub(super) struct RowSides {
    /// Cases of one visit share their processes.
    pub(super) visit: String,
    /// Logarithms of the process medians of each run of A, and of B.
    pub(super) a: Vec<Vec<f64>>,
    pub(super) b: Vec<f64>,
    /// Whether it says something of the resource of its class.
    pub(super) votes: bool,
    /// Whether its intervals are too narrow to be sure of a change.
    pub(super) is_doubted: bool,
    /// The error of both sides in common because the core's speed drifted: half of its 95 %
    /// interval, as a share.
    pub(super) drift: f64,
}

impl RowSides {
    pub(super) fn new(record: &Record, runs: &[Vec<f64>], b: &[f64]) -> Self {
        let logarithms = |values: &[f64]| values.iter().map(|it| it.ln()).collect::<Vec<f64>>();
        let visit = match record.visit.split_once('/') {
            Some((_, visit)) => visit.to_owned(),
            None => format!("{}{}", record.metric, record.params),
        };
        let mut it = Self {
            visit,
            a: runs.iter().map(|run| logarithms(run)).collect(),
            b: logarithms(b),
            votes: false,
            is_doubted: false,
            drift: 0.0,
        };
        let all = || it.a.iter().flatten().chain(&it.b);
        let can = it.a.iter().map(Vec::len).sum::<usize>() > 1
            && it.b.len() > 1
            && all().all(|value| value.is_finite());
        // A derived case repeats others, and the edge of a cache is a place.
        it.votes = can && record.derived_from.is_empty() && record.on_cliff().is_none();
        it
    }

    /// Logarithms of ratios of resamples. Rows of one visit draw the same processes, all rows the
    /// same runs.
    pub(super) fn drawn(&self, seed: u64) -> Vec<f64> {
        let mut of_runs = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut of_processes = Xoshiro256PlusPlus::seed_from_u64(seed ^ hash(&self.visit));
        let b = [self.b.clone()];
        let mut values = Vec::new();
        let mut of_side = |side: &[Vec<f64>]| {
            values.clear();
            for first in side {
                let run = match side.len() {
                    1 => first,
                    runs => &side[index(&mut of_runs, runs)],
                };
                values.extend(run.iter().map(|_| run[index(&mut of_processes, run.len())]));
            }
            middle(&mut values)
        };
        // The bootstrap variance of a median is too large: by 36 % of 5 normal values, 17 % of 20.
        let n = self.b.len().min(self.a.iter().map(Vec::len).sum());
        let shrunk = (1.0 + 0.8 / (n as f64).sqrt()).sqrt().recip();
        let drawn = (0..RESAMPLES).map(|_| {
            let of_a = of_side(&self.a);
            shrunk * (of_side(&b) - of_a)
        });
        drawn.collect()
    }

    /// The standard error of the logarithm of the ratio, by the deviation of processes, with its
    /// degrees of freedom (Welch). `None` with one process on a side.
    pub(super) fn deviation(&self) -> Option<(f64, f64)> {
        /// The variance of a median ÷ that of a mean, of normal values.
        const OF_MEDIAN: f64 = 1.57;
        let squares = |values: &[f64]| {
            let n = values.len() as f64;
            // One interrupted process says nothing of how much the others differ; but of few
            // processes Qn is too uncertain to find a change of 10 %.
            let (deviation, freedom) = match values.len() < PROCESSES_MIN {
                true => (standard_deviation(values)?, n - 1.0),
                false => (qn(values)?, qn_freedom(values.len())),
            };
            Some((deviation.powi(2) / n, freedom))
        };
        let ((a, in_a), (b, in_b)) = (squares(&self.a.concat())?, squares(&self.b)?);
        let freedom = (a + b).powi(2) / (a * a / in_a + b * b / in_b);
        let freedom = if freedom.is_finite() { freedom } else { in_a + in_b };
        Some(((OF_MEDIAN * (a + b)).sqrt(), freedom))
    }
}

/// The median of unsorted values.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values[half],
        _ => mean(&values[half - 1..=half]).unwrap_or(f64::NAN),
    }
}

/// FNV-1a: the same on every machine.
fn hash(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
