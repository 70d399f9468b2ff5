//! oha: the JSON of `--output-format json`, and of `-j` before. It has no URL. Times are in
//! seconds, and each number has one value.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number};
use crate::parsed::{ParsedCase, ParsedKind};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OhaOutput {
    summary: OhaSummary,
    #[serde(default)]
    latency_percentiles: BTreeMap<String, Number>,
    #[serde(default)]
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OhaSummary {
    success_rate: Number,
    average: Number,
    requests_per_sec: Number,
    size_per_sec: Option<Number>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let output: OhaOutput = json::read(text, &mut parsed.notes)?;
    let OhaSummary { success_rate, average, requests_per_sec, size_per_sec } = output.summary;
    let case = ParsedCase::new("requests", "requests".to_owned(), Params::none());
    let mut all = vec![case.series(ParsedKind::rate(Unit::PerSecond)).with(0, requests_per_sec.0)];
    let mut one = |aspect: &str, case: &ParsedCase, kind, value: Number| {
        all.push(case.aspect(aspect, kind).with(0, value.0));
    };
    one("success", &case, ParsedKind::rate(Unit::Ratio), success_rate);
    if let Some(size) = size_per_sec {
        one("bytes", &case, ParsedKind::rate(Unit::BytesPerSecond), size);
    }
    one("average", &case, ParsedKind::SECONDS, average);
    for (key, value) in &output.latency_percentiles {
        let case = case.and("percentile", key.trim_start_matches('p'));
        one("latency", &case, ParsedKind::SECONDS, *value);
    }
    let errors = output.error_distribution.iter();
    let errors = errors.map(|(what, count)| format!("{count} requests failed: {what}"));
    parsed.notes.extend(errors.take(5));
    all.into_iter().try_for_each(|one| parsed.add(one)).map_err(|what| ParseError::new(1, what))?;
    Ok(parsed)
}
