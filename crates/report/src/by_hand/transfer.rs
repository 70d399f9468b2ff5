//! The output of a transfer: a row for each combination, the effects, pages, claims, and advice.

use fathom_record::quantity::{NOTHING, bare, percent, quantity, quantity_within};
use fathom_record::{Cause, Fact, FactValue, ParamValue, Record, State, Summary, Unit, Value};

use super::table::{Column, MIB, blocks, fit, legend, rows};
use super::{Answer, fact_words, facts};
use crate::counts::cause_words;
use crate::wrap::wrapped;

const TIME: &str = "transfer.time";
const EFFECT: &str = "transfer.effect";
/// Width of a time.
const TIME_WIDTH: usize = 7;
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 6] = ["no copy", "receive CPU", "send CPU", "sd there", "sd", "±"];
/// The columns that need words.
const LEGEND: [(&str, &str); 3] = [
    (
        "send CPU",
        "CPU: seconds of CPU time of each end per 10⁹ bytes; on loopback the sender's has protocol \
         work of the receiver",
    ),
    ("sd", "sd: standard deviation"),
    ("no copy", "no copy: share of the calls that the kernel says it made without a copy"),
];
const PUBLISHED: &str = "published: the mean of the 2020 study; ÷: the mean here ÷ it. There: \
    sockets of the kernel, in a virtual machine with 4 cores, asynchronous by O_ASYNC; here: \
    sockets of two processes, by the kernel devices where the path is device-copy or device-mmap";
const EFFECTS_LEGEND: &str = "time ×: the time with this level ÷ the time with the other one, all \
    else equal; below 1 it is faster";

pub(super) fn is_transfer(record: &Record) -> bool {
    record.metric.group() == "transfer"
}

/// Records of a run that belong together: of a set, or the advice.
pub(super) fn group(records: &[Record], width: usize) -> String {
    let of = |metric: &'static str| {
        let is = move |record: &&Record| record.metric.as_str() == metric;
        records.iter().filter(is).collect::<Vec<&Record>>()
    };
    let mut text = times(&of(TIME), width);
    text += &effects(&of(EFFECT), width);
    for metric in ["transfer.page", "transfer.claim", "transfer.advice"] {
        text += &texts(&of(metric), width);
    }
    text
}

/// The path of each set that took least, and what the comparison of all says of it.
pub(super) fn answer(records: &[Record]) -> Answer {
    let times = || records.iter().filter(|record| record.metric.as_str() == TIME);
    let mut sets: Vec<Vec<&Record>> = Vec::new();
    for record in times() {
        match sets.iter_mut().find(|set| param(set[0], "set") == param(record, "set")) {
            Some(set) => set.push(record),
            None => sets.push(vec![record]),
        }
    }
    let median = |record: &Record| record.shown_summary().map(|one| one.median);
    let least = |set: &Vec<&Record>| {
        let timed = set.iter().filter_map(|record| Some((median(record)?, *record)));
        let (ns, record) = timed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let end = |name: &str| param(record, name).unwrap_or_default();
        let how = [format!("{} to {}", end("send"), end("receive")), setting(record, set)];
        let how: Vec<String> = how.into_iter().filter(|part| !part.is_empty()).collect();
        let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
        let time = quantity(ns, Unit::Nanoseconds);
        Some(format!("{}: least time {mark}{time} by {}.", end("set"), how.join(", ")))
    };
    let advice = records.iter().filter(|record| record.metric.as_str() == "transfer.advice");
    let text = |record: &Record| match &record.value {
        Some(Value::Text(text)) => Some(format!("{text}.")),
        _ => None,
    };
    let is_short = |record: &Record| {
        record.verdict.reasons.first().is_some_and(|reason| reason.cause == Cause::TooShort)
    };
    let sentences = sets.iter().filter_map(least).chain(advice.filter_map(text)).collect();
    let next = times().any(is_short).then(|| "more repetitions (`--repeat`)".to_owned());
    Answer { sentences, next: next.into_iter().collect() }
}

/// A parameter as a word.
fn param(record: &Record, name: &str) -> Option<String> {
    match record.params.0.get(name)? {
        ParamValue::Integer(bytes) => Some(crate::case::position(name, *bytes)),
        ParamValue::Text(text) => Some(text.clone()),
    }
}

/// The settings, with the words before them.
const SETTINGS: [(&str, &str); 5] = [
    ("connection", ""),
    ("io", ""),
    ("buffer_bytes", "buffer "),
    ("window_bytes", "window "),
    ("ack", "ack "),
];

/// How a combination differs from the first ones that have the parameter.
fn setting(record: &Record, all: &[&Record]) -> String {
    let word = |(name, before): &(&str, &str)| {
        let own = param(record, name)?;
        // Nothing is usual that only some have.
        let usual = all.iter().find_map(|other| param(other, name)).filter(|_| *name != "ack");
        (Some(&own) != usual.as_ref()).then(|| format!("{before}{own}"))
    };
    SETTINGS.iter().filter_map(word).collect::<Vec<String>>().join(", ")
}

