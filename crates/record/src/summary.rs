//! What the samples of a case amount to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Location, spread and interval of a case, reduced from its samples. All values are in the
/// metric's unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Values over all processes.
    pub n: u64,
    /// Fresh processes they came from.
    pub processes: u32,
    /// Headline: the median over processes of their medians.
    pub median: f64,
    /// Confidence interval of the headline; absent where there are too few processes or blocks.
    pub interval: Option<Interval>,
    /// Which visits the headline and all else here rest on.
    pub stratum: Stratum,
    /// Why there is no estimate at full speed, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_selected: Option<NotSelected>,
    /// The estimate over the first clean visits, where there are enough of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_speed: Option<Estimate>,
    /// The estimate over the first visits whatever they were; absent for what is not visited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_found: Option<Estimate>,
    /// Quantiles of single timed operations, in ascending order; none of batches, and none with
    /// fewer than 10 operations beyond it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// Set when the value is a difference whose interval is too wide to print it as a number: the
    /// upper limit to print as "≤ bound".
    pub bound: Option<f64>,
    /// Smallest value: the floor, for CPU-bound metrics.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean of all values.
    pub mean: f64,
    /// Sample standard deviation of all values (n − 1).
    pub sd: f64,
    /// Standard deviation within a process: the median over processes of their own, ÷ the headline.
    pub spread_within: f64,
    /// Standard deviation between process medians ÷ the headline.
    pub spread_between: f64,
    /// The classic trimmed protocol's mean and deviation over the same values.
    pub trimmed: Option<Trimmed>,
    /// The same headline without the values whose round was disturbed; absent where none was.
    pub median_undisturbed: Option<f64>,
    /// Values whose round was disturbed.
    pub disturbed: u64,
    /// Counts of outliers by Tukey's fences. They are shown, never removed.
    pub outliers: Outliers,
    /// Modes of single timings by their share of operations, else of the values: where there are
    /// 100 or more and more than one mode; else empty.
    pub modes: Vec<Mode>,
    /// Clusters of process medians, where they fall into two; else empty.
    pub clusters: Vec<Mode>,
    /// Lag-1 autocorrelation within a process, where n ≥ 100 come from one; else absent.
    pub autocorrelation: Option<f64>,
    /// Change over a visit by Theil–Sen ÷ the headline: the median over processes; 0 where their
    /// interval includes it, absent where there are too few processes to tell.
    pub drift: Option<f64>,
    /// The smallest time the clock can tell, for operations timed singly that last less than
    /// 100 × its read cost.
    pub clock_floor: Option<f64>,
    /// The median of each process, in the order of their numbers.
    pub process_medians: Vec<f64>,
}

impl Summary {
    /// Half the width of the interval ÷ the headline, where there is an interval.
    pub fn relative_half_width(&self) -> Option<f64> {
        let [low, high] = self.limits()?;
        (self.median != 0.0).then(|| (high - low) / 2.0 / self.median.abs())
    }

    /// The two ends of the interval.
    pub fn limits(&self) -> Option<[f64; 2]> {
        self.interval.map(Interval::limits)
    }

    /// The estimate behind the headline, where it rests on visits.
    pub fn estimate(&self) -> Option<&Estimate> {
        if self.stratum == Stratum::AsFound {
            self.as_found.as_ref()
        } else {
            self.full_speed.as_ref()
        }
    }

    /// The same with the estimate as found for its headline.
    #[must_use]
    pub fn as_found(&self) -> Self {
        let mut summary = self.clone();
        if let Some(estimate) = &self.as_found {
            summary.stratum = Stratum::AsFound;
            summary.median = estimate.median;
            summary.interval = estimate.interval;
            summary.process_medians.clone_from(&estimate.process_medians);
        }
        summary
    }
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The level that it really has, such as 0.979 for 10 processes.
    pub level: f64,
    /// What it was computed over.
    pub basis: Basis,
}

impl Interval {
    /// An interval with these ends.
    pub fn new([low, high]: [f64; 2], level: f64, basis: Basis) -> Self {
        Self { low, high, level, basis }
    }

    /// Its two ends.
    pub fn limits(self) -> [f64; 2] {
        [self.low, self.high]
    }
}

/// What an interval was computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Order statistics over the medians of independent processes.
    Processes,
    /// Order statistics over independent blocks of one process: within one run.
    WithinRun,
    /// Derived: the interval of the inputs carried through, per process first.
    Derived,
}

/// Which visits an estimate rests on. Strata are never mixed in a ratio or a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stratum {
    /// Clean visits alone, chosen by the reference loop and counters and never by values.
    FullSpeed,
    /// The same of work beyond the core (last cache, memory), of which the loop sees nothing: the
    /// core was at full speed.
    CoreAtFullSpeed,
    /// The first visits, whatever they were.
    #[default]
    AsFound,
}

impl Stratum {
    /// The stratum in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::FullSpeed => "full speed",
            Self::CoreAtFullSpeed => "core at full speed",
            Self::AsFound => "as found",
        }
    }
}

/// Why no visits are selected, so that a case stands as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotSelected {
    /// The work uses a second CPU, which the loop does not see.
    SecondCpu,
    /// The work waits for a device.
    Device,
    /// One operation is so long that keeping the undisturbed ones would favour the short ones.
    LongOperation,
    /// The loop is at full speed before the work and slow between its rounds.
    SlowsItself,
    /// An input has no estimate at full speed.
    Input,
    /// Fewer clean visits than the estimate needs.
    TooFewClean,
    /// The protocol keeps every trial.
    EveryTrial,
    /// No reference is known for this CPU.
    NoReference,
}

impl NotSelected {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SecondCpu => "the work uses a second CPU",
            Self::Device => "the work waits for a device",
            Self::LongOperation => "one operation is too long to select undisturbed ones",
            Self::SlowsItself => "the work itself slows the reference loop",
            Self::Input => "an input has no estimate at full speed",
            Self::TooFewClean => "too few clean visits",
            Self::EveryTrial => "the protocol keeps every trial",
            Self::NoReference => "no reference loop was calibrated",
        }
    }
}

/// An estimate over some of the visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The median over their processes.
    pub median: f64,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Visits it rests on.
    pub visits: u32,
    /// Visits it was chosen from.
    pub of: u32,
    /// The median of each process, in the order of their numbers: what comparisons are made on.
    pub process_medians: Vec<f64>,
    /// The median time of the reference loop in each of them, in the same order and in whole
    /// nanoseconds: how fast the core was. Empty where not every process has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process_loops: Vec<f64>,
}

/// A quantile of single timed operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// The share of operations at or below it, such as 0.99.
    pub q: f64,
    /// In the metric's unit.
    pub value: f64,
}

/// Mean and deviation by the classic trimmed protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trimmed {
    /// Values that remained.
    pub n: u64,
    /// Values taken.
    pub trials: u64,
    /// Mean of those that remained.
    pub mean: f64,
    /// Their standard deviation (n − 1). It understates σ by about half.
    pub sd: f64,
    /// The winsorised standard error of the mean; over processes, where there is more than one.
    pub se: f64,
}

/// Outliers by Tukey's fences: mild beyond 1.5, severe beyond 3 inter-quartile ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    /// Below the lower outer fence.
    pub low_severe: u64,
    /// Between the lower fences.
    pub low_mild: u64,
    /// Between the upper fences.
    pub high_mild: u64,
    /// Above the upper outer fence.
    pub high_severe: u64,
}

/// One mode of the values, or one cluster of process medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mode {
    /// Where it is, in the metric's unit.
    pub at: f64,
    /// Its share of the values or single timings, 0 to 1.
    pub share: f64,
}
