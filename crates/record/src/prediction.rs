//! Predictions: what a number should be, fixed before it is measured.

use serde::{Deserialize, Serialize};

use crate::{Host, Params, Stratum, Unit};

/// The widest allowed tolerance.
pub const TOLERANCE_MAX: f64 = 0.30;

/// A bound that is further than this factor from the measured value is shown by `explain` only.
pub const LOOSE: f64 = 5.0;

/// What a prediction can say about the machine; the classes are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// From constants with a source, or from other metrics.
    Value,
    /// Mainly from the same family: a sibling case, or a line through others.
    SelfConsistency,
    /// A limit.
    Bound,
}

/// A prediction: hardware term + software term with a lower and an upper limit; or a bound, which
/// has no value and one limit, or two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Hardware term, in the metric's unit.
    pub hardware: Option<f64>,
    /// Software term, in the metric's unit.
    pub software: Option<f64>,
    /// Their sum; absent for a bound.
    pub value: Option<f64>,
    /// Lower limit, if any.
    pub low: Option<f64>,
    /// Upper limit, if any.
    pub high: Option<f64>,
    /// Uncertainty of the limits due to the intervals of measured inputs, as a share of the limits.
    #[serde(default)]
    pub uncertainty: f64,
    /// The stratum of its measured inputs, and of the estimate it is compared with.
    #[serde(default)]
    pub stratum: Stratum,
    /// The formula, in words and symbols.
    pub formula: String,
    /// The value follows mainly from results of the same family.
    #[serde(default, skip_serializing_if = "is_false")]
    pub self_consistency: bool,
    /// The inputs of the formula.
    pub inputs: Vec<Input>,
    /// Source of the formula or its constants.
    pub source: String,
    /// What a value above the prediction means for the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub if_above: String,
    /// What a value below the prediction means for the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub if_below: String,
}

impl Prediction {
    /// A prediction of `hardware + software` within ± `tolerance`. If one of them is negative there
    /// is no division into parts, and the formula says so.
    pub fn sum(hardware: f64, software: f64, tolerance: f64, formula: &str, source: &str) -> Self {
        debug_assert!(tolerance <= TOLERANCE_MAX, "tolerance above 30 %");
        let value = hardware + software;
        let has_parts = hardware >= 0.0 && software >= 0.0;
        let why = if has_parts { "" } else { " (without parts: one of them is negative)" };
        Self {
            hardware: has_parts.then_some(hardware),
            software: has_parts.then_some(software),
            value: Some(value),
            low: Some(value * (1.0 - tolerance)),
            high: Some(value * (1.0 + tolerance)),
            ..Self::with_formula(&format!("{formula}{why}"), source)
        }
    }

    fn with_formula(formula: &str, source: &str) -> Self {
        Self { formula: formula.to_owned(), source: source.to_owned(), ..Self::default() }
    }

    /// The bound that the metric is at least `low`.
    pub fn at_least(low: f64, formula: &str, source: &str) -> Self {
        Self { low: Some(low), ..Self::with_formula(formula, source) }
    }

    /// The bound that the metric is at most `high`.
    pub fn at_most(high: f64, formula: &str, source: &str) -> Self {
        Self { high: Some(high), ..Self::with_formula(formula, source) }
    }

    /// Turns a value into the bound that the metric is not below it.
    #[must_use]
    pub fn as_lower_limit(self) -> Self {
        let formula = format!("≥ {}", self.formula);
        let (hardware, software, value, high) = (None, None, None, None);
        Self { low: self.value, formula, hardware, software, value, high, ..self }
    }

    /// Turns a value into the bound that the metric is between its limits.
    #[must_use]
    pub fn as_bracket(self) -> Self {
        let formula = format!("within the limits of {}", self.formula);
        Self { formula, value: None, ..self.without_parts() }
    }

