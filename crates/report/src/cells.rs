//! The cells of one row. Values come only from [`Shown::of`].

use anstyle::Style;
use fathom_analysis::shown::Shown;
use fathom_record::quantity::{NOTHING, at_most, percent, quantity_within, range_within, terms};
use fathom_record::{Basis, Protocol, Record, State, Summary, Unit};

use crate::layout::Columns;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, of_state, paint};
use crate::spark;
use crate::wrap::{cut, width_of};

/// One cell: its text without escape codes, and its style.
struct Cell {
    text: String,
    width: usize,
    style: Style,
    right: bool,
}

impl Cell {
    fn left(text: impl Into<String>, width: usize, style: Style) -> Self {
        Self { text: text.into(), width, style, right: false }
    }

    fn right(text: impl Into<String>, width: usize, style: Style) -> Self {
        Self { text: text.into(), width, style, right: true }
    }
}

/// The cells as one line with a newline.
fn line_of(cells: &[Cell], gap: usize) -> String {
    let plain: Vec<String> = cells.iter().map(padded).collect();
    let last = plain.iter().rposition(|text| !text.trim().is_empty()).unwrap_or(0);
    let painted = |(i, text): (usize, &String)| {
        let text = if i == last { text.trim_end() } else { text };
        paint(cells[i].style, text)
    };
    let row: Vec<String> = plain.iter().take(last + 1).enumerate().map(painted).collect();
    row.join(&" ".repeat(gap)) + "\n"
}

fn padded(cell: &Cell) -> String {
    let text = cut(&cell.text, cell.width);
    let blanks = " ".repeat(cell.width - width_of(&text));
    if cell.right { blanks + &text } else { text + &blanks }
}

/// Fixed columns of a list.
pub(crate) struct Grid<const N: usize> {
    /// `None` for a column that is not printed.
    pub(crate) widths: [Option<usize>; N],
    /// The columns aligned to the left.
    left: &'static [usize],
    gap: usize,
}

impl<const N: usize> Grid<N> {
    /// The column `rest` gets the room that the others leave.
    pub(crate) fn new(
        line: usize,
        gap: usize,
        rest: usize,
        left: &'static [usize],
        mut widths: [Option<usize>; N],
    ) -> Self {
        let taken: usize = widths.iter().flatten().map(|width| width + gap).sum();
        widths[rest] = Some(line.saturating_sub(taken));
        Self { widths, left, gap }
    }

    pub(crate) fn width(&self, column: usize) -> usize {
        self.widths[column].unwrap_or(0)
    }

    pub(crate) fn line(&self, texts: [&str; N], styles: [Style; N]) -> String {
        let cell = |column: usize| {
            let (width, right) = (self.widths[column]?, !self.left.contains(&column));
            Some(Cell { text: texts[column].to_owned(), width, style: styles[column], right })
        };
        line_of(&(0..N).filter_map(cell).collect::<Vec<Cell>>(), self.gap)
    }
}

/// The text and style of each column of a row; columns that are not shown are dropped.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) measured: (String, Style),
    pub(crate) cycles: String,
    pub(crate) half_width: (String, Style),
    pub(crate) predicted: (String, Style),
    pub(crate) terms: String,
    pub(crate) deviation: String,
    pub(crate) verdict: (String, Style),
    pub(crate) clean: String,
    pub(crate) spread: String,
    pub(crate) spark: String,
    /// Columns by which the measured value extends to the left.
    pub(crate) overhang: usize,
}

impl Row {
    pub(crate) fn line(self, columns: &Columns) -> String {
        let right = |(text, style): (String, Style), width: usize| Cell::right(text, width, style);
        let plain = |text: String, width: usize| Cell::right(text, width, PLAIN);
        let mut cells = vec![
            Cell::left(self.name, columns.name - self.overhang, PLAIN),
            right(self.measured, columns.measured + self.overhang),
        ];
        cells.extend(columns.cycles.map(|width| plain(self.cycles, width)));
        cells.push(right(self.half_width, columns.half_width));
        cells.push(right(self.predicted, columns.predicted));
        if let Some(wide) = &columns.wide {
            cells.push(plain(self.terms, wide.terms));
            cells.push(plain(self.deviation, wide.deviation));
        }
        cells.push(Cell::left(self.verdict.0, columns.verdict, self.verdict.1));
        if let Some(wide) = &columns.wide {
            cells.extend(wide.clean.map(|width| plain(self.clean, width)));
            cells.push(plain(self.spread, wide.spread));
            cells.push(Cell::left(self.spark, wide.spark, PLAIN));
        }
        line_of(&cells, columns.gap)
    }
}

