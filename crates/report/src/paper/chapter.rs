//! The chapter of each group of metrics: method, prediction, result, discussion.

use std::collections::BTreeMap;

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, counted, percent, quantity};
use fathom_record::{Agreement, Document, Protocol, Record, State};

use super::block::{Block, Table};
use super::curves::{figures, noise};
use super::{Describe, Described, Sources, cell, heading, text};
use crate::case::{case, named};
use crate::cells;
use crate::remarks::{meaning, reason_words};

/// More cases of a metric are drawn, and listed in the appendix only.
const ROWS_MAX: usize = 12;
/// Wide enough for any number.
const WIDTH: usize = 60;
/// Sentences on the cases of one metric, at most.
const REMARKS_MAX: usize = 4;

/// The records of each metric.
type Metrics<'r> = Vec<(&'r str, Vec<&'r Record>)>;

/// The groups in the order of the run; their metrics in the same order.
fn groups(records: &[Record]) -> Vec<(&str, Metrics<'_>)> {
    let mut groups: Vec<(&str, Metrics<'_>)> = Vec::new();
    for record in records {
        let (group, metric) = (record.metric.group(), record.metric.as_str());
        let at = groups.iter().position(|it| it.0 == group).unwrap_or_else(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        let metrics = &mut groups[at].1;
        match metrics.iter_mut().find(|it| it.0 == metric) {
            Some((_, records)) => records.push(record),
            None => metrics.push((metric, vec![record])),
        }
    }
    groups
}

fn group_title(group: &str) -> &str {
    match group {
        "cpu" => "Clock, loop and calls",
        "os" => "Operating system",
        "memory" => "Memory",
        "file" => "Files and the page cache",
        "network" => "Network",
        "disk" => "Disks",
        other => other,
    }
}

pub(super) fn of_run(
    document: &Document,
    of_several: bool,
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let run = if of_several { format!(", run {}", document.run.id) } else { String::new() };
    let mut blocks = Vec::new();
    for (group, metrics) in groups(&document.records) {
        blocks.push(heading(2, format!("{}{run}", group_title(group))));
        for (metric, records) in metrics {
            let title = &records[0].title;
            blocks.push(heading(3, format!("{} (`{metric}`)", capital(title))));
            blocks.extend(describe(metric).map(|it| method(&it, sources)));
            blocks.extend(results(&records, document.run.protocol));
            blocks.extend(discussion(&records));
        }
    }
    blocks
}

/// What is timed and what is not, and the model.
fn method(described: &Described, sources: &mut Sources) -> Block {
    let Described { timed, not_timed, model, source, is_derived, .. } = described;
    let mut parts = vec![format!("{}: {timed}.", if *is_derived { "Computed" } else { "Timed" })];
    parts.extend((!not_timed.is_empty()).then(|| format!("Not timed: {not_timed}.")));
    let number = sources.number(source);
    parts.extend((!model.is_empty()).then(|| format!("Prediction: {model}{number}.")));
    text(parts.join(" ").replace("..", "."))
}

fn results(records: &[&Record], protocol: Protocol) -> Vec<Block> {
    let title = &records[0].title;
    let drawn = figures(records);
    let mut blocks = Vec::new();
    if records.len() <= ROWS_MAX || drawn.is_empty() {
        blocks.push(Block::Table(table(records, title.clone(), protocol)));
    } else {
        let cases = counted(records.len(), "case");
        blocks.push(text(format!("The {cases} are in the appendix.")));
    }
    blocks.extend(drawn);
    blocks
}

/// A row a record: what was predicted, measured, and whether they agree.
pub(super) fn table(records: &[&Record], caption: String, protocol: Protocol) -> Table {
    let one_metric = records.iter().all(|it| it.metric == records[0].metric);
    let row = |record: &&Record| {
        let name = match one_metric && !record.params.is_empty() {
            true => case(&record.params),
            false => named(&record.metric, &record.params),
        };
        let prediction = record.prediction.as_ref();
        let part = |of: Option<f64>| of.map_or(NOTHING.to_owned(), |it| quantity(it, record.unit));
        vec![
            name,
            part(prediction.and_then(|it| it.hardware)),
            part(prediction.and_then(|it| it.software)),
            cell(cells::predicted(record, WIDTH)),
            cell(cells::measured(record, protocol, WIDTH)),
            cells::uncertainty(record, protocol),
            deviation(record),
            verdict(record),
        ]
    };
    let titles =
        vec!["case", "hardware", "software", "predicted", "measured", "±", "sd", "verdict"];
    let rows = records.iter().map(row).collect();
    Table { caption, titles, right: 1, rows }.without_empty_columns()
}

/// As many digits as its interval beside it has.
fn unrounded(record: &Record, protocol: Protocol) -> String {
    match DisplayValue::of(record, protocol) {
        DisplayValue::Number(value) if record.on_cliff().is_none() => {
            format!("{}{}", cells::mark(&[record]), quantity(value, record.unit))
        }
        _ => cell(cells::measured(record, protocol, WIDTH)),
    }
}

/// The standard deviation of all values, as a share of their mean.
fn deviation(record: &Record) -> String {
    let summary = record.shown_summary().filter(|it| it.n > 1 && it.mean != 0.0);
    summary.map_or(NOTHING.to_owned(), |it| percent((it.sd / it.mean).abs()))
}

fn verdict(record: &Record) -> String {
    let state = record.verdict.state;
    match record.agreement.filter(|_| state.shows_number()) {
        Some(agreement) => agreement.word().to_owned(),
        None => state.word().to_owned(),
    }
}

/// What is outside and what that means, what has no number and why, what disturbed.
fn discussion(records: &[&Record]) -> Vec<Block> {
    let shows = |record: &&&Record| record.verdict.shows_number();
    let fails = |record: &&&Record| record.agreement.is_some_and(Agreement::fails);
    let with = |wanted: &[Agreement]| {
        let of = |record: &&&Record| record.agreement.is_some_and(|it| wanted.contains(&it));
        records.iter().filter(shows).filter(of).count()
    };
    let agreed = with(&[Agreement::Within, Agreement::Met]);
    let inconclusive = with(&[Agreement::Inconclusive]);
    let outside: Vec<&&Record> = records.iter().filter(shows).filter(fails).collect();
    let mut remarks = Vec::new();
    if agreed > 0 {
        remarks.push(format!("{} as predicted.", of_all(agreed, records.len())));
    }
    if inconclusive > 0 {
        remarks.push(format!("{} inconclusive.", of_all(inconclusive, records.len())));
    }
    // Cases with one meaning are one remark.
    let mut meanings: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in outside {
        meanings.entry(meaning(record).unwrap_or("")).or_default().push(record);
    }
    for (meaning, records) in meanings {
        let words = if meaning.is_empty() { String::new() } else { format!(": {meaning}") };
        remarks.push(format!("Outside the prediction: {}{words}.", some(&records)));
    }
    let mut without: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|it| !it.verdict.shows_number()) {
        let why = format!("{}: {}", record.verdict.state.word(), reason_words(record));
        without.entry(why).or_default().push(record);
    }
    for (why, records) in without {
        remarks.push(format!("Without a number, {why}: {}.", some(&records)));
    }
    if let Some(words) = noise(records) {
        let first = records.iter().find(|it| it.verdict.state == State::Noisy);
        let why = first.map_or(String::new(), |it| format!(", such as {}", reason_words(it)));
        remarks.push(format!("{words}{why}."));
    }
    let more = remarks.len().saturating_sub(REMARKS_MAX);
    remarks.truncate(REMARKS_MAX);
    remarks.extend((more > 0).then(|| format!("{} more.", counted(more, "remark"))));
    if remarks.is_empty() { Vec::new() } else { vec![Block::List(remarks)] }
}

/// With an upper-case letter first.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn of_all(some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "The case is".to_owned(),
        (2, 2) => "Both cases are".to_owned(),
        (some, all) if some == all => format!("All {all} cases are"),
        (some, all) => format!("{some} of {all} cases are"),
    }
}

