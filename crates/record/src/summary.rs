//! Statistics of the samples of a case.

use serde::{Deserialize, Serialize};

/// Location, spread and interval of a case, computed from its samples. All values are in the
/// metric's unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Number of values over all processes.
    pub n: u64,
    /// Number of fresh processes.
    pub processes: u32,
    /// Headline: the median over processes of their medians.
    pub median: f64,
    /// Confidence interval of the headline; absent with too few processes or blocks.
    pub interval: Option<Interval>,
    /// Which visits the headline and all other statistics here rest on.
    pub stratum: Stratum,
    /// Why the headline is not that of one state of the core, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_selected: Option<NotSelected>,
    /// The estimate over all visits in the reported state of the core, `stratum`. The name in JSON
    /// is that of the only state of runs up to version 0.2.0.
    #[serde(default, rename = "full_speed", skip_serializing_if = "Option::is_none")]
    pub in_state: Option<Estimate>,
    /// The estimate over all visits, in any state; absent for a measurement without visits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_found: Option<Estimate>,
    /// Of work on two CPUs, how far apart they were in these visits: the time of a cache line
    /// between them, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_ns: Option<f64>,
    /// Quantiles of single timings, ascending. Absent for batches, and for quantiles with fewer
    /// than 10 operations beyond them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// Upper bound to print as "≤ bound", for a difference whose interval is too wide to print it
    /// as a number.
    pub bound: Option<f64>,
    /// Smallest value: the floor, for CPU-bound metrics.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean of all values.
    pub mean: f64,
    /// Sample standard deviation of all values (n − 1).
    pub sd: f64,
    /// Standard deviation within a process ÷ the headline: the median over processes.
    pub spread_within: f64,
    /// Standard deviation of the process medians ÷ the headline.
    pub spread_between: f64,
    /// Mean and deviation of the same values by the classic trimmed protocol.
    pub trimmed: Option<Trimmed>,
    /// The headline without disturbed rounds; absent if no round was disturbed.
    pub median_undisturbed: Option<f64>,
    /// Number of values in disturbed rounds.
    pub disturbed: u64,
    /// Outliers by Tukey's fences: counted and shown, never removed.
    pub outliers: Outliers,
    /// Modes of single timings by share of operations, else of the values, if there are at least
    /// 100 and more than one mode.
    pub modes: Vec<Mode>,
    /// Clusters of process medians, if they are bimodal.
    pub clusters: Vec<Mode>,
    /// Lag-1 autocorrelation within a process; absent below 100 values per process.
    pub autocorrelation: Option<f64>,
    /// Drift over a visit (Theil–Sen) ÷ the headline: the median over processes. 0 if the interval
    /// includes 0, absent with too few processes.
    pub drift: Option<f64>,
    /// The smallest time the clock resolves, for single timings shorter than 100 × the cost of
    /// reading it.
    pub clock_floor: Option<f64>,
    /// The median of each process, by process number.
    pub process_medians: Vec<f64>,
}

impl Summary {
    /// Half the width of the interval ÷ the headline.
    pub fn relative_half_width(&self) -> Option<f64> {
        let [low, high] = self.limits()?;
        (self.median != 0.0).then(|| (high - low) / 2.0 / self.median.abs())
    }

    pub fn limits(&self) -> Option<[f64; 2]> {
        self.interval.map(Interval::limits)
    }

    /// The summary with this error of every interval, as a share.
    #[must_use]
    pub fn with_error(mut self, share: f64) -> Self {
        let wider = |interval: Option<Interval>, number| {
            interval.map(|interval| interval.with_error(number, share))
        };
        self.interval = wider(self.interval, self.median);
        for estimate in self.in_state.iter_mut().chain(&mut self.as_found) {
            estimate.interval = wider(estimate.interval, estimate.median);
        }
        self
    }

    /// The estimate behind the headline; `None` for a measurement without visits.
    pub fn estimate(&self) -> Option<&Estimate> {
        if self.stratum == Stratum::AsFound {
            self.as_found.as_ref()
        } else {
            self.in_state.as_ref()
        }
    }

    /// The summary with the unfiltered estimate as its headline.
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The actual confidence level, such as 0.979 for 10 processes.
    pub level: f64,
    /// What it was computed over.
    pub basis: Basis,
}

impl Interval {
    pub fn new([low, high]: [f64; 2], level: f64, basis: Basis) -> Self {
        Self { low, high, level, basis }
    }

