//! A chapter of a paper: method, prediction, result, discussion.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, percent, quantity};
use fathom_record::{Document, Protocol, Record};

use super::block::{Block, Table};
use super::chapters::CHAPTERS;
use super::curves::{Drawn, POINTS_MIN, figures, named_figure, stated_lines};
use super::discussion::discussion;
use super::{Describe, Described, Sources, cell, heading, text};
use crate::case::{case, counted, named};
use crate::cells;
use crate::wrap::capitalised;

/// More cases of a metric are drawn, and listed in the appendix only.
const ROWS_MAX: usize = 16;
/// Wide enough for any number.
const WIDTH: usize = 60;

/// The records of each metric.
pub(super) type Metrics<'r> = Vec<(&'r str, Vec<&'r Record>)>;

/// The metrics in the order of the run.
pub(super) fn metrics<'r>(records: impl IntoIterator<Item = &'r Record>) -> Metrics<'r> {
    let mut metrics: Metrics<'_> = Vec::new();
    for record in records {
        match metrics.iter_mut().find(|it| it.0 == record.metric.as_str()) {
            Some((_, records)) => records.push(record),
            None => metrics.push((record.metric.as_str(), vec![record])),
        }
    }
    metrics
}

fn group_title(group: &str) -> &str {
    match group {
        "cpu" => "clock, loop and calls",
        "os" => "operating system",
        "memory" => "memory",
        "file" => "files and the page cache",
        "network" => "network",
        "disk" => "disks",
        other => other,
    }
}

/// The metrics of no chapter, by group.
pub(super) fn further(
    document: &Document,
    run: &str,
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let is_left = |it: &&Record| !CHAPTERS.iter().any(|chapter| chapter.has(it.metric.as_str()));
    let mut blocks = Vec::new();
    let all: Vec<&Record> = document.records.iter().filter(is_left).collect();
    let mut groups: Vec<&str> = Vec::new();
    for record in &all {
        if !groups.contains(&record.metric.group()) {
            groups.push(record.metric.group());
        }
    }
    for group in groups {
        blocks.push(heading(2, format!("Further results: {}{run}", group_title(group))));
        let own = all.iter().filter(|it| it.metric.group() == group).copied();
        for (metric, records) in metrics(own) {
            blocks.push(heading(3, title(metric, &records)));
            if let Some(about) = describe(metric) {
                let model = model(&about, sources).map(|it| format!("Prediction: {it}"));
                let words = [method(&about), model].into_iter().flatten();
                blocks.push(text(words.collect::<Vec<String>>().join(" ")));
            }
            blocks.extend(results(metric, &records, &[], POINTS_MIN, document.run.protocol));
            blocks.extend(discussion(&records));
        }
    }
    blocks
}

/// Method, prediction, result and discussion of these metrics together.
pub(super) fn of_metrics(
    metrics: &Metrics<'_>,
    document: &Document,
    drawn: &[Drawn],
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let mut blocks = described(metrics, describe, sources);
    let all: Vec<&Record> = metrics.iter().flat_map(|it| &it.1).copied().collect();
    let of_chapter: Vec<(Drawn, Vec<Block>)> =
        drawn.iter().map(|it| (*it, named_figure(&all, *it))).collect();
    blocks.push(heading(3, "Result"));
    for (metric, records) in metrics {
        // A figure of the chapter has the place of those of its metrics.
        let is_drawn = of_chapter.iter().any(|(it, found)| it.has(metric) && !found.is_empty());
        if is_drawn && records.len() > ROWS_MAX {
            blocks.push(in_appendix(metric, records));
        } else if is_drawn {
            blocks.push(metric_table(metric, records, document.run.protocol));
        } else {
            blocks.extend(results(metric, records, &all, POINTS_MIN, document.run.protocol));
        }
    }
    blocks.extend(of_chapter.into_iter().flat_map(|it| it.1));
    with_heading("Discussion", discussion(&all), &mut blocks);
    blocks
}

/// A heading, if there is something below it.
pub(super) fn with_heading(title: &str, below: Vec<Block>, blocks: &mut Vec<Block>) {
    if !below.is_empty() {
        blocks.push(heading(3, title));
        blocks.extend(below);
    }
}

