//! From samples to the summary of a case (rules 15 to 20). No value is removed, and verdicts are
//! given elsewhere.

use super::bootstrap::{RATIO_LEVEL, Ratio};
use super::clusters::clusters;
use super::interval::median_interval;
use super::modes::{RANKS_MAX, SHARE_MIN, cuts, modes_at, spread_ties};
use super::moments::{mean, standard_deviation};
use super::outliers::tukey_outliers;
use super::quantile::{median, quantile, sorted_finite};
use super::series::autocorrelation;
use super::trend::theil_sen;
use super::trimmed::trimmed_over;
use super::within_run::interval_within;
use fathom_record::summary::{Mode, Quantile};
use fathom_record::{Basis, Histogram, Interval, Sample, Summary};

/// The fewest values with a trimmed mean, which then keeps 10 (rule 14).
const TRIMMED_MIN: usize = 16;
/// The fewest values of a process with an autocorrelation (rule 18).
const AUTOCORRELATION_MIN: usize = 100;
/// The fewest values of a process with a drift.
const DRIFT_MIN: usize = 6;

/// The quantiles of single timings in a summary (rule 8).
const QUANTILES: [f64; 5] = [0.9, 0.99, 0.999, 0.9999, 0.99999];
/// The fewest values beyond a quantile: 10, less a rounding error, because 1 − 0.9999 is a little
/// less than 0.0001 in binary.
const TAIL_VALUES: f64 = 10.0 * (1.0 - 1e-9);

/// The finite values of one process.
struct SummariseProcess<'s> {
    values: Vec<f64>,
    undisturbed: Vec<f64>,
    histogram: Option<&'s Histogram>,
}

