//! Facts beside a number: what was read, how long it took, what it adds up to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unit;

/// One fact. Facts of a record have an order, and a name may occur more than once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// What it is; empty where it goes on with the one before.
    pub name: String,
    /// The fact itself.
    #[serde(flatten)]
    pub value: FactValue,
}

/// What a fact says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FactValue {
    /// A quantity.
    Quantity {
        /// In base units.
        value: f64,
        /// Its unit.
        unit: Unit,
    },
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A line for other programs to read, which is never broken.
    Line {
        /// The line.
        line: String,
    },
}

impl Fact {
    /// A fact in words.
    pub fn text(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: FactValue::Text { text: text.into() } }
    }

    /// A line that is printed as it stands.
    pub fn line(line: String) -> Self {
        Self { name: String::new(), value: FactValue::Line { line } }
    }

    /// A quantity, in base units.
    pub fn quantity(name: &str, value: f64, unit: Unit) -> Self {
        Self { name: name.to_owned(), value: FactValue::Quantity { value, unit } }
    }
}
