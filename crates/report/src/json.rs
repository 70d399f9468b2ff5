//! The JSON of a run, a record, a comparison or a diagnosis.

use fathom_analysis::limits::LimitJudged;
use fathom_analysis::statistics;
use fathom_record::{Document, Params, Record, Sample, Second, Unit};
use serde::Serialize;

use crate::limits::gate_word;

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

/// The same, with the conditions of the user and their answers as `conditions`.
pub fn judged_json(document: &Document, judged: &[LimitJudged]) -> String {
    #[derive(Serialize)]
    struct JsonJudgement<'j> {
        #[serde(flatten)]
        document: &'j Document,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<JsonCondition<'j>>,
    }
    #[derive(Serialize)]
    struct JsonCondition<'j> {
        condition: &'j str,
        answer: &'static str,
        unit: Unit,
        value: Option<f64>,
        interval: Option<[f64; 2]>,
        /// The worst step, whose value it is.
        at: &'j str,
        why: Option<&'j str>,
    }
    fn condition_of(one: &LimitJudged) -> JsonCondition<'_> {
        JsonCondition {
            condition: &one.written,
            answer: gate_word(one.answer),
            unit: one.unit,
            value: one.value,
            interval: one.interval,
            at: &one.name,
            why: one.why.as_deref(),
        }
    }
    let conditions = judged.iter().map(condition_of).collect();
    json(&JsonJudgement { document, conditions })
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
    struct JsonLine<'l> {
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
    line(&JsonLine {
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
