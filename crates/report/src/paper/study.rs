//! The chapter of a command by hand: its questions with their answers, its curves, or its screen.

use fathom_record::quantity::counted;
use fathom_record::{Document, Fact, Record, State, Unit};

use super::block::{Block, PaperTable};
use super::chapter::{Metrics, described, metrics, results, with_heading};
use super::curves::{
    FEW_POINTS_MIN, MEASURED, figure, grouped, hollow, is_of_line, over, point, rows,
};
use super::discussion::discussion;
use super::figure::{Axes, PaperCurve, PaperPoint, draw};
use super::{Describe, Sources, heading};
use crate::by_hand;
use crate::column::ColumnSide;

/// What is studied by a command.
const TITLES: [(&str, &str); 6] = [
    ("file cache", "First and second read of a file"),
    ("file calls", "Calls study"),
    ("file size", "File size of a reasonable time"),
    ("file sweep", "Block-size study"),
    ("load", "Load test of a server"),
    ("transfer", "Transfer by every path"),
];
/// Commands of which the curves say more than the screen.
const CURVES: [&str; 5] =
    ["file cache", "file calls", "file capacity", "file contend", "file sweep"];
/// Letters of a table across a printed page.
const COLUMNS: usize = 84;

/// `title`: that of a chapter, if it is of one.
pub(super) fn of_command(
    document: &Document,
    title: &str,
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let name = document.run.procedure.as_deref().unwrap_or_default();
    let known = TITLES.iter().find(|it| it.0 == name).map_or("", |it| it.1);
    let title = if title.is_empty() { known } else { title };
    let title = format!("{title} (`fathom {name}`)");
    let mut blocks = vec![heading(2, title.trim_start().to_owned())];
    let metrics = metrics(&document.records);
    blocks.extend(described(&metrics, describe, sources));
    let questions = by_hand::questions(document);
    if !questions.is_empty() {
        for answer in questions {
            blocks.push(heading(3, answer.question));
            blocks.extend((!answer.sentences.is_empty()).then_some(Block::List(answer.sentences)));
            for (caption, columns) in answer.tables {
                let keys =
                    columns.iter().take_while(|it| it.side == ColumnSide::Left).count().max(1);
                let parts = by_hand::blocks(columns, keys, COLUMNS);
                let table =
                    |columns| Block::Table(PaperTable { caption: caption.clone(), columns });
                blocks.extend(parts.into_iter().map(table));
            }
        }
        with_heading("Figures", drawn(document, name), &mut blocks);
    } else if CURVES.contains(&name) {
        blocks.push(heading(3, "Result"));
        blocks.extend(of_curves(document, &metrics));
        blocks.extend(drawn(document, name));
    } else {
        let screen = crate::visible(&by_hand::evidence(document, 80)).into_owned();
        blocks.extend([heading(3, "Result"), Block::Printed(screen)]);
    }
    let findings = by_hand::findings_of(&document.records, &document.host);
    let findings: Vec<String> =
        findings.into_iter().map(|(what, words)| format!("{what}: {words}")).collect();
    let all: Vec<&Record> = document.records.iter().collect();
    let mut below = if findings.is_empty() { Vec::new() } else { vec![Block::List(findings)] };
    below.extend(discussion(&all, &document.records));
    with_heading("Discussion", below, &mut blocks);
    blocks
}

/// The cases and curves of each metric, and the facts that its cases share.
fn of_curves(document: &Document, metrics: &Metrics<'_>) -> Vec<Block> {
    let all: Vec<&Record> = document.records.iter().collect();
    let mut blocks = Vec::new();
    for (metric, records) in metrics {
        let is_shared = |fact: &&Fact| {
            !is_of_line(&fact.name) && records.iter().all(|it| it.facts.contains(fact))
        };
        let shared = records[0].facts.iter().filter(is_shared);
        let words =
            |fact: &Fact| format!("{}: {}", fact.name, by_hand::fact_words(records[0], fact));
        let shared: Vec<String> = shared.map(words).collect();
        blocks.extend((!shared.is_empty()).then_some(Block::List(shared)));
        blocks.extend(results(metric, records, &all, FEW_POINTS_MIN, document.run.protocol));
    }
    blocks
}

