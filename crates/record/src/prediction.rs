//! What a number should be, fixed before it is measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The formula in words and symbols.
    pub formula: String,
    /// The figures put into it.
    pub inputs: Vec<Input>,
    /// Where the formula or its constants come from.
    pub source: String,
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
            inputs: Vec::new(),
            source: source.to_owned(),
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

    /// This prediction with one more input named.
    #[must_use]
    pub fn with_input(mut self, name: &str, value: f64, origin: &str) -> Self {
        self.inputs.push(Input { name: name.to_owned(), value, origin: origin.to_owned() });
        self
    }

    /// Whether it is an order ("more than a call") rather than a number.
    pub fn is_ordinal(&self) -> bool {
        self.value.is_none()
    }

    /// Holds an interval of measured values against the limits: wholly inside, wholly outside, or
    /// neither. Without an interval the two ends are the value itself and the answer is
    /// `Undecided`, because one number cannot show how far it might have been elsewhere.
    pub fn agreement(&self, interval: Option<[f64; 2]>) -> Agreement {
        let Some([from, to]) = interval else {
            return Agreement::Undecided;
        };
        let low = self.low.unwrap_or(f64::NEG_INFINITY);
        let high = self.high.unwrap_or(f64::INFINITY);
        if from >= low && to <= high {
            Agreement::Agrees
        } else if to < low || from > high {
            Agreement::Differs
        } else {
            Agreement::Undecided
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
    /// Where it comes from: a host fact, an earlier metric, or a table with its source.
    pub origin: String,
}

/// Why there is no prediction. An honest answer, and never an empty cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NoModel(pub String);

/// How the measured interval stands to the predicted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The measured interval lies wholly inside.
    Agrees,
    /// It lies wholly outside.
    Differs,
    /// It lies across a limit, or there is none.
    Undecided,
}
