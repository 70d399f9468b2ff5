//! The output of a procedure, from its records only: the facts of a single record, tables of
//! records measured together, and findings from their curves.

mod bench;
mod cost;
mod findings;
mod load;
mod table;
mod transfer;
mod trial;

use fathom_analysis::evidence::shown_agreement;
use fathom_record::{
    Agreement, Document, Fact, FactValue, Host, Interval, Params, Position, Protocol, Record,
    State, Summary, Typical, Unit,
};

use crate::closing::duration;
use crate::columns::{Setting, columns_for};
use crate::counts::cause_words;
use crate::family::{self, Caches};
use crate::findings::sentence;
use crate::layout::Layout;
use crate::model::no_model_line;
use crate::remarks::meaning;
use crate::remedy;
use crate::shown::{ShownRecord, limits, typical_range};
use crate::wrap::{capitalised, glued, width_of, wrapped};
use fathom_record::quantity::{NOTHING, percent, quantity};

pub use findings::findings;
pub(crate) use findings::sentences as findings_of;
pub(crate) use load::quantile_of;
pub(crate) use table::{Column, blocks};
pub(crate) use transfer::{combination, of_set, sets};
pub(crate) use trial::of_rule;

/// Fewer values of one process have no interval.
pub(crate) const VALUES_MIN: u64 = 12;
/// Minimum width of the names.
const NAMES: usize = 14;
/// Facts after which the throughput is printed.
const TIMES: [&str; 2] = ["time", "total"];
/// The fact or line below a time.
const SPEED: &str = "speed";

/// A question that a run answers.
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) sentences: Vec<String>,
    /// After their captions.
    pub(crate) tables: Vec<(String, Vec<Column>)>,
}

impl Question {
    fn new(question: impl Into<String>, sentences: Vec<String>) -> Self {
        Self { question: question.into(), sentences, tables: Vec::new() }
    }
}

/// The questions that a run of a command answers; none for one whose screen is its answer.
pub(crate) fn questions(document: &Document) -> Vec<Question> {
    match document.run.procedure.as_deref() {
        Some("load") => load::questions(&document.records),
        Some("transfer") => transfer::questions(&document.records),
        _ => Vec::new(),
    }
}

/// The answer of a procedure in sentences, and what to do next.
#[derive(Default)]
pub(crate) struct ByHandAnswer {
    pub(crate) sentences: Vec<String>,
    pub(crate) next: Vec<String>,
    /// What is in doubt where most results are noisy; else all of them are.
    pub(crate) doubt: Option<String>,
}

/// More numbers than these are no answer.
const ANSWERS_MAX: usize = 4;
/// Width of a value in a sentence.
const VALUE: usize = 12;

/// The answer of a procedure, from its records.
pub(crate) fn answer(document: &Document) -> ByHandAnswer {
    let Document { records, host, .. } = document;
    let of = |is: fn(&Record) -> bool| records.iter().any(is);
    let sentences = match () {
        () if of(load::is_load) => return load::answer(records),
        () if of(transfer::is_transfer) => return transfer::answer(records),
        () if of(trial::is_trial) => return trial::answer(records),
        () if of(bench::is_bench) => bench::answer(records),
        () => study(&findings::sentences(records, host)),
    };
    let is_short = sentences.is_empty() && records.len() <= ANSWERS_MAX;
    let number = |record| number_sentence(record, host);
    let sentences = if is_short { records.iter().map(number).collect() } else { sentences };
    ByHandAnswer { sentences, ..ByHandAnswer::default() }
}

/// What the curves of reads say: of threads and caching, else the best of each; then the cost.
fn study(lines: &[(&str, String)]) -> Vec<String> {
    let of = |labels: &[&str]| -> Vec<String> {
        let chosen = lines.iter().filter(|(label, _)| labels.contains(label));
        chosen.map(|(_, text)| sentence(text.as_str())).collect()
    };
    let mut sentences = of(&["threads", "caching"]);
    if sentences.is_empty() {
        sentences = of(&["best"]);
    }
    sentences.iter_mut().for_each(|text| *text = capitalised(text));
    // It begins with a symbol.
    sentences.extend(of(&["cost"]));
    sentences
}

