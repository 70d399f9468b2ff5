//! oha: the JSON of `--output-format json`, and of `-j` before. It has no URL. Times are in
//! seconds, and each number has one value.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number};
use crate::parsed::{ParsedCase, ParsedKind};
use crate::{ParseError, Parsed, name};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OhaOutput {
    summary: OhaSummary,
    #[serde(default, deserialize_with = "json::if_valid")]
    latency_percentiles: BTreeMap<String, Number>,
    #[serde(default, deserialize_with = "json::if_valid")]
    error_distribution: BTreeMap<String, Number>,
    #[serde(default, deserialize_with = "json::if_valid")]
    status_code_distribution: BTreeMap<String, Number>,
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
    // Of the server, and of no answer at all.
    let is_refusal = |code: &&String| !code.starts_with(['2', '3']);
    let codes = output.status_code_distribution.iter().filter(|(code, _)| is_refusal(code));
    let codes = codes.map(|(code, count)| format!("{} answers had status {code}", count.0));
    let errors = output.error_distribution.iter();
    let errors = errors.map(|(what, count)| format!("{} requests failed: {what}", count.0));
    let failures: Vec<String> = codes.chain(errors).map(|it| name::title(&it)).take(5).collect();
    let doubt = (!failures.is_empty()).then(|| failures.join("; "));
    all.iter_mut().for_each(|one| one.doubt.clone_from(&doubt));
    parsed.notes.extend(failures);
    all.into_iter().try_for_each(|one| parsed.add(one)).map_err(|what| ParseError::new(1, what))?;
    Ok(parsed)
}
