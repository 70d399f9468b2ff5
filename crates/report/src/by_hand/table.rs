//! Records of one metric measured together, one row each: the parameters that differ, the number,
//! and the facts beside it.

use fathom_analysis::curve;
use fathom_analysis::evidence::shown_agreement;
use fathom_analysis::statistics::median;
use fathom_record::{
    Agreement, Fact, FactValue, ParamValue, Params, Prediction, Protocol, Record, State, Unit,
};

use super::findings::{AXIS, point};
use super::{fact_words, facts, is_withheld};
use crate::case::{axis_name, named, position};
pub(crate) use crate::column::Column;
use crate::column::ColumnSide;
use crate::distinct::distinct;
use crate::model::no_model_line;
use crate::shown::{LIMITS_WIDTH, NOISY, ShownRecord, half_width, limits_in, nothing, state_mark};
use crate::wrap::{width_of, wrapped};
use fathom_record::quantity::{NOTHING, bare, quantity, scaled_within, unit_for};

pub(super) const MIB: f64 = 1_048_576.0;
const VALUE_WIDTH: usize = 9;

/// The table of at least two records of one metric.
pub(super) fn table(records: &[Record], above: Option<&Record>, width: usize) -> String {
    let (common, varying) = parameters(records);
    let mut text = format!("\n{}", wrapped(&named(&records[0].metric, &common), width, "", "  "));
    let shared = shared(records);
    let is_new = |fact: &&&Fact| above.is_none_or(|above| !above.facts.contains(fact));
    let lines: Vec<(&str, String)> = shared
        .iter()
        .filter(is_new)
        .map(|fact| (fact.name.as_str(), fact_words(&records[0], fact)))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    text = text.trim_end().to_owned() + "\n" + &facts(&lines, width);
    let mut columns: Vec<Column> =
        varying.iter().map(|name| Column::new(axis_name(name), cells(records, name))).collect();
    columns.extend(measured(records));
    columns.extend(beside(records, &shared));
    columns.extend(standing(records, &varying));
    columns.retain(Column::has_content);
    for block in blocks(columns, varying.len(), width) {
        text += &rows(&block);
    }
    text + &remarks(records, width)
}

/// Drops optional columns, the first ones first, until the table fits the width. Returns the line
/// that names them.
pub(super) fn fit(columns: &mut Vec<Column>, optional: &[&str], width: usize) -> String {
    let taken = |columns: &[Column]| columns.iter().map(|one| one.width() + 2).sum::<usize>();
    let whole = taken(columns);
    let mut dropped = Vec::new();
    for name in optional {
        if taken(columns) > width && columns.iter().any(|column| column.title == *name) {
            columns.retain(|column| column.title != *name);
            dropped.push(*name);
        }
    }
    if dropped.is_empty() {
        return String::new();
    }
    let text =
        format!("not shown: {}; {whole} columns (COLUMNS={whole}) show all", dropped.join(", "));
    wrapped(&text, width, "", "  ")
}

/// The words of the columns that are shown.
pub(super) fn legend(columns: &[Column], all: &[(&str, &str)], width: usize) -> String {
    let is_shown = |head: &str| columns.iter().any(|column| column.title == head);
    let words = all.iter().filter(|(head, _)| is_shown(head)).map(|(_, words)| *words);
    wrapped(&words.collect::<Vec<&str>>().join("; "), width, "", "  ")
}

/// Splits the columns of a table into blocks that fit the width, each after the first `keys`
/// columns, which name the rows.
pub(crate) fn blocks(columns: Vec<Column>, keys: usize, width: usize) -> Vec<Vec<Column>> {
    let taken = |block: &[Column]| block.iter().map(|one| 2 + one.width()).sum::<usize>();
    let keys = keys.min(columns.len());
    let mut columns = columns.into_iter();
    let names: Vec<Column> = columns.by_ref().take(keys).collect();
    let mut blocks = vec![names.clone()];
    for column in columns {
        let last = blocks.last_mut().expect("there is a block");
        if last.len() > keys && taken(last) + 2 + column.width() > width {
            blocks.push(names.iter().cloned().chain([column]).collect());
        } else {
            last.push(column);
        }
    }
    blocks
}

