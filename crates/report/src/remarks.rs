//! The lines beneath a row: why a number is marked or missing, and what one number cannot say.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{percent, quantity};
use fathom_record::summary::Mode;
use fathom_record::{Agreement, Estimate, Protocol, Record, State, Summary, Verdict};

use crate::cells::{Setting, cycles};
use crate::counts::cause_words;
use crate::paint::{FAINT, PLAIN, of_state, paint_lines};
use crate::remedy;
use crate::wrap::{glued, width_of, wrapped};

/// A smaller difference between both estimates is not worth a line.
const AS_FOUND_MIN: f64 = 0.05;
/// Where remarks begin.
pub(crate) const INDENT: &str = "    ";
/// Where their further lines begin.
pub(crate) const FURTHER: &str = "      ";

/// All remarks on a record, each line ended by a newline; empty where there are none. Reasons that
/// were just given for the row above are not given again.
pub(crate) fn remarks(record: &Record, above: Option<&Record>, setting: &Setting<'_>) -> String {
    let width = setting.columns.line;
    let repeated = above.is_some_and(|above| repeats(&above.verdict, &record.verdict));
    if !record.verdict.shows_number() {
        return if repeated { String::new() } else { reasons(record, width) };
    }
    let mut lines = String::new();
    let mut say = |text: String| lines += &wrapped(&text, width, INDENT, FURTHER);
    let shown = DisplayValue::of(record, setting.protocol);
    match shown {
        DisplayValue::Text(text) if width_of(text) >= setting.columns.measured => {
            say(format!("value: {text}"));
        }
        DisplayValue::Withheld => say("no value that could be shown was recorded".to_owned()),
        _ => {}
    }
    if setting.columns.cycles.is_none()
        && let Some(cycles) = setting.hz.and_then(|hz| cycles(record, setting.protocol, hz))
    {
        say(glued(&format!("{cycles} cycles")));
    }
    if let Some(summary) = &record.summary
        && summary.bound.is_none()
        && shown.number().is_some()
    {
        if let Some(text) = differs_as_found(record, summary) {
            say(text);
        }
        if summary.modes.len() > 1 && read_apart(&summary.modes, record) {
            say(distribution(&format!("{} modes", summary.modes.len()), &summary.modes, record));
        }
        if summary.clusters.len() > 1 && read_apart(&summary.clusters, record) {
            say(distribution("bimodal across processes", &summary.clusters, record));
        }
        if setting.protocol == Protocol::Trimmed && summary.trimmed.is_none() {
            say("the median: there is no trimmed mean of it".to_owned());
        }
    }
    if let Some(text) = meaning(record).filter(|text| above.and_then(meaning) != Some(text)) {
        say(format!("{}: {text}", record.agreement.map_or("", Agreement::word)));
    }
    if let Some(floor) = record.summary.as_ref().and_then(|summary| summary.clock_floor) {
        let floor = glued(&quantity(floor, fathom_record::Unit::Nanoseconds));
        say(format!("clock floor {floor}: timed singly, and too short to be free of it"));
    }
    let lines = paint_lines(FAINT, &lines);
    // A number that stands may have been held at a cap, which is then said of it too.
    let said = record.verdict.reasons.is_empty() || repeated;
    if said { lines } else { lines + &reasons(record, width) }
}

/// The estimate as found, where it is outside the interval at full speed by more than a reader
/// would overlook.
fn differs_as_found(record: &Record, summary: &Summary) -> Option<String> {
    let (selected, found) = (summary.full_speed.as_ref()?, summary.as_found.as_ref()?);
    let off = (found.median / selected.median - 1.0).abs();
    let is_outside =
        summary.limits().is_none_or(|[low, high]| !(low..=high).contains(&found.median));
    (off > AS_FOUND_MIN && is_outside).then(|| {
        let value = glued(&quantity(found.median, record.unit));
        let Estimate { visits, of, .. } = selected;
        format!("{visits} clean of {of} visits; as found {value}")
    })
}

