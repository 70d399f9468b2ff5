//! A chapter of a paper: method, prediction, result, discussion.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{percent, quantity, range};
use fathom_record::{Document, Prediction, Protocol, Record};

use super::block::{Block, PaperTable};
use super::chapters::CHAPTERS;
use super::curves::{self, Drawn, POINTS_MIN, named_figure, stated_lines, unexplained};
use super::discussion::discussion;
use super::{Describe, Described, Sources, heading, text};
use crate::case::{case, counted, named};
use crate::column::Column;
use crate::distinct::grouped;
use crate::model::no_model_line;
use crate::shown::{RecordText, ShownRecord, nothing};
use crate::wrap::capitalised;

/// More cases of a metric are drawn, and listed in the appendix only.
const ROWS_MAX: usize = 16;
/// Formulas of one metric that are printed.
const FORMULAS_MAX: usize = 8;
/// Wide enough for any number.
const WIDTH: usize = 60;

/// The records of each metric.
pub(super) type Metrics<'r> = Vec<(&'r str, Vec<&'r Record>)>;

/// The metrics in the order of the run.
pub(super) fn metrics<'r>(records: impl IntoIterator<Item = &'r Record>) -> Metrics<'r> {
    grouped(records.into_iter().map(|record| (record.metric.as_str(), record)))
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
    for (group, own) in grouped(all.into_iter().map(|it| (it.metric.group(), it))) {
        blocks.push(heading(2, format!("Further results: {}{run}", group_title(group))));
        blocks.extend(of_metrics(&metrics(own), document, &[], describe, sources));
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
    let lines = stated_lines(&all);
    let (mut rows, mut figures): (Vec<&Record>, Vec<Block>) = (Vec::new(), Vec::new());
    for (metric, records) in metrics {
        // A figure of the chapter has the place of those of its metrics.
        let is_drawn = of_chapter.iter().any(|(it, found)| it.has(metric) && !found.is_empty());
        let own = match is_drawn {
            true => Vec::new(),
            false => curves::figures(records, !lines.is_empty(), POINTS_MIN),
        };
        if records.len() > ROWS_MAX && (is_drawn || !own.is_empty()) {
            blocks.push(in_appendix(metric, records));
        } else {
            rows.extend(records.iter().copied());
        }
        figures.extend(own);
    }
    if let Some(first) = rows.first() {
        let one_metric = rows.iter().all(|it| it.metric == first.metric);
        let caption = match one_metric {
            true => format!("{} (`{}`)", first.title, first.metric),
            false => "the results of this chapter".to_owned(),
        };
        blocks.push(Block::Table(table(&rows, caption, document.run.protocol)));
    }
    blocks.extend(figures);
    blocks.extend((!lines.is_empty()).then_some(Block::List(lines)));
    blocks.extend(unexplained(&all).map(text));
    blocks.extend(of_chapter.into_iter().flat_map(|it| it.1));
    with_heading("Discussion", discussion(&all, &document.records), &mut blocks);
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
    let mut part = |name: &str, of: &mut dyn FnMut(&str, &[&Record]) -> Option<String>| {
        // Metrics with the same words are one item.
        let items =
            grouped(metrics.iter().filter_map(|(metric, records)| {
                Some((of(metric, records)?, title(metric, records)))
            }));
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
    part("Method", &mut |metric, _| method(&describe(metric)?));
    part("Prediction", &mut |_, records| predictions(records, sources));
    blocks
}

/// The formulas by which these cases were predicted, with the numbers of their sources, or why
/// there is none: by the records, since a later version may have another model.
fn predictions(records: &[&Record], sources: &mut Sources) -> Option<String> {
    let mut words = |record: &Record| match (&record.prediction, &record.no_model) {
        (Some(prediction), _) => {
            let Prediction { formula, source, .. } = prediction;
            let tolerance = prediction.tolerance();
            let tolerance = tolerance.map_or(String::new(), |it| format!(" ± {}", percent(it)));
            Some(format!("{formula}{tolerance}{}", sources.number(source)))
        }
        (None, Some(none)) => Some(no_model_line(none)),
        (None, None) => None,
    };
    let all = grouped(records.iter().filter_map(|it| Some((words(it)?, *it))));
    let (count, is_one) = (all.len(), all.len() == 1);
    let one = |(words, of): (String, Vec<&Record>)| {
        let params = of.iter().find(|it| !it.params.is_empty() && !is_one);
        let more = if of.len() > 1 { format!(" and {} more", of.len() - 1) } else { String::new() };
        params.map_or(words.clone(), |it| format!("`{}`{more}: {words}", case(&it.params)))
    };
    let mut parts: Vec<String> = all.into_iter().take(FORMULAS_MAX).map(one).collect();
    if count > FORMULAS_MAX {
        parts.push(format!("{} further formulas", count - FORMULAS_MAX));
    }
    let words = (!parts.is_empty()).then(|| parts.join("; ") + ".")?;
    Some(if words.starts_with("no ") { capitalised(&words) } else { words })
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
    let lines = stated_lines(&beside);
    let mut drawn = curves::figures(records, !lines.is_empty(), points_min);
    let has_figure = drawn.iter().any(|it| matches!(it, Block::Figure(_)));
    drawn.extend((!lines.is_empty()).then_some(Block::List(lines)));
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

/// A case with its name in a table.
struct NamedCase<'r> {
    name: String,
    shown: ShownRecord<'r>,
}

impl NamedCase<'_> {
    /// A part of the prediction.
    fn part(&self, of: fn(&Prediction) -> Option<f64>) -> String {
        let part = self.shown.record.prediction.as_ref().and_then(of);
        part.map_or_else(nothing, |it| quantity(it, self.shown.record.unit))
    }
}