/// The parameters that all records share, and the names of those that differ.
fn parameters(records: &[Record]) -> (Params, Vec<String>) {
    let mut common = records[0].params.clone();
    common.0.retain(|name, value| records.iter().all(|one| one.params.0.get(name) == Some(value)));
    let names = records.iter().flat_map(|record| record.params.0.keys()).cloned();
    let varying = distinct(names.filter(|name| !common.0.contains_key(name)));
    (common, varying)
}

fn cells<'r>(records: &'r [Record], name: &'r str) -> impl Iterator<Item = String> + 'r {
    records.iter().map(move |record| match record.params.0.get(name) {
        Some(ParamValue::Integer(value)) => position(name, *value),
        Some(ParamValue::Text(text)) => text.clone(),
        None => String::new(),
    })
}

/// The number, half the width of its interval, and its prediction.
fn measured(records: &[Record]) -> Vec<Column> {
    let is_speed = records[0].unit == Unit::BytesPerSecond;
    let summaries = records.iter().filter_map(|record| record.summary.as_ref());
    let values: Vec<f64> = summaries.map(|summary| summary.median).collect();
    // One unit for the column, by its middle value.
    let (divisor, head) = match median(&values) {
        _ if is_speed => (MIB, "MiB/s"),
        Some(middle) => unit_for(middle, records[0].unit),
        None => (1.0, ""),
    };
    let limits = |it: &Prediction| limits_in((divisor, head), it, records[0].unit, LIMITS_WIDTH);
    let head = if head.is_empty() { "measured" } else { head };
    let value = |record: &Record| {
        let Some(summary) = record.shown_summary() else { return nothing() };
        let number = match is_speed {
            true => bare(summary.median / divisor),
            false => scaled_within(summary.median, divisor, VALUE_WIDTH),
        };
        state_mark(record.verdict.state).to_owned() + &number
    };
    let half = |record: &Record| half_width(record).unwrap_or_else(nothing);
    let predicted = |record: &Record| {
        let loose = record.is_loosely_bound();
        let Some(prediction) = record.prediction.as_ref().filter(|_| !loose) else {
            return String::new();
        };
        let word = ShownRecord::from_record(record, Protocol::Median).agreement();
        let says = shown_agreement(record) != Some(Agreement::Inconclusive);
        let word = word.filter(|_| says).map_or(String::new(), |word| format!(", {word}"));
        limits(prediction) + &word
    };
    vec![
        Column::new(head, records.iter().map(value)),
        Column::new("±", records.iter().map(half)),
        Column::words("predicted", records.iter().map(predicted)),
    ]
}

/// The facts that differ between records, numbers first.
fn beside(records: &[Record], shared: &[&Fact]) -> Vec<Column> {
    let facts = records.iter().flat_map(|record| &record.facts);
    let is_shared = |fact: &&Fact| shared.iter().any(|one| one.name == fact.name);
    let names = distinct(facts.filter(|it| !is_shared(it)).map(|fact| fact.name.as_str()));
    let column = |name: &&str| {
        let of = |record: &Record| record.fact(name).cloned();
        let cell = |record: &Record| of(record).map_or(String::new(), |fact| short(record, &fact));
        let is_text = records
            .iter()
            .filter_map(of)
            .any(|fact| matches!(fact.value, FactValue::Text { .. } | FactValue::Line { .. }));
        match is_text {
            true => Column::words(name, records.iter().map(cell)),
            false => Column::new(name, records.iter().map(cell)),
        }
    };
    let mut columns: Vec<Column> = names.iter().map(column).collect();
    columns.sort_by_key(|column| column.side == ColumnSide::Left);
    columns.extend(against_peers(records));
    columns
}

