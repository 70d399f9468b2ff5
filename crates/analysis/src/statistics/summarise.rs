//! What the samples of a case amount to: the one place where the estimating rules (15 to 20) come
//! together.
//!
//! It reduces and does not judge: nothing is removed for its value, and what the numbers are worth
//! is the verdict's to say.

use super::bootstrap::{RATIO_LEVEL, Ratio};
use super::clusters::clusters;
use super::interval::median_interval;
use super::modes::{RANKS_MAX, SHARE_MIN, cuts, modes_at, spread_ties};
use super::moments::{mean, standard_deviation};
use super::outliers::tukey_outliers;
use super::quantile::{TAIL_VALUES, median, printable_quantile, sorted_finite};
use super::series::autocorrelation;
use super::trend::theil_sen;
use super::trimmed::trimmed_over;
use super::within_run::interval_within;
use fathom_record::summary::{Mode, Quantile};
use fathom_record::{Basis, Histogram, Interval, Sample, Summary};

/// The fewest values with a trimmed mean: what 10 asked for makes (rule 14).
const TRIMMED_MIN: usize = 16;
/// The fewest values of a process whose autocorrelation is told (rule 18).
const AUTOCORRELATION_MIN: usize = 100;
/// The fewest values of a process whose drift is told.
const DRIFT_MIN: usize = 6;

/// The quantiles of single timed operations that a summary has, where they can be printed (rule 8).
const QUANTILES: [f64; 5] = [0.9, 0.99, 0.999, 0.9999, 0.99999];

/// The values of one process that can be summarised.
struct Process<'s> {
    values: Vec<f64>,
    undisturbed: Vec<f64>,
    histogram: Option<&'s Histogram>,
}

impl<'s> Process<'s> {
    fn of(sample: &'s Sample) -> Self {
        debug_assert!(
            sample.values.iter().all(|v| v.is_finite()),
            "process {} let a value through that is no number",
            sample.process
        );
        // An index may be named twice, and one beyond the values names none.
        let mut disturbed = vec![false; sample.values.len()];
        for &index in &sample.disturbed {
            if let Some(mark) = disturbed.get_mut(index as usize) {
                *mark = true;
            }
        }
        let finite = || sample.values.iter().zip(&disturbed).filter(|(v, _)| v.is_finite());
        Self {
            values: finite().map(|(&v, _)| v).collect(),
            undisturbed: finite().filter(|&(_, &disturbed)| !disturbed).map(|(&v, _)| v).collect(),
            histogram: sample.histogram.as_ref().filter(|histogram| !histogram.is_empty()),
        }
    }

    /// The median of its values, else of its single timings.
    fn median(&self) -> Option<f64> {
        median(&self.values).or_else(|| self.histogram?.quantile(0.5))
    }
}

