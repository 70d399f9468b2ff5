//! JSON of other tools: errors have line and field.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use crate::ParseError;
use crate::parsed::ParsedKind;

/// Objects and lists of a file, and elements of all: each takes up to 700 and 160 bytes.
const BRACKETS_MAX: usize = 1 << 16;
const ELEMENTS_MAX: usize = 1 << 19;

/// Reads a whole text; `before` lines were taken from its beginning.
pub(crate) fn read<T: DeserializeOwned>(text: &str, before: usize) -> Result<T, ParseError> {
    let count_of = |marks: &[u8]| text.bytes().filter(|byte| marks.contains(byte)).count();
    if count_of(b"{[") > BRACKETS_MAX || count_of(b",") > ELEMENTS_MAX {
        let what = format!("more than {BRACKETS_MAX} objects and lists or {ELEMENTS_MAX} elements");
        return Err(ParseError::new(before + 1, format!("{what}: import it in parts")));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let value = read.map_err(|error| {
        let field = match error.path().to_string().as_str() {
            "." | "?" => String::new(),
            path => format!(", field `{path}`"),
        };
        located(error.inner(), before, &field)
    })?;
    deserializer.end().map_err(|error| located(&error, before, ""))?;
    Ok(value)
}

fn located(error: &serde_json::Error, before: usize, field: &str) -> ParseError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    let what = if error.is_eof() { "the file ends too early" } else { what };
    ParseError::new(line + before, format!("{what}{field}"))
}

/// A time, rate or size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(NumberVisitor)
    }
}

/// Checks where the number stands, so that the error has its line.
struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
        let checked = ParsedKind::SECONDS.checked(value);
        checked.map(Number).map_err(|why| E::custom(format!("{value}: {why}")))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
        self.visit_f64(value as f64)
    }
}
