//! What every view shows of a record: mark, number, half-width, interval, expected and typical
//! values, agreement, word, and their styles. Values come only from [`DisplayValue::of`].

pub(crate) mod family;

use anstyle::Style;
use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::evidence::shown_agreement;
use fathom_record::quantity::{
    NOTHING, at_most, percent, quantity, quantity_rounded, quantity_within, range_within, rounded,
    scaled_range_within, span_within, unit_for,
};
use fathom_record::{
    Agreement, Basis, Cause, Interval, NoModel, Prediction, Protocol, Record, State, Summary, Unit,
};

use crate::column::ShownCell;
use crate::model::no_model_word;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, of_state};
use crate::wrap::width_of;

/// Marks a noisy number.
pub(crate) const NOISY: &str = "~";

/// The mark before a number: whether it is unfiltered, and whether it is noisy.
pub(crate) fn mark(is_unfiltered: bool, is_noisy: bool) -> &'static str {
    match (is_unfiltered, is_noisy) {
        (true, true) => "°~",
        (true, false) => "°",
        (false, true) => NOISY,
        (false, false) => "",
    }
}

/// The mark of a number in this state, whatever processes it is of.
pub(crate) fn state_mark(state: State) -> &'static str {
    mark(false, state == State::Noisy)
}

/// The mark of the numbers of these records together.
pub(crate) fn mark_of_any(records: &[&Record]) -> &'static str {
    let is_noisy = records.iter().any(|record| record.verdict.state == State::Noisy);
    mark(records.iter().any(|record| is_as_found(record)), is_noisy)
}

/// Whether the number rests on the first visits although clean ones were looked for.
pub(crate) fn is_as_found(record: &Record) -> bool {
    record.summary.as_ref().is_some_and(|summary| summary.not_selected.is_some())
}

/// Room for a prediction that is not in a column of fixed width.
pub(crate) const LIMITS_WIDTH: usize = 40;
/// Arms of an interval are printed separately if the longer one is at least this share.
const LOPSIDED_MIN: f64 = 0.05;

/// The text of a column of a table of records.
pub(crate) type RecordText = fn(&ShownRecord<'_>) -> String;

/// A record as it is shown by a protocol.
#[derive(Clone, Copy)]
pub(crate) struct ShownRecord<'r> {
    pub(crate) record: &'r Record,
    pub(crate) protocol: Protocol,
    /// What its number begins with.
    pub(crate) mark: &'static str,
    pub(crate) value: DisplayValue<'r>,
}

impl<'r> ShownRecord<'r> {
    pub(crate) fn from_record(record: &'r Record, protocol: Protocol) -> Self {
        let (mark, value) = (mark_of_any(&[record]), DisplayValue::from_record(record, protocol));
        Self { record, protocol, mark, value }
    }

    pub(crate) fn is_noisy(&self) -> bool {
        self.record.verdict.state == State::Noisy
    }

    /// The style of a noisy number, or this one.
    fn unless_noisy(&self, style: Style) -> Style {
        if self.is_noisy() { CARE } else { style }
    }

    /// The number or text, in as many digits as fit and its interval allows.
    pub(crate) fn number(&self, width: usize) -> String {
        let (unit, room) = (self.record.unit, width.saturating_sub(width_of(self.mark)));
        let text = match (self.value, self.record.on_cliff()) {
            (DisplayValue::Number(_), Some([low, high])) | (DisplayValue::Edge([low, high]), _) => {
                span_within(low, high, unit, room)
            }
            (DisplayValue::Number(value), None) => match self.uncertain() {
                Some(share) => quantity_rounded(value, share, unit, room),
                None => quantity_within(value, unit, room),
            },
            (DisplayValue::Bound(bound), _) => at_most(bound, unit),
            (DisplayValue::Text(_), _) if self.text_below(width).is_some() => {
                return "see below".to_owned();
            }
            (DisplayValue::Text(text), _) => text.to_owned(),
            (DisplayValue::Withheld, _) => return NOTHING.to_owned(),
        };
        self.mark.to_owned() + &text
    }

    /// The number with its style.
    pub(crate) fn measured(&self, width: usize) -> ShownCell {
        (self.number(width), self.unless_noisy(PLAIN))
    }

    /// The number in all its digits, or the whole text.
    pub(crate) fn unrounded(&self) -> String {
        match self.value {
            DisplayValue::Number(value) => {
                self.mark.to_owned() + &quantity(value, self.record.unit)
            }
            DisplayValue::Text(text) => self.mark.to_owned() + text,
            _ => self.number(LIMITS_WIDTH),
        }
    }

