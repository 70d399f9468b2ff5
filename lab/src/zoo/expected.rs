//! A value that must be found, and whether it was.

use serde_json::Value;

/// What must be found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    Is(Value),
    /// Anything else.
    Not(Value),
    /// With this part in a text of it.
    With(&'static str),
    /// Without this part, or nothing.
    Without(&'static str),
    /// A number between these.
    Between(f64, f64),
    /// Absent or null.
    Unknown,
}

/// A fact, what was expected and what was found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExpectedCheck {
    pub(super) fact: String,
    pub(super) expected: String,
    pub(super) found: String,
    pub(super) is_right: bool,
}

/// Of what was found, in a row.
const LETTERS_MAX: usize = 400;
const UNKNOWN: &str = "unknown";
impl Expected {
    fn includes(&self, found: Option<&Value>) -> bool {
        let text = found.map(Value::to_string).unwrap_or_default();
        match self {
            Self::Is(value) => found == Some(value),
            Self::Not(value) => found.is_some_and(|found| found != value),
            Self::With(part) => text.contains(part),
            Self::Without(part) => !text.contains(part),
            Self::Between(low, high) => {
                found.and_then(Value::as_f64).is_some_and(|found| (*low..=*high).contains(&found))
            }
            Self::Unknown => found.is_none(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Is(value) => value.to_string(),
            Self::Not(value) => format!("not {value}"),
            Self::With(part) => format!("with “{part}”"),
            Self::Without(part) => format!("without “{part}”"),
            Self::Between(low, high) => format!("{low} to {high}"),
            Self::Unknown => UNKNOWN.to_owned(),
        }
    }
}

impl ExpectedCheck {
    pub(super) fn new(fact: &str, expected: &Expected, found: Option<&Value>) -> Self {
        Self {
            fact: fact.to_owned(),
            expected: expected.words(),
            found: found.map_or_else(|| UNKNOWN.to_owned(), |found| short(&found.to_string())),
            is_right: expected.includes(found),
        }
    }
}

/// The beginning of a text.
fn short(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