/// Reduces the samples of a case, one a process, to its summary, in the unit of their values.
/// `None` if there is no value at all. Processes without a value do not count.
///
/// The headline is the median of the process medians. Its interval is by order statistics over
/// them from 5 processes on ([`Basis::Processes`]); with exactly one process, over its
/// independent blocks ([`Basis::WithinRun`]); else there is none. Minimum, maximum, mean,
/// deviation, trimmed mean (from 16 values on) and outliers are over all values together, or
/// over all single timings where there are no values. Quantiles are those of single timings.
///
/// Relative figures are ÷ the size of the headline; with a headline of 0 the spreads are 0 and the
/// drift absent. Autocorrelation and drift are medians over the processes long enough for them
/// (100 and 6 values): the largest of many would exceed any threshold by chance. `bound` and
/// `clock_floor` depend on what was measured, and are left for the caller.
///
/// The samples may come in any order, and a value that is not finite is skipped: the probe should
/// not have let it through, so a debug build panics.
#[must_use]
pub fn summarise(samples: &[Sample]) -> Option<Summary> {
    let mut in_order: Vec<&Sample> = samples.iter().collect();
    in_order.sort_by_key(|sample| sample.process);
    let is_single = samples.iter().all(|sample| sample.batch == 1);
    let processes: Vec<Process<'_>> =
        in_order.into_iter().map(Process::of).filter(|p| p.median().is_some()).collect();
    let pooled: Vec<f64> = processes.iter().flat_map(|p| p.values.iter().copied()).collect();
    let medians: Vec<f64> = processes.iter().filter_map(Process::median).collect();

    let mut summary = estimate_of(&medians)?;
    let timings = merged(&processes);
    match &timings {
        Some(timings) if pooled.is_empty() => describe_timings(&mut summary, timings),
        _ => describe(&mut summary, &pooled)?,
    }
    let sorted = if is_single { sorted_finite(&pooled) } else { Vec::new() };
    summary.quantiles = match &timings {
        Some(timings) => quantiles(|q| {
            let is_printable = timings.len() as f64 * (1.0 - q) >= TAIL_VALUES;
            timings.quantile(q).filter(|_| is_printable)
        }),
        None => quantiles(|q| printable_quantile(&sorted, q)),
    };
    if let [only] = processes.as_slice() {
        let interval = interval_within(&only.values, summary.median);
        set_interval(&mut summary, interval, Basis::WithinRun);
    } else {
        set_interval(&mut summary, median_interval(&medians), Basis::Processes);
    }
    let headline = summary.median;
    summary.spread_within =
        relative(over(&processes, |p| standard_deviation(&p.values)), headline).unwrap_or(0.0);
    summary.disturbed =
        processes.iter().map(|p| (p.values.len() - p.undisturbed.len()) as u64).sum();
    if summary.disturbed > 0 {
        summary.median_undisturbed = over(&processes, |p| median(&p.undisturbed));
    }
    if pooled.len() >= TRIMMED_MIN {
        let values: Vec<&[f64]> = processes.iter().map(|p| p.values.as_slice()).collect();
        summary.trimmed = trimmed_over(&values);
    }
    summary.modes = modes_within(&processes);
    summary.autocorrelation = over(&processes, |p| {
        if p.values.len() < AUTOCORRELATION_MIN { None } else { autocorrelation(&p.values, 1) }
    });
    summary.drift = relative(certain_drift(&processes), headline);
    Some(summary)
}

/// Reduces the estimates of a derived metric, one a process in the order of their numbers, to its
/// summary, in their unit. `None` without a finite one.
///
/// Each estimate is already reduced from many samples, so nothing is known of the spread within a
/// process, of modes or of drift. The interval is [`Basis::Derived`] from 5 estimates on.
/// `bound` is left for the caller.
#[must_use]
pub fn summarise_estimates(per_process: &[f64]) -> Option<Summary> {
    let estimates: Vec<f64> = per_process.iter().copied().filter(|v| v.is_finite()).collect();
    let mut summary = estimate_of(&estimates)?;
    describe(&mut summary, &estimates)?;
    set_interval(&mut summary, median_interval(&estimates), Basis::Derived);
    Some(summary)
}

/// Reduces the quotients of two metrics that were measured in processes of their own to their
/// summary: the headline is the quotient of the two headlines, and its interval that of
/// [`ratio_of_medians`]. `per_process` are the quotients of a process of the one and one of the
/// other; what [`summarise_estimates`] tells of them stands beside it. `None` without a finite one.
///
/// The median of those quotients is another number where the processes of one metric are skewed,
/// and its interval misses the quotient of the two: simulated, log-normal by normal processes, 20
/// of each, that keeps 89 % instead of 96 %.
#[must_use]
pub fn summarise_quotients(per_process: &[f64], quotient: Ratio) -> Option<Summary> {
    let mut summary = summarise_estimates(per_process)?;
    summary.median = quotient.ratio;
    summary.interval = summary
        .interval
        .map(|interval| Interval::new([quotient.low, quotient.high], RATIO_LEVEL, interval.basis));
    Some(summary)
}

/// What the process medians by themselves tell.
fn estimate_of(medians: &[f64]) -> Option<Summary> {
    let headline = median(medians)?;
    Some(Summary {
        processes: medians.len() as u32,
        median: headline,
        spread_between: relative(standard_deviation(medians), headline).unwrap_or(0.0),
        clusters: clusters(medians),
        process_medians: medians.to_vec(),
        ..Summary::default()
    })
}