/// The names of the columns.
pub(crate) fn header(columns: &Columns, protocol: Protocol) -> String {
    let (measured, half_width, spread) = match protocol {
        Protocol::Median => ("measured", "±", "sd"),
        Protocol::Trimmed => ("trimmed mean", "sd", "se"),
    };
    let plain = |text: &str| (text.to_owned(), PLAIN);
    let row = Row {
        name: "metric".to_owned(),
        measured: plain(measured),
        cycles: "cycles".to_owned(),
        half_width: plain(half_width),
        predicted: plain("predicted"),
        terms: "hw + software".to_owned(),
        deviation: "off by".to_owned(),
        verdict: plain("verdict"),
        clean: "clean".to_owned(),
        spread: spread.to_owned(),
        spark: "processes".to_owned(),
        overhang: 0,
    };
    paint(STRONG, &row.line(columns))
}

/// What rows depend on: the columns, the protocol, and the frequency that cycles are counted at.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) protocol: Protocol,
    pub(crate) hz: Option<f64>,
}

/// The row of a record.
pub(crate) fn row(name: &str, record: &Record, setting: &Setting<'_>) -> String {
    let Setting { columns, protocol, hz } = *setting;
    let state = record.verdict.state;
    let nothing = || (NOTHING.to_owned(), FAINT);
    let row = match state.shows_number() {
        true => with_number(record, protocol, columns),
        false => Row {
            measured: nothing(),
            half_width: nothing(),
            verdict: (state.word().to_owned(), of_state(state)),
            ..Row::default()
        },
    };
    let cycles = match state.shows_number() {
        true => hz.and_then(|hz| cycles(record, protocol, hz)).unwrap_or_default(),
        false => NOTHING.to_owned(),
    };
    Row { name: name.to_owned(), cycles, ..row }.line(columns)
}

fn with_number(record: &Record, protocol: Protocol, columns: &Columns) -> Row {
    let (terms_width, spark_width) =
        columns.wide.as_ref().map_or((0, 0), |wide| (wide.terms, wide.spark));
    let summary = record.summary.as_ref();
    let clean = summary.and_then(|summary| summary.full_speed.as_ref());
    let (verdict, style) = verdict_word(record);
    Row {
        measured: measured(record, protocol, columns.measured),
        half_width: (uncertainty(record, protocol), PLAIN),
        predicted: predicted(record, columns.predicted),
        terms: record.prediction.as_ref().map_or_else(String::new, |prediction| {
            terms(prediction.hardware, prediction.software, record.unit, terms_width)
        }),
        deviation: deviation_text(record, protocol),
        verdict: (verdict.to_owned(), style),
        clean: clean.map(|it| format!("{}/{}", it.visits, it.of)).unwrap_or_default(),
        spread: spread(record, protocol),
        spark: summary.map(|it| bars(record, it, spark_width)).unwrap_or_default(),
        ..Row::default()
    }
}

/// Whether the number rests on the first visits although clean ones were looked for.
pub(crate) fn is_as_found(record: &Record) -> bool {
    record.summary.as_ref().is_some_and(|summary| summary.not_selected.is_some())
}

/// The mark before the number of these records: any as found, any noisy.
pub(crate) fn mark(records: &[&Record]) -> &'static str {
    let found = records.iter().any(|record| is_as_found(record));
    let noisy = records.iter().any(|record| record.verdict.state == State::Noisy);
    match (found, noisy) {
        (true, true) => "°~",
        (true, false) => "°",
        (false, true) => "~",
        (false, false) => "",
    }
}

fn measured(record: &Record, protocol: Protocol, width: usize) -> (String, Style) {
    let noisy = record.verdict.state == State::Noisy;
    let mark = mark(&[record]);
    let text = match Shown::of(record, protocol) {
        Shown::Number(value) => {
            mark.to_owned() + &quantity_within(value, record.unit, width - width_of(mark))
        }
        Shown::Bound(bound) => mark.to_owned() + &at_most(bound, record.unit),
        Shown::Text(text) if width_of(text) < width => mark.to_owned() + text,
        Shown::Text(_) => "see below".to_owned(),
        Shown::Nothing => NOTHING.to_owned(),
    };
    (text, if noisy { CARE } else { PLAIN })
}

/// A time in CPU cycles at `hz`; `None` for other units.
pub(crate) fn cycles(record: &Record, protocol: Protocol, hz: f64) -> Option<String> {
    if record.unit != Unit::Nanoseconds {
        return None;
    }
    let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
    let count = |ns: f64| ns * hz / 1e9;
    match Shown::of(record, protocol) {
        Shown::Number(ns) => Some(format!("{mark}{}", cycle_count(count(ns)))),
        Shown::Bound(ns) => {
            let bound = at_most(count(ns), Unit::Ratio);
            Some(format!("{mark}{bound}"))
        }
        _ => None,
    }
}

/// A number of cycles, without a unit.
pub(crate) fn cycle_count(count: f64) -> String {
    match count {
        count if count >= 1e7 => format!("{count:.2e}"),
        count if count >= 1e3 => format!("{count:.0}"),
        count => quantity_within(count, Unit::Ratio, 8),
    }
}

/// Arms of an interval are printed separately if the longer one is at least this share.
const LOPSIDED_MIN: f64 = 0.05;

