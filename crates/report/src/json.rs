//! The JSON of a run, a record, a comparison or a diagnosis.

use fathom_analysis::statistics;
use fathom_record::{Document, Params, Record, Sample, Second, Unit};
use serde::Serialize;

/// Indented JSON of plain data, with a newline at its end.
pub fn json(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).expect("plain data has a JSON form") + "\n"
}

/// The whole document as [`json`], with the samples that its records hold.
pub fn document_json(document: &Document) -> String {
    json(document)
}

fn line(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("plain data has a JSON form") + "\n"
}

/// One record as one line with a newline.
pub fn record_line(record: &Record) -> String {
    line(record)
}

/// A second of a load as a line of JSON. Unlike a record it has a phase and no metric.
pub fn second_line(second: &Second) -> String {
    line(second)
}

/// A case of a visit as a line of JSON, with its values if they are asked for. Unlike a record it
/// has a process and no verdict.
pub fn visit_line(
    (metric, unit): (&str, Unit),
    params: &Params,
    sample: &Sample,
    with_values: bool,
) -> String {
    #[derive(Serialize)]
    struct Line<'l> {
        metric: &'l str,
        params: &'l Params,
        unit: Unit,
        process: u32,
        started_ns: Option<u64>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        waited: bool,
        median: Option<f64>,
        #[serde(skip_serializing_if = "<[f64]>::is_empty")]
        values: &'l [f64],
    }
    let values = sample.values.as_slice();
    line(&Line {
        metric,
        params,
        unit,
        process: sample.process,
        started_ns: sample.started_ns,
        waited: sample.waited,
        median: statistics::median(values),
        values: if with_values { values } else { &[] },
    })
}
