//! The cells of one row. Values come only from [`DisplayValue::of`].

use anstyle::Style;
use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{
    NOTHING, at_most, percent, quantity_rounded, quantity_within, range_within, rounded,
    scaled_range_within, span_within, terms, unit_for,
};
use fathom_record::{
    Agreement, Basis, Cause, Interval, Prediction, Protocol, Record, State, Summary, Unit,
};

use crate::layout::{Columns, column};
use crate::model::no_model_word;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, of_state};
use crate::spark;
use crate::wrap::width_of;

/// The text and style of each column of the table.
pub(crate) type Row = [(String, Style); column::COUNT];

/// The line of a row whose measured value extends to the left by `overhang`.
pub(crate) fn row_line(row: &Row, columns: &Columns, overhang: usize) -> String {
    let mut grid = columns.grid;
    grid.widths[column::NAME] = Some(grid.width(column::NAME) - overhang);
    grid.widths[column::MEASURED] = Some(grid.width(column::MEASURED) + overhang);
    grid.line(row.each_ref().map(|(text, _)| text.as_str()), row.each_ref().map(|cell| cell.1))
}

/// The names of the columns.
pub(crate) fn header(columns: &Columns, protocol: Protocol) -> String {
    let (measured, half_width, spread) = match protocol {
        Protocol::Median => ("measured", "±", "sd"),
        Protocol::Trimmed => ("trimmed mean", "sd", "se"),
    };
    let names = [
        "metric",
        measured,
        "cycles",
        half_width,
        "predicted",
        "hw + software",
        "off by",
        "verdict",
        "kept",
        spread,
        "processes",
    ];
    columns.grid.line(names, [STRONG; column::COUNT])
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
    let mut row = Row::default();
    if state.shows_number() {
        fill_numbers(&mut row, record, protocol, columns);
    } else {
        for column in [column::MEASURED, column::CYCLES, column::HALF_WIDTH] {
            row[column] = (NOTHING.to_owned(), FAINT);
        }
        row[column::VERDICT] = (state.word().to_owned(), of_state(state));
    }
    name.clone_into(&mut row[column::NAME].0);
    if let Some(cycles) = hz.and_then(|hz| cycles(record, protocol, hz)) {
        row[column::CYCLES].0 = cycles;
    }
    row_line(&row, columns, 0)
}

fn fill_numbers(row: &mut Row, record: &Record, protocol: Protocol, columns: &Columns) {
    row[column::MEASURED] = measured(record, protocol, columns.width(column::MEASURED));
    row[column::HALF_WIDTH].0 = uncertainty(record, protocol);
    row[column::PREDICTED] = predicted(record, columns.width(column::PREDICTED));
    if let Some(prediction) = &record.prediction {
        let (hardware, software) = (prediction.hardware, prediction.software);
        let width = columns.width(column::TERMS);
        row[column::TERMS].0 = terms(hardware, software, record.unit, width);
        let measured = DisplayValue::of(record, protocol).number().zip(prediction.value);
        row[column::DEVIATION].0 =
            measured.map_or(NOTHING.to_owned(), |(measured, value)| deviation(measured, value));
    }
    let (verdict, style) = verdict_word(record);
    row[column::VERDICT] = (verdict, style);
    row[column::SPREAD].0 = spread(record, protocol);
    if let Some(summary) = &record.summary {
        let clean = summary.in_state.as_ref().map(|it| format!("{}/{}", it.visits, it.of));
        row[column::CLEAN].0 = clean.unwrap_or_default();
        row[column::SPARK].0 = bars(record, summary, columns.width(column::SPARK));
    }
}

/// Whether the number rests on the first visits although clean ones were looked for.
pub(crate) fn is_as_found(record: &Record) -> bool {
    record.summary.as_ref().is_some_and(|summary| summary.not_selected.is_some())
}

/// The mark before the number of these records: any unfiltered, any noisy.
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

/// The value in words, if it has no room in a column: it is printed below.
pub(crate) fn text_below(record: &Record, protocol: Protocol, width: usize) -> Option<&str> {
    match DisplayValue::of(record, protocol) {
        DisplayValue::Text(text) => {
            (width_of(mark(&[record])) + width_of(text) > width).then_some(text)
        }
        _ => None,
    }
}

