//! The most remarkable facts about a run, at most three, as sentences with numbers.

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::evidence::{not_judged, shown_agreement};
use fathom_analysis::typical::distance as beyond_typical;
use fathom_record::quantity::{bare, percent, quantity};
use fathom_record::{
    Agreement, Document, Position, Protocol, Record, State, Summary, Typical, Unit,
};

use crate::case::counted;
use crate::counts::cause_words;
use crate::distinct::grouped;
use crate::remedy;
use crate::shown::{LIMITS_WIDTH, limits, summary_with_width, typical_range};
use crate::wrap::glued;

const FINDINGS: usize = 3;
/// A noisy record with a narrower interval is not called the noisiest.
const NOISIEST_MIN: f64 = 0.005;
/// A number with a wider interval, each way, is not a finding: it can be chance.
const HALF_WIDTH_MAX: f64 = 0.05;

/// At most three sentences: the values furthest from their predictions, the noisiest case, and
/// unavailable cases with a remedy.
pub(crate) fn findings(document: &Document) -> Vec<String> {
    let records = &document.records;
    let others: Vec<String> = [noisiest(records), missing(records)].into_iter().flatten().collect();
    let judged = judged(document).filter_map(|it| Some((distance(it)?, it))).collect();
    let furthest = one_per_metric(judged, FINDINGS - others.len());
    let mut findings: Vec<String> = furthest.into_iter().filter_map(far_sentence).collect();
    findings.extend(others);
    findings
}

/// The records that say something of the machine.
pub(crate) fn judged(document: &Document) -> impl Iterator<Item = &Record> {
    document.records.iter().filter(|it| not_judged(it).is_none())
}

/// The records with the largest distances, one per metric.
fn one_per_metric(mut far: Vec<(f64, &Record)>, count: usize) -> Vec<&Record> {
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen: Vec<&Record> = Vec::new();
    for (_, record) in far {
        if chosen.len() < count && chosen.iter().all(|other| other.metric != record.metric) {
            chosen.push(record);
        }
    }
    chosen
}

/// Results outside their prediction, the furthest first, one per metric, and how many more there
/// are.
pub(crate) fn outside(document: &Document, count: usize) -> Vec<String> {
    let (far, all) = furthest_outside(document, count);
    let mut texts: Vec<String> = far.into_iter().filter_map(short).collect();
    if all > texts.len() {
        texts.push(format!("{} more", all - texts.len()));
    }
    texts
}

/// The results outside their prediction that say something of the machine, the furthest first, one
/// per metric, and how many there are.
pub(crate) fn furthest_outside(document: &Document, count: usize) -> (Vec<&Record>, usize) {
    let fails = |it: &&Record| shown_agreement(it).is_some_and(Agreement::fails);
    let far: Vec<(f64, &Record)> = judged(document)
        .filter(fails)
        .map(|record| (ratio(record).map_or(0.0, |it| it.ln().abs()), record))
        .collect();
    let all = far.len();
    (one_per_metric(far, count), all)
}

/// The results that are worse than typical of such machines, the furthest first, one per metric,
/// and how many there are.
pub(crate) fn furthest_worse(records: &[Record], count: usize) -> (Vec<&Record>, usize) {
    let is_worse =
        |record: &&Record| record.typical.as_ref().is_some_and(|it| it.position == Position::Worse);
    let worse = records.iter().filter(is_worse);
    let far: Vec<(f64, &Record)> = worse.filter_map(|it| Some((beyond_typical(it)?, it))).collect();
    let all = far.len();
    (one_per_metric(far, count), all)
}

/// Results that are not typical of such machines, the furthest first, one per metric, and how many
/// more there are; with the kind of machines, and what is not judged.
pub(crate) fn unusual(records: &[Record], count: usize) -> (Option<String>, Vec<String>) {
    let far: Vec<(f64, &Record)> =
        records.iter().filter_map(|it| Some((beyond_typical(it)?, it))).collect();
    let all = far.len();
    let chosen = one_per_metric(far, count);
    let kind = chosen.first().and_then(|record| record.typical.as_ref()).map(Typical::kind);
    let mut texts: Vec<String> = chosen.into_iter().filter_map(beside_typical).collect();
    if all > texts.len() {
        texts.push(format!("{} more: `fathom compare --typical`", all - texts.len()));
    }
    texts.extend(
        typical_not_judged(records)
            .into_iter()
            .map(|(why, count)| format!("{} not judged: {why}", counted(count, "number"))),
    );
    (kind.map(|kind| format!("beside machine types with {kind}")), texts)
}

/// Why numbers outside their typical range are not judged, each reason with their count.
pub(crate) fn typical_not_judged(records: &[Record]) -> Vec<(&str, usize)> {
    let reasons = records.iter().filter_map(|it| it.typical.as_ref()?.not_judged.as_deref());
    let groups = grouped(reasons.map(|why| (why, ())));
    groups.into_iter().map(|(why, all)| (why, all.len())).collect()
}