    /// A value that is not divided into hardware and software time: a rate, or a ratio.
    #[must_use]
    pub fn without_parts(self) -> Self {
        Self { hardware: None, software: None, ..self }
    }

    /// Adds what a value above the prediction means for the machine.
    #[must_use]
    pub fn if_above(mut self, meaning: &str) -> Self {
        meaning.clone_into(&mut self.if_above);
        self
    }

    /// Adds what a value below the prediction means for the machine.
    #[must_use]
    pub fn if_below(mut self, meaning: &str) -> Self {
        meaning.clone_into(&mut self.if_below);
        self
    }

    /// Adds what a value on either side of the prediction means for the machine.
    #[must_use]
    pub fn otherwise(self, meaning: &str) -> Self {
        self.if_above(meaning).if_below(meaning)
    }

    /// What this value means for the machine; empty if it is inside the limits, or unknown.
    pub fn meaning_of(&self, value: f64) -> &str {
        match (self.low, self.high) {
            (Some(low), _) if value < low => &self.if_below,
            (_, Some(high)) if value > high => &self.if_above,
            _ => "",
        }
    }

    /// Adds an input without unit.
    #[must_use]
    pub fn with_input(mut self, name: &str, value: f64, origin: Origin) -> Self {
        self.inputs.push(Input { name: name.to_owned(), value, unit: None, origin, part: None });
        self
    }

    /// Adds an input with a unit.
    #[must_use]
    pub fn with_quantity(mut self, name: &str, value: f64, unit: Unit, origin: Origin) -> Self {
        let (name, unit) = (name.to_owned(), Some(unit));
        self.inputs.push(Input { name, value, unit, origin, part: None });
        self
    }

    /// Adds a result of this run as an input, under its own name.
    #[must_use]
    pub fn with_result(self, name: &str, value: f64, unit: Unit) -> Self {
        self.with_quantity(name, value, unit, Origin::this_run(name))
    }

    /// Says what part of the number the last input makes up.
    #[must_use]
    pub fn with_part(mut self, part: f64) -> Self {
        if let Some(input) = self.inputs.last_mut() {
            input.part = Some(part);
        }
        self
    }

