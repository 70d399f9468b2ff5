//! What the results of a chapter mean: how many are as predicted, how they compare with others, the
//! largest deviation and why, and what disturbed.

use std::collections::BTreeMap;

use fathom_analysis::evidence::shown_agreement;
use fathom_record::quantity::{counted, quantity, range, signed_percent};
use fathom_record::{Agreement, Prediction, Record, State, causes};

use super::block::Block;
use super::comparisons::comparisons;
use crate::case::named;
use crate::closing::agreement;
use crate::counters::RecordCounters;
use crate::counts::cause_words;
use crate::distinct::grouped;
use crate::remarks::{meaning, reason_words};
use crate::shown::mark_of_any;
use crate::wrap::capitalised;

/// Sentences on one chapter, at most.
const REMARKS_MAX: usize = 8;
/// Cases named in one remark.
const NAMED_MAX: usize = 2;

/// `all`: the results of the document, beside which some of these are compared.
pub(super) fn discussion(records: &[&Record], all: &[Record]) -> Vec<Block> {
    let mut remarks: Vec<String> = counts(records).into_iter().collect();
    remarks.extend(comparisons(records, all));
    let outside = outside(records);
    if outside.is_empty() {
        remarks.extend(largest_within(records));
    }
    remarks.extend(outside);
    remarks.extend(without_number(records));
    remarks.extend(noisy(records));
    remarks.extend(limits(records));
    let more = remarks.len().saturating_sub(REMARKS_MAX);
    remarks.truncate(REMARKS_MAX);
    remarks.extend((more > 0).then(|| format!("{} more.", counted(more, "remark"))));
    if remarks.is_empty() { Vec::new() } else { vec![Block::List(remarks)] }
}

/// How many agree with their predictions, counted as on every screen.
pub(super) fn counts(records: &[&Record]) -> Option<String> {
    let text = agreement(records.iter().copied());
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

/// Measured ÷ the nearest limit of the prediction; 1 within it.
fn beyond(record: &Record, prediction: &Prediction) -> Option<f64> {
    let value = record.shown_summary()?.median;
    Some(match (prediction.low, prediction.high) {
        (Some(low), _) if value < low => value / low,
        (_, Some(high)) if value > high => value / high,
        _ => 1.0,
    })
}

/// Measured ÷ predicted value.
fn ratio(record: &Record) -> Option<f64> {
    let value = record.prediction.as_ref()?.value?;
    Some(record.shown_summary()?.median / value).filter(|it| it.is_finite() && *it > 0.0)
}

/// How far a ratio is from 1, in both directions alike.
fn distance(ratio: Option<f64>) -> f64 {
    ratio.filter(|it| *it > 0.0).map_or(0.0, |it| it.ln().abs())
}

/// `case: measured 1.2 µs, predicted 0.8–1.1 µs, +9 % beyond the limit`.
fn numbers(record: &Record) -> Option<String> {
    let prediction = record.prediction.as_ref()?;
    let measured = quantity(record.shown_summary()?.median, record.unit);
    let predicted = range(prediction.low, prediction.high, record.unit);
    let by = signed_percent(beyond(record, prediction)?);
    let (name, mark) = (named(&record.metric, &record.params), mark_of_any(&[record]));
    Some(format!(
        "`{name}`: measured {mark}{measured}, predicted {predicted}, {by} beyond the limit"
    ))
}

/// Cases outside their predictions, those of one meaning together, the largest deviation first.
fn outside(records: &[&Record]) -> Vec<String> {
    let fails = |it: &&&Record| {
        it.verdict.shows_number() && shown_agreement(it).is_some_and(Agreement::fails)
    };
    let far = |it: &Record| {
        let prediction = it.prediction.as_ref();
        distance(prediction.and_then(|prediction| beyond(it, prediction)))
    };
    let mut all: Vec<&Record> = records.iter().filter(fails).copied().collect();
    all.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let meanings = grouped(all.into_iter().map(|it| (meaning(it).unwrap_or(""), it)));
    let remark = |(at, (meaning, records)): (usize, (&str, Vec<&Record>))| {
        let numbers = records.iter().take(NAMED_MAX).filter_map(|it| numbers(it));
        let mut text = numbers.collect::<Vec<String>>().join("; ");
        let more = records.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            text += &format!("; and {more} more");
        }
        if !meaning.is_empty() {
            text += &format!(". {}", capitalised(meaning));
        }
        // What moved while the furthest one was measured.
        let moved = RecordCounters::from_record(records[0]).moved().filter(|_| at == 0);
        let moved = moved.map_or(String::new(), |it| format!(". Counters of the first: {it}"));
        let title = if at == 0 { "Outside the prediction, the largest first" } else { "Outside" };
        format!("{title}: {text}{moved}.")
    };
    meanings.into_iter().enumerate().map(remark).collect()
}