/// Name, value and place among typical machines.
pub(crate) fn beside_typical(record: &Record) -> Option<String> {
    let measured = DisplayValue::from_record(record, Protocol::Median).number()?;
    let value = glued(&quantity(measured, record.unit));
    let typical = record.typical.as_ref()?;
    let range = glued(&typical_range(record, LIMITS_WIDTH)?);
    Some(format!("{} {value}, {} ({range})", record.name(), typical.words()))
}

/// Measured ÷ predicted value or bound, if positive.
fn ratio(record: &Record) -> Option<f64> {
    let measured = DisplayValue::from_record(record, Protocol::Median).number()?;
    let prediction = record.prediction.as_ref()?;
    let aim = prediction.value.or(prediction.low).or(prediction.high)?;
    Some(measured / aim).filter(|ratio| *ratio > 0.0)
}

/// Name, value and the distance from the prediction.
pub(crate) fn short(record: &Record) -> Option<String> {
    let prediction = record.prediction.as_ref()?;
    let measured = DisplayValue::from_record(record, Protocol::Median).number()?;
    let value = glued(&quantity(measured, record.unit));
    let limits = glued(&limits(record, prediction));
    Some(format!("{} {value}, expected {limits}", record.name()))
}

/// |ln(measured ÷ predicted)| of a valid number with a narrow interval outside its prediction; for
/// a violated bound, the distance from the bound.
fn distance(record: &Record) -> Option<f64> {
    shown_agreement(record).filter(|it| it.fails())?;
    let half_width = record.summary.as_ref()?.relative_half_width()?;
    ratio(record).filter(|_| half_width <= HALF_WIDTH_MAX).map(|ratio| ratio.ln().abs())
}

fn far_sentence(record: &Record) -> Option<String> {
    let prediction = record.prediction.as_ref()?;
    let measured = DisplayValue::from_record(record, Protocol::Median).number()?;
    let half_width = record.summary.as_ref()?.relative_half_width()?;
    let limits = glued(&limits(record, prediction));
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
            glued(&format!("{} × the", bare(measured / value))),
            glued(&quantity(value, record.unit)),
        ),
        None => format!("{start}, {limits} predicted: {}", sentence(&*prediction.formula)),
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

/// The noisy record with the widest interval, and its cause.
fn noisiest(records: &[Record]) -> Option<String> {
    let width = |record: &Record| {
        // A bound has no relative width: its interval can include zero.
        let summary = record.summary.as_ref().filter(|summary| summary.bound.is_none())?;
        let half_width = summary.relative_half_width();
        half_width.or(Some(summary.spread_between)).filter(|width| width.is_finite())
    };
    let (_, record) = records
        .iter()
        // Noisy for another reason than its width: the row has it.
        .filter(|record| width(record).is_some_and(|width| width >= NOISIEST_MIN))
        .filter(|record| record.verdict.state == State::Noisy)
        .filter(|record| !record.verdict.is_cut_short())
        .filter_map(|record| Some((width(record)?, record)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let reason = record.verdict.reasons.first();
    let cause = reason.map_or(String::new(), |reason| {
        let text =
            if reason.text.is_empty() { cause_words(reason.cause) } else { reason.text.as_str() };
        text.to_owned()
    });
    // As in its row: without an interval, and for one of two modes, half a width says nothing.
    let half = summary_with_width(record).and_then(Summary::relative_half_width);
    let half = half.map(|half| glued(&format!("± {}", percent(half))));
    // Of some procedures the reason is the spread itself.
    let cause = match cause.is_empty() || Some(glued(&cause)) == half {
        true => String::new(),
        false => format!(": {cause}"),
    };
    let half = half.map_or(String::new(), |half| format!(", {half}"));
    Some(sentence(format!("{} is the noisiest{half}{cause}", record.name())))
}

/// The number of unavailable cases with a remedy, and the remedy of the first.
fn missing(records: &[Record]) -> Option<String> {
    let remedied: Vec<(&Record, String)> = records
        .iter()
        .filter(|record| record.verdict.state == State::Unavailable)
        .filter_map(|record| Some((record, remedy::first(&record.verdict.reasons)?)))
        .collect();
    let (first, remedy) = remedied.first()?;
    let verbs =
        if remedied.len() == 1 { "is unavailable but has" } else { "are unavailable but have" };
    let cases = counted(remedied.len(), "case");
    Some(sentence(format!("{cases} {verbs} a remedy; {}: {remedy}", first.name())))
}

/// Adds a full stop unless there is one.
pub(crate) fn sentence(text: impl Into<String>) -> String {
    let text: String = text.into();
    let text = text.trim_end();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{stop}")
}