/// What is timed of each metric, then what is predicted.
pub(super) fn described(
    metrics: &Metrics<'_>,
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut part = |name: &str, of: &mut dyn FnMut(&Described) -> Option<String>| {
        // Metrics with the same words are one item.
        let mut items: Vec<(String, Vec<String>)> = Vec::new();
        for (metric, records) in metrics {
            let Some(words) = describe(metric).and_then(|about| of(&about)) else { continue };
            let title = title(metric, records);
            match items.iter_mut().find(|it| it.0 == words) {
                Some((_, titles)) => titles.push(title),
                None => items.push((words, vec![title])),
            }
        }
        let item =
            |(words, titles): (String, Vec<String>)| format!("{}. {words}", titles.join(", "));
        let mut items: Vec<String> = items.into_iter().map(item).collect();
        let below = match items.len() {
            0 => Vec::new(),
            1 => vec![text(items.remove(0))],
            _ => vec![Block::List(items)],
        };
        with_heading(name, below, &mut blocks);
    };
    part("Method", &mut |about| method(about));
    part("Prediction", &mut |about| model(about, sources));
    blocks
}

fn title(metric: &str, records: &[&Record]) -> String {
    format!("{} (`{metric}`)", capitalised(&records[0].title))
}

/// What is timed and what is not.
fn method(about: &Described) -> Option<String> {
    let first = if about.is_derived { "Computed" } else { "Timed" };
    let timed = format!("{first}: {}.", about.timed);
    let not = Some(about.not_timed).filter(|it| !it.is_empty());
    let not = not.map_or(String::new(), |it| format!(" Not timed: {it}."));
    Some((timed + &not).replace("..", "."))
}

/// The model with the number of its source.
fn model(about: &Described, sources: &mut Sources) -> Option<String> {
    let number = sources.number(about.source);
    let words = || format!("{}{number}.", capitalised(about.model)).replace("..", ".");
    (!about.model.is_empty()).then(words)
}

/// The cases of a metric as a table, or as curves; `all`: those beside which lines are stated.
pub(super) fn results(
    metric: &str,
    records: &[&Record],
    all: &[&Record],
    points_min: usize,
    protocol: Protocol,
) -> Vec<Block> {
    let beside: Vec<&Record> =
        all.iter().filter(|it| it.metric.as_str().starts_with(metric)).copied().collect();
    let stated = stated_lines(if all.is_empty() { records } else { &beside });
    let drawn = figures(records, &stated, points_min);
    let has_figure = drawn.iter().any(|it| matches!(it, Block::Figure(_)));
    let has_table = records.len() <= ROWS_MAX || !has_figure;
    let first = if has_table {
        metric_table(metric, records, protocol)
    } else {
        in_appendix(metric, records)
    };
    std::iter::once(first).chain(drawn).collect()
}

fn metric_table(metric: &str, records: &[&Record], protocol: Protocol) -> Block {
    let caption = format!("{} (`{metric}`)", records[0].title);
    Block::Table(table(records, caption, protocol))
}

fn in_appendix(metric: &str, records: &[&Record]) -> Block {
    let cases = counted(records.len(), "case");
    text(format!(
        "{} (`{metric}`): the {cases} are in the appendix.",
        capitalised(&records[0].title)
    ))
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
            part(prediction.and_then(|it| it.value)),
            cell(cells::predicted(record, WIDTH)),
            cell(cells::measured(record, protocol, WIDTH)),
            cells::uncertainty(record, protocol),
            deviation(record),
            verdict(record),
        ]
    };
    let titles =
        ["case", "hardware", "software", "sum", "predicted", "measured", "±", "sd", "verdict"];
    Table::new(caption, &titles, 1, records.iter().map(row).collect()).without_empty_columns()
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
    // A bound that is far away is not printed.
    let says = state.shows_number() && !record.is_loosely_bound();
    match record.agreement.filter(|_| says) {
        Some(agreement) => agreement.word().to_owned(),
        None => state.word().to_owned(),
    }
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
        ["case", "values", "processes", "measured", "interval", "sd", "predicted", "verdict"];
    let table = Table::new(caption, &titles, 1, rows).without_empty_columns();
    vec![heading(2, format!("Appendix: all cases of run {}", run.id)), Block::Table(table)]
}
