//! The JSON of a run, of a record, of an examination and of a crosscheck: the data as they are,
//! which every other view is made from.

use fathom_record::{Crosscheck, Diagnosis, Document, Record};

/// The whole document, indented, with a newline at its end. Samples appear where the records hold
/// them.
///
/// # Panics
/// Never in practice: a document is plain data and always has a JSON form.
pub fn document_json(document: &Document) -> String {
    serde_json::to_string_pretty(document).expect("a document is plain data") + "\n"
}

/// An examination of the machine, indented, with a newline at its end.
///
/// # Panics
/// Never in practice: a diagnosis is plain data and always has a JSON form.
pub fn diagnosis_json(diagnosis: &Diagnosis) -> String {
    serde_json::to_string_pretty(diagnosis).expect("a diagnosis is plain data") + "\n"
}

/// A crosscheck, indented, with a newline at its end.
///
/// # Panics
/// Never in practice: a crosscheck is plain data and always has a JSON form.
pub fn crosscheck_json(crosscheck: &Crosscheck) -> String {
    serde_json::to_string_pretty(crosscheck).expect("a crosscheck is plain data") + "\n"
}

/// One record in one line, with a newline at its end.
///
/// # Panics
/// Never in practice: a record is plain data and always has a JSON form.
pub fn record_line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is plain data") + "\n"
}
