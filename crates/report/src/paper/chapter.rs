//! A chapter of a paper: method, prediction, result, discussion.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{percent, quantity};
use fathom_record::{Document, Prediction, Protocol, Record};

use super::block::{Block, PaperTable};
use super::chapters::CHAPTERS;
use super::curves::{Drawn, POINTS_MIN, figures, named_figure, stated_lines};
use super::discussion::discussion;
use super::{Describe, Described, Sources, heading, text};
use crate::case::{case, counted, named};
use crate::column::Column;
use crate::distinct::grouped;
use crate::shown::{RecordText, ShownRecord, nothing};
use crate::wrap::capitalised;

/// More cases of a metric are drawn, and listed in the appendix only.
const ROWS_MAX: usize = 16;
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
        let items = grouped(metrics.iter().filter_map(|(metric, records)| {
            Some((describe(metric).and_then(|about| of(&about))?, title(metric, records)))
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

static COLUMNS: [Column<CaseText>; 9] = [
    Column::left("case", &[], |it| it.name.clone()),
    Column::right("hardware", &[], |it| it.part(|it| it.hardware)),
    Column::right("software", &[], |it| it.part(|it| it.software)),
    Column::right("sum", &[], |it| it.part(|it| it.value)),
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
static APPENDIX: [Column<RecordText>; 8] = [
    Column::left("case", &[], |it| named(&it.record.metric, &it.record.params)),
    Column::right("values", &[], |it| {
        it.record.shown_summary().map_or_else(nothing, |it| it.n.to_string())
    }),
    Column::right("processes", &[], |it| {
        it.record.shown_summary().map_or_else(nothing, |it| it.processes.to_string())
    }),
    // As many digits as its interval beside it has.
    Column::right("measured", &[], |it| match it.value {
        DisplayValue::Number(_) if it.record.on_cliff().is_none() => it.unrounded(),
        _ => it.number(WIDTH),
    }),
    Column::right("interval", &[], |it| {
        let ends = it.record.shown_summary().and_then(|it| it.limits());
        let words = |ends: [f64; 2]| ends.map(|end| quantity(end, it.record.unit)).join(" – ");
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
