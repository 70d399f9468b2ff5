//! The JSON of what every other view is made from: a run, a record, a comparison, an examination.

use fathom_record::{Document, Record};
use serde::Serialize;

/// Plain data, indented, with a newline at its end.
///
/// # Panics
/// Never in practice: what is serialised here has string keys only.
pub fn json(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).expect("it is plain data") + "\n"
}

/// The whole document as [`json`]. Samples appear where the records hold them.
pub fn document_json(document: &Document) -> String {
    json(document)
}

/// One record in one line, with a newline at its end.
///
/// # Panics
/// Never in practice: a record is plain data and always has a JSON form.
pub fn record_line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is plain data") + "\n"
}
