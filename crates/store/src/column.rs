//! Conversions between columns and values.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

use crate::database::DatabaseRow;

/// Whether the command named metrics, in SQL.
pub(crate) const IS_SELECTION: &str = "run.asked <> '[]'";

/// The JSON name of an enum variant.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => unreachable!("not a plain variant: {other:?}"),
    }
}

pub(crate) fn parse_word<T: DeserializeOwned>(word: String) -> Result<T, Error> {
    serde_json::from_value(Value::String(word))
}

/// The text of a column as bytes: a damaged column may hold invalid UTF-8, or no text at all.
pub(crate) fn bytes(row: &dyn DatabaseRow, column: usize) -> &[u8] {
    row.bytes(column).unwrap_or_default()
}

pub(crate) fn text(row: &dyn DatabaseRow, column: usize) -> String {
    String::from_utf8_lossy(bytes(row, column)).into_owned()
}

/// Text that may be absent; a damaged one is.
pub(crate) fn optional(row: &dyn DatabaseRow, column: usize) -> Option<String> {
    String::from_utf8(row.bytes(column)?.to_owned()).ok()
}

pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json)
}
