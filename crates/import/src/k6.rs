//! k6: the JSON of `--summary-export`, and of `handleSummary`, which has the values of a metric in
//! `values`. One value of each number.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;
use serde_json::Value;

use crate::json;
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct K6Output {
    metrics: BTreeMap<String, K6Metric>,
}

#[derive(Deserialize)]
struct K6Metric {
    /// `time`, `data` or `default`.
    #[serde(default, deserialize_with = "json::if_valid")]
    contains: Option<String>,
    #[serde(default, deserialize_with = "json::if_valid")]
    values: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    thresholds: Value,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let output: K6Output = json::read(text, &mut parsed.notes)?;
    for (name, metric) in &output.metrics {
        // `http_req_duration{expected_response:true}` is of some of the requests.
        let (plain, tags) = name.split_once('{').unwrap_or((name, ""));
        let case = ParsedCase::new(name, name::safe(plain), Params::none());
        let tags = tags.trim_end_matches('}').split(',').filter_map(|tag| tag.split_once(':'));
        let case = tags.fold(case, |case, (key, value)| case.and(key.trim(), value.trim()));
        let kind = kind_of(plain, metric.contains.as_deref());
        let values = metric.values.as_ref().unwrap_or(&metric.more);
        let number = |key: &str| {
            let value = values.get(key)?;
            value.as_f64().or_else(|| json::not_finite(value.as_str()?))
        };
        parsed.notes.extend(
            metric
                .crossed()
                .map(|limit| format!("threshold crossed: {name} {limit}"))
                .map(|it| name::title(&it))
                .take(5),
        );
        let mut all = Vec::new();
        // Which statistics a trend has is an option.
        let is_trend = values
            .keys()
            .any(|key| ["med", "avg"].contains(&key.as_str()) || key.starts_with("p("));
        if is_trend {
            all.extend(number("med").map(|median| case.series(kind).with(0, median)));
            let others = values.keys().filter(|key| *key == "avg" || key.starts_with("p("));
            for key in others {
                let percentile = key.strip_prefix("p(").and_then(|it| it.strip_suffix(')'));
                let one = match percentile {
                    Some(percentile) => case.and("percentile", percentile).series(kind),
                    None => case.aspect(key, kind),
                };
                all.extend(number(key).map(|value| one.with(0, value)));
            }
        } else if let (Some(rate), true) = (number("rate"), values.contains_key("count")) {
            let unit =
                if kind.unit == Unit::Bytes { Unit::BytesPerSecond } else { Unit::PerSecond };
            all.push(case.series(ParsedKind::rate(unit)).with(0, rate));
        } else if let Some(value) = number("rate").or_else(|| number("value")) {
            let share = match plain {
                "checks" => ParsedKind::rate(Unit::Ratio),
                "http_req_failed" => ParsedKind::amount(Unit::Ratio),
                _ => ParsedKind::NUMBER,
            };
            all.push(case.series(share).with(0, value));
        }
        for one in all {
            parsed.add(one).map_err(|what| ParseError::at_last(text, name, what))?;
        }
    }
    Ok(parsed)
}

impl K6Metric {
    /// Thresholds that were crossed: true in `--summary-export`, not ok in `handleSummary`.
    fn crossed(&self) -> impl Iterator<Item = &String> {
        let thresholds = self.thresholds.as_object().into_iter().flatten();
        let is_crossed = |state: &Value| {
            state.as_bool().unwrap_or(false) || state["ok"].as_bool() == Some(false)
        };
        thresholds.filter(move |(_, state)| is_crossed(state)).map(|(limit, _)| limit)
    }
}

/// Times are in ms. `--summary-export` does not say which metrics of the user are times.
fn kind_of(metric: &str, contains: Option<&str>) -> ParsedKind {
    let starts = ["http_req_", "ws_", "grpc_req_", "browser_"];
    let is_time =
        || metric.ends_with("_duration") || starts.iter().any(|it| metric.starts_with(it));
    match (contains, metric) {
        (Some("time"), _) => ParsedKind::time(6),
        (Some("data"), _)
        | (None, "data_received" | "data_sent" | "browser_data_received" | "browser_data_sent") => {
            ParsedKind::amount(Unit::Bytes)
        }
        // A score.
        (None, "browser_web_vital_cls") => ParsedKind::NUMBER,
        (None, _) if is_time() => ParsedKind::time(6),
        _ => ParsedKind::NUMBER,
    }
}
