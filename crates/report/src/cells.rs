//! What stands in each column of one row. Values come from [`DisplayValue::of`] alone.

use anstyle::Style;
use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, at_most, percent, quantity_within, range_within, terms};
use fathom_record::{Basis, Protocol, Record, State, Summary, Unit};

use crate::layout::{Columns, Wide};
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, of_state, paint};
use crate::spark;
use crate::wrap::{cut, width_of};

/// One cell: text without escape codes, and how it is set.
pub(crate) struct Cell {
    text: String,
    width: usize,
    style: Style,
    right: bool,
}

impl Cell {
    pub(crate) fn left(text: impl Into<String>, width: usize, style: Style) -> Self {
        Self { text: text.into(), width, style, right: false }
    }

    pub(crate) fn right(text: impl Into<String>, width: usize, style: Style) -> Self {
        Self { text: text.into(), width, style, right: true }
    }
}

/// The cells in one line, ended by a newline.
pub(crate) fn line_of(cells: &[Cell], gap: usize) -> String {
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

/// The names of the columns.
pub(crate) fn header(columns: &Columns, protocol: Protocol) -> String {
    let (measured, half_width) = match protocol {
        Protocol::Median => ("measured", "±"),
        Protocol::Trimmed => ("trimmed mean", "sd"),
    };
    let mut cells = vec![
        Cell::left("metric", columns.name, STRONG),
        Cell::right(measured, columns.measured, STRONG),
    ];
    cells.extend(columns.cycles.map(|width| Cell::right("cycles", width, STRONG)));
    cells.push(Cell::right(half_width, columns.half_width, STRONG));
    cells.push(Cell::right("predicted", columns.predicted, STRONG));
    if let Some(wide) = &columns.wide {
        cells.push(Cell::right("hw + software", wide.terms, STRONG));
        cells.push(Cell::right("off by", wide.deviation, STRONG));
    }
    cells.push(Cell::left("verdict", columns.verdict, STRONG));
    if let Some(wide) = &columns.wide {
        let error = if protocol == Protocol::Trimmed { "se" } else { "sd" };
        cells.extend(wide.clean.map(|width| Cell::right("clean", width, STRONG)));
        cells.push(Cell::right(error, wide.spread, STRONG));
        cells.push(Cell::left("processes", wide.spark, STRONG));
    }
    line_of(&cells, columns.gap)
}

/// What a row is made for: its columns, the protocol, and the rate cycles are counted at.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) protocol: Protocol,
    pub(crate) hz: Option<f64>,
}

/// The row of a record under the name given.
pub(crate) fn row(name: &str, record: &Record, setting: &Setting<'_>) -> String {
    let columns = setting.columns;
    let name = Cell::left(name, columns.name, PLAIN);
    let cells = if record.verdict.shows_number() {
        with_number(name, record, setting)
    } else {
        without_number(name, record.verdict.state, columns)
    };
    line_of(&cells, columns.gap)
}

fn without_number(name: Cell, state: State, columns: &Columns) -> Vec<Cell> {
    let word = state.word();
    // Narrow verdict columns are made for the words of a number: the state reaches to the left.
    let reach = width_of(word).saturating_sub(columns.verdict);
    let nothing = |width| Cell::right(NOTHING, width, FAINT);
    let mut cells = vec![name, nothing(columns.measured)];
    cells.extend(columns.cycles.map(nothing));
    cells.push(nothing(columns.half_width));
    cells.push(Cell::right("", columns.predicted - reach, PLAIN));
    if let Some(wide) = &columns.wide {
        cells.push(Cell::right("", wide.terms, PLAIN));
        cells.push(Cell::right("", wide.deviation, PLAIN));
    }
    cells.push(Cell::left(word, columns.verdict + reach, of_state(state)));
    cells
}

fn with_number(name: Cell, record: &Record, setting: &Setting<'_>) -> Vec<Cell> {
    let columns = setting.columns;
    let mut cells = vec![name, measured(record, setting.protocol, columns.measured)];
    cells.extend(columns.cycles.map(|width| {
        let text = setting.hz.and_then(|hz| cycles(record, setting.protocol, hz));
        Cell::right(text.unwrap_or_default(), width, PLAIN)
    }));
    cells.push(Cell::right(uncertainty(record, setting.protocol), columns.half_width, PLAIN));
    cells.push(predicted(record, columns.predicted));
    if let Some(wide) = &columns.wide {
        cells.extend(explanation(record, setting.protocol, wide));
    }
    let (word, style) = verdict_word(record);
    cells.push(Cell::left(word, columns.verdict, style));
    if let Some(wide) = &columns.wide {
        cells.extend(spread(record, setting.protocol, wide));
    }
    cells
}

/// Whether the number rests on the first visits, though clean ones are looked for.
pub(crate) fn is_as_found(record: &Record) -> bool {
    record.summary.as_ref().is_some_and(|summary| summary.not_selected.is_some())
}

