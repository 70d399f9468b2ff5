//! The three most remarkable things about a run, as sentences with their figures.

use std::collections::BTreeMap;

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{percent, quantity, range};
use fathom_record::{Agreement, Prediction, Protocol, Record, State, Unit};

use crate::counts::cause_words;
use crate::remarks::next;
use crate::wrap::glued;

/// How many are told.
const FINDINGS: usize = 3;
/// How many ways to more results are told.
const REMEDIES: usize = 3;
/// A number whose interval is wider than this, each way, is no finding: it may be chance.
const HALF_WIDTH_MAX: f64 = 0.05;

/// At most three sentences: what is furthest from its prediction, what is noisiest, and what a
/// permission or a setting would add; where one kind is missing, more of the first.
pub(crate) fn findings(records: &[Record]) -> Vec<String> {
    let others: Vec<String> = [noisiest(records), missing(records)].into_iter().flatten().collect();
    let mut findings = furthest(records, FINDINGS - others.len());
    findings.extend(others);
    findings
}

/// The records furthest from their predictions, the furthest first, each metric once.
fn furthest(records: &[Record], count: usize) -> Vec<String> {
    let mut far: Vec<(f64, &Record)> =
        records.iter().filter_map(|record| Some((distance(record)?, record))).collect();
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut told: Vec<&Record> = Vec::new();
    for (_, record) in far {
        if told.len() < count && told.iter().all(|other| other.metric != record.metric) {
            told.push(record);
        }
    }
    told.into_iter().filter_map(far_sentence).collect()
}

/// |ln(measured ÷ predicted)| of a valid number with a narrow interval that differs from its
/// prediction; for an order that does not hold, the distance from its limit.
fn distance(record: &Record) -> Option<f64> {
    let differs = record.agreement.is_some_and(Agreement::fails);
    if record.verdict.state != State::Valid || !differs {
        return None;
    }
    let half_width = record.summary.as_ref()?.relative_half_width()?;
    let measured = DisplayValue::of(record, Protocol::Median).number()?;
    let ratio = measured / aim(record.prediction.as_ref()?)?;
    (half_width <= HALF_WIDTH_MAX && ratio > 0.0).then(|| ratio.ln().abs())
}

/// The value the measured one is compared with.
fn aim(prediction: &Prediction) -> Option<f64> {
    prediction.value.or(prediction.low).or(prediction.high)
}

fn far_sentence(record: &Record) -> Option<String> {
    let prediction = record.prediction.as_ref()?;
    let measured = DisplayValue::of(record, Protocol::Median).number()?;
    let half_width = record.summary.as_ref()?.relative_half_width()?;
    let limits = glued(&range(prediction.low, prediction.high, record.unit));
    let start = format!(
        "{} {} {} (± {})",
        record.name(),
        verb(record.unit),
        glued(&quantity(measured, record.unit)),
        glued(&percent(half_width)),
    );
    Some(match prediction.value {
        Some(value) => format!(
            "{start}, {} {} predicted ({limits}).",
            glued(&format!("{} × the", factor(measured / value))),
            glued(&quantity(value, record.unit)),
        ),
        None => format!("{start}, where {limits} was predicted: {}", ended(&*prediction.formula)),
    })
}

fn verb(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "takes",
        Unit::BytesPerSecond => "moves",
        Unit::PerSecond => "does",
        Unit::Bytes | Unit::Hertz | Unit::Ratio => "is",
    }
}

/// `1.57`, `10.1`, `142`, `0.42`: three figures.
fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 99.95 => format!("{ratio:.0}"),
        ratio if ratio >= 9.995 => format!("{ratio:.1}"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}"),
        ratio => quantity(ratio, Unit::Ratio),
    }
}

/// The noisy record with the widest interval, and its cause.
fn noisiest(records: &[Record]) -> Option<String> {
    let width = |record: &Record| {
        // A bound has no width to speak of: it may lie around nothing.
        let summary = record.summary.as_ref().filter(|summary| summary.bound.is_none())?;
        let half_width = summary.relative_half_width();
        half_width.or(Some(summary.spread_between)).filter(|width| width.is_finite())
    };
    let (width, record) = records
        .iter()
        .filter(|record| record.verdict.state == State::Noisy)
        .filter(|record| !record.verdict.is_cut_short())
        .filter_map(|record| Some((width(record)?, record)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let reason = record.verdict.reasons.first();
    let cause = reason.map_or(String::new(), |reason| {
        let text =
            if reason.text.is_empty() { cause_words(reason.cause) } else { reason.text.as_str() };
        format!(": {text}")
    });
    let spread = glued(&format!("± {}", percent(width)));
    Some(ended(format!("{} is the noisiest, {spread}{cause}", record.name())))
}

/// What is unavailable, and what would make it available.
fn missing(records: &[Record]) -> Option<String> {
    let remedied: Vec<(&Record, String)> = records
        .iter()
        .filter(|record| record.verdict.state == State::Unavailable)
        .filter_map(|record| Some((record, next(record)?)))
        .collect();
    let ((first, _), others) = remedied.split_first()?;
    let (who, pronoun) = match others.len() {
        0 => (format!("{} is unavailable", first.name()), "it"),
        1 => (format!("{} and one more case are unavailable", first.name()), "them"),
        more => (format!("{} and {more} more cases are unavailable", first.name()), "them"),
    };
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for (_, next) in &remedied {
        *counts.entry(next).or_default() += 1;
    }
    let mut counts: Vec<(&String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut ways: Vec<String> = counts
        .iter()
        .take(REMEDIES)
        .enumerate()
        .map(|(i, (next, count))| match (i, *count) {
            (0, count) if count == remedied.len() => format!("to have {pronoun}: {next}"),
            (0, count) => format!("to have {count} of them: {next}"),
            (_, count) => format!("to have {count} more: {next}"),
        })
        .collect();
    if counts.len() > REMEDIES {
        ways.push("the others say themselves what they want".to_owned());
    }
    Some(ended(format!("{who}; {}", ways.join("; "))))
}

/// The text as a sentence: with a full stop.
pub(crate) fn ended(text: impl Into<String>) -> String {
    let text: String = text.into();
    let text = text.trim_end();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{stop}")
}
