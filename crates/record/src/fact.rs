//! Facts beside a number: the file read, the time it took, a checksum.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unit;

/// A fact beside the number. Facts are ordered, and a name can occur more than once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// Its name; empty if it continues the fact before.
    pub name: String,
    /// Its value.
    #[serde(flatten)]
    pub value: FactValue,
}

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

impl Fact {
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