pub(crate) fn measured(record: &Record, protocol: Protocol, width: usize) -> (String, Style) {
    let noisy = record.verdict.state == State::Noisy;
    let mark = mark(&[record]);
    let text = match DisplayValue::of(record, protocol) {
        DisplayValue::Number(_) if let Some([low, high]) = record.on_cliff() => {
            mark.to_owned() + &span_within(low, high, record.unit, width - width_of(mark))
        }
        DisplayValue::Number(value) => {
            let width = width - width_of(mark);
            mark.to_owned()
                + &match uncertain(record) {
                    Some(share) => quantity_rounded(value, share, record.unit, width),
                    None => quantity_within(value, record.unit, width),
                }
        }
        DisplayValue::Edge([low, high]) => {
            mark.to_owned() + &span_within(low, high, record.unit, width - width_of(mark))
        }
        DisplayValue::Bound(bound) => mark.to_owned() + &at_most(bound, record.unit),
        DisplayValue::Text(_) if text_below(record, protocol, width).is_some() => {
            "see below".to_owned()
        }
        DisplayValue::Text(text) => mark.to_owned() + text,
        DisplayValue::Withheld => NOTHING.to_owned(),
    };
    (text, if noisy { CARE } else { PLAIN })
}

/// Half the relative width of a noisy record's interval.
fn uncertain(record: &Record) -> Option<f64> {
    let summary = record.summary.as_ref().filter(|_| record.verdict.state == State::Noisy);
    summary.and_then(Summary::relative_half_width)
}

/// A time in CPU cycles at `hz`; `None` for other units.
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
        count if count >= 1e3 => format!("{:.0}", rounded(count, 4)),
        count => quantity_within(count, Unit::Ratio, 8),
    }
}

/// Room for a prediction that is not in a column of fixed width.
pub(crate) const LIMITS_WIDTH: usize = 40;

/// Arms of an interval are printed separately if the longer one is at least this share.
const LOPSIDED_MIN: f64 = 0.05;

