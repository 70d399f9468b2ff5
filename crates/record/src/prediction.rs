//! What a number should be, fixed before it is measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Host, Params, Stratum, Unit};

/// The widest tolerance a prediction may declare.
pub const TOLERANCE_MAX: f64 = 0.30;

/// A prediction: hardware term + software term, with low and high; or an ordinal claim, which has
/// no value and only one of the two limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// What the hardware owes, in the metric's unit.
    pub hardware: Option<f64>,
    /// What the software adds, in the metric's unit.
    pub software: Option<f64>,
    /// Their sum; absent for an ordinal claim.
    pub value: Option<f64>,
    /// Lower limit; absent where there is none.
    pub low: Option<f64>,
    /// Upper limit; absent where there is none.
    pub high: Option<f64>,
    /// How far the intervals of its measured inputs may move the limits, as a share of them.
    #[serde(default)]
    pub uncertainty: f64,
    /// The stratum of its measured inputs, and of the estimate it is compared with.
    #[serde(default)]
    pub stratum: Stratum,
    /// The formula in words and symbols.
    pub formula: String,
    /// The figures put into it.
    pub inputs: Vec<Input>,
    /// Where the formula or its constants come from.
    pub source: String,
    /// What it says of the machine when the measured value lies above, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub if_above: String,
    /// What it says when it lies below.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub if_below: String,
}