/// The largest deviation of a valid number from a predicted value, where none is outside.
fn largest_within(records: &[&Record]) -> Option<String> {
    let valid = records.iter().filter(|it| it.verdict.state == State::Valid);
    let all = valid.filter_map(|it| Some((*it, ratio(it)?)));
    let (record, by) = all.max_by(|a, b| distance(Some(a.1)).total_cmp(&distance(Some(b.1))))?;
    let name = named(&record.metric, &record.params);
    Some(format!("Largest deviation from a predicted value: `{name}`, {}.", signed_percent(by)))
}

fn without_number(records: &[&Record]) -> Vec<String> {
    let mut without: BTreeMap<(&str, &str), Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|it| !it.verdict.shows_number()) {
        let cause = record.verdict.reasons.first().map_or("", |it| cause_words(it.cause));
        without.entry((record.verdict.state.word(), cause)).or_default().push(record);
    }
    let remark = |((state, _), records): ((&str, &str), Vec<&Record>)| {
        format!("Without a number, {state}: {}: {}.", some(&records), reason_words(records[0]))
    };
    without.into_iter().map(remark).collect()
}

/// How many cases are noisy, by cause, and the reason of the first.
fn noisy(records: &[&Record]) -> Option<String> {
    let noisy = || records.iter().filter(|it| it.verdict.state == State::Noisy);
    let first = noisy().next()?;
    let causes = causes(records.iter().copied(), State::Noisy).into_iter();
    let causes: Vec<String> =
        causes.map(|(cause, count)| format!("{} {count}", cause_words(cause))).collect();
    let name = named(&first.metric, &first.params);
    let example = format!("`{name}`: {}", reason_words(first));
    let count = noisy().count();
    Some(match records.len() {
        1 => format!("Noisy: {}.", reason_words(first)),
        all => {
            let causes = causes.join(", ");
            format!("{} noisy: {causes}. Such as {example}.", of_all(count, all))
        }
    })
}

/// What limited the work, by the records, and in how many cases.
fn limits(records: &[&Record]) -> Vec<String> {
    let limits = records.iter().filter_map(|it| Some((it.text_of("limited by")?, ())));
    let words =
        |(text, all): (_, Vec<()>)| format!("Limited by {text}: {}.", counted(all.len(), "case"));
    grouped(limits).into_iter().map(words).collect()
}

fn of_all(some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "The case is".to_owned(),
        (2, 2) => "Both cases are".to_owned(),
        (some, all) if some == all => format!("All {all} cases are"),
        (1, all) => format!("Of {all} cases 1 is"),
        (some, all) => format!("Of {all} cases {some} are"),
    }
}

/// Their names; of many the first, and how many more.
fn some(records: &[&Record]) -> String {
    let names = records.iter().take(NAMED_MAX);
    let names: Vec<String> =
        names.map(|it| format!("`{}`", named(&it.metric, &it.params))).collect();
    match records.len().saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