/// Half the interval's width ÷ the headline, or the trimmed protocol's deviation ÷ its mean.
pub(crate) fn uncertainty(record: &Record, protocol: Protocol) -> String {
    let Some(summary) = summary_with_width(record) else {
        return modes(record).map_or_else(|| NOTHING.to_owned(), |n| format!("{n} modes"));
    };
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

/// The summary, if half a width describes its number.
pub(crate) fn summary_with_width(record: &Record) -> Option<&Summary> {
    let summary = record.summary.as_ref()?;
    // The limits of an edge are its number.
    let is_edge = summary.interval.and_then(Interval::edge).or(record.on_cliff()).is_some();
    (summary.bound.is_none() && modes(record).is_none() && !is_edge).then_some(summary)
}

/// How many modes the verdict names: half a width around the middle of two describes neither.
fn modes(record: &Record) -> Option<usize> {
    let named = [Cause::SeveralModes, Cause::TwoClusters];
    record.verdict.reasons.iter().find(|reason| named.contains(&reason.cause))?;
    let summary = record.summary.as_ref()?;
    (summary.bound.is_none()).then_some(summary.modes.len().max(summary.clusters.len()).max(2))
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

/// A prediction in the unit of the number beside it.
pub(crate) fn limits(record: &Record, prediction: &Prediction) -> String {
    in_unit_of_number(record, prediction, LIMITS_WIDTH)
}

/// A prediction in the unit of the number beside it, if it fits.
fn in_unit_of_number(record: &Record, prediction: &Prediction, width: usize) -> String {
    let summary = record.shown_summary();
    let number = summary.map(|summary| summary.median);
    let scale = number.map_or((1.0, ""), |number| unit_for(number, record.unit));
    limits_in(scale, prediction, record.unit, width)
}

/// A prediction in a unit, given by its divisor and symbol, if it fits.
pub(crate) fn limits_in(
    (divisor, symbol): (f64, &str),
    prediction: &Prediction,
    unit: Unit,
    width: usize,
) -> String {
    let (low, high) = match (prediction.low, prediction.high) {
        (None, None) => (prediction.value, prediction.value),
        limits => limits,
    };
    let own = range_within(low, high, unit, width);
    if symbol.is_empty() || own.ends_with(&format!(" {symbol}")) {
        return own;
    }
    let room = width.saturating_sub(width_of(symbol) + 1);
    let text = format!("{} {symbol}", scaled_range_within(low, high, divisor, room));
    if width_of(&text) <= width && !text.contains('e') { text } else { own }
}

pub(crate) fn predicted(record: &Record, width: usize) -> (String, Style) {
    match &record.prediction {
        Some(_) if record.is_loosely_bound() => (NOTHING.to_owned(), FAINT),
        Some(prediction) => (in_unit_of_number(record, prediction, width), PLAIN),
        None => {
            let word = record.no_model.as_ref().map_or(NOTHING, no_model_word);
            (word.to_owned(), FAINT)
        }
    }
}

/// The agreement with the prediction, of a met bound with its slack. `noisy` only if there is
/// none: noise is shown by the mark and the line beneath.
fn verdict_word(record: &Record) -> (String, Style) {
    let noisy = record.verdict.state == State::Noisy;
    let (word, style) = match record.agreement.filter(|_| !record.is_loosely_bound()) {
        Some(Agreement::Within) if record.is_value_within() => {
            (Agreement::Within.word().to_owned(), GOOD)
        }
        Some(Agreement::Met) => (met(record), PLAIN),
        Some(agreement) if agreement.fails() => (agreement.word().to_owned(), BAD),
        Some(agreement) => (agreement.word().to_owned(), PLAIN),
        None if noisy => ("noisy".to_owned(), CARE),
        None => (NOTHING.to_owned(), FAINT),
    };
    (word, if noisy { CARE } else { style })
}

/// `met (2.1 ×)`.
pub(crate) fn met(record: &Record) -> String {
    let word = Agreement::Met.word();
    record.slack().map_or(word.to_owned(), |slack| format!("{word} ({slack:.1} ×)"))
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
    use fathom_record::Verdict;

    use super::*;

    #[test]
    fn deviation_has_its_sign_or_is_a_factor() {
        let texts = [(105.0, "+5.0 %"), (88.0, "−12 %"), (100.0, "0.0 %"), (1_234.0, "× 12")];
        for (measured, text) in texts {
            assert_eq!(deviation(measured, 100.0), text);
        }
        assert_eq!(deviation(1.0, 0.0), NOTHING);
    }

    #[test]
    fn bound_shows_its_slack_and_only_values_are_good() {
        let record = |prediction: Prediction, agreement| {
            let summary = Summary { median: 100.0, ..Summary::default() };
            let (prediction, agreement) = (Some(prediction), Some(agreement));
            Record { summary: Some(summary), prediction, agreement, ..Record::default() }
        };
        let at_least = |low, agreement| record(Prediction::at_least(low, "", ""), agreement);
        let close = at_least(40.0, Agreement::Met);
        assert_eq!(verdict_word(&close), ("met (2.5 ×)".to_owned(), PLAIN));
        assert_ne!(predicted(&close, 15).0, NOTHING);
        let loose = at_least(10.0, Agreement::Met);
        assert_eq!(verdict_word(&loose).0, NOTHING);
        assert_eq!(predicted(&loose, 15).0, NOTHING);
        let violated = at_least(1000.0, Agreement::Violated);
        assert_eq!(verdict_word(&violated), ("violated".to_owned(), BAD));
        // Of an upper bound the median is not shown.
        let mut bound = record(Prediction::at_most(1000.0, "", ""), Agreement::Met);
        let summary = bound.summary.as_mut().unwrap();
        (summary.median, summary.bound) = (1.0, Some(500.0));
        assert_eq!(verdict_word(&bound), ("met (2.0 ×)".to_owned(), PLAIN));
        let sum = Prediction::sum(100.0, 0.0, 0.1, "", "");
        let sibling = record(sum.clone().self_consistent(), Agreement::Within);
        assert_eq!(verdict_word(&sibling), ("within".to_owned(), PLAIN));
        let value = record(sum, Agreement::Within);
        assert_eq!(verdict_word(&value), ("within".to_owned(), GOOD));
    }

    #[test]
    fn edge_is_a_range_without_a_half_width() {
        let interval = Interval::new([32_768.0, 40_960.0], 0.95, Basis::Grid);
        let summary = Summary { median: 36_000.0, interval: Some(interval), ..Summary::default() };
        let record = Record { summary: Some(summary), unit: Unit::Bytes, ..Record::default() };
        assert_eq!(measured(&record, Protocol::Median, 15).0, "32.0…40.0 KiB");
        assert_eq!(uncertainty(&record, Protocol::Median), NOTHING);
    }

    #[test]
    fn middle_of_two_modes_has_no_interval() {
        let interval = Interval::new([90.0, 110.0], 0.95, Basis::Processes);
        let summary =
            Summary { median: 100.0, n: 9, interval: Some(interval), ..Summary::default() };
        let mut record = Record { summary: Some(summary), ..Record::default() };
        assert_ne!(uncertainty(&record, Protocol::Median), NOTHING);
        record.verdict = Verdict::because(State::Noisy, Cause::SeveralModes, "two");
        assert_eq!(uncertainty(&record, Protocol::Median), "2 modes");
    }
}