    /// The names of results among the inputs.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().filter_map(|input| match &input.origin {
            Origin::ThisRun { metric } | Origin::EarlierRun { metric } => Some(metric.as_str()),
            _ => None,
        })
    }

    /// Whether it rests on other measurements. The frequency of the core only turns documented
    /// cycles into times.
    fn rests_on_results(&self) -> bool {
        let is_counted = |it: &Input| matches!(it.origin, Origin::Counted { .. });
        self.results().any(|it| it != "cpu.frequency") || self.inputs.iter().any(is_counted)
    }

    /// The hardware term, if it is of documented constants and facts of the host only.
    pub fn documented_hardware(&self) -> Option<f64> {
        self.hardware.filter(|_| !self.rests_on_results())
    }

    /// The value, if it rests on other measurements: these have no parts.
    pub fn from_results(&self) -> Option<f64> {
        self.value.filter(|_| self.rests_on_results())
    }

    /// Marks a value that follows mainly from results of the same family.
    #[must_use]
    pub fn self_consistent(self) -> Self {
        Self { self_consistency: true, ..self }
    }

    pub fn class(&self) -> Class {
        match (self.value, self.self_consistency) {
            (None, _) => Class::Bound,
            (Some(_), true) => Class::SelfConsistency,
            (Some(_), false) => Class::Value,
        }
    }

    /// How far a measured value is from the nearer limit of a bound, as a factor above 1; below 1
    /// if the bound is violated.
    pub fn slack(&self, measured: f64) -> Option<f64> {
        let low = self.low.filter(|low| *low > 0.0).map(|low| measured / low);
        let high = self.high.filter(|_| measured > 0.0).map(|high| high / measured);
        let nearer = low.into_iter().chain(high).reduce(f64::min);
        nearer.filter(|_| self.is_ordinal())
    }

    /// Half the width of the range of a value, as a share of the value.
    pub fn tolerance(&self) -> Option<f64> {
        let (value, low, high) = (self.value?, self.low?, self.high?);
        (value > 0.0).then(|| (high - low) / 2.0 / value)
    }

    /// Whether it is a bound ("more than a call") instead of a value.
    pub fn is_ordinal(&self) -> bool {
        self.value.is_none()
    }

    /// Compares an interval of measured values with the limits. Without an interval the answer is
    /// `Inconclusive`: a single number has no known uncertainty.
    pub fn agreement(&self, interval: Option<[f64; 2]>) -> Agreement {
        let Some([from, to]) = interval else {
            return Agreement::Inconclusive;
        };
        // Limits from measured inputs have an interval themselves: a value agrees if it is beyond
        // all of it, and differs if it is short of all of it.
        let limits = |limit: Option<f64>, open: f64| {
            let limit = limit.unwrap_or(open);
            (limit * (1.0 - self.uncertainty), limit * (1.0 + self.uncertainty))
        };
        let (low, low_safe) = limits(self.low, f64::NEG_INFINITY);
        let (high_safe, high) = limits(self.high, f64::INFINITY);
        if from >= low_safe && to <= high_safe {
            if self.is_ordinal() { Agreement::Met } else { Agreement::Within }
        } else if to < low || from > high {
            if self.is_ordinal() { Agreement::Violated } else { Agreement::Outside }
        } else {
            Agreement::Inconclusive
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// An input of a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Its name in the formula.
    pub name: String,
    /// Its value, in base units.
    pub value: f64,
    /// Its unit; absent for a count, a share or core clock cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Where it comes from.
    pub origin: Origin,
    /// The part of the number that it makes up, in the metric's unit; absent where the number is no
    /// sum of parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// Source of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A result of this run.
    ThisRun {
        /// The metric with its parameters.
        metric: String,
    },
    /// A result of an earlier run on this host.
    EarlierRun {
        /// The metric with its parameters.
        metric: String,
    },
    /// A fact about the host.
    Host {
        /// Its path, such as `cpu.base_hz`.
        fact: String,
        /// The file, instruction or system call it was read from; empty if unknown.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        read_at: String,
    },
    /// A row of the table of microarchitectures.
    Table {
        /// The row.
        row: String,
    },
    /// A published value.
    Published {
        /// Its source.
        source: String,
    },
    /// A cgroup limit.
    ControlGroup {
        /// The limit and its cgroup.
        limit: String,
    },
    /// A parameter of the case.
    Case,
    /// Calculated from the parameters of the case.
    Calculated {
        /// The calculation.
        from: String,
    },
    /// Measured by this command just before.
    Counted {
        /// Where; empty for what the command timed.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        at: String,
    },
}

impl Origin {
    /// A result of this run, by name.
    pub fn this_run(metric: impl Into<String>) -> Self {
        Self::ThisRun { metric: metric.into() }
    }

    /// A fact about the host, with its source.
    pub fn host(host: &Host, fact: &str) -> Self {
        let read_at = host.origins.get(fact).cloned().unwrap_or_default();
        Self::Host { fact: fact.to_owned(), read_at }
    }

    /// Calculated from the parameters of the case.
    pub fn calculated(from: &str) -> Self {
        Self::Calculated { from: from.to_owned() }
    }
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoModel {
    /// An input has no result in this run.
    MissingInput {
        /// The metric with its parameters.
        metric: String,
    },
    /// An input has no result in earlier runs on this host.
    NoKeptResult {
        /// The metric with its parameters.
        metric: String,
    },
    /// No published value for this CPU.
    NotPublished {
        /// The value.
        figure: String,
        /// The CPU, or the row of the table.
        cpu: String,
    },
    /// No published cost of reading this clock source.
    ClockSourceNotPublished {
        /// The clock source.
        source: String,
    },
    /// The table of microarchitectures has no row for this architecture.
    UnknownArchitecture {
        /// The architecture.
        architecture: String,
    },
    /// The table of microarchitectures is unusable.
    UnusableTable {
        /// Why.
        reason: String,
    },
    /// A host fact is unknown.
    UnknownFact {
        /// Paths of the facts, such as `cpu.tsc_hz`.
        facts: Vec<String>,
    },
    /// The CPU has no cache of this level.
    NoSuchCache {
        /// The level.
        level: u32,
    },
    /// The metric has no case with these parameters.
    NoSuchCase {
        /// The parameters.
        case: String,
    },
    /// The predicted time is zero or negative: an input was disturbed.
    NoTime {
        /// The formula.
        formula: String,
        /// Its value, in nanoseconds.
        value: f64,
    },
    /// A result that the model needs is noisy: a prediction from it would be of the disturbance.
    NoisyInput {
        /// The case.
        metric: String,
    },
    /// The larger of two cases takes no longer than the smaller, so there is no slope.
    NoSlope,
    /// The clock is not the time stamp counter.
    OtherClock,
    /// The working set size is between two cache levels.
    BetweenLevels,
    /// A prefetcher may cover the access pattern.
    Prefetched,
    /// Both CPUs are SMT threads of one core.
    ThreadsOfOneCore,
    /// Nested paging: page walks of a guest walk the host's page tables too.
    NestedPaging,
    /// No working set size was measured with both small and huge pages.
    NoCommonSet,
    /// The TLB may cover the largest working set measured with both page sizes.
    SetTooSmall {
        /// The largest working set.
        largest_bytes: u64,
        /// The size needed.
        needed_bytes: u64,
    },
    /// The drain rate of write-combining buffers is not published.
    WriteCombining,
    /// Two concurrent copies through memory have no published model.
    TwoCopies,
    /// Depends on scheduling decisions.
    SchedulersChoice,
    /// The speed of the device is not published.
    SpeedOfDevice,
    /// The service time of the device is not published.
    ServiceTime,
    /// The file is partly in the page cache, or its residency is unknown.
    MixedResidency,
    /// What the server needs for a request is not known before the measurement.
    WorkOfServer,
    /// What a path of a transfer costs per byte is not known before the measurement.
    CostOfPath,
}

impl NoModel {
    /// The metric has no case with these parameters.
    pub fn no_such_case(params: &Params) -> Self {
        Self::NoSuchCase { case: params.to_string() }
    }

    /// These facts are unknown.
    pub fn unknown_fact(facts: &[&str]) -> Self {
        Self::UnknownFact { facts: facts.iter().map(|fact| (*fact).to_owned()).collect() }
    }
}

/// Comparison of the measured interval with the prediction: a value is within or outside, a bound
/// is met or violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The interval is inside the predicted range.
    Within,
    /// The interval is outside the predicted range.
    Outside,
    /// The interval is on the predicted side of a bound.
    Met,
    /// The interval is on the other side of a bound.
    Violated,
    /// The interval crosses a limit, there is no interval, or a disturbance may explain the gap.
    Inconclusive,
}

words!(
    Agreement.word.ALL,
    Within = "within",
    Outside = "outside",
    Met = "met",
    Violated = "violated",
    Inconclusive = "inconclusive"
);

impl Agreement {
    /// The prediction was right.
    pub fn holds(self) -> bool {
        matches!(self, Self::Within | Self::Met)
    }

    /// The prediction was wrong.
    pub fn fails(self) -> bool {
        matches!(self, Self::Outside | Self::Violated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_check_is_written_as_one() {
        let value = Prediction::sum(60.0, 40.0, 0.1, "a + b", "source");
        let written =
            |it: &Prediction| serde_json::to_value(it).unwrap()["self_consistency"].clone();
        assert!(written(&value).is_null());
        assert_eq!(written(&value.self_consistent()), true);
    }

    #[test]
    fn interval_inside_is_within_and_beyond_is_outside() {
        let prediction = Prediction::sum(60.0, 40.0, 0.1, "a + b", "source");
        let agreement = |low, high| prediction.agreement(Some([low, high]));
        assert_eq!(agreement(91.0, 109.0), Agreement::Within);
        assert_eq!(agreement(111.0, 120.0), Agreement::Outside);
        assert_eq!(agreement(105.0, 115.0), Agreement::Inconclusive);
        assert_eq!(prediction.agreement(None), Agreement::Inconclusive);
    }

    #[test]
    fn hardware_is_no_other_measurement() {
        let cycles = Prediction::sum(2.0, 0.0, 0.1, "cycles ÷ frequency", "");
        let cycles = cycles.with_result("cpu.frequency", 4e9, Unit::Hertz);
        assert_eq!((cycles.documented_hardware(), cycles.from_results()), (Some(2.0), None));
        let sum = cycles.with_result("memory.latency.dram", 100.0, Unit::Nanoseconds);
        assert_eq!((sum.documented_hardware(), sum.from_results()), (None, Some(2.0)));
        let counted = Prediction::sum(2.0, 3.0, 0.1, "calls", "");
        let origin = Origin::Counted { at: String::new() };
        let counted = counted.with_input("calls", 2.0, origin);
        assert_eq!((counted.documented_hardware(), counted.from_results()), (None, Some(5.0)));
    }

    #[test]
    fn negative_part_is_refused() {
        for (hardware, software) in [(120.0, -20.0), (-20.0, 120.0)] {
            let sum = Prediction::sum(hardware, software, 0.1, "a − b", "");
            assert_eq!((sum.hardware, sum.software, sum.value), (None, None, Some(100.0)));
            assert_eq!(sum.formula, "a − b (without parts: one of them is negative)");
        }
    }

    #[test]
    fn each_side_of_a_prediction_has_its_meaning() {
        let within = Prediction::sum(10.0, 0.0, 0.1, "", "").if_above("slow").if_below("fast");
        assert_eq!([8.0, 10.0, 12.0].map(|value| within.meaning_of(value)), ["fast", "", "slow"]);
        let order = Prediction::at_least(10.0, "", "").otherwise("odd");
        assert_eq!([8.0, 12.0].map(|value| order.meaning_of(value)), ["odd", ""]);
    }

    #[test]
    fn classes_and_slack_follow_from_value_and_limits() {
        let value = Prediction::sum(60.0, 40.0, 0.2, "", "");
        assert_eq!((value.class(), value.slack(500.0)), (Class::Value, None));
        assert!((value.tolerance().unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(value.self_consistent().class(), Class::SelfConsistency);
        let least = Prediction::at_least(10.0, "", "");
        assert_eq!((least.class(), least.tolerance()), (Class::Bound, None));
        assert_eq!((least.slack(25.0), least.slack(5.0)), (Some(2.5), Some(0.5)));
        assert_eq!(Prediction::at_most(10.0, "", "").slack(2.0), Some(5.0));
        let bracket = Prediction { high: Some(40.0), ..least };
        assert_eq!([12.0, 32.0].map(|ns| bracket.slack(ns)), [Some(1.2), Some(1.25)]);
    }

    #[test]
    fn uncertain_limits_give_inconclusive_agreement() {
        let claim = Prediction::at_least(100.0, "≥ a", "source");
        let claim = Prediction { uncertainty: 0.1, ..claim };
        assert_eq!(claim.agreement(Some([111.0, 130.0])), Agreement::Met);
        assert_eq!(claim.agreement(Some([95.0, 99.0])), Agreement::Inconclusive);
        assert_eq!(claim.agreement(Some([101.0, 109.0])), Agreement::Inconclusive);
        assert_eq!(claim.agreement(Some([80.0, 89.0])), Agreement::Violated);
    }
}