/// Half the interval's width ÷ the headline, or the trimmed protocol's deviation ÷ its mean.
fn uncertainty(record: &Record, protocol: Protocol) -> String {
    let Some(summary) = &record.summary else {
        return NOTHING.to_owned();
    };
    if summary.bound.is_some() {
        return NOTHING.to_owned();
    }
    if protocol == Protocol::Trimmed {
        return match &summary.trimmed {
            Some(trimmed) => relative(trimmed.sd, trimmed.mean),
            None => NOTHING.to_owned(),
        };
    }
    if let Some(lopsided) = lopsided(summary) {
        return lopsided;
    }
    match summary.relative_half_width() {
        Some(half) if summary.interval.is_some_and(|it| it.basis == Basis::WithinRun) => {
            percent(half) + "*"
        }
        Some(half) => percent(half),
        None if summary.n == 1 => "n=1".to_owned(),
        None => NOTHING.to_owned(),
    }
}

/// `+54 −1 %` without its blank, if one arm of a wide interval is at least three times the other:
/// half the width would overstate one side and understate the other.
fn lopsided(summary: &Summary) -> Option<String> {
    let [low, high] = summary.limits()?;
    let whole = summary.median.abs();
    let (up, down) = ((high - summary.median) / whole, (summary.median - low) / whole);
    let uneven = up.max(down) > 3.0 * up.min(down) && up.max(down) > LOPSIDED_MIN;
    let text = format!("+{:.0} −{:.0}%", 100.0 * up, 100.0 * down);
    (uneven && width_of(&text) <= 8).then_some(text)
}

fn relative(part: f64, whole: f64) -> String {
    if whole == 0.0 { NOTHING.to_owned() } else { percent(part / whole.abs()) }
}

fn predicted(record: &Record, width: usize) -> (String, Style) {
    match &record.prediction {
        Some(prediction) => {
            let (low, high) = match (prediction.low, prediction.high) {
                (None, None) => (prediction.value, prediction.value),
                limits => limits,
            };
            (range_within(low, high, record.unit, width), PLAIN)
        }
        None if record.no_model.is_some() => ("no model".to_owned(), FAINT),
        None => (NOTHING.to_owned(), FAINT),
    }
}

/// The agreement with the prediction. `noisy` only if there is none: noise is shown by the mark
/// and the line beneath.
fn verdict_word(record: &Record) -> (&'static str, Style) {
    let noisy = record.verdict.state == State::Noisy;
    let (word, style) = match record.agreement {
        Some(agreement) if agreement.holds() => (agreement.word(), GOOD),
        Some(agreement) if agreement.fails() => (agreement.word(), BAD),
        Some(agreement) => (agreement.word(), PLAIN),
        None if noisy => ("noisy", CARE),
        None => (NOTHING, FAINT),
    };
    (word, if noisy { CARE } else { style })
}

/// How far the number is from its prediction.
fn deviation_text(record: &Record, protocol: Protocol) -> String {
    let Some(prediction) = &record.prediction else { return String::new() };
    let measured = Shown::of(record, protocol).number();
    let pair = measured.zip(prediction.value);
    pair.map_or(NOTHING.to_owned(), |(measured, value)| deviation(measured, value))
}

/// Measured ÷ predicted − 1 with its sign; the factor from tenfold on.
fn deviation(measured: f64, predicted: f64) -> String {
    let ratio = measured / predicted;
    if !ratio.is_finite() || ratio <= 0.0 {
        return NOTHING.to_owned();
    }
    let share = ratio - 1.0;
    match share {
        share if share >= 9.0 => format!("× {ratio:.0}"),
        share if share.abs() < 0.000_5 => "0.0 %".to_owned(),
        share if share < 0.0 => format!("−{}", percent(-share)),
        share => format!("+{}", percent(share)),
    }
}

/// The standard deviation of the values, or the standard error of the trimmed mean.
fn spread(record: &Record, protocol: Protocol) -> String {
    let summary = record.summary.as_ref().filter(|summary| summary.bound.is_none());
    summary.map_or(NOTHING.to_owned(), |summary| match protocol {
        Protocol::Median if summary.n < 2 => NOTHING.to_owned(),
        Protocol::Median => relative(summary.sd, summary.mean),
        Protocol::Trimmed => match &summary.trimmed {
            Some(trimmed) => relative(trimmed.se, trimmed.mean),
            None => NOTHING.to_owned(),
        },
    })
}

/// A histogram of the samples if the record has them, else the process medians.
fn bars(record: &Record, summary: &Summary, width: usize) -> String {
    match &record.samples {
        Some(samples) => {
            let values: Vec<f64> = samples.iter().flat_map(|s| s.values.clone()).collect();
            spark::histogram(&values, width)
        }
        None => spark::line(&summary.process_medians, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_has_its_sign_or_is_a_factor() {
        let texts = [(105.0, "+5.0 %"), (88.0, "−12 %"), (100.0, "0.0 %"), (1_234.0, "× 12")];
        for (measured, text) in texts {
            assert_eq!(deviation(measured, 100.0), text);
        }
        assert_eq!(deviation(1.0, 0.0), NOTHING);
    }
}
