//! JMH: the JSON of `-rf json`. Each fork is a process, and its iterations are the rounds.

use std::collections::BTreeMap;

use fathom_record::{Better, Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JmhResult {
    jmh_version: Option<String>,
    benchmark: String,
    mode: String,
    #[serde(default)]
    threads: i64,
    #[serde(default)]
    params: BTreeMap<String, String>,
    primary_metric: JmhMetric,
    #[serde(default)]
    secondary_metrics: BTreeMap<String, JmhMetric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JmhMetric {
    score: Number,
    score_unit: String,
    /// Of each fork. Modes that sample times have histograms instead.
    #[serde(default)]
    raw_data: Vec<Vec<Number>>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let results: Vec<JmhResult> = json::read(text, &mut parsed.notes)?;
    for result in &results {
        parsed.version = parsed.version.or_else(|| result.jmh_version.clone());
        let case = result.case();
        let forks = result.primary_metric.raw_data.len().max(1);
        let first = (0..forks).map(|_| parsed.block(&case)).min().unwrap_or_default();
        let primary = result.primary_metric.series(case.series(kind_of("")), first);
        let others = result.secondary_metrics.iter();
        let others =
            others.map(|(name, metric)| metric.series(case.aspect(name, kind_of("")), first));
        for one in std::iter::once(primary).chain(others) {
            parsed.add(one).map_err(|what| ParseError::at_last(text, &result.benchmark, what))?;
        }
    }
    Ok(parsed)
}

impl JmhResult {
    fn case(&self) -> ParsedCase {
        let id = name::safe(&self.benchmark);
        let case = ParsedCase::new(&self.benchmark, id, Params::none());
        let case = case.and("mode", &self.mode);
        let case = match self.threads {
            threads if threads > 1 => case.and("threads", &threads.to_string()),
            _ => case,
        };
        self.params.iter().fold(case, |case, (key, value)| {
            let name = format!("{} {key}={value}", case.name);
            ParsedCase { name, ..case.and(key, value) }
        })
    }
}

impl JmhMetric {
    fn series(&self, series: ParsedSeries, first: usize) -> ParsedSeries {
        let mut series = ParsedSeries { kind: kind_of(&self.score_unit), ..series };
        // GCProfiler divides by 1024 twice.
        let scale = if self.score_unit == "MB/sec" { f64::from(1 << 20) } else { 1.0 };
        for (at, fork) in self.raw_data.iter().enumerate() {
            fork.iter().for_each(|value| series.push(first + at, scale * value.0));
        }
        if self.raw_data.is_empty() {
            series.push(first, scale * self.score.0);
            series.notes.push("the score of the file, which has no single values".to_owned());
        }
        series
    }
}

/// `ns/op`, `ops/ms`; profilers have units of their own.
fn kind_of(unit: &str) -> ParsedKind {
    let exponent = |unit: &str| match unit {
        "ns" => Some(0),
        "us" => Some(3),
        "ms" => Some(6),
        "s" => Some(9),
        _ => None,
    };
    let of_time = unit.strip_suffix("/op").and_then(exponent).map(ParsedKind::time);
    let of_rate = unit
        .strip_prefix("ops/")
        .and_then(exponent)
        .map(|it| ParsedKind { exponent: 9 - it, ..ParsedKind::rate(Unit::PerSecond) });
    let bytes = || match unit {
        "B/op" => ParsedKind::amount(Unit::Bytes),
        "MB/sec" => ParsedKind { unit: Unit::BytesPerSecond, better: Better::Neither, exponent: 0 },
        _ => ParsedKind::NUMBER,
    };
    of_time.or(of_rate).unwrap_or_else(bytes)
}
