//! Facts beside a number: the file read, the time it took, a checksum.

use serde::{Deserialize, Serialize};

use crate::Unit;
use crate::quantity::quantity;

/// A fact beside the number. Facts are ordered, and a name can occur more than once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fact {
    /// Its name; empty if it continues the fact before.
    pub name: String,
    /// Its value.
    #[serde(flatten)]
    pub value: FactValue,
}

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum FactValue {
    /// A quantity.
    Quantity {
        /// The value, in base units.
        value: f64,
        /// The unit of the value.
        unit: Unit,
    },
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A machine-readable line, printed without line breaks.
    Line {
        /// The line.
        line: String,
    },
}

/// The name of the fact that a working set is held by no level of the memory hierarchy alone, by
/// the sizes of the caches. Its text names the levels.
pub const BETWEEN_LEVELS: &str = "between levels";

/// The names of the facts of a least-squares line.
pub const LINE: &str = "line";
pub const INTERCEPT: &str = "intercept";
pub const R_SQUARED: &str = "r²";

impl Fact {
    /// A least-squares line over a parameter: `28.4 µs × processes + 53.1 µs (r² 0.993)`, its
    /// intercept and r².
    pub fn of_line(
        slope: f64,
        intercept: f64,
        r_squared: f64,
        unit: Unit,
        over: &str,
    ) -> Vec<Self> {
        let sign = if intercept < 0.0 { '−' } else { '+' };
        let [each, start] = [slope, intercept.abs()].map(|value| quantity(value, unit));
        vec![
            Self::text(LINE, format!("{each} × {over} {sign} {start} (r² {r_squared:.3})")),
            Self::quantity(INTERCEPT, intercept, unit),
            Self::quantity(R_SQUARED, r_squared, Unit::Ratio),
        ]
    }

    /// Whether these are of a case on an edge: no median describes it, whatever its interval.
    pub fn are_on_edge<'f>(facts: impl IntoIterator<Item = &'f Self>) -> bool {
        facts.into_iter().any(|fact| fact.name == BETWEEN_LEVELS)
    }

    pub fn text(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: FactValue::Text { text: text.into() } }
    }

    pub fn line(line: String) -> Self {
        Self { name: String::new(), value: FactValue::Line { line } }
    }

    pub fn quantity(name: &str, value: f64, unit: Unit) -> Self {
        Self { name: name.to_owned(), value: FactValue::Quantity { value, unit } }
    }
}
