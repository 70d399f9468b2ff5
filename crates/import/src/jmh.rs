//! JMH: the JSON of `-rf json`. Each fork is a process, and its iterations are the rounds.

use std::collections::BTreeMap;

use fathom_record::{Better, Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number, Text};
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed, unit};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JmhResult {
    jmh_version: Option<Text>,
    benchmark: String,
    #[serde(default)]
    mode: Text,
    #[serde(default, deserialize_with = "json::if_valid")]
    threads: i64,
    #[serde(default, deserialize_with = "json::if_valid")]
    params: BTreeMap<String, Text>,
    primary_metric: JmhMetric,
    #[serde(default, deserialize_with = "json::if_valid")]
    secondary_metrics: BTreeMap<String, JmhMetric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JmhMetric {
    score: Number,
    #[serde(default)]
    score_unit: Text,
    /// Of each fork. Modes that sample times have histograms instead.
    #[serde(default, deserialize_with = "json::if_valid")]
    raw_data: Vec<Vec<Number>>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let results: Vec<JmhResult> = json::read(text, &mut parsed.notes)?;
    for result in &results {
        parsed.version = parsed.version.or_else(|| result.jmh_version.clone().map(|it| it.0));
        let case = result.case();
        let forks = result.primary_metric.raw_data.len().max(1);
        let first = (0..forks).map(|_| parsed.block(&case)).min().unwrap_or_default();
        let primary = result.primary_metric.series(case.series(ParsedKind::NUMBER), first);
        let others = result.secondary_metrics.iter();
        let others = others
            .map(|(name, metric)| metric.series(case.aspect(name, ParsedKind::NUMBER), first));
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
        let case = case.and("mode", &self.mode.0);
        let case = match self.threads {
            threads if threads > 1 => case.and("threads", &threads.to_string()),
            _ => case,
        };
        self.params.iter().fold(case, |case, (key, Text(value))| {
            let name = format!("{} {key}={value}", case.name);
            ParsedCase { name, ..case.and(key, value) }
        })
    }
}

impl JmhMetric {
    fn series(&self, series: ParsedSeries, first: usize) -> ParsedSeries {
        let (kind, scale) = kind_of(&self.score_unit.0);
        let mut series = ParsedSeries { kind, ..series };
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

/// Profilers have units of their own: GCProfiler divides by 1024 twice.
fn kind_of(unit: &str) -> (ParsedKind, f64) {
    match unit {
        "MB/sec" => {
            let rate = ParsedKind::rate(Unit::BytesPerSecond);
            (ParsedKind { better: Better::Neither, ..rate }, f64::from(1 << 20))
        }
        unit => unit::kind_of(unit),
    }
}
