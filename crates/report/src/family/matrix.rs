//! A matrix over pairs of CPUs: a grid if it is small enough, else statistics.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::Record;
use fathom_record::quantity::{bare, quantity, unit_for};

use super::points::{Points, Printed};
use super::{PAIR, has_rows};
use crate::columns::{Setting, family_row};
use crate::paint::{FAINT, paint_lines};
use crate::remarks::INDENT;
use crate::shown::family::{ShownFamily, extremes};
use crate::shown::mark_of_any;
use crate::spark::NO_NUMBER;
use crate::wrap::{glued, width_of, wrapped};

/// A wider grid is not readable.
const COLUMNS_MAX: usize = 16;

/// The lines of a matrix: one row for all pairs unless each has its own, and the grid.
pub(crate) fn matrix_lines(
    records: &[Record],
    setting: &Setting<'_>,
    printed: &mut Printed,
) -> String {
    let members: Vec<&Record> = records.iter().collect();
    let mut text = String::new();
    let grid = grid(&members, setting);
    if !has_rows(members.len()) {
        let pairs = format!("{} pairs of {} CPUs", members.len(), cpus(&members).len());
        let family = ShownFamily { members: &members, protocol: setting.protocol };
        text += &family_row(&pairs, &family, setting);
        let name = |record: &&Record| format!("{}–{}", end(record, 0), end(record, 1));
        let names = members.iter().map(name).collect();
        let points = Points { records: members.clone(), names, noun: "pairs", ordered: false };
        let words = format!("{}{}", points.counts(), spread(&points, setting));
        text += &wrapped(&words, setting.columns.line, INDENT, INDENT);
        text += &points.remarks(setting, printed);
    }
    text + &grid.unwrap_or_default()
}

fn end(record: &Record, which: usize) -> i64 {
    record.params.integer(PAIR[which]).unwrap_or_default()
}

fn cpus(members: &[&Record]) -> Vec<i64> {
    let mut cpus: Vec<i64> =
        members.iter().flat_map(|record| [end(record, 0), end(record, 1)]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// `; lowest 45.1 ns (0–1), quartiles 52, 60 and 98 ns, highest 112 ns (0–7)`.
fn spread(points: &Points<'_>, setting: &Setting<'_>) -> String {
    let number =
        |at: usize| DisplayValue::from_record(points.records[at], setting.protocol).number();
    let mut sorted: Vec<(f64, usize)> =
        (0..points.records.len()).filter_map(|at| Some((number(at)?, at))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((low, first)), Some((high, last))) = (sorted.first(), sorted.last()) else {
        return String::new();
    };
    let unit = points.records[0].unit;
    let one = |value: f64| glued(&quantity(value, unit));
    let quarter = |part: usize| one(sorted[(sorted.len() - 1) * part / 4].0);
    let at = |index: usize| &points.names[index];
    format!(
        "; lowest {} ({}), quartiles {}, {}, {}, highest {} ({})",
        one(*low),
        at(*first),
        quarter(1),
        quarter(2),
        quarter(3),
        one(*high),
        at(*last)
    )
}

/// A line for each `a`, a column for each `b`. `None` if it would be too wide.
fn grid(members: &[&Record], setting: &Setting<'_>) -> Option<String> {
    let numbers =
        || members.iter().filter_map(|it| DisplayValue::from_record(it, setting.protocol).number());
    let [_, high] = extremes(numbers())?;
    let (divisor, symbol) = unit_for(high, members[0].unit);
    let cell = |record: &Record| {
        let mark = mark_of_any(&[record]);
        let number = DisplayValue::from_record(record, setting.protocol).number();
        number.map_or(NO_NUMBER.to_string(), |value| format!("{mark}{}", bare(value / divisor)))
    };
    let side = |which: usize| {
        let mut ids: Vec<i64> = members.iter().map(|record| end(record, which)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let (lines, columns) = (side(0), side(1));
    if columns.len() > COLUMNS_MAX {
        return None;
    }
    let at = |a: i64, b: i64| members.iter().find(|it| (end(it, 0), end(it, 1)) == (a, b));
    let head = columns.iter().map(|id| width_of(&id.to_string()));
    let width = members.iter().map(|record| width_of(&cell(record))).chain(head).max()?;
    let label = lines.iter().map(|id| id.to_string().len()).max()?.max(3);
    if INDENT.len() + label + columns.len() * (width + 2) > setting.columns.line {
        return None;
    }
    let mut text = format!("{INDENT}{:>label$}", "a\\b");
    columns.iter().for_each(|id| text += &format!("  {id:>width$}"));
    text.push('\n');
    for a in &lines {
        let mut line = format!("{INDENT}{a:>label$}");
        for b in &columns {
            let words = at(*a, *b).map_or(String::new(), |record| cell(record));
            let blanks = " ".repeat(2 + width - width_of(&words));
            line += &(blanks + &words);
        }
        text += &format!("{}\n", line.trim_end());
    }
    let missing =
        members.iter().any(|it| DisplayValue::from_record(it, setting.protocol).number().is_none());
    let key =
        format!("in {symbol}, from CPU a to CPU b{}", if missing { "; ?: no number" } else { "" });
    Some(text + &paint_lines(FAINT, &wrapped(&key, setting.columns.line, INDENT, INDENT)))
}