fn times(records: &[&Record], width: usize) -> String {
    let Some(first) = records.first() else { return String::new() };
    let usual = |(name, before): &(&str, &str)| {
        let value = records.iter().find_map(|record| param(record, name))?;
        (*name != "ack").then(|| format!("{before}{value}"))
    };
    let usual: Vec<String> = SETTINGS.iter().filter_map(usual).collect();
    let to = param(first, "to").map_or(String::new(), |to| format!(" to {to}"));
    let set = param(first, "set").unwrap_or_default();
    let head = format!("transfer of {set}{to}: {}", usual.join(", "));
    let mut text = format!("\n{}", wrapped(&head, width, "", "  "));
    let shared = |fact: &&Fact| {
        matches!(fact.value, FactValue::Text { .. })
            && records.iter().all(|one| one.facts.contains(fact))
    };
    let shared: Vec<(&str, String)> = first
        .facts
        .iter()
        .filter(shared)
        .map(|fact| (fact.name.as_str(), fact_words(first, fact)))
        .collect();
    text += &facts(&shared, width);
    text.push('\n');
    let mut columns = columns(records);
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &OPTIONAL, width);
    text += &rows(&columns);
    text += &legend(&columns, &LEGEND, width);
    text += &left_out;
    if records.iter().any(|record| record.quantity_of("published").is_some()) {
        text += &wrapped(PUBLISHED, width, "", "  ");
    }
    text + &limits(records, width) + &remarks(records, width)
}

fn columns(records: &[&Record]) -> Vec<Column> {
    let each = |of: &dyn Fn(&Record) -> String| of_each(records, of);
    let time = |ns: f64| quantity_within(ns, Unit::Nanoseconds, TIME_WIDTH);
    let of_summary = |of: fn(&Summary) -> Option<f64>| {
        move |record: &Record| record.shown_summary().and_then(of).map_or(NOTHING.to_owned(), time)
    };
    let median = |record: &Record| {
        let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
        record
            .shown_summary()
            .map_or(NOTHING.to_owned(), |one| format!("{mark}{}", time(one.median)))
    };
    let half = |record: &Record| {
        let half = record.shown_summary().and_then(Summary::relative_half_width);
        half.map_or(NOTHING.to_owned(), percent)
    };
    let fact = |name: &'static str, words: fn(f64) -> String| {
        move |record: &Record| {
            let value = record.quantity_of(name).filter(|_| record.verdict.shows_number());
            value.map_or(String::new(), words)
        }
    };
    let state = |record: &Record| match record.verdict.state {
        State::Valid | State::Noisy => String::new(),
        state => state.word().to_owned(),
    };
    let seconds = |ns: f64| bare(ns / 1e9);
    vec![
        Column::words("send", each(&|record| param(record, "send").unwrap_or_default())),
        Column::words("receive", each(&|record| param(record, "receive").unwrap_or_default())),
        Column::words("setting", each(&|record| setting(record, records))),
        Column::new("median", each(&median)),
        Column::new("±", each(&half)),
        Column::new("MiB/s", each(&fact("rate", |rate| bare(rate / MIB)))),
        Column::new("mean", each(&of_summary(|one| Some(one.mean)))),
        Column::new("sd", each(&of_summary(|one| Some(one.sd)))),
        Column::new("published", each(&fact("published", time_words))),
        Column::new("sd there", each(&fact("published sd", time_words))),
        Column::new("÷", each(&fact("÷ published", bare))),
        Column::new("send CPU", each(&fact("send CPU/GB", seconds))),
        Column::new("receive CPU", each(&fact("receive CPU/GB", seconds))),
        Column::new("no copy", each(&fact("without a copy", percent))),
        Column::words("", each(&state)),
    ]
}

fn time_words(ns: f64) -> String {
    quantity_within(ns, Unit::Nanoseconds, TIME_WIDTH)
}

/// What limits the transfers, if the counters show it.
fn limits(records: &[&Record], width: usize) -> String {
    let limit = |record: &&Record| Some(fact_words(record, record.fact("limited by")?));
    let mut found: Vec<(String, usize)> = Vec::new();
    for text in records.iter().filter_map(limit) {
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => found.push((text, 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let line = |(text, count): &(String, usize)| {
        wrapped(&format!("limited by, in {count}: {text}"), width, "", "  ")
    };
    found.iter().map(line).collect()
}

/// Why combinations have no number, or a noisy one.
fn remarks(records: &[&Record], width: usize) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for record in records {
        let name = |end: &str| param(record, end).unwrap_or_default();
        let row = format!("{} to {} {}", name("send"), name("receive"), setting(record, records));
        for reason in &record.verdict.reasons {
            let state = record.verdict.state.word();
            let line = format!("{state} ({}): {}", cause_words(reason.cause), reason.text);
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, of)) => of.push(row.trim_end().to_owned()),
                None => lines.push((line, vec![row.trim_end().to_owned()])),
            }
        }
    }
    let line = |(line, of): &(String, Vec<String>)| {
        const SHOWN: usize = 3;
        let what = match of.len() {
            all if all == records.len() => "all".to_owned(),
            few if few <= SHOWN => of.join("; "),
            many => format!("{many} of {}", records.len()),
        };
        wrapped(&format!("{what}: {line}"), width, "", "  ")
    };
    lines.iter().map(line).collect()
}