    /// The text, if it has no room in a column: it is printed below.
    pub(crate) fn text_below(&self, width: usize) -> Option<&'r str> {
        match self.value {
            DisplayValue::Text(text) => {
                (width_of(self.mark) + width_of(text) > width).then_some(text)
            }
            _ => None,
        }
    }

    /// Half the relative width of a noisy record's interval.
    fn uncertain(&self) -> Option<f64> {
        let summary = self.record.summary.as_ref().filter(|_| self.is_noisy());
        summary.and_then(Summary::relative_half_width)
    }

    /// A time in CPU cycles at `hz`; `None` for other units.
    pub(crate) fn cycles(&self, hz: f64) -> Option<String> {
        let count = |ns: f64| ns * hz / 1e9;
        let text = match self.value {
            _ if self.record.unit != Unit::Nanoseconds => return None,
            DisplayValue::Number(ns) => cycle_count(count(ns)),
            DisplayValue::Bound(ns) => at_most(count(ns), Unit::Ratio),
            _ => return None,
        };
        Some(format!("{}{text}", self.mark))
    }

    /// Half the interval's width ÷ the headline, or the trimmed protocol's deviation ÷ its mean.
    pub(crate) fn half(&self) -> String {
        let Some(summary) = summary_with_width(self.record) else {
            return modes(self.record).map_or_else(nothing, |n| format!("{n} modes"));
        };
        if self.protocol == Protocol::Trimmed {
            let trimmed = summary.trimmed.as_ref();
            return trimmed.map_or_else(nothing, |it| relative(it.sd, it.mean));
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
            None => nothing(),
        }
    }

    /// The summary, unless only an upper bound is known.
    pub(crate) fn unbounded(&self) -> Option<&'r Summary> {
        self.record.shown_summary().filter(|summary| summary.bound.is_none())
    }

    /// The limits of the interval, which a trimmed mean does not have.
    pub(crate) fn interval(&self) -> Option<[f64; 2]> {
        self.unbounded().filter(|_| self.protocol == Protocol::Median)?.limits()
    }

    /// The standard deviation of the values, or the standard error of the trimmed mean.
    pub(crate) fn spread(&self) -> String {
        let spread = |summary: &Summary| match self.protocol {
            Protocol::Median if summary.n < 2 => None,
            Protocol::Median => Some(relative(summary.sd, summary.mean)),
            Protocol::Trimmed => summary.trimmed.as_ref().map(|it| relative(it.se, it.mean)),
        };
        self.unbounded().and_then(spread).unwrap_or_else(nothing)
    }

    /// The prediction in the unit of the number, if it says something, or why there is none.
    pub(crate) fn expected(&self, width: usize) -> ShownCell {
        match &self.record.prediction {
            Some(_) if self.record.is_loosely_bound() => (nothing(), FAINT),
            Some(prediction) => (limits_within(self.record, prediction, width), PLAIN),
            None => {
                let word = self.record.no_model.as_ref().map_or(NOTHING, no_model_word);
                (word.to_owned(), FAINT)
            }
        }
    }

    /// As [`Self::expected`], of values and of bounds that do not hold only.
    pub(crate) fn expected_value(&self, width: usize) -> String {
        let Record { prediction, agreement, no_model, .. } = self.record;
        let is_value = prediction.as_ref().is_some_and(|prediction| {
            !prediction.is_ordinal() || agreement.is_some_and(Agreement::fails)
        });
        let says_something = is_value || matches!(no_model, Some(NoModel::NoisyInput { .. }));
        if says_something { self.expected(width).0 } else { String::new() }
    }

    /// Measured ÷ predicted − 1, without a prediction nothing.
    pub(crate) fn deviation(&self) -> String {
        let Some(prediction) = &self.record.prediction else { return String::new() };
        let both = self.value.number().zip(prediction.value);
        both.map_or_else(nothing, |(measured, value)| deviation(measured, value))
    }

    /// The agreement with a prediction that says something, of a met bound with its slack.
    pub(crate) fn agreement(&self) -> Option<String> {
        match shown_agreement(self.record).filter(|_| !self.record.is_loosely_bound())? {
            Agreement::Met => Some(met(self.record)),
            agreement => Some(agreement.word().to_owned()),
        }
    }

    /// The word of the state.
    fn state(&self) -> ShownCell {
        let state = self.record.verdict.state;
        (state.word().to_owned(), of_state(state))
    }

    /// What is said of the number on every screen: its state if it has none or is noisy, else its
    /// agreement, of a met bound with its slack.
    pub(crate) fn verdict(&self) -> ShownCell {
        match self.agreement() {
            _ if self.record.verdict.state != State::Valid => self.state(),
            Some(word) => (word, self.style()),
            None => (nothing(), FAINT),
        }
    }

    /// The same where predictions have no room: a number that says nothing against itself is valid.
    pub(crate) fn word(&self) -> ShownCell {
        // An inconclusive bound says nothing against the number.
        let has_value = self.record.prediction.as_ref().is_some_and(|it| !it.is_ordinal());
        let agreement = shown_agreement(self.record).filter(|it| {
            it.fails() || *it == Agreement::Within || *it == Agreement::Inconclusive && has_value
        });
        match agreement {
            _ if self.record.verdict.state != State::Valid => self.state(),
            Some(agreement) => (agreement.word().to_owned(), self.style()),
            None => (State::Valid.word().to_owned(), PLAIN),
        }
    }

    fn style(&self) -> Style {
        match shown_agreement(self.record) {
            Some(agreement) if agreement.fails() => BAD,
            _ if self.record.is_value_within() => GOOD,
            _ => PLAIN,
        }
    }
}

