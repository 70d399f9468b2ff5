//! A curve in the table: one row, its shape below, and remarks on its points.

use anstyle::Style;
use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, percent, span_within};
use fathom_record::{Agreement, Class, Protocol, Record, State};

use super::Curve;
use super::points::{Points, Printed};
use crate::case::{axis_name, case, position};
use crate::cells::{Row, Setting, cycle_count, mark, row_line};
use crate::counts::{agreements, counts_of};
use crate::layout::column;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, of_state};
use crate::remarks::INDENT;
use crate::spark;
use crate::wrap::{clean, glued, width_of, wrapped};

/// Bars of a curve at most; with more points, each bar is the mean of a stretch.
const BARS: usize = 32;

/// The lines of one curve of a metric.
pub(crate) fn curve_lines(
    curve: &Curve,
    records: &[Record],
    setting: &Setting<'_>,
    printed: &mut Printed,
) -> String {
    let members: Vec<&Record> = curve.members.iter().map(|at| &records[*at]).collect();
    let name = |record: &&Record| {
        let at = record.params.integer(&curve.axis).unwrap_or_default();
        position(&curve.axis, at)
    };
    let names: Vec<String> = members.iter().map(name).collect();
    let from_to = match (names.first(), names.last()) {
        (Some(first), Some(last)) => format!("{} {first}…{last}", axis_name(&curve.axis)),
        _ => String::new(),
    };
    let label = if curve.fixed.is_empty() { from_to.clone() } else { case(&curve.fixed) };
    let mut text = family_row(&label, &members, setting);
    let values = members.iter().map(|record| DisplayValue::of(record, setting.protocol).number());
    let bars = spark::curve(&values.collect::<Vec<_>>(), BARS);
    let points = Points { records: members, names, noun: "points", ordered: true };
    let mut words = String::new();
    if !curve.fixed.is_empty() {
        words = glued(&from_to) + "  ";
    }
    words += &format!("{} {}", glued(&bars), points.counts());
    text += &wrapped(&words, setting.columns.line, INDENT, INDENT);
    text + &points.remarks(setting, printed)
}

/// The row for all members of a family.
pub(super) fn family_row(label: &str, members: &[&Record], setting: &Setting<'_>) -> String {
    let columns = setting.columns;
    let label = format!("  {}", clean(label));
    let numbers =
        || members.iter().map(|record| DisplayValue::of(record, setting.protocol).number());
    let noisy = members.iter().any(|record| record.verdict.state == State::Noisy);
    let mark = mark(members);
    let measured = match extremes(numbers().flatten()) {
        Some([low, high]) => {
            let width = columns.width(column::MEASURED) - width_of(mark);
            format!("{mark}{}", span_within(low, high, members[0].unit, width))
        }
        None => NOTHING.to_owned(),
    };
    // A span in two units is wider than its column: it extends to the left if there is room.
    let over = width_of(&measured).saturating_sub(columns.width(column::MEASURED));
    let (mut text, mut name) = (String::new(), label);
    if width_of(&name) > columns.width(column::NAME) - over {
        text = wrapped(&name, columns.line, "  ", INDENT);
        name = String::new();
    }
    let style = if noisy { CARE } else { PLAIN };
    let hz = setting.hz.filter(|_| members[0].unit == fathom_record::Unit::Nanoseconds);
    let cycles = hz.and_then(|hz| extremes(numbers().flatten().map(|ns| ns * hz / 1e9)));
    let mut row = Row::default();
    row[column::NAME].0 = name;
    row[column::MEASURED] = (measured, style);
    let width = columns.width(column::CYCLES);
    row[column::CYCLES].0 = cycles.map(|ends| cycle_span(ends, width)).unwrap_or_default();
    row[column::HALF_WIDTH].0 = widest(members, setting.protocol);
    row[column::PREDICTED] = agreeing(members, columns.width(column::PREDICTED));
    row[column::VERDICT] = worst(members, columns.width(column::VERDICT));
    text + &row_line(&row, columns, over)
}