/// Their names; of many the first, and how many more.
fn some(records: &[&Record]) -> String {
    let names: Vec<String> =
        records.iter().take(2).map(|it| format!("`{}`", named(&it.metric, &it.params))).collect();
    match records.len().saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The curves of a command by hand.
pub(super) fn curves_of(document: &Document) -> Vec<Block> {
    let of = |metrics: Metrics<'_>| {
        metrics.into_iter().flat_map(|(_, records)| figures(&records)).collect::<Vec<Block>>()
    };
    groups(&document.records).into_iter().flat_map(|(_, metrics)| of(metrics)).collect()
}

/// The method of each metric of a command by hand.
pub(super) fn described(
    document: &Document,
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let mut items = Vec::new();
    for (_, metrics) in groups(&document.records) {
        for (metric, records) in metrics {
            if let Some(Block::Text(words)) = describe(metric).map(|it| method(&it, sources)) {
                items.push(format!("{} (`{metric}`). {words}", records[0].title));
            }
        }
    }
    if items.is_empty() { Vec::new() } else { vec![text("Method:"), Block::List(items)] }
}

/// All cases of a run.
pub(super) fn appendix(document: &Document) -> Vec<Block> {
    let run = &document.run;
    let row = |record: &Record| {
        let summary = record.shown_summary();
        let count = |of: Option<u64>| of.map_or(NOTHING.to_owned(), |it| it.to_string());
        let interval = summary.and_then(|it| it.limits());
        let ends = interval.map_or(NOTHING.to_owned(), |[low, high]| {
            format!("{} – {}", quantity(low, record.unit), quantity(high, record.unit))
        });
        vec![
            named(&record.metric, &record.params),
            count(summary.map(|it| it.n)),
            count(summary.map(|it| u64::from(it.processes))),
            unrounded(record, run.protocol),
            ends,
            deviation(record),
            cell(cells::predicted(record, WIDTH)),
            verdict(record),
        ]
    };
    let rows: Vec<Vec<String>> = document.records.iter().map(row).collect();
    let caption = format!("run {}", run.name());
    let titles =
        vec!["case", "values", "processes", "measured", "interval", "sd", "predicted", "verdict"];
    let table = Table { caption, titles, right: 1, rows }.without_empty_columns();
    vec![heading(2, format!("Appendix: all cases of run {}", run.id)), Block::Table(table)]
}