/// What stands before a number of these: whether any is as found, and any noisy.
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

fn measured(record: &Record, protocol: Protocol, width: usize) -> Cell {
    let noisy = record.verdict.state == State::Noisy;
    let mark = mark(&[record]);
    let text = match DisplayValue::of(record, protocol) {
        DisplayValue::Number(value) => {
            mark.to_owned() + &quantity_within(value, record.unit, width - width_of(mark))
        }
        DisplayValue::Bound(bound) => mark.to_owned() + &at_most(bound, record.unit),
        DisplayValue::Text(text) if width_of(text) < width => mark.to_owned() + text,
        DisplayValue::Text(_) => "see below".to_owned(),
        DisplayValue::Withheld => NOTHING.to_owned(),
    };
    Cell::right(text, width, if noisy { CARE } else { PLAIN })
}

/// A time in CPU cycles at `hz`; nothing for what is no time.
pub(crate) fn cycles(record: &Record, protocol: Protocol, hz: f64) -> Option<String> {
    if record.unit != Unit::Nanoseconds {
        return None;
    }
    let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
    let count = |ns: f64| ns * hz / 1e9;
    match DisplayValue::of(record, protocol) {
        DisplayValue::Number(ns) => Some(format!("{mark}{}", cycle_count(count(ns)))),
        DisplayValue::Bound(ns) => {
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

/// Half the interval's width ÷ the headline, or the trimmed protocol's deviation ÷ its mean.
/// A wider arm than this is worth telling apart from the other.
const LOPSIDED_MIN: f64 = 0.05;

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

/// `+54 −1 %` without its blank, where one arm of a wide interval is three times the other or more:
/// half its width would claim too much on one side and too little on the other.
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

fn predicted(record: &Record, width: usize) -> Cell {
    match &record.prediction {
        Some(prediction) => {
            let (low, high) = match (prediction.low, prediction.high) {
                (None, None) => (prediction.value, prediction.value),
                limits => limits,
            };
            Cell::right(range_within(low, high, record.unit, width), width, PLAIN)
        }
        None if record.no_model.is_some() => Cell::right("no model", width, FAINT),
        None => Cell::right(NOTHING, width, FAINT),
    }
}

/// The verdict in one word: how the number stands to its prediction. That it is noisy is told by
/// its mark and the line beneath; the word is `noisy` only where there is no other.
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

/// The prediction's terms, and how far the number is from it.
fn explanation(record: &Record, protocol: Protocol, wide: &Wide) -> [Cell; 2] {
    let Some(prediction) = &record.prediction else {
        return [Cell::right("", wide.terms, PLAIN), Cell::right("", wide.deviation, PLAIN)];
    };
    let parts = terms(prediction.hardware, prediction.software, record.unit, wide.terms);
    let off = DisplayValue::of(record, protocol)
        .number()
        .zip(prediction.value)
        .map_or(NOTHING.to_owned(), |(measured, value)| deviation(measured, value));
    [Cell::right(parts, wide.terms, PLAIN), Cell::right(off, wide.deviation, PLAIN)]
}

/// Measured ÷ predicted − 1 with its sign; from tenfold on, the factor.
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

/// Clean visits of all, how far the values lie apart, and how they are distributed.
fn spread(record: &Record, protocol: Protocol, wide: &Wide) -> Vec<Cell> {
    let error = record.summary.as_ref().filter(|summary| summary.bound.is_none());
    let error = error.map_or(NOTHING.to_owned(), |summary| match protocol {
        Protocol::Median if summary.n < 2 => NOTHING.to_owned(),
        Protocol::Median => relative(summary.sd, summary.mean),
        Protocol::Trimmed => match &summary.trimmed {
            Some(trimmed) => relative(trimmed.se, trimmed.mean),
            None => NOTHING.to_owned(),
        },
    });
    let bars = record.summary.as_ref().map(|summary| bars(record, summary, wide.spark));
    let clean = record.summary.as_ref().and_then(|summary| summary.full_speed.as_ref());
    let clean = clean.map(|estimate| format!("{}/{}", estimate.visits, estimate.of));
    let clean = wide.clean.map(|width| Cell::right(clean.unwrap_or_default(), width, PLAIN));
    let spread = Cell::right(error, wide.spread, PLAIN);
    let bars = Cell::left(bars.unwrap_or_default(), wide.spark, PLAIN);
    clean.into_iter().chain([spread, bars]).collect()
}

/// The samples' distribution where they travel with the record, else the processes' medians.
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
    fn a_deviation_has_its_sign_and_from_tenfold_on_is_a_factor() {
        let texts = [(105.0, "+5.0 %"), (88.0, "−12 %"), (100.0, "0.0 %"), (1_234.0, "× 12")];
        for (measured, text) in texts {
            assert_eq!(deviation(measured, 100.0), text);
        }
        assert_eq!(deviation(1.0, 0.0), NOTHING);
    }
}