/// Dips in a curve, and reasons for missing numbers.
fn standing(records: &[Record], varying: &[String]) -> Option<Column> {
    // A noisy point may be low by what disturbed it.
    let valid = || records.iter().filter(|one| one.verdict.state == State::Valid);
    let points: Vec<curve::LinePoint> = valid().filter_map(point).collect();
    let quickest = valid().filter(|one| point(one).is_some());
    let quickest: Vec<f64> = quickest.filter_map(|one| Some(one.summary.as_ref()?.max)).collect();
    let is_curve = varying == [AXIS];
    let dips = if is_curve { curve::dips(&points, &quickest) } else { Vec::new() };
    let word = |record: &Record| {
        if !record.verdict.shows_number() {
            let why = record.verdict.reasons.first().map_or("", |reason| reason.text.as_str());
            return format!("{}: {why}", record.verdict.state.word());
        }
        match point(record) {
            Some((block, _)) if dips.contains(&block) => "dips".to_owned(),
            _ => String::new(),
        }
    };
    Some(Column::words("", records.iter().map(word))).filter(Column::has_content)
}

/// Ours ÷ theirs, if dd was run on the same points.
fn against_peers(records: &[Record]) -> Option<Column> {
    let ratio = |record: &Record| {
        let of_dd = record.quantity_of("dd")?;
        Some(format!("{:.2}", record.shown_summary()?.median / of_dd))
    };
    let cells: Vec<Option<String>> = records.iter().map(ratio).collect();
    cells.iter().any(Option::is_some).then(|| {
        Column::new("ours ÷ dd", cells.into_iter().map(|cell| cell.unwrap_or(NOTHING.to_owned())))
    })
}

/// The facts that all records share, printed once.
fn shared(records: &[Record]) -> Vec<&Fact> {
    let is_shared = |fact: &&Fact| {
        let is_text = !matches!(fact.value, FactValue::Quantity { .. });
        is_text && records.iter().all(|record| record.facts.contains(fact))
    };
    records[0].facts.iter().filter(is_shared).collect()
}

/// A fact as a short cell.
fn short(record: &Record, fact: &Fact) -> String {
    match &fact.value {
        FactValue::Quantity { unit, .. } if is_withheld(record, *unit) => NOTHING.to_owned(),
        FactValue::Quantity { value, unit: Unit::BytesPerSecond } => {
            format!("{} MiB/s", bare(value / MIB))
        }
        FactValue::Quantity { value, unit: Unit::Bytes } => format!("{value:.0}"),
        FactValue::Quantity { value, unit } => quantity(*value, *unit),
        FactValue::Text { text } | FactValue::Line { line: text } => text.clone(),
    }
}

/// The rows below their titles.
pub(super) fn rows(columns: &[Column]) -> String {
    let line = |cell_of: &dyn Fn(&Column) -> String| {
        let padded = |column: &Column| {
            let cell = cell_of(column);
            let fill = " ".repeat(column.width().saturating_sub(width_of(&cell)));
            let is_left = column.side == ColumnSide::Left;
            if is_left { format!("  {cell}{fill}") } else { format!("  {fill}{cell}") }
        };
        columns.iter().map(padded).collect::<String>().trim_end().to_owned() + "\n"
    };
    let rows = 0..columns.first().map_or(0, |column| column.cell.len());
    let titles = columns.first().map(|_| line(&|column| column.title.to_string()));
    let rows = rows.map(|at| line(&|column| column.cell[at].clone()));
    titles.into_iter().chain(rows).collect()
}

/// Remarks below a table: why rows are noisy, and why there is no prediction.
fn remarks(records: &[Record], width: usize) -> String {
    let mut text = String::new();
    let is_noisy = |record: &&Record| record.verdict.state == State::Noisy;
    let noisy: Vec<&Record> = records.iter().filter(is_noisy).collect();
    if let Some(reason) = noisy.first().and_then(|record| record.verdict.reasons.first()) {
        let line = format!("{NOISY} noisy, {} of {}: {}", noisy.len(), records.len(), reason.text);
        text += &wrapped(&line, width, "", "  ");
    }
    let none = records.iter().find_map(|record| record.no_model.as_ref());
    if let Some(none) = none {
        text += &wrapped(&no_model_line(none), width, "", "  ");
    }
    text
}
