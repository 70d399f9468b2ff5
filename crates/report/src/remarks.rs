//! The lines beneath a row: why a number is noisy or missing, and its distribution.

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::evidence::shown_agreement;
use fathom_record::quantity::{percent, quantity};
use fathom_record::summary::Mode;
use fathom_record::{
    Agreement, BETWEEN_LEVELS, Cause, Estimate, Protocol, Reason, Record, State, Summary, Unit,
    Verdict,
};

use crate::columns::{CYCLES, MEASURED, Setting};
use crate::counts::cause_words;
use crate::distinct::distinct;
use crate::paint::{FAINT, of_state, paint_lines};
use crate::shown::ShownRecord;
use crate::typical;
use crate::wrap::{glued, wrapped};

/// Smaller differences between both estimates are not printed.
const AS_FOUND_MIN: f64 = 0.05;
/// Indentation of remarks, and of their further lines.
pub(crate) const INDENT: &str = "    ";
pub(crate) const FURTHER: &str = "      ";

/// All remarks on a record. Reasons already printed for the row above are not repeated, nor are
/// causes of noise among those `explained` by rows before.
pub(crate) fn remarks(
    record: &Record,
    above: Option<&Record>,
    explained: &mut Vec<Cause>,
    setting: &Setting<'_>,
) -> String {
    let width = setting.columns.line;
    let repeated = above.is_some_and(|above| repeats(&above.verdict, &record.verdict));
    if !record.verdict.shows_number() {
        return if repeated { String::new() } else { reasons(record, width) };
    }
    let mut lines = String::new();
    let mut add = |text: String| lines += &wrapped(&text, width, INDENT, FURTHER);
    let shown = ShownRecord::from_record(record, setting.protocol);
    match shown.value {
        DisplayValue::Text(_) => {
            let below = shown.text_below(setting.columns.width(MEASURED));
            below.into_iter().for_each(|text| add(format!("value: {text}")));
        }
        DisplayValue::Withheld => add("no valid value recorded".to_owned()),
        _ => {}
    }
    if !setting.columns.has(CYCLES)
        && let Some(cycles) = setting.hz.and_then(|hz| shown.cycles(hz))
    {
        add(glued(&format!("{cycles} cycles")));
    }
    if let Some(summary) = &record.summary
        && summary.bound.is_none()
        && shown.value.number().is_some()
    {
        if let Some(text) = differs_as_found(record, summary) {
            add(text);
        }
        if summary.modes.len() > 1 && read_apart(&summary.modes, record) {
            let of = if summary.quantiles.is_empty() { "" } else { " of single operations" };
            let title = format!("{} modes{of}", summary.modes.len());
            add(distribution(&title, &summary.modes, record));
        }
        if summary.clusters.len() > 1 && read_apart(&summary.clusters, record) {
            add(distribution("bimodal across processes", &summary.clusters, record));
        }
        if setting.protocol == Protocol::Trimmed && summary.trimmed.is_none() {
            add("median: no trimmed mean available".to_owned());
        }
    }
    let levels = record.text_of(BETWEEN_LEVELS);
    levels.into_iter().for_each(|levels| add(format!("between {levels}")));
    if let Some(by) = limit(record).filter(|by| above.and_then(limit) != Some(*by)) {
        add(format!("limited by {by}"));
    }
    datagrams(record).into_iter().for_each(&mut add);
    if let Some(text) = meaning(record).filter(|text| above.and_then(meaning) != Some(text)) {
        add(format!("{}: {text}", shown_agreement(record).map_or("", Agreement::word)));
    }
    typical::remark(record).into_iter().for_each(&mut add);
    if let Some(floor) = record.summary.as_ref().and_then(|summary| summary.clock_floor) {
        let floor = glued(&quantity(floor, Unit::Nanoseconds));
        add(format!("clock floor {floor}: affects single timings as short as these"));
    }
    let lines = paint_lines(FAINT, &lines);
    if repeated { lines } else { lines + &causes(record, explained, width) }
}

/// The reasons, if they are not those of the whole run: in full for the first of a table, later by
/// the label of the main one, and not at all below a row with the same.
fn causes(record: &Record, explained: &mut Vec<Cause>, width: usize) -> String {
    // A valid number can have a reason too: a cap that limited it.
    let is_of_run =
        |reason: &Reason| matches!(reason.cause, Cause::CoreShared | Cause::MachineDrift);
    let main = record.verdict.reasons.first().map(|reason| reason.cause);
    let main = main.filter(|_| record.verdict.state == State::Noisy);
    let is_last = main.is_some() && main == explained.last().copied();
    let is_explained = main.is_some_and(|it| explained.contains(&it));
    explained.extend(main);
    match main {
        _ if record.verdict.reasons.iter().all(is_of_run) || is_last => String::new(),
        Some(cause) if is_explained => {
            let text = format!("noisy: {}", cause_words(cause));
            paint_lines(of_state(State::Noisy), &wrapped(&text, width, INDENT, INDENT))
        }
        _ => reasons(record, width),
    }
}