/// Whether a reader who has just read the one verdict learns nothing from the other: the same
/// causes spoil a number, to whatever degree; or the same words say why there is none.
fn repeats(above: &Verdict, below: &Verdict) -> bool {
    let causes = |of: &Verdict| of.reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>();
    match below.shows_number() {
        true => above.state == below.state && causes(above) == causes(below),
        false => above == below,
    }
}

/// What a result outside its prediction says of the machine.
pub(crate) fn meaning(record: &Record) -> Option<&str> {
    record.agreement.filter(|agreement| agreement.fails())?;
    let prediction = record.prediction.as_ref()?;
    let meaning = prediction.meaning_of(record.summary.as_ref()?.median);
    (!meaning.is_empty()).then_some(meaning)
}

/// Whether modes lie as far apart as a reader would care for: two per cent.
pub(crate) fn read_apart(modes: &[Mode], record: &Record) -> bool {
    let at = || modes.iter().map(|mode| mode.at);
    let (low, high) = (at().fold(f64::INFINITY, f64::min), at().fold(f64::NEG_INFINITY, f64::max));
    let headline = record.summary.as_ref().map_or(1.0, |summary| summary.median);
    high - low > 0.02 * headline.abs()
}

/// `2 modes: 65 % at 1.200 µs, 35 % at 3.400 µs`.
fn distribution(title: &str, modes: &[Mode], record: &Record) -> String {
    let list: Vec<String> = modes
        .iter()
        .map(|mode| {
            let (share, at) = (percent(mode.share), quantity(mode.at, record.unit));
            glued(&format!("{share} at {at}"))
        })
        .collect();
    format!("{title}: {}", list.join(", "))
}

/// The weightiest reason in words, the others by name, and the next thing to do.
fn reasons(record: &Record, width: usize) -> String {
    let state = record.verdict.state;
    let mut text = reason_words(record);
    if record.verdict.reasons.is_empty() {
        return paint_lines(of_state(state), &format!("{INDENT}{text}\n"));
    }
    if state == State::Noisy {
        text = format!("noisy: {text}");
    }
    let mut lines = paint_lines(of_state(state), &wrapped(&text, width, INDENT, INDENT));
    if let Some(next) = next(record) {
        let next = wrapped(&next, width, &format!("{INDENT}→ "), FURTHER);
        lines += &paint_lines(PLAIN, &next);
    }
    lines
}

/// The weightiest reason in words and the others by name.
pub(crate) fn reason_words(record: &Record) -> String {
    let Some((first, others)) = record.verdict.reasons.split_first() else {
        return "no reason was recorded".to_owned();
    };
    let mut text = first.text.clone();
    if text.is_empty() {
        text = cause_words(first.cause).to_owned();
    }
    let mut names: Vec<&str> = Vec::new();
    for name in others.iter().map(|reason| cause_words(reason.cause)) {
        if !names.contains(&name) && name != cause_words(first.cause) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        text += &format!("; also {}", names.join(", "));
    }
    text
}

/// The next thing to do.
pub(crate) fn next(record: &Record) -> Option<String> {
    remedy::first(&record.verdict.reasons)
}

#[cfg(test)]
mod tests {
    use fathom_record::Cause;

    use super::*;

    #[test]
    fn a_cause_is_told_once_and_a_reason_for_no_number_as_often_as_it_differs() {
        let because = |state, text: &str| Verdict::because(state, Cause::Contention, text);
        let noisy = |text: &str| because(State::Noisy, text);
        assert!(repeats(&noisy("for 57 % of the time"), &noisy("for 41 % of the time")));
        let quota = Verdict::because(State::Noisy, Cause::Throttled, "for 41 % of the time");
        assert!(!repeats(&noisy("for 57 % of the time"), &quota));
        assert!(!repeats(&Verdict::default(), &noisy("for 41 % of the time")));
        let unavailable = |text: &str| because(State::Unavailable, text);
        assert!(!repeats(&unavailable("needs 256 MiB"), &unavailable("needs 1024 MiB")));
        assert!(repeats(&unavailable("needs 256 MiB"), &unavailable("needs 256 MiB")));
    }
}