/// The figures of a command that need more than one metric, or facts.
fn drawn(document: &Document, name: &str) -> Vec<Block> {
    let of = |metric: &str| -> Vec<&Record> {
        document.records.iter().filter(|it| it.metric.as_str() == metric).collect()
    };
    match name {
        "load" => of_load(document, &of("load.throughput")),
        "transfer" => {
            let of_set = |set: &str| {
                let own = by_hand::of_set(&document.records, "transfer.time", set);
                let name_of = |it: &Record| by_hand::combination(it, &own);
                let title = format!("time of each combination, {set}");
                rows(&own, &name_of, &title, &format!("transfer-{set}"))
            };
            by_hand::sets(&document.records).into_iter().flat_map(of_set).collect()
        }
        "file calls" => of_calls(&of("file.call")),
        "file sweep" => dd(&of("file.read.throughput")),
        _ => Vec::new(),
    }
}

/// Throughput and response time by the number of clients.
fn of_load(document: &Document, steps: &[&Record]) -> Vec<Block> {
    let clients = |it: &Record| it.params.integer("clients").map(|it| it as f64);
    let throughput = grouped(steps, "clients", &|it| point(clients(it)?, it));
    let times = |q: Option<f64>, name: &str| {
        let one = |it: &Record| {
            let y = by_hand::quantile_of(&document.records, &it.params, q)?;
            Some(bare(clients(it)?, y, it))
        };
        let named = |it: PaperCurve| PaperCurve {
            name: if it.name == MEASURED {
                name.to_owned()
            } else {
                format!("{name}, {}", it.name)
            },
            ..it
        };
        grouped(steps, "clients", &one).into_iter().map(named).collect::<Vec<PaperCurve>>()
    };
    let times = [times(None, "median"), times(Some(0.99), "p99")].concat();
    let draw = |curves: &[PaperCurve], unit, name: &str, title: &str| match curves {
        [] => Vec::new(),
        curves => over(curves, "clients", unit, name, title),
    };
    let throughput = draw(&throughput, Unit::PerSecond, "load.throughput", "throughput");
    let times = draw(&times, Unit::Nanoseconds, "load.response_time", "response time");
    [throughput, times].concat()
}

/// A point without interval and prediction.
fn bare(x: f64, y: f64, record: &Record) -> PaperPoint {
    let is_noisy = record.verdict.state == State::Noisy;
    PaperPoint { x, y, interval: None, predicted: None, limits: None, is_noisy }
}

/// Calls per second by the number of calls, and by the time of them all.
fn of_calls(records: &[&Record]) -> Vec<Block> {
    let by_count: Vec<&Record> =
        records.iter().filter(|it| it.params.integer("calls").is_some()).copied().collect();
    let rate = |it: &Record| it.quantity_of("rate").filter(|_| it.verdict.shows_number());
    let of_calls = |it: &Record| Some(bare(it.params.integer("calls")? as f64, rate(it)?, it));
    let of_time = |it: &Record| Some(bare(it.quantity_of("time")?, rate(it)?, it));
    let one = |of: &dyn Fn(&Record) -> Option<PaperPoint>, name: &str, x: &str, x_unit| {
        let curves = grouped(&by_count, "calls", of);
        if curves.is_empty() {
            return None;
        }
        let title = format!("calls per second by {x}");
        let caption = format!("{title}{}", hollow(&curves));
        let axes = Axes { title, x_title: x.to_owned(), x_unit, unit: Unit::PerSecond };
        Some(figure(name.to_owned(), caption, draw(&axes, &curves)))
    };
    let by_calls = one(&of_calls, "calls-by-number", "number of calls", None);
    let time = Some(Unit::Nanoseconds);
    let by_time = one(&of_time, "calls-by-time", "time of all calls of a pass", time);
    by_calls.into_iter().chain(by_time).collect()
}

/// The rates of dd beside those of a sweep, if it ran.
fn dd(records: &[&Record]) -> Vec<Block> {
    let beside: Vec<&Record> =
        records.iter().filter(|it| it.quantity_of("dd").is_some()).copied().collect();
    if beside.is_empty() {
        return Vec::new();
    }
    let block = |it: &Record| it.params.integer("block").map(|it| it as f64);
    let ours = grouped(&beside, "block", &|it| point(block(it)?, it));
    let theirs = grouped(&beside, "block", &|it| Some(bare(block(it)?, it.quantity_of("dd")?, it)));
    let of = |curves: Vec<PaperCurve>, by: &'static str| {
        curves.into_iter().map(move |it| PaperCurve { name: format!("{by}, {}", it.name), ..it })
    };
    let curves: Vec<PaperCurve> = of(ours, "fathom").chain(of(theirs, "dd")).collect();
    let points = counted(beside.len(), "point");
    let title = format!("file read beside dd, {points},");
    over(&curves, "block", Unit::BytesPerSecond, "sweep-dd", &title)
}