impl<'s> SummariseProcess<'s> {
    fn from_sample(sample: &'s Sample) -> Self {
        debug_assert!(
            sample.values.iter().all(|v| v.is_finite()),
            "process {} has a value that is not finite",
            sample.process
        );
        // Indices may be repeated or out of range.
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

    /// The median of the values, else of single timings.
    fn median(&self) -> Option<f64> {
        median(&self.values).or_else(|| self.histogram?.quantile(0.5))
    }
}

/// The summary of a case from its samples, one per process, in any order. Processes without values
/// do not count. `None` without any value.
///
/// The headline is the median of the process medians. Its interval is by order statistics over
/// at least 5 processes ([`Basis::Processes`]), or over independent blocks of a single process
/// ([`Basis::WithinRun`]). Minimum, maximum, mean, deviation, trimmed mean (from 16 values on) and
/// outliers are of all pooled values, or of all single timings if there are no values. Quantiles
/// are of single timings.
///
/// Relative figures are divided by the headline; if it is 0, the spreads are 0 and there is no
/// drift. Autocorrelation and drift are medians over processes with at least 100 and 6 values: a
/// maximum over many processes would exceed any threshold by chance. The caller sets `bound` and
/// `clock_floor`.
///
/// Values that are not finite are a bug of the probe: a debug build panics, a release build ignores
/// them.
#[must_use]
pub fn summarise(samples: &[Sample]) -> Option<Summary> {
    let mut in_order: Vec<&Sample> = samples.iter().collect();
    in_order.sort_by_key(|sample| sample.process);
    let is_single = samples.iter().all(|sample| sample.batch == 1);
    let processes: Vec<SummariseProcess<'_>> = in_order
        .into_iter()
        .map(SummariseProcess::from_sample)
        .filter(|p| p.median().is_some())
        .collect();
    let pooled: Vec<f64> = processes.iter().flat_map(|p| p.values.iter().copied()).collect();
    let medians: Vec<f64> = processes.iter().filter_map(SummariseProcess::median).collect();

    let mut summary = estimate_of(&medians)?;
    let timings = merged(&processes);
    match &timings {
        Some(timings) if pooled.is_empty() => describe_timings(&mut summary, timings),
        _ => describe(&mut summary, &pooled)?,
    }
    let sorted = if is_single { sorted_finite(&pooled) } else { Vec::new() };
    summary.quantiles = match &timings {
        Some(timings) => quantiles(timings.len(), |q| timings.quantile(q)),
        None => quantiles(sorted.len() as u64, |q| quantile(&sorted, q)),
    };
    // Of the same population as the quantiles, which the values may hold in batches.
    if let Some(timings) =
        timings.filter(|timings| !summary.quantiles.is_empty() && !timings.is_empty())
    {
        (summary.min, summary.max) = (timings.min(), timings.max());
    }
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

/// The summary of a derived metric from its estimates, one per process in order. `None` without a
/// finite one.
///
/// Estimates have no spread within a process, no modes and no drift. The interval is
/// [`Basis::Derived`], from 5 estimates on. The caller sets `bound`.
#[must_use]
pub fn summarise_estimates(per_process: &[f64]) -> Option<Summary> {
    let estimates: Vec<f64> = per_process.iter().copied().filter(|v| v.is_finite()).collect();
    let mut summary = estimate_of(&estimates)?;
    describe(&mut summary, &estimates)?;
    set_interval(&mut summary, median_interval(&estimates), Basis::Derived);
    Some(summary)
}

/// The summary of the quotient of two metrics that were measured in separate processes. The
/// headline is the quotient of both headlines, with the interval of [`ratio_of_medians`].
/// `per_process` are quotients of pairs of processes, for the rest of the summary. `None` without a
/// finite one.
///
/// The median of `per_process` is biased if one metric is skewed, and its interval too narrow:
/// simulated with 20 log-normal and 20 normal processes, it covers 89 % instead of 96 %.
#[must_use]
pub fn summarise_quotients(per_process: &[f64], quotient: Ratio) -> Option<Summary> {
    let mut summary = summarise_estimates(per_process)?;
    summary.median = quotient.ratio;
    summary.interval = summary
        .interval
        .map(|interval| Interval::new([quotient.low, quotient.high], RATIO_LEVEL, interval.basis));
    Some(summary)
}

/// The part of a summary that depends on process medians only.
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

/// Adds statistics of all pooled values.
fn describe(summary: &mut Summary, values: &[f64]) -> Option<()> {
    summary.n = values.len() as u64;
    summary.min = values.iter().copied().reduce(f64::min)?;
    summary.max = values.iter().copied().reduce(f64::max)?;
    summary.mean = mean(values)?;
    summary.sd = standard_deviation(values).unwrap_or(0.0);
    summary.outliers = tukey_outliers(values);
    Some(())
}

/// The single timings of all processes, if each has a histogram.
fn merged(processes: &[SummariseProcess<'_>]) -> Option<Histogram> {
    let mut timings = Histogram::new();
    for process in processes {
        timings.merge(process.histogram?);
    }
    Some(timings)
}

/// Adds statistics of all single timings.
fn describe_timings(summary: &mut Summary, timings: &Histogram) {
    summary.n = timings.len();
    (summary.min, summary.max) = (timings.min(), timings.max());
    (summary.mean, summary.sd) = (timings.mean(), timings.standard_deviation());
}

/// The quantiles with at least ten values beyond them: p99 needs 1 000 values, p99.9 needs 10 000.
fn quantiles(count: u64, value: impl Fn(f64) -> Option<f64>) -> Vec<Quantile> {
    let has_tail = |q: &&f64| count as f64 * (1.0 - **q) >= TAIL_VALUES;
    let quantile = |&q: &f64| Some(Quantile { q, value: value(q)? });
    QUANTILES.iter().filter(has_tail).filter_map(quantile).collect()
}

/// Half the least width of an interval over processes, relative (METHOD 15): the clock's ticks can
/// make all medians of a run equal, which the next run misses by less than this.
const HALF_WIDTH_MIN: f64 = 1e-6;

fn set_interval(summary: &mut Summary, interval: Option<([f64; 2], f64)>, basis: Basis) {
    let room = if basis == Basis::Processes { HALF_WIDTH_MIN * summary.median.abs() } else { 0.0 };
    let widened =
        |[low, high]: [f64; 2]| [low.min(summary.median - room), high.max(summary.median + room)];
    summary.interval = interval.map(|(limits, level)| Interval::new(widened(limits), level, basis));
}

/// The median of a figure over the processes that have it.
fn over(
    processes: &[SummariseProcess<'_>],
    figure: impl Fn(&SummariseProcess<'_>) -> Option<f64>,
) -> Option<f64> {
    median(&processes.iter().filter_map(figure).collect::<Vec<f64>>())
}

fn relative(figure: Option<f64>, headline: f64) -> Option<f64> {
    Some(figure? / headline.abs()).filter(|ratio| ratio.is_finite())
}

/// The median drift over processes, or 0 if its interval includes 0. `None` with too few processes
/// for an interval.
fn certain_drift(processes: &[SummariseProcess<'_>]) -> Option<f64> {
    let drifts: Vec<f64> = processes.iter().filter_map(|p| drift(&p.values)).collect();
    let ([low, high], _) = median_interval(&drifts)?;
    if low > 0.0 || high < 0.0 { median(&drifts) } else { Some(0.0) }
}

/// The change over a visit: the Theil–Sen slope over the index × the number of steps.
fn drift(values: &[f64]) -> Option<f64> {
    if values.len() < DRIFT_MIN {
        return None;
    }
    let index: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
    Some(theil_sen(&index, values)?.slope * (values.len() - 1) as f64)
}

/// The modes of all pooled single timings, else of all pooled values, if they are modes *within*
/// processes: at least 10 % must be outside the largest mode of their process. Otherwise only the
/// processes differ from each other, which `spread_between` and the clusters show.
fn modes_within(processes: &[SummariseProcess<'_>]) -> Vec<Mode> {
    // Single timings first: a round of many operations averages over modes.
    let timings: Option<Vec<Vec<f64>>> =
        processes.iter().map(|p| Some(p.histogram?.ranks(RANKS_MAX as u64))).collect();
    let shapes = timings.unwrap_or_else(|| processes.iter().map(|p| p.values.clone()).collect());
    let pooled = shapes.concat();
    // Ties are spread for each process separately: overheads differ, so that clock steps fall on
    // different numbers.
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