    pub fn limits(self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// The interval with an independent error of this share of the number.
    #[must_use]
    pub fn with_error(self, number: f64, share: f64) -> Self {
        let error = number * share;
        let low = number - (number - self.low).hypot(error);
        Self { low, high: number + (self.high - number).hypot(error), ..self }
    }

    /// Of an edge, its limits.
    pub fn edge(self) -> Option<[f64; 2]> {
        (self.basis == Basis::Grid).then(|| self.limits())
    }
}

/// What an interval was computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Order statistics of the medians of independent processes.
    Processes,
    /// Order statistics of independent blocks of one process: within one run.
    WithinRun,
    /// Derived: the intervals of the inputs, propagated per process.
    Derived,
    /// An edge, such as the size of a cache: from the last point before it to the first one behind
    /// it, over all processes. Where it is between them is not known.
    Grid,
}

/// Which visits an estimate rests on: those in one state of the core, or all. Ratios and histories
/// never mix strata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stratum {
    /// The core was to itself: by the reference loop, no SMT sibling was busy, and the clock was as
    /// fast as anywhere in the run.
    #[serde(rename = "full_speed")]
    ToItself,
    /// The same in runs up to version 0.2.0, for work beyond the core.
    CoreAtFullSpeed,
    /// The SMT sibling was busy.
    Shared,
    /// The sibling was idle, but the clock slower than elsewhere in the run.
    SlowerClock,
    /// All visits, in any state.
    #[default]
    AsFound,
}

impl Stratum {
    /// The states of the core, the fastest first.
    pub const STATES: [Self; 3] = [Self::ToItself, Self::SlowerClock, Self::Shared];

    pub fn words(self) -> &'static str {
        match self {
            Self::ToItself | Self::CoreAtFullSpeed => "core to itself",
            Self::Shared => "core shared",
            Self::SlowerClock => "frequency capped",
            Self::AsFound => "all processes",
        }
    }

    /// Whether it is this one of [`Self::STATES`].
    pub fn is_of(self, state: Self) -> bool {
        self == state || (self == Self::CoreAtFullSpeed && state == Self::ToItself)
    }

    /// Whether nothing slowed the core.
    pub fn is_undisturbed(self) -> bool {
        self.is_of(Self::ToItself)
    }
}

/// Why the headline is over all visits, in any state of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NotSelected {
    /// The work uses a second CPU, which the reference loop does not cover.
    SecondCpu,
    /// The work waits for a device.
    Device,
    /// Operations are so long that selecting undisturbed ones would favour short ones.
    LongOperation,
    /// The reference loop is fast before the work and slow between its rounds.
    SlowsItself,
    /// An input is not of one state of the core.
    Input,
    /// Fewer visits in the reported state than an interval needs.
    TooFewClean,
    /// The states of the core cannot be distinguished.
    Continuum,
    /// The protocol keeps every trial.
    EveryTrial,
    /// The work was not pinned: the reference loop may be of another CPU.
    NotPinned,
    /// No reference loop was calibrated for this CPU.
    NoReference,
}

words!(
    NotSelected.words,
    SecondCpu = "the work uses a second CPU",
    Device = "the work waits for a device",
    LongOperation = "one operation is too long to select undisturbed ones",
    SlowsItself = "the work itself slows the reference loop",
    Input = "an input is over all processes",
    TooFewClean = "too few processes in that state of the core",
    Continuum = "the states of the core cannot be distinguished",
    EveryTrial = "the protocol keeps every trial",
    NotPinned = "not pinned to one CPU",
    NoReference = "no reference loop was calibrated"
);

/// An estimate over some of the visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The median of the process medians.
    pub median: f64,
    /// Its confidence interval.
    pub interval: Option<Interval>,
    /// Number of visits used.
    pub visits: u32,
    /// Number of visits to select from.
    pub of: u32,
    /// The median of each process, by process number; comparisons use these.
    pub process_medians: Vec<f64>,
    /// The median reference-loop time of each process, in the same order, in whole nanoseconds.
    /// Empty unless every process has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process_loops: Vec<f64>,
}

/// A quantile of single timings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// The quantile, such as 0.99.
    pub q: f64,
    /// Its value, in the metric's unit.
    pub value: f64,
}

/// Mean and deviation by the classic trimmed protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trimmed {
    /// Values kept.
    pub n: u64,
    /// Values measured.
    pub trials: u64,
    /// Mean of the kept values.
    pub mean: f64,
    /// Standard deviation of the kept values (n − 1). It underestimates σ by about half.
    pub sd: f64,
    /// Winsorised standard error of the mean; over processes if there are several.
    pub se: f64,
}

/// Outliers by Tukey's fences: mild beyond 1.5, severe beyond 3 inter-quartile ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A mode of the values, or a cluster of process medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Its position, in the metric's unit.
    pub at: f64,
    /// Its share of the values or single timings, 0 to 1.
    pub share: f64,
}
