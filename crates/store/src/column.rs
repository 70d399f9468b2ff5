//! Conversions between columns and values.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

/// The label of a run in SQL, and its command by hand; null if the row is damaged.
pub(crate) const LABEL: &str = "CASE WHEN json_valid(run.body) THEN run.body ->> '$.label' END";
pub(crate) const PROCEDURE: &str =
    "CASE WHEN json_valid(run.body) THEN run.body ->> '$.procedure' END";
/// Whether the command named metrics, in SQL.
pub(crate) const IS_SELECTION: &str =
    "json_valid(run.body) AND coalesce(json_array_length(run.body, '$.asked'), 0) > 0";

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
pub(crate) fn bytes<'r>(row: &'r Row<'_>, column: usize) -> &'r [u8] {
    let value = row.get_ref(column).unwrap_or(ValueRef::Null);
    value.as_bytes().unwrap_or_default()
}

pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json)
}

/// Numbers for SQLite's `json_each`.
pub(crate) fn json_list(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}