/// The number of a record as a sentence, or why there is none.
pub(crate) fn number_sentence(record: &Record, host: &Host) -> String {
    if !record.verdict.shows_number() {
        let why = record.verdict.reasons.first().map_or("", |reason| reason.text.as_str());
        return sentence(format!("{}: {}: {why}", record.name(), record.verdict.state.word()));
    }
    let shown = ShownRecord::from_record(record, Protocol::Median);
    let is_bound = record.summary.as_ref().is_some_and(|it| it.bound.is_some());
    let half = shown.half().trim_end_matches('*').to_owned();
    let width = match half.as_str() {
        _ if is_bound => ", no difference resolved".to_owned(),
        half if !half.ends_with('%') => String::new(),
        arms if arms.starts_with('+') => format!(" ({arms})"),
        half => format!(" ± {half}"),
    };
    let value = shown.number(VALUE) + &glued(&width);
    // A noisy number is not judged.
    let judged = shown_agreement(record).filter(|_| record.verdict.state == State::Valid);
    let is_noisy = record.verdict.state == State::Noisy;
    let word = judged.map_or(if is_noisy { ", noisy" } else { "" }, |it| match it {
        Agreement::Within | Agreement::Met => ", as predicted",
        Agreement::Outside | Agreement::Violated => ", outside its prediction",
        Agreement::Inconclusive => ", its prediction inconclusive",
    });
    let is_cold = record.params.text("state") == Some("cold");
    let is_placed = |it: &&Typical| !is_noisy && it.position != Position::NotJudged;
    let typical = record.typical.as_ref().filter(is_placed);
    let typical = typical
        .zip(typical_range(record, VALUE))
        .map_or(String::new(), |(it, range)| glued(&format!(", {} ({})", it.words(), range)));
    let far = if is_cold && host.is_guest() { "; the host may have cached it" } else { "" };
    let sentence = sentence(format!("{}: {value}{word}{typical}{far}", record.name()));
    sentence + &copy_time(record).map_or(String::new(), |time| format!(" {time}."))
}

/// `100 GB take 2 min 54 s at this rate`, of what is not only in memory, as far as is known.
fn copy_time(record: &Record) -> Option<String> {
    const BYTES: f64 = 100e9;
    let is_cached = matches!(record.params.text("state"), Some("warm" | "unknown"));
    let is_rate = record.unit == Unit::BytesPerSecond && !is_cached;
    let is_rate = is_rate && record.verdict.state == State::Valid;
    let rate = record.shown_summary().filter(|_| is_rate)?.median;
    let take = duration(1e9 * BYTES / rate);
    Some(format!("{} take {take} at this rate", glued("100 GB")))
}

/// What a command is about to do.
pub fn plan(text: &str, width: usize) -> String {
    facts(&[("plan", text.to_owned())], width)
}

/// Announces temporary files before they are written.
pub fn announcement(text: &str, width: usize) -> String {
    facts(&[("temporary", text.to_owned())], width)
}

/// Records measured together: the facts of a single one, or a table per metric. Facts of the
/// last one of `earlier`, the records of the run before them, are not repeated.
pub fn group(records: &[Record], earlier: &[Record], width: usize) -> String {
    if !records.is_empty() && records.iter().all(load::is_load) {
        // Selected records may lack what the others are shown with.
        let text = load::group(records, earlier, width);
        if !text.is_empty() || records.iter().all(load::is_capacity) {
            return text;
        }
    }
    if !records.is_empty() && records.iter().all(transfer::is_transfer) {
        return transfer::group(records, width);
    }
    if !records.is_empty() && records.iter().all(bench::is_bench) {
        return bench::group(records, width, false);
    }
    if !records.is_empty() && records.iter().all(trial::is_trial) {
        return trial::group(records, width);
    }
    let above = earlier.last();
    let mut text = String::new();
    for of_metric in records.chunk_by(|a, b| a.metric == b.metric) {
        text += &match of_metric {
            [one] if records.len() == 1 && above.is_none() => single(one, width),
            [one] => format!("\n{}\n{}", one.name(), single(one, width)),
            many => table::table(many, above, width),
        };
    }
    text
}

