//! The JSON of github-action-benchmark for other tools. A file is of one direction:
//! `customSmallerIsBetter` or `customBiggerIsBetter`.

use fathom_record::quantity::{percent, quantity};
use fathom_record::{Better, Document, Protocol, Record};
use serde::Serialize;

#[derive(Serialize)]
struct GithubActionRow {
    name: String,
    /// In the base unit, which does not change from run to run: the action compares plain numbers.
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// The numbers of a run of which this direction is better, and how many have another one. Rates are
/// not turned into times: nobody has measured those, and a threshold of the action is a ratio.
pub fn github_action(document: &Document, better: Better) -> (String, usize) {
    let Document { run, records, .. } = document;
    let has_number = |record: &&Record| record.number(run.protocol).is_some();
    let (these, others): (Vec<&Record>, Vec<&Record>) =
        records.iter().filter(has_number).partition(|record| record.better == better);
    let rows: Vec<GithubActionRow> =
        these.into_iter().filter_map(|record| row(record, run.protocol, &run.name())).collect();
    let text = serde_json::to_string_pretty(&rows).expect("plain data has a JSON form");
    (text + "\n", others.len())
}

fn row(record: &Record, protocol: Protocol, run: &str) -> Option<GithubActionRow> {
    let value = record.number(protocol)?;
    let summary = record.shown_summary()?;
    let mut extra = vec![format!("{}, run {run}", record.verdict.state.word())];
    extra.extend(record.verdict.reasons.iter().map(|reason| reason.text.clone()));
    extra.extend(summary.interval.map(|interval| {
        let [low, high] = interval.limits().map(|end| quantity(end, record.unit));
        let processes = fathom_record::quantity::counted(summary.processes as usize, "process");
        format!("{low} to {high} ({}), {processes}", percent(interval.level))
    }));
    extra.extend(record.measured_by.iter().map(|by| format!("measured by {}", by.words())));
    Some(GithubActionRow {
        name: record.name(),
        unit: record.unit.symbol(),
        value,
        range: summary.relative_half_width().map(|half| format!("± {}", percent(half))),
        extra: extra.join("\n"),
    })
}