/// Adds what all values together tell.
fn describe(summary: &mut Summary, values: &[f64]) -> Option<()> {
    summary.n = values.len() as u64;
    summary.min = values.iter().copied().reduce(f64::min)?;
    summary.max = values.iter().copied().reduce(f64::max)?;
    summary.mean = mean(values)?;
    summary.sd = standard_deviation(values).unwrap_or(0.0);
    summary.outliers = tukey_outliers(values);
    Some(())
}

/// All single timings of the processes, where each of them kept its own.
fn merged(processes: &[Process<'_>]) -> Option<Histogram> {
    let mut timings = Histogram::new();
    for process in processes {
        timings.merge(process.histogram?);
    }
    Some(timings)
}

/// Adds what all single timings together show.
fn describe_timings(summary: &mut Summary, timings: &Histogram) {
    summary.n = timings.len();
    (summary.min, summary.max) = (timings.min(), timings.max());
    (summary.mean, summary.sd) = (timings.mean(), timings.standard_deviation());
}

fn quantiles(value: impl Fn(f64) -> Option<f64>) -> Vec<Quantile> {
    QUANTILES.iter().filter_map(|&q| Some(Quantile { q, value: value(q)? })).collect()
}

/// Sets the interval and says what it was computed over.
fn set_interval(summary: &mut Summary, interval: Option<([f64; 2], f64)>, basis: Basis) {
    summary.interval = interval.map(|(limits, level)| Interval::new(limits, level, basis));
}

/// The median over the processes of a figure that some of them have.
fn over(processes: &[Process<'_>], figure: impl Fn(&Process<'_>) -> Option<f64>) -> Option<f64> {
    median(&processes.iter().filter_map(figure).collect::<Vec<f64>>())
}

/// A figure ÷ the size of the headline, where that is a number.
fn relative(figure: Option<f64>, headline: f64) -> Option<f64> {
    Some(figure? / headline.abs()).filter(|ratio| ratio.is_finite())
}

/// The median over processes of their change over a visit, where its interval over processes lies
/// on one side of 0. With one process, or too few for an interval, none is told.
fn certain_drift(processes: &[Process<'_>]) -> Option<f64> {
    let drifts: Vec<f64> = processes.iter().filter_map(|p| drift(&p.values)).collect();
    let ([low, high], _) = median_interval(&drifts)?;
    if low > 0.0 || high < 0.0 { median(&drifts) } else { Some(0.0) }
}

/// The change over a visit, in the unit of the values: the Theil–Sen slope over their index × the
/// steps between the first and the last.
fn drift(values: &[f64]) -> Option<f64> {
    if values.len() < DRIFT_MIN {
        return None;
    }
    let index: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
    Some(theil_sen(&index, values)?.slope * (values.len() - 1) as f64)
}

/// The modes of all single timings together, else of all values, where they are modes *within*
/// processes: at least a tenth must be outside the commonest mode of their own process. Processes
/// that differ from each other would else show as modes, though each has but one; that is what
/// `spread_between` and the clusters are for.
fn modes_within(processes: &[Process<'_>]) -> Vec<Mode> {
    // A round of many operations mixes their modes.
    let timings: Option<Vec<Vec<f64>>> =
        processes.iter().map(|p| Some(p.histogram?.ranks(RANKS_MAX as u64))).collect();
    let shapes = timings.unwrap_or_else(|| processes.iter().map(|p| p.values.clone()).collect());
    let pooled = shapes.concat();
    // Ties are spread process by process: each has its own calibration, so that the steps of the
    // same clock do not fall on the same numbers in two of them.
    let spread: Vec<f64> =
        shapes.iter().flat_map(|shape| spread_ties(&sorted_finite(shape))).collect();
    let sorted = sorted_finite(&pooled);
    let cuts = cuts(&sorted, &sorted_finite(&spread));
    let strays = |shape: &Vec<f64>| {
        let mut counts = vec![0_usize; cuts.len() + 1];
        for value in shape {
            counts[cuts.partition_point(|cut| cut <= value)] += 1;
        }
        shape.len() - counts.into_iter().max().unwrap_or(0)
    };
    let strays: usize = shapes.iter().map(strays).sum();
    if (strays as f64) < SHARE_MIN * pooled.len() as f64 {
        return Vec::new();
    }
    modes_at(&sorted, &cuts)
}