fn effects(records: &[&Record], width: usize) -> String {
    let Some(first) = records.first() else { return String::new() };
    let is_interaction = |record: &&&Record| record.params.0.contains_key("with");
    let mains: Vec<&Record> =
        records.iter().filter(|record| !is_interaction(record)).copied().collect();
    let interactions: Vec<&Record> = records.iter().filter(is_interaction).copied().collect();
    let set = param(first, "set").unwrap_or_default();
    let pairs = |record: &Record| {
        record.quantity_of("pairs").map_or(String::new(), |pairs| format!("{pairs:.0}"))
    };
    let mut columns = of_effects(&mains);
    columns.push(Column::new("time ×", of_each(&mains, &ratio)));
    columns.push(Column::words("interval", of_each(&mains, &interval)));
    columns.push(Column::new("pairs", of_each(&mains, &pairs)));
    let left_out = fit(&mut columns, &["pairs", "against"], width);
    let mut text = format!("\neffects on {set}\n\n{}{left_out}", rows(&columns));
    text += &wrapped(EFFECTS_LEGEND, width, "", "  ");
    if interactions.is_empty() {
        return text;
    }
    let at = |name: &'static str| {
        move |record: &Record| {
            record.quantity_of(name).map_or(NOTHING.to_owned(), |value| format!("{value:.2}"))
        }
    };
    let with = |record: &Record| record.params.text("with").unwrap_or_default().replace('-', " ");
    let mut columns = of_effects(&interactions);
    columns.push(Column::new("time ×", of_each(&interactions, &at("effect at reference"))));
    columns.push(Column::words("but with", of_each(&interactions, &with)));
    columns.push(Column::new("time ×", of_each(&interactions, &at("effect there"))));
    columns.push(Column::words("ratio of both", of_each(&interactions, &interval)));
    let table: String = blocks(columns, 3, width).iter().map(|block| rows(block)).collect();
    text + &format!("\neffects on {set} that depend on another setting\n\n{table}")
}

fn of_each(records: &[&Record], of: &dyn Fn(&Record) -> String) -> std::vec::IntoIter<String> {
    records.iter().map(|record| of(record)).collect::<Vec<String>>().into_iter()
}

/// What changes in an effect.
fn of_effects(records: &[&Record]) -> Vec<Column> {
    let level = |name: &'static str| {
        move |record: &Record| {
            let text = record.params.text(name).unwrap_or_default();
            let factor = record.params.text("factor").unwrap_or_default();
            text.parse().map_or(text.to_owned(), |bytes| crate::case::position(factor, bytes))
        }
    };
    let factor = |record: &Record| {
        let factor = record.params.text("factor").unwrap_or_default();
        factor.trim_end_matches("_bytes").to_owned()
    };
    vec![
        Column::words("factor", of_each(records, &factor)),
        Column::words("level", of_each(records, &level("level"))),
        Column::words("against", of_each(records, &level("from"))),
    ]
}

fn ratio(record: &Record) -> String {
    let summary = record.shown_summary();
    let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
    summary.map_or(NOTHING.to_owned(), |one| format!("{mark}{:.2}", one.median))
}

fn interval(record: &Record) -> String {
    let summary = record.shown_summary();
    let limits = summary.and_then(|one| one.limits());
    limits.map_or(NOTHING.to_owned(), |[low, high]| format!("{low:.2} to {high:.2}"))
}

/// Records whose value is a text.
fn texts(records: &[&Record], width: usize) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut shared: Vec<(&str, String)> = Vec::new();
    for record in records {
        let Some(Value::Text(value)) = &record.value else { continue };
        let end = record
            .params
            .text("end")
            .map(|end| if end == "send" { "page sent" } else { "page received" });
        match (end, record.params.text("claim")) {
            (Some(end), _) => {
                let entry = record.fact("entry");
                let entry = entry.map_or(String::new(), |fact| fact_words(record, fact));
                lines.push((end, format!("{entry}: {value}")));
                let legend = record.fact("legend");
                shared = legend.map(|fact| ("", fact_words(record, fact))).into_iter().collect();
            }
            (None, Some(claim)) => lines.push(("2020 study", format!("{claim}: {value}"))),
            (None, None) => lines.push(("advice", value.clone())),
        }
    }
    lines.extend(shared);
    if lines.is_empty() { String::new() } else { format!("\n{}", facts(&lines, width)) }
}