/// All groups of a run, and what their curves say.
pub(crate) fn evidence(document: &Document, width: usize) -> String {
    let Document { records, host, .. } = document;
    let mut text = String::new();
    let mut shown = 0;
    for of_visit in records.chunk_by(|a, b| a.visit == b.visit) {
        text += &match of_visit.iter().all(bench::is_bench) {
            true => bench::group(of_visit, width, true),
            false => group(of_visit, &records[..shown], width),
        };
        shown += of_visit.len();
    }
    // How the capacities were measured is wanted last.
    text += &load::capacities(records, width);
    text.trim_start_matches('\n').to_owned() + &findings(records, host, width)
}

/// One record: its facts, prediction and verdict.
fn single(record: &Record, width: usize) -> String {
    let mut text = String::new();
    let mut lines: Vec<(&str, String)> = Vec::new();
    let speed = speed(record);
    let after = record.facts.iter().position(|fact| TIMES.contains(&fact.name.as_str()));
    for (at, fact) in record.facts.iter().enumerate() {
        match &fact.value {
            FactValue::Line { line } => text += &format!("{line}\n"),
            _ => lines.push((&fact.name, fact_words(record, fact))),
        }
        // Of the last of several passes it is a fact.
        let is_next = after == Some(at) && record.fact(SPEED).is_none();
        lines.extend(speed.clone().filter(|_| is_next).map(|text| (SPEED, text)));
    }
    text + &facts(&lines, width) + &standing(record, width)
}

/// A rate in both units; `None` for other units, no number if none may be shown.
fn speed(record: &Record) -> Option<String> {
    let summary = record.summary.as_ref().filter(|_| record.unit == Unit::BytesPerSecond)?;
    Some(if record.verdict.shows_number() { in_bytes(summary.median) } else { NOTHING.to_owned() })
}

fn in_bytes(rate: f64) -> String {
    format!("{rate:.0} B/s = {}", quantity(rate, Unit::BytesPerSecond))
}

/// A fact as text. A measured fact has no number if its record has none.
pub(crate) fn fact_words(record: &Record, fact: &Fact) -> String {
    match &fact.value {
        FactValue::Line { line: text } | FactValue::Text { text } => text.clone(),
        FactValue::Quantity { unit, .. } if is_withheld(record, *unit) => NOTHING.to_owned(),
        // As dd prints it, for comparison.
        FactValue::Quantity { value, unit: Unit::PerSecond } => {
            format!("{value:.0} {}/s", fact.name)
        }
        FactValue::Quantity { value, unit: Unit::Nanoseconds }
            if TIMES.contains(&fact.name.as_str()) =>
        {
            format!("{:.6} s", value / 1e9)
        }
        FactValue::Quantity { value, unit: Unit::Bytes } => {
            format!("{value:.0} bytes = {}", quantity(*value, Unit::Bytes))
        }
        FactValue::Quantity { value, .. } if fact.name == SPEED => in_bytes(*value),
        FactValue::Quantity { value, unit } => quantity(*value, *unit),
    }
}

/// A time as well as a rate would be the number that the record must not have.
fn is_withheld(record: &Record, unit: Unit) -> bool {
    let is_measured = matches!(unit, Unit::BytesPerSecond | Unit::PerSecond | Unit::Nanoseconds);
    is_measured && !record.verdict.shows_number()
}