/// The estimate over all processes, if it is outside the interval of one state by more than
/// [`AS_FOUND_MIN`].
fn differs_as_found(record: &Record, summary: &Summary) -> Option<String> {
    let (selected, found) = (summary.in_state.as_ref()?, summary.as_found.as_ref()?);
    let off = (found.median / selected.median - 1.0).abs();
    let is_outside =
        summary.limits().is_none_or(|[low, high]| !(low..=high).contains(&found.median));
    (off > AS_FOUND_MIN && is_outside).then(|| {
        let value = glued(&quantity(found.median, record.unit));
        let Estimate { visits, of, .. } = selected;
        format!("{}: {visits} of {of} processes; all {value}", summary.stratum.words())
    })
}

/// What limited the work, if its probe says so.
fn limit(record: &Record) -> Option<&str> {
    record.text_of("limited by")
}

/// What became of the datagrams on their way, if the probe says so.
fn datagrams(record: &Record) -> Option<String> {
    let jitter = record.quantity_of("jitter (RFC 3550)")?;
    let loss = record.quantity_of("loss")?;
    let (loss, jitter) = (glued(&percent(loss)), glued(&quantity(jitter, Unit::Nanoseconds)));
    Some(format!("loss {loss}, jitter {jitter}"))
}

/// Whether the second verdict adds nothing: the same causes of noise, to whatever degree, or the
/// same text for a missing number.
fn repeats(above: &Verdict, below: &Verdict) -> bool {
    let causes = |of: &Verdict| of.reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>();
    match below.shows_number() {
        true => above.state == below.state && causes(above) == causes(below),
        false => above == below,
    }
}

/// What a result outside its prediction means for the machine.
pub(crate) fn meaning(record: &Record) -> Option<&str> {
    shown_agreement(record).filter(|agreement| agreement.fails())?;
    let prediction = record.prediction.as_ref()?;
    let meaning = prediction.meaning_of(record.summary.as_ref()?.median);
    (!meaning.is_empty()).then_some(meaning)
}

/// Whether modes are more than two percent of the headline apart.
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

/// The main reason in words, and the others by their labels.
fn reasons(record: &Record, width: usize) -> String {
    let state = record.verdict.state;
    let mut text = reason_words(record);
    if record.verdict.reasons.is_empty() {
        return paint_lines(of_state(state), &format!("{INDENT}{text}\n"));
    }
    if state == State::Noisy {
        text = format!("noisy: {text}");
    }
    paint_lines(of_state(state), &wrapped(&text, width, INDENT, INDENT))
}

/// The main reason in words, and the others by their labels.
pub(crate) fn reason_words(record: &Record) -> String {
    let Some((first, others)) = record.verdict.reasons.split_first() else {
        return "no reason recorded".to_owned();
    };
    let mut text = first.text.clone();
    if text.is_empty() {
        text = cause_words(first.cause).to_owned();
    }
    // The others say what did move.
    let others = others.iter().filter(|reason| reason.cause != Cause::Spread);
    let mut names = distinct(others.map(|reason| cause_words(reason.cause)));
    names.retain(|name| *name != cause_words(first.cause));
    if !names.is_empty() {
        text += &format!("; also {}", names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_record::Fact;

    use super::*;
    use crate::columns::columns_for;

    #[test]
    fn loss_and_jitter_are_beneath_the_row() {
        let columns = columns_for(&crate::Layout::default());
        let setting = Setting { columns: &columns, protocol: Protocol::Median, hz: None };
        let jitter = Fact::quantity("jitter (RFC 3550)", 7435.0, Unit::Nanoseconds);
        let facts = vec![Fact::quantity("loss", 0.2076, Unit::Ratio), jitter];
        let mut record = Record { facts, ..Record::default() };
        let text = "loss 21 %, jitter 7.435 µs";
        assert!(remarks(&record, None, &mut Vec::new(), &setting).contains(text));
        record.verdict = Verdict::because(State::Invalid, Cause::LoadGenerator, "why");
        assert!(
            !remarks(&record, None, &mut Vec::new(), &setting).contains(text),
            "of another rate"
        );
    }

    #[test]
    fn cause_of_noise_is_printed_once_per_metric() {
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
