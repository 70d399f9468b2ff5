//! Runs for other programs: JSON lines, a CSV table, OpenMetrics, or the files of benchmark tools.

mod github_action;
mod go;
mod openmetrics;
mod samples;

pub use github_action::github_action;
pub use go::go;
pub use openmetrics::{Additions, findings, openmetrics};
pub use samples::SampleTable;

use std::io::{self, Write};

use fathom_analysis::evidence::{shown_agreement, shown_state};
use fathom_analysis::limits::UserLimit;
use fathom_record::quantity::percent;
use fathom_record::{Document, Fact, FactValue, Headline, Protocol, Record, Typical, fact};

use crate::distinct::distinct;

/// Each document on a line of its own; `fathom import` reads it.
pub fn jsonl(documents: &[Document]) -> String {
    let line = |document: &Document| {
        serde_json::to_string(document).expect("plain data has a JSON form") + "\n"
    };
    documents.iter().map(line).collect()
}

/// A run as [`jsonl`] or [`crate::document_json`] has it, without its whole text in memory.
pub fn write_json(document: &Document, is_line: bool, mut output: impl Write) -> io::Result<()> {
    match is_line {
        true => serde_json::to_writer(&mut output, document)?,
        false => serde_json::to_writer_pretty(&mut output, document)?,
    }
    output.write_all(b"\n")
}

/// The columns of [`csv`]. Values are in the base unit in `unit`. Unknown values and numbers of
/// invalid records are empty; a record with a `bound` has no other numbers.
const COLUMNS: &str = "run started host host_id kernel cpu version effort run_verdict label \
                       metric params unit better state causes values processes \
                       median low high level bound stratum clean_visits visits as_found \
                       min max mean sd p90 p99 p999 \
                       protocol trimmed_mean trimmed_sd trimmed_se trimmed_values trials \
                       hardware software predicted predicted_low predicted_high agreement \
                       typical_low typical_median typical_high typical_machines typical_better \
                       line_intercept line_r_squared";

/// A CSV table of all records of these runs.
pub fn csv(documents: &[Document]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &[String]| writer.write_record(row).expect("writing to memory");
    write(&COLUMNS.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for document in documents {
        document.records.iter().for_each(|record| write(&row(document, record)));
    }
    let bytes = writer.into_inner().expect("writing to memory");
    String::from_utf8(bytes).expect("all fields are text")
}

fn row(document: &Document, record: &Record) -> Vec<String> {
    let (run, host) = (&document.run, &document.host);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let headline = Headline::from(record);
    let summary = record.shown_summary();
    let shown = summary.filter(|_| headline.value.is_some());
    let of = |value: fn(&fathom_record::Summary) -> f64| number(shown.map(value));
    let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let quantile = |q: f64| shown?.quantiles.iter().find(|one| one.q == q).map(|one| one.value);
    let selected = shown.and_then(|summary| summary.in_state.as_ref());
    let found = shown.and_then(|summary| summary.as_found.as_ref());
    let visits = |value: Option<u32>| count(value.map(u64::from));
    let trimmed = shown.and_then(|summary| summary.trimmed.as_ref());
    let trimmed = trimmed.filter(|_| run.protocol == Protocol::Trimmed);
    let prediction = record.prediction.as_ref();
    let causes = distinct(record.verdict.reasons.iter().map(|one| name_of(&one.cause)));
    let mut row = vec![
        run.id.clone(),
        run.started.clone(),
        host.name.clone(),
        host.id.clone().unwrap_or_default(),
        host.kernel.clone(),
        host.cpu.model.clone(),
        document.tool.version.clone(),
        run.effort.word().to_owned(),
        shown_state(document).word().to_owned(),
        run.label.clone().unwrap_or_default(),
        record.metric.to_string(),
        record.params.to_string(),
        record.unit.symbol().to_owned(),
        name_of(&record.better),
        record.verdict.state.word().to_owned(),
        causes.join(" "),
        count(summary.map(|summary| summary.n)),
        visits(summary.map(|summary| summary.processes)),
        of(|summary| summary.median),
        number(headline.interval.map(|[low, _]| low)),
        number(headline.interval.map(|[_, high]| high)),
        number(shown.and_then(|summary| summary.interval).map(|interval| interval.level)),
        number(headline.bound),
        shown.map_or_else(String::new, |summary| name_of(&summary.stratum)),
        visits(selected.map(|estimate| estimate.visits)),
        visits(selected.or(found).map(|estimate| estimate.of)),
        number(found.map(|estimate| estimate.median)),
        of(|summary| summary.min),
        of(|summary| summary.max),
        of(|summary| summary.mean),
        of(|summary| summary.sd),
        number(quantile(0.9)),
        number(quantile(0.99)),
        number(quantile(0.999)),
        name_of(&run.protocol),
        number(trimmed.map(|trimmed| trimmed.mean)),
        number(trimmed.map(|trimmed| trimmed.sd)),
        number(trimmed.map(|trimmed| trimmed.se)),
        count(trimmed.map(|trimmed| trimmed.n)),
        count(trimmed.map(|trimmed| trimmed.trials)),
        number(prediction.and_then(|prediction| prediction.hardware)),
        number(prediction.and_then(|prediction| prediction.software)),
        number(prediction.and_then(|prediction| prediction.value)),
        number(prediction.and_then(|prediction| prediction.low)),
        number(prediction.and_then(|prediction| prediction.high)),
        shown_agreement(record).map_or_else(String::new, |agreement| name_of(&agreement)),
    ];
    row.extend(typical(record).into_iter().chain(line(record)));
    row
}

/// The columns of the line whose slope the value is.
fn line(record: &Record) -> [String; 2] {
    let facts = || record.facts.iter().filter(|_| record.verdict.shows_number());
    [fact::INTERCEPT, fact::R_SQUARED].map(|name| match facts().find(|it| it.name == name) {
        Some(Fact { value: FactValue::Quantity { value, .. }, .. }) => value.to_string(),
        _ => String::new(),
    })
}

/// The columns of the typical range.
fn typical(record: &Record) -> [String; 5] {
    let Some(typical) = &record.typical else { return Default::default() };
    let Typical { low, median, high, n, better, .. } = typical;
    [low.to_string(), median.to_string(), high.to_string(), n.to_string(), better.to_string()]
}

/// The limits that the valid numbers of a run keep with a margin, as a TOML file; `None` without
/// any.
pub fn limits(document: &Document, margin: f64) -> Option<String> {
    let Document { run, host, records, .. } = document;
    let line = |record: &Record| {
        let limit = UserLimit::around(record, margin)?;
        Some(format!("{:?} = {:?}\n", record.name(), limit.text(record.unit)))
    };
    let lines: String = records.iter().filter_map(line).collect();
    let about = format!(
        "# What each number must be: the interval of run {} on {} ({}),\n\
         # with a margin of {} on the worse side. Remove what does not matter.\n\
         # fathom show --limits FILE, fathom run --limits FILE, fathom check --limits FILE\n\n",
        run.id,
        fathom_record::escaped(host.shown_name()),
        fathom_record::escaped(&host.cpu.model),
        percent(margin)
    );
    (!lines.is_empty()).then_some(about + &lines)
}

/// The name of an enum variant in JSON.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
