//! The columns of the table of a run: an entry of [`COLUMNS`] is all of a column.

use fathom_record::quantity::terms;
use fathom_record::{Prediction, Protocol, Record};

use crate::column::{Column, Lines, ShownCell, plain};
use crate::layout::Layout;
use crate::paint::{FAINT, STRONG};
use crate::shown::family::ShownFamily;
use crate::shown::{ShownRecord, nothing};
use crate::spark;
use crate::wrap::{NARROWEST, clean, width_of};

/// A case in the table.
pub(crate) struct CaseRow<'a> {
    name: &'a str,
    shown: ShownRecord<'a>,
    hz: Option<f64>,
}

/// A family of cases in the table.
pub(crate) struct FamilyRow<'a> {
    name: String,
    measured: ShownCell,
    shown: ShownFamily<'a>,
    hz: Option<f64>,
}

/// What a column has of a case and of a family, and what the foot and another header say of it.
#[derive(Clone, Debug)]
pub(crate) struct TableCell {
    case: fn(&CaseRow<'_>, usize) -> ShownCell,
    family: fn(&FamilyRow<'_>, usize) -> ShownCell,
    /// The title by the trimmed protocol, if it is another one.
    trimmed: Option<&'static str>,
    meaning: fn(Protocol, bool) -> &'static str,
}

const fn cell(
    case: fn(&CaseRow<'_>, usize) -> ShownCell,
    family: fn(&FamilyRow<'_>, usize) -> ShownCell,
) -> TableCell {
    TableCell { case, family, trimmed: None, meaning: |_, _| "" }
}

/// A cell of cases only.
const fn beside(case: fn(&CaseRow<'_>, usize) -> ShownCell) -> TableCell {
    cell(case, |_, _| ShownCell::default())
}

const fn trimmed(title: &'static str, cell: TableCell) -> TableCell {
    TableCell { trimmed: Some(title), ..cell }
}

/// What the foot says of a column, by protocol and whether samples are there.
const fn meaning(words: fn(Protocol, bool) -> &'static str, cell: TableCell) -> TableCell {
    TableCell { meaning: words, ..cell }
}

impl CaseRow<'_> {
    /// A number of the record, if it has any.
    fn number(&self, cell: impl Fn(&ShownRecord<'_>) -> ShownCell) -> ShownCell {
        match self.shown.record.verdict.shows_number() {
            true => cell(&self.shown),
            false => (nothing(), FAINT),
        }
    }

    /// What stands beside a number.
    fn beside(&self, cell: impl Fn(&ShownRecord<'_>) -> ShownCell) -> ShownCell {
        let shown = Some(&self.shown).filter(|it| it.record.verdict.shows_number());
        shown.map_or_else(ShownCell::default, cell)
    }
}

pub(crate) const NAME: usize = 0;
pub(crate) const MEASURED: usize = 1;
pub(crate) const CYCLES: usize = 2;

/// Width from which additional columns are printed.
const WIDE: usize = 110;
/// Width from which they are wider.
const ROOMY: usize = 136;
/// A wider line only moves the values away from their names.
const WIDEST: usize = 160;

#[rustfmt::skip]
static COLUMNS: &[Column<TableCell>] = &[
    Column::left("metric", &[],
        cell(|row, _| plain(row.name), |row, _| plain(&row.name))),
    // "~12.35 Mops/s"; one significant figure less if narrow.
    Column::right("measured", &[(80, 13), (0, 12)], trimmed("trimmed mean",
        cell(|row, width| row.number(|it| it.measured(width)), |row, _| row.measured.clone()))),
    // On a narrower line they are below the row.
    Column::right("cycles", &[(80, 8)], cell(
        |row, _| row.number(|it| plain(row.hz.and_then(|hz| it.cycles(hz)).unwrap_or_default())),
        |row, width| plain(row.hz.and_then(|hz| row.shown.cycles(hz, width)).unwrap_or_default()))),
    Column::right("±", &[(0, 8)], trimmed("sd",
        cell(|row, _| row.number(|it| plain(it.half())), |row, _| plain(row.shown.half())))),
    Column::right("predicted", &[(80, 15), (0, 13)], cell(
        |row, width| row.beside(|it| it.expected(width)),
        |row, width| row.shown.agreeing(width))),
    Column::right("hw + software", &[(ROOMY, 17), (WIDE, 14)],
        beside(|row, width| row.beside(|it| plain(parts(it.record, width))))),
    Column::right("off by", &[(WIDE, 7)],
        meaning(|_, _| "off by: measured ÷ predicted − 1",
            beside(|row, _| row.beside(|it| plain(it.deviation()))))),
    Column::left("verdict", &[(0, 12)],
        cell(|row, _| row.shown.verdict(), |row, width| row.shown.worst(width))),
    // "20/80"
    Column::right("kept", &[(ROOMY, 5)],
        meaning(|_, _| "kept: processes in the reported state of the core, of all",
            beside(|row, _| row.beside(|it| plain(kept(it.record)))))),
    Column::right("sd", &[(WIDE, 6)], trimmed("se",
        meaning(|protocol, _| match protocol {
            Protocol::Median => "sd: standard deviation of all values ÷ their mean",
            Protocol::Trimmed => "se: winsorised standard error ÷ the mean",
        }, beside(|row, _| row.beside(|it| plain(it.spread())))))),
    Column::left("processes", &[(ROOMY, 10), (WIDE, 8)],
        meaning(|_, has_samples| match has_samples {
            true => "processes: histogram of the values",
            false => "processes: medians, lowest ▁ to highest █",
        }, beside(|row, width| row.beside(|it| plain(bars(it.record, width)))))),
];

/// The hardware and software parts of the prediction.
fn parts(record: &Record, width: usize) -> String {
    let prediction = record.prediction.as_ref();
    let hardware = prediction.and_then(Prediction::documented_hardware);
    let software = prediction.and_then(|it| it.software).filter(|_| hardware.is_some());
    prediction.map_or(String::new(), |_| terms(hardware, software, record.unit, width))
}

/// The processes in the reported state, of all.
fn kept(record: &Record) -> String {
    let kept = record.summary.as_ref().and_then(|summary| summary.in_state.as_ref());
    kept.map_or(String::new(), |it| format!("{}/{}", it.visits, it.of))
}

/// A histogram of the samples if the record has them, else the process medians.
fn bars(record: &Record, width: usize) -> String {
    match (&record.samples, &record.summary) {
        (_, None) => String::new(),
        (Some(samples), _) => {
            let values: Vec<f64> = samples.iter().flat_map(|s| s.values.clone()).collect();
            spark::histogram(&values, width)
        }
        (None, Some(summary)) => spark::line(&summary.process_medians, width),
    }
}

/// The columns of a table, fixed before the first row, so that later blocks align.
pub(crate) type TableColumns = Lines<TableCell>;

pub(crate) fn columns_for(layout: &Layout) -> TableColumns {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let gap = if line < 80 || (WIDE..ROOMY).contains(&line) { 1 } else { 2 };
    Lines::new(line, gap, COLUMNS).retain(|at| at != CYCLES || layout.cycles)
}

/// The names of the columns.
pub(crate) fn header(columns: &TableColumns, protocol: Protocol) -> String {
    let title = |column: &'static Column<TableCell>| match column.cell.trimmed {
        Some(title) if protocol == Protocol::Trimmed => title,
        _ => &column.title,
    };
    columns.line(COLUMNS.iter().map(|column| (title(column), STRONG)))
}

/// What the foot says of the columns that are printed on wide lines.
pub(crate) fn meanings(columns: &TableColumns, protocol: Protocol, has_samples: bool) -> String {
    let printed = COLUMNS.iter().enumerate().filter(|(at, _)| columns.has(*at));
    let words = printed.map(|(_, column)| (column.cell.meaning)(protocol, has_samples));
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
}

/// What rows depend on: the columns, the protocol, and the frequency that cycles are counted at.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) columns: &'a TableColumns,
    pub(crate) protocol: Protocol,
    pub(crate) hz: Option<f64>,
}

/// The row of a record.
pub(crate) fn case_row(name: &str, record: &Record, setting: &Setting<'_>) -> String {
    let shown = ShownRecord::from_record(record, setting.protocol);
    let row = CaseRow { name, shown, hz: setting.hz };
    setting.columns.row(|cell, width| (cell.case)(&row, width))
}

/// The row of all members of a family.
pub(crate) fn family_row(label: &str, shown: &ShownFamily<'_>, setting: &Setting<'_>) -> String {
    let mut columns = setting.columns.clone();
    let room = columns.width(MEASURED);
    let measured = shown.number(room);
    // A span in two units is wider than its column: it extends to the left if there is room.
    let over = width_of(&measured.0).saturating_sub(room);
    columns.widths[MEASURED] = Some(room + over);
    columns.widths[NAME] = Some(columns.width(NAME) - over);
    let [above, name] = columns.name(format!("  {}", clean(label)), ["  ", "    "]);
    let row = FamilyRow { name, measured, shown: *shown, hz: setting.hz };
    above + &columns.row(|cell, width| (cell.family)(&row, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_column_is_never_narrower_than_ten() {
        for width in 0..300 {
            for cycles in [false, true] {
                let columns = columns_for(&Layout { width, cycles, ..Layout::default() });
                let name = columns.width(NAME);
                assert!(name >= 10, "{width} {cycles}: {name}");
            }
        }
    }
}
