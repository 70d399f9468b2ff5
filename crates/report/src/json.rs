//! The JSON of a run, a record, a comparison or a diagnosis.

use fathom_record::{Document, Record};
use serde::Serialize;

/// Indented JSON of plain data, with a newline at its end.
pub fn json(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).expect("plain data has a JSON form") + "\n"
}

/// The whole document as [`json`], with the samples that its records hold.
pub fn document_json(document: &Document) -> String {
    json(document)
}

/// One record as one line with a newline.
pub fn record_line(record: &Record) -> String {
    serde_json::to_string(record).expect("plain data has a JSON form") + "\n"
}