/// Names and texts, one pair below the other.
fn facts(facts: &[(&str, String)], width: usize) -> String {
    let names = facts.iter().map(|(name, _)| width_of(name)).max().unwrap_or(0).max(NAMES) + 2;
    let line = |(name, fact): &(&str, String)| {
        let first = format!("{name}{}", " ".repeat(names - width_of(name)));
        wrapped(fact, width, &first, &" ".repeat(names))
    };
    facts.iter().map(line).collect()
}

/// Median, interval, prediction and verdict.
fn standing(record: &Record, width: usize) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let summary = record.shown_summary();
    if let Some(summary) = summary.filter(|summary| summary.n > 1) {
        let median = glued(&quantity(summary.median, record.unit));
        lines.push(("median", format!("{median} of {} values", summary.n)));
        lines.push(("interval", interval(record, summary)));
    }
    match (&record.prediction, &record.no_model) {
        (Some(prediction), _) => {
            let word = match shown_agreement(record) {
                // The number so far, such as a lower bound of a capacity.
                Some(Agreement::Inconclusive) if record.verdict.is_cut_short() => ": inconclusive",
                Some(Agreement::Inconclusive) => match inside(record) {
                    Some(true) => ": inconclusive (no interval), the value is inside",
                    Some(false) => ": inconclusive (no interval), the value is outside",
                    None => ": inconclusive",
                },
                Some(agreement) => &format!(": {}", agreement.word()),
                None => "",
            };
            let range = glued(&limits(record, prediction));
            lines.push(("predicted", format!("{range}{word}")));
            lines.push(("", prediction.formula.clone()));
            if let Some(meaning) = meaning(record) {
                lines.push(("", meaning.to_owned()));
            }
        }
        (None, Some(none)) => lines.push(("predicted", no_model_line(none))),
        (None, None) => {}
    }
    let state = record.verdict.state.word();
    match record.verdict.reasons.as_slice() {
        [] => lines.push(("verdict", state.to_owned())),
        reasons => {
            for reason in reasons {
                let next = reason.remedy.as_ref().map(remedy::words);
                let next = next.map_or(String::new(), |next| format!("; {next}"));
                let cause = cause_words(reason.cause);
                if record.verdict.state == State::Unavailable {
                    lines.push(("verdict", format!("{state}: {}{next}", reason.text)));
                    continue;
                }
                let label =
                    if reason.text.contains(cause) { String::new() } else { format!(" ({cause})") };
                lines.push(("verdict", format!("{state}{label}: {}{next}", reason.text)));
            }
        }
    }
    facts(&lines, width)
}

/// The curves among these records as a chart, as in [`crate::Table`]; empty if the line is too
/// narrow or a curve has too few points.
fn drawing(records: &[Record], host: &Host, width: usize) -> String {
    let layout = Layout { width, ..Layout::default() };
    let columns = columns_for(&layout);
    let setting = Setting { columns: &columns, protocol: layout.protocol, hz: None };
    let cases: Vec<&Params> = records.iter().map(|record| &record.params).collect();
    let curves = family::curves(&cases);
    let curves: Vec<&family::Curve> = curves.iter().collect();
    family::chart(&curves, records, &Caches::from_host(host), &setting)
}

/// The interval of the median, or why there is none.
fn interval(record: &Record, summary: &Summary) -> String {
    match summary.interval {
        Some(Interval { low, high, level, .. }) => {
            let [low, high] = [low, high].map(|end| glued(&quantity(end, record.unit)));
            format!("{low} to {high} ({}, within this run)", glued(&percent(level)))
        }
        _ if summary.n < VALUES_MIN => format!("none, fewer than {VALUES_MIN} values"),
        _ => "none, the values are autocorrelated".to_owned(),
    }
}

/// Whether a number without an interval is within its prediction.
fn inside(record: &Record) -> Option<bool> {
    let value = record.summary.as_ref()?;
    let prediction = record.prediction.as_ref()?;
    let low = prediction.low.is_none_or(|low| value.median >= low);
    let high = prediction.high.is_none_or(|high| value.median <= high);
    value.interval.is_none().then_some(low && high)
}
