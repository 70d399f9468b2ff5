//! pyperf: its JSON. Each of its runs with values is a worker process.

use std::collections::BTreeMap;

use fathom_record::{Fact, Params, Unit};
use serde::Deserialize;
use serde_json::Value;

use crate::json::{self, Number};
use crate::name::{self, title};
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct Suite {
    benchmarks: Vec<Benchmark>,
    #[serde(default)]
    metadata: Metadata,
    version: String,
}

#[derive(Deserialize)]
struct Benchmark {
    #[serde(default)]
    metadata: Metadata,
    runs: Vec<PyperfRun>,
}

#[derive(Deserialize)]
struct PyperfRun {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    values: Vec<Number>,
}

type Metadata = BTreeMap<String, Value>;

/// What all runs have in common is written once for the benchmark, or for the file.
struct PyperfKnown<'m>(Vec<&'m Metadata>);

impl PyperfKnown<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find_map(|metadata| metadata.get(key))?.as_str()
    }

    fn count(&self, key: &str) -> Option<u32> {
        let value = self.0.iter().find_map(|metadata| metadata.get(key))?;
        u32::try_from(value.as_u64()?).ok()
    }
}

/// Of values.
const UNITS: [&str; 3] = ["second", "byte", "integer"];

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let suite: Suite = json::read(text, &mut parsed.notes)?;
    if suite.version != "1.0" {
        let what = format!("version {:?} of the format; 1.0 is read", suite.version);
        return Err(ParseError::at_last(text, &suite.version, what));
    }
    for benchmark in &suite.benchmarks {
        let known = PyperfKnown(vec![&benchmark.metadata, &suite.metadata]);
        let Some(title) = known.text("name") else {
            parsed.notes.push("a benchmark has no name and is left out".to_owned());
            continue;
        };
        let at = |what| ParseError::at_last(text, title, what);
        let unit = known.text("unit");
        let kind = match unit {
            None | Some("second") => ParsedKind::SECONDS,
            Some("byte") => ParsedKind::amount(Unit::Bytes),
            Some("integer") => ParsedKind::NUMBER,
            Some(_) => ParsedKind::NUMBER,
        };
        let case = ParsedCase::new(title, name::safe(title), Params::none());
        let mut series = case.series(kind);
        if let Some(other) = unit.filter(|unit| !UNITS.contains(unit)) {
            series.missing = Some(name::title(&format!("unknown unit `{other}`")));
            parsed.add(series).map_err(at)?;
            continue;
        }
        for run in benchmark.runs.iter().filter(|run| !run.values.is_empty()) {
            let process = parsed.block(&case);
            run.values.iter().for_each(|value| series.push(process, value.0));
            let all = PyperfKnown(vec![&run.metadata, &benchmark.metadata, &suite.metadata]);
            note_origin(&mut parsed, &all);
            for (fact, key) in [("Python", "python_version"), ("platform", "platform")] {
                let found = all.text(key).filter(|_| process == 0);
                series.facts.extend(found.map(|found| Fact::text(fact, name::title(found))));
            }
        }
        if series.processes.is_empty() && series.left_out.is_none() {
            series.missing = Some("the file has no values of it".to_owned());
        }
        parsed.add(series).map_err(at)?;
    }
    Ok(parsed)
}

/// Of the first run that has it; the date of the earliest.
fn note_origin(parsed: &mut Parsed, known: &PyperfKnown<'_>) {
    let or = |had: &mut Option<String>, key: &str| {
        *had = had.take().or_else(|| known.text(key).map(title))
    };
    or(&mut parsed.version, "pyperf_version");
    or(&mut parsed.version, "perf_version");
    or(&mut parsed.host, "hostname");
    or(&mut parsed.cpu, "cpu_model_name");
    parsed.cpus = parsed.cpus.or_else(|| known.count("cpu_count"));
    let date = known.text("date").and_then(ParsedDate::parse);
    let is_earlier =
        |date: &ParsedDate| parsed.date.as_ref().is_none_or(|it| date.moment < it.moment);
    if let Some(date) = date.filter(is_earlier) {
        parsed.date = Some(date);
    }
}