fn cycle_span([low, high]: [f64; 2], width: usize) -> String {
    let text = format!("{}…{}", cycle_count(low), cycle_count(high));
    if width_of(&text) <= width { text } else { format!("{low:.0}…{high:.0}") }
}

pub(super) fn extremes(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.map(|value| [value, value]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

/// The widest interval, or the largest deviation.
fn widest(members: &[&Record], protocol: Protocol) -> String {
    let of = |record: &&Record| {
        let summary = record.shown_summary()?;
        let summary = Some(summary).filter(|summary| summary.bound.is_none())?;
        match protocol {
            Protocol::Median => summary.relative_half_width(),
            Protocol::Trimmed => {
                summary.trimmed.as_ref().map(|trimmed| trimmed.sd / trimmed.mean.abs())
            }
        }
    };
    match members.iter().filter_map(of).filter(|width| width.is_finite()).reduce(f64::max) {
        Some(widest) if widest > 9.99 => percent(widest),
        Some(widest) => format!("≤ {}", percent(widest)),
        None => NOTHING.to_owned(),
    }
}

/// `14 of 16 within`; of bounds, if there are no values, `14 of 16 met`.
fn agreeing(members: &[&Record], width: usize) -> (String, Style) {
    let all = |class| agreements(members.iter().copied(), class);
    let classes = [
        (Class::Value, Agreement::Within),
        (Class::SelfConsistency, Agreement::Within),
        (Class::Bound, Agreement::Met),
    ];
    let counts = classes.map(|(class, word)| (all(class), word));
    let first = counts.into_iter().find(|(counts, _)| counts.iter().sum::<usize>() > 0);
    let Some((counts, word)) = first else {
        let none = members.iter().any(|record| record.no_model.is_some());
        return (if none { "no model" } else { NOTHING }.to_owned(), FAINT);
    };
    let (holding, sum, word) = (counts[0], counts.iter().sum::<usize>(), word.word());
    let long = format!("{holding} of {sum} {word}");
    let text = if width_of(&long) <= width { long } else { format!("{holding}/{sum} {word}") };
    (text, PLAIN)
}

/// The worst agreement or state of any member, with its count.
fn worst(members: &[&Record], width: usize) -> (String, Style) {
    let counts = counts_of(members.iter().copied());
    let of = |wanted| {
        let shown = members.iter().filter(|record| record.verdict.shows_number());
        shown.filter(|record| record.agreement == Some(wanted)).count()
    };
    let noisy = counts.noisy > 0;
    let care = |style| if noisy { CARE } else { style };
    let states = [State::Failed, State::Invalid].map(|state| {
        let count = members.iter().filter(|record| record.verdict.state == state).count();
        (count, state.word(), of_state(state))
    });
    let others = [
        (of(Agreement::Outside), Agreement::Outside.word(), care(BAD)),
        (of(Agreement::Violated), Agreement::Violated.word(), care(BAD)),
        (of(Agreement::Inconclusive), Agreement::Inconclusive.word(), care(PLAIN)),
    ];
    let worst = states.into_iter().chain(others).find(|(count, ..)| *count > 0);
    if let Some((count, word, style)) = worst {
        let long = format!("{count} {word}");
        let whole = count == members.len() || width_of(&long) > width;
        return (if whole { word.to_owned() } else { long }, style);
    }
    let (word, style) = match (of(Agreement::Within), of(Agreement::Met)) {
        (0, 0) if noisy => ("noisy", CARE),
        (0, 0) if counts.valid > 0 => (NOTHING, FAINT),
        (0, 0) => ("no number", FAINT),
        (0, _) => (Agreement::Met.word(), care(PLAIN)),
        _ if members.iter().any(|record| record.is_value_within()) => {
            (Agreement::Within.word(), care(GOOD))
        }
        _ => (Agreement::Within.word(), care(PLAIN)),
    };
    (word.to_owned(), style)
}