impl Prediction {
    /// A prediction of `hardware + software` that holds within ± `tolerance`.
    pub fn sum(hardware: f64, software: f64, tolerance: f64, formula: &str, source: &str) -> Self {
        debug_assert!(tolerance <= TOLERANCE_MAX, "a tolerance above 30 % is no prediction");
        let value = hardware + software;
        Self {
            hardware: Some(hardware),
            software: Some(software),
            value: Some(value),
            low: Some(value * (1.0 - tolerance)),
            high: Some(value * (1.0 + tolerance)),
            formula: formula.to_owned(),
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// The ordinal claim that the metric is at least `low`.
    pub fn at_least(low: f64, formula: &str, source: &str) -> Self {
        Self {
            low: Some(low),
            formula: formula.to_owned(),
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// The ordinal claim that the metric is at most `high`.
    pub fn at_most(high: f64, formula: &str, source: &str) -> Self {
        Self {
            high: Some(high),
            formula: formula.to_owned(),
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// Of this value only that the metric is not below it.
    #[must_use]
    pub fn as_lower_limit(self) -> Self {
        let formula = format!("≥ {}", self.formula);
        let (hardware, software, value, high) = (None, None, None, None);
        Self { low: self.value, formula, hardware, software, value, high, ..self }
    }

    /// This prediction with what a value above it says of the machine.
    #[must_use]
    pub fn if_above(mut self, meaning: &str) -> Self {
        meaning.clone_into(&mut self.if_above);
        self
    }

    /// This prediction with what a value below it says of the machine.
    #[must_use]
    pub fn if_below(mut self, meaning: &str) -> Self {
        meaning.clone_into(&mut self.if_below);
        self
    }

    /// This prediction with what a value on either side of it says of the machine.
    #[must_use]
    pub fn otherwise(self, meaning: &str) -> Self {
        self.if_above(meaning).if_below(meaning)
    }

    /// What it says of the machine that a value lies outside; empty where it does not, or where
    /// nothing is known to say.
    pub fn meaning_of(&self, value: f64) -> &str {
        match (self.low, self.high) {
            (Some(low), _) if value < low => &self.if_below,
            (_, Some(high)) if value > high => &self.if_above,
            _ => "",
        }
    }

    /// This prediction with one more input named.
    #[must_use]
    pub fn with_input(mut self, name: &str, value: f64, origin: Origin) -> Self {
        self.inputs.push(Input { name: name.to_owned(), value, unit: None, origin });
        self
    }

    /// This prediction with one more input named that is a quantity.
    #[must_use]
    pub fn with_quantity(mut self, name: &str, value: f64, unit: Unit, origin: Origin) -> Self {
        self.inputs.push(Input { name: name.to_owned(), value, unit: Some(unit), origin });
        self
    }

    /// This prediction with one more input named that is a result of this run, under its own name.
    #[must_use]
    pub fn with_result(self, name: &str, value: f64, unit: Unit) -> Self {
        self.with_quantity(name, value, unit, Origin::this_run(name))
    }

    /// The names of the results that it uses.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().filter_map(|input| match &input.origin {
            Origin::ThisRun { metric } | Origin::EarlierRun { metric } => Some(metric.as_str()),
            _ => None,
        })
    }

    /// Whether it is an order ("more than a call") rather than a number.
    pub fn is_ordinal(&self) -> bool {
        self.value.is_none()
    }

    /// Compares an interval of measured values with the limits. Without an interval the answer is
    /// `Inconclusive`: one number cannot show how far it might have been elsewhere.
    pub fn agreement(&self, interval: Option<[f64; 2]>) -> Agreement {
        let Some([from, to]) = interval else {
            return Agreement::Inconclusive;
        };
        // A limit from measured inputs is no sharper than they are: what agrees is beyond all of
        // its interval, what differs short of all of it.
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

/// One figure put into a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
}

/// Where an input of a prediction comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A result of this run.
    ThisRun {
        /// The metric and its case.
        metric: String,
    },
    /// A result of an earlier run on this host.
    EarlierRun {
        /// The metric and its case.
        metric: String,
    },
    /// A fact of the host.
    Host {
        /// Its path, such as `cpu.base_hz`.
        fact: String,
        /// Where it was read; empty where that is not known.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        read_at: String,
    },
    /// A row of the table of micro-architectures.
    Table {
        /// The row.
        row: String,
    },
    /// A published figure.
    Published {
        /// Where.
        source: String,
    },
    /// A limit of the control group.
    ControlGroup {
        /// Which, and of which group.
        limit: String,
    },
    /// A parameter of the case.
    Case,
    /// Computed from the parameters of the case.
    Calculated {
        /// How.
        from: String,
    },
    /// Counted by the command itself, just before.
    Counted {
        /// Where; empty for what it timed.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        at: String,
    },
}

impl Origin {
    /// The result of this run that is called `metric`.
    pub fn this_run(metric: impl Into<String>) -> Self {
        Self::ThisRun { metric: metric.into() }
    }

    /// A fact of the host, with where it was read.
    pub fn host(host: &Host, fact: &str) -> Self {
        let read_at = host.origins.get(fact).cloned().unwrap_or_default();
        Self::Host { fact: fact.to_owned(), read_at }
    }

    /// What the case says, through this calculation.
    pub fn calculated(from: &str) -> Self {
        Self::Calculated { from: from.to_owned() }
    }
}

/// Why there is no prediction. An honest answer, and never an empty cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoModel {
    /// A result of this run is missing that it is computed from.
    MissingInput {
        /// The metric and its case.
        metric: String,
    },
    /// The same, of a command that takes it from earlier runs on this host.
    NoKeptResult {
        /// The metric and its case.
        metric: String,
    },
    /// No public source gives a figure for this CPU.
    NotPublished {
        /// The figure.
        figure: String,
        /// The CPU, or the row of the table.
        cpu: String,
    },
    /// No public source gives the cost of reading this clock source.
    ClockSourceNotPublished {
        /// The clock source.
        source: String,
    },
    /// The table of micro-architectures has no row for it.
    UnknownArchitecture {
        /// The architecture.
        architecture: String,
    },
    /// The table of micro-architectures cannot be used.
    UnusableTable {
        /// Why.
        reason: String,
    },
    /// The machine does not say one of these facts.
    UnknownFact {
        /// Their paths, such as `cpu.tsc_hz`.
        facts: Vec<String>,
    },
    /// The CPU has no cache of this level.
    NoSuchCache {
        /// The level.
        level: u32,
    },
    /// The metric has no case of these parameters.
    NoSuchCase {
        /// The parameters.
        case: String,
    },
    /// The terms add up to nothing or less: one of them was disturbed.
    NoTime {
        /// The sum.
        formula: String,
        /// What it gives, in nanoseconds.
        value: f64,
    },
    /// The larger of two cases is no dearer than the smaller, so that there is no line.
    NoSlope,
    /// The clock is not the time stamp counter.
    OtherClock,
    /// The set lies between two levels of cache.
    BetweenLevels,
    /// A prefetcher may foresee the pattern.
    Prefetched,
    /// Both ends are threads of one core.
    ThreadsOfOneCore,
    /// Page tables of a guest are walked through those of its host.
    NestedPaging,
    /// No set was taken by small and by huge pages.
    NoCommonSet,
    /// Translation buffers may hold the largest set that there is by both kinds of page.
    SetTooSmall {
        /// The largest.
        largest_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// How fast a core drains its write-combining buffers.
    WriteCombining,
    /// Two copies through memory.
    TwoCopies,
    /// Who waits for whom, and how often, is the scheduler's choice.
    SchedulersChoice,
    /// How fast the device is.
    SpeedOfDevice,
    /// The service time of the device.
    ServiceTime,
    /// Part of the file is in memory, or nobody knows how much.
    MixedResidency,
}

impl NoModel {
    /// That the metric has no such case.
    pub fn no_such_case(params: &Params) -> Self {
        Self::NoSuchCase { case: params.to_string() }
    }

    /// That the machine says none of these facts.
    pub fn unknown_fact(facts: &[&str]) -> Self {
        Self::UnknownFact { facts: facts.iter().map(|fact| (*fact).to_owned()).collect() }
    }
}

/// How the measured interval compares with the prediction: a value is within or outside, a bound is
/// met or violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The measured interval is wholly inside the predicted range.
    Within,
    /// It is wholly outside.
    Outside,
    /// The measured interval is wholly on the predicted side of a bound.
    Met,
    /// It is wholly on the other side.
    Violated,
    /// It crosses a limit, there is none, or a disturbance may explain the gap.
    Inconclusive,
}

impl Agreement {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Within, Self::Outside, Self::Met, Self::Violated, Self::Inconclusive];

    /// Whether the prediction was right.
    pub fn holds(self) -> bool {
        matches!(self, Self::Within | Self::Met)
    }

    /// Whether the prediction was wrong.
    pub fn fails(self) -> bool {
        matches!(self, Self::Outside | Self::Violated)
    }

    /// The agreement as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Outside => "outside",
            Self::Met => "met",
            Self::Violated => "violated",
            Self::Inconclusive => "inconclusive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_agrees_wholly_inside_and_differs_wholly_outside() {
        let prediction = Prediction::sum(60.0, 40.0, 0.1, "a + b", "source");
        let agreement = |low, high| prediction.agreement(Some([low, high]));
        assert_eq!(agreement(91.0, 109.0), Agreement::Within);
        assert_eq!(agreement(111.0, 120.0), Agreement::Outside);
        assert_eq!(agreement(105.0, 115.0), Agreement::Inconclusive);
        assert_eq!(prediction.agreement(None), Agreement::Inconclusive);
    }

    #[test]
    fn each_side_has_a_meaning_of_its_own() {
        let within = Prediction::sum(10.0, 0.0, 0.1, "", "").if_above("slow").if_below("fast");
        assert_eq!([8.0, 10.0, 12.0].map(|value| within.meaning_of(value)), ["fast", "", "slow"]);
        let order = Prediction::at_least(10.0, "", "").otherwise("odd");
        assert_eq!([8.0, 12.0].map(|value| order.meaning_of(value)), ["odd", ""]);
    }

    #[test]
    fn limits_are_no_sharper_than_their_inputs() {
        let claim = Prediction::at_least(100.0, "≥ a", "source");
        let claim = Prediction { uncertainty: 0.1, ..claim };
        assert_eq!(claim.agreement(Some([111.0, 130.0])), Agreement::Met);
        assert_eq!(claim.agreement(Some([95.0, 99.0])), Agreement::Inconclusive);
        assert_eq!(claim.agreement(Some([101.0, 109.0])), Agreement::Inconclusive);
        assert_eq!(claim.agreement(Some([80.0, 89.0])), Agreement::Violated);
    }
}