type CaseText = fn(&NamedCase<'_>) -> String;

static COLUMNS: [Column<CaseText>; 8] = [
    Column::left("case", &[], |it| it.name.clone()),
    Column::right("hardware", &[], |it| it.part(Prediction::documented_hardware)),
    Column::right("from other results", &[], |it| it.part(Prediction::from_results)),
    Column::right("predicted", &[], |it| it.shown.expected(WIDTH).0),
    Column::right("measured", &[], |it| it.shown.number(WIDTH)),
    Column::right("±", &[], |it| it.shown.half()),
    Column::right("sd", &[], |it| deviation(it.shown.record)),
    Column::right("verdict", &[], |it| it.shown.word().0),
];

/// A row a record: what was predicted, measured, and whether they agree.
pub(super) fn table<'r>(records: &[&'r Record], caption: String, protocol: Protocol) -> PaperTable {
    let one_metric = records.iter().all(|it| it.metric == records[0].metric);
    let row = |&record: &&'r Record| NamedCase {
        name: match one_metric && !record.params.is_empty() {
            true => case(&record.params),
            false => named(&record.metric, &record.params),
        },
        shown: ShownRecord::from_record(record, protocol),
    };
    let rows: Vec<NamedCase<'_>> = records.iter().map(row).collect();
    PaperTable::filled(caption, &COLUMNS, &rows).without_empty_columns()
}

/// The standard deviation of all values, as a share of their mean.
fn deviation(record: &Record) -> String {
    let summary = record.shown_summary().filter(|it| it.n > 1 && it.mean != 0.0);
    summary.map_or_else(nothing, |it| percent((it.sd / it.mean).abs()))
}

/// Of all cases of a run.
static APPENDIX: [Column<RecordText>; 7] = [
    Column::left("case", &[], |it| named(&it.record.metric, &it.record.params)),
    Column::right("values in processes", &[], |it| {
        let summary = it.record.shown_summary();
        summary.map_or_else(nothing, |it| format!("{} in {}", it.n, it.processes))
    }),
    // As many digits as its interval beside it has.
    Column::right("measured", &[], |it| match it.value {
        DisplayValue::Number(_) if it.record.on_cliff().is_none() => it.unrounded(),
        _ => it.number(WIDTH),
    }),
    Column::right("interval", &[], |it| {
        let ends = it.record.shown_summary().and_then(|it| it.limits());
        let words = |[low, high]: [f64; 2]| range(Some(low), Some(high), it.record.unit);
        ends.map_or_else(nothing, words)
    }),
    Column::right("sd", &[], |it| deviation(it.record)),
    Column::right("predicted", &[], |it| it.expected(WIDTH).0),
    Column::right("verdict", &[], |it| it.word().0),
];

/// All cases of a run.
pub(super) fn appendix(document: &Document) -> Vec<Block> {
    let run = &document.run;
    let shown =
        document.records.iter().map(|record| ShownRecord::from_record(record, run.protocol));
    let (caption, rows) = (format!("run {}", run.name()), shown.collect::<Vec<_>>());
    let table = PaperTable::filled(caption, &APPENDIX, &rows).without_empty_columns();
    vec![heading(2, format!("Appendix: all cases of run {}", run.id)), Block::Table(table)]
}