pub(crate) fn nothing() -> String {
    NOTHING.to_owned()
}

/// Where published machines lie: `96.5…128 ns`.
pub(crate) fn typical_range(record: &Record, width: usize) -> Option<String> {
    let typical = record.typical.as_ref()?;
    Some(span_within(typical.low, typical.high, record.unit, width))
}

/// Half the interval's width ÷ the number.
pub(crate) fn half_width(record: &Record) -> Option<String> {
    record.shown_summary()?.relative_half_width().map(percent)
}

/// A number of cycles, without a unit.
pub(crate) fn cycle_count(count: f64) -> String {
    match count {
        count if count >= 1e7 => format!("{count:.2e}"),
        count if count >= 1e3 => format!("{:.0}", rounded(count, 4)),
        count => quantity_within(count, Unit::Ratio, 8),
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
    if whole == 0.0 { nothing() } else { percent(part / whole.abs()) }
}

/// A prediction in the unit of the number beside it.
pub(crate) fn limits(record: &Record, prediction: &Prediction) -> String {
    limits_within(record, prediction, LIMITS_WIDTH)
}

/// A prediction in the unit of the number beside it, if it fits.
fn limits_within(record: &Record, prediction: &Prediction, width: usize) -> String {
    let number = record.shown_summary().map(|summary| summary.median);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(record: &Record) -> ShownRecord<'_> {
        ShownRecord::from_record(record, Protocol::Median)
    }

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
            let interval = Some(Interval::new([99.0, 101.0], 0.95, Basis::Processes));
            let summary = Summary { median: 100.0, interval, ..Summary::default() };
            let (prediction, agreement) = (Some(prediction), Some(agreement));
            Record { summary: Some(summary), prediction, agreement, ..Record::default() }
        };
        let at_least = |low, agreement| record(Prediction::at_least(low, "", ""), agreement);
        let close = at_least(40.0, Agreement::Met);
        assert_eq!(shown(&close).verdict(), ("met (2.5 ×)".to_owned(), PLAIN));
        assert_ne!(shown(&close).expected(15).0, NOTHING);
        let loose = at_least(10.0, Agreement::Met);
        assert_eq!(shown(&loose).verdict().0, NOTHING);
        assert_eq!(shown(&loose).expected(15).0, NOTHING);
        let violated = at_least(1000.0, Agreement::Violated);
        assert_eq!(shown(&violated).verdict(), ("violated".to_owned(), BAD));
        // Of an upper bound the median is not shown.
        let mut bound = record(Prediction::at_most(1000.0, "", ""), Agreement::Met);
        let summary = bound.summary.as_mut().unwrap();
        (summary.median, summary.bound) = (1.0, Some(500.0));
        assert_eq!(shown(&bound).verdict(), ("met (2.0 ×)".to_owned(), PLAIN));
        let sum = Prediction::sum(100.0, 0.0, 0.1, "", "");
        let sibling = record(sum.clone().self_consistent(), Agreement::Within);
        assert_eq!(shown(&sibling).verdict(), ("within".to_owned(), PLAIN));
        let value = record(sum, Agreement::Within);
        assert_eq!(shown(&value).verdict(), ("within".to_owned(), GOOD));
    }

    #[test]
    fn edge_is_a_range_without_a_half_width() {
        let interval = Interval::new([32_768.0, 40_960.0], 0.95, Basis::Grid);
        let summary = Summary { median: 36_000.0, interval: Some(interval), ..Summary::default() };
        let record = Record { summary: Some(summary), unit: Unit::Bytes, ..Record::default() };
        assert_eq!(shown(&record).number(15), "32.0…40.0 KiB");
        assert_eq!(shown(&record).half(), NOTHING);
    }
}
