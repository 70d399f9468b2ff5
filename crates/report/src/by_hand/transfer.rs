//! The output of a transfer: a row for each combination, the effects, pages, claims, and advice.

use fathom_record::quantity::{NOTHING, bare, percent, quantity, quantity_within};
use fathom_record::{Cause, Fact, FactValue, ParamValue, Record, State, Summary, Unit, Value};

use super::table::{Column, MIB, blocks, fit, legend, rows};
use super::{ByHandAnswer, Question, fact_words, facts};
use crate::case::counted;
use crate::counts::cause_words;
use crate::distinct::{distinct, grouped};
use crate::shown::{half_width, nothing, state_mark};
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
pub(super) fn answer(records: &[Record]) -> ByHandAnswer {
    let least = |set: &str| {
        let times = of_set(records, TIME, set);
        let (best, summary) = least_time(&times)?;
        let mark = state_mark(best.verdict.state);
        let time = quantity(summary.median, Unit::Nanoseconds);
        Some(format!("{set}: least time {mark}{time} by {}.", combination(best, &times)))
    };
    let advice = records.iter().filter(|record| record.metric.as_str() == "transfer.advice");
    let text = |record: &Record| match &record.value {
        Some(Value::Text(text)) => Some(format!("{text}.")),
        _ => None,
    };
    let is_short = |record: &Record| {
        record.verdict.reasons.first().is_some_and(|reason| reason.cause == Cause::TooShort)
    };
    let least = sets(records).into_iter().filter_map(least);
    let sentences = least.chain(advice.filter_map(text)).collect();
    let mut times = records.iter().filter(|record| record.metric.as_str() == TIME);
    let next = times.any(is_short).then(|| "more repetitions (`--repeat`)".to_owned());
    ByHandAnswer { sentences, next: next.into_iter().collect(), doubt: None }
}

/// The sets of files in the order of the records.
pub(crate) fn sets(records: &[Record]) -> Vec<&str> {
    distinct(records.iter().filter_map(|record| record.params.text("set")))
}

pub(crate) fn of_set<'r>(records: &'r [Record], metric: &str, set: &str) -> Vec<&'r Record> {
    let own = |it: &&Record| it.metric.as_str() == metric && it.params.text("set") == Some(set);
    records.iter().filter(own).collect()
}

/// The combination with the shortest median.
fn least_time<'r>(records: &[&'r Record]) -> Option<(&'r Record, &'r Summary)> {
    let shown = records.iter().filter_map(|it| Some((*it, it.shown_summary()?)));
    shown.min_by(|a, b| a.1.median.total_cmp(&b.1.median))
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

/// `copy to mmap, window 1 MiB`: the paths, and how the setting differs from the usual one.
pub(crate) fn combination(record: &Record, all: &[&Record]) -> String {
    let name = |end: &str| param(record, end).unwrap_or_default();
    let paths = format!("{} to {}", name("send"), name("receive"));
    let setting = setting(record, all);
    if setting.is_empty() { paths } else { format!("{paths}, {setting}") }
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
    let remarks = limit_words(records).into_iter().chain(remark_words(records));
    remarks.for_each(|remark| text += &wrapped(&remark, width, "", "  "));
    text
}

fn columns(records: &[&Record]) -> Vec<Column> {
    let each = |of: &dyn Fn(&Record) -> String| of_each(records, of);
    let of_summary = |of: fn(&Summary) -> Option<f64>| {
        move |record: &Record| record.shown_summary().and_then(of).map_or_else(nothing, time_words)
    };
    let median = |record: &Record| {
        let mark = state_mark(record.verdict.state);
        record.shown_summary().map_or_else(nothing, |one| mark.to_owned() + &time_words(one.median))
    };
    let half = |record: &Record| half_width(record).unwrap_or_else(nothing);
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
fn limit_words(records: &[&Record]) -> Vec<String> {
    let limit = |record: &&Record| Some(fact_words(record, record.fact("limited by")?));
    let mut found = grouped(records.iter().filter_map(|record| Some((limit(record)?, ()))));
    found.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    found.iter().map(|(text, all)| format!("limited by, in {}: {text}", all.len())).collect()
}

/// Why combinations have no number, or a noisy one.
fn remark_words(records: &[&Record]) -> Vec<String> {
    let lines = grouped(records.iter().flat_map(|record| {
        let row = combination(record, records);
        let state = record.verdict.state.word();
        record.verdict.reasons.iter().map(move |reason| {
            let line = format!("{state} ({}): {}", cause_words(reason.cause), reason.text);
            (line, row.clone())
        })
    }));
    let line = |(line, of): &(String, Vec<String>)| {
        const SHOWN: usize = 3;
        let what = match of.len() {
            all if all == records.len() => "all".to_owned(),
            few if few <= SHOWN => of.join("; "),
            many => format!("{many} of {}", records.len()),
        };
        format!("{what}: {line}")
    };
    lines.iter().map(line).collect()
}

/// The questions of a comparison of paths: of each set its combinations, the fastest of them, what
/// limits them, and which setting matters.
pub(crate) fn questions(records: &[Record]) -> Vec<Question> {
    let mut questions = Vec::new();
    for set in sets(records) {
        questions.extend(fastest(&of_set(records, TIME, set), set));
        questions.extend(what_matters(&of_set(records, EFFECT, set), set));
    }
    let of_text = |it: &Record| match &it.value {
        Some(Value::Text(text)) => Some(match it.params.text("claim") {
            Some(claim) => format!("2020 study, {claim}: {text}"),
            None => text.clone(),
        }),
        _ => None,
    };
    let words: Vec<String> = ["transfer.advice", "transfer.claim"]
        .iter()
        .flat_map(|metric| records.iter().filter(|it| it.metric.as_str() == *metric))
        .filter_map(of_text)
        .collect();
    if !words.is_empty() {
        questions.push(Question::new("What follows?", words));
    }
    questions
}

/// All combinations, and the one with the shortest median.
fn fastest(records: &[&Record], set: &str) -> Option<Question> {
    let (best, summary) = least_time(records)?;
    let interval = summary.limits().map(|ends| format!(" ({})", ends.map(time_words).join(" to ")));
    let mark = state_mark(best.verdict.state);
    let fastest = format!(
        "The fastest of {}: {}, {mark}{}{}.",
        counted(records.len(), "combination"),
        combination(best, records),
        time_words(summary.median),
        interval.unwrap_or_default()
    );
    let mut columns = columns(records);
    columns.retain(Column::has_content);
    let sentences =
        [vec![fastest], limit_words(records), remark_words(records)].into_iter().flatten();
    Some(Question {
        tables: vec![(format!("every combination, {set}"), columns)],
        ..Question::new(format!("Which path is the fastest for {set}?"), sentences.collect())
    })
}

/// Every effect, those first that change the time most.
fn what_matters(records: &[&Record], set: &str) -> Option<Question> {
    let far = |it: &Record| it.shown_summary().map_or(0.0, |one| one.median.ln().abs());
    let (with, mut mains): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|it| it.params.0.contains_key("with"));
    mains.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let excludes_1 = |it: &&&Record| {
        let limits = it.shown_summary().and_then(Summary::limits);
        limits.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
    };
    let words = |it: &&Record| {
        let level = |name| effect_level(it, name);
        let factor = effect_factor(it);
        let times = format!("time × {} ({})", ratio(it), interval(it));
        format!("{factor} {} against {}: {times}", level("level"), level("from"))
    };
    let found: Vec<String> = mains.iter().filter(excludes_1).map(words).collect();
    let has_interval = |it: &&&Record| it.shown_summary().is_some_and(|it| it.interval.is_some());
    let known = mains.iter().filter(has_interval).count();
    let count = |number: usize, what: &str| {
        (number > 0).then(|| format!("{} {what}", counted(number, "effect")))
    };
    let rest = count(known - found.len(), "inconclusive: the interval has × 1 in it").into_iter();
    let rest = rest.chain(count(mains.len() - known, "inconclusive: no interval"));
    let mut tables = vec![(format!("effects on {set}"), of_mains(&mains))];
    if !with.is_empty() {
        let caption = format!("effects on {set} that depend on another setting");
        tables.push((caption, of_interactions(&with)));
    }
    let legend = EFFECTS_LEGEND.to_owned();
    let sentences = found.into_iter().chain(rest).chain([legend]).collect();
    let question = format!("Which setting matters for {set}, and how much?");
    (!mains.is_empty()).then(|| Question { tables, ..Question::new(question, sentences) })
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
    let mut columns = of_mains(&mains);
    columns.push(Column::new("pairs", of_each(&mains, &pairs)));
    let left_out = fit(&mut columns, &["pairs", "against"], width);
    let mut text = format!("\neffects on {set}\n\n{}{left_out}", rows(&columns));
    text += &wrapped(EFFECTS_LEGEND, width, "", "  ");
    if interactions.is_empty() {
        return text;
    }
    let others = of_interactions(&interactions);
    let table: String = blocks(others, 3, width).iter().map(|block| rows(block)).collect();
    text + &format!("\neffects on {set} that depend on another setting\n\n{table}")
}

fn of_mains(mains: &[&Record]) -> Vec<Column> {
    let mut columns = of_effects(mains);
    columns.push(Column::new("time ×", of_each(mains, &ratio)));
    columns.push(Column::words("interval", of_each(mains, &interval)));
    columns
}

fn of_interactions(interactions: &[&Record]) -> Vec<Column> {
    let at = |name: &'static str| {
        move |record: &Record| {
            record.quantity_of(name).map_or(NOTHING.to_owned(), |value| format!("{value:.2}"))
        }
    };
    let with = |record: &Record| record.params.text("with").unwrap_or_default().replace('-', " ");
    let mut columns = of_effects(interactions);
    columns.push(Column::new("time ×", of_each(interactions, &at("effect at reference"))));
    columns.push(Column::words("but with", of_each(interactions, &with)));
    columns.push(Column::new("time ×", of_each(interactions, &at("effect there"))));
    columns.push(Column::words("ratio of both", of_each(interactions, &interval)));
    columns
}

fn of_each(records: &[&Record], of: &dyn Fn(&Record) -> String) -> std::vec::IntoIter<String> {
    records.iter().map(|record| of(record)).collect::<Vec<String>>().into_iter()
}

fn effect_level(record: &Record, name: &str) -> String {
    let text = record.params.text(name).unwrap_or_default();
    let factor = record.params.text("factor").unwrap_or_default();
    text.parse().map_or(text.to_owned(), |bytes| crate::case::position(factor, bytes))
}

fn effect_factor(record: &Record) -> String {
    let factor = record.params.text("factor").unwrap_or_default();
    factor.trim_end_matches("_bytes").to_owned()
}

/// What changes in an effect.
fn of_effects(records: &[&Record]) -> Vec<Column> {
    let level = |name: &'static str| move |record: &Record| effect_level(record, name);
    vec![
        Column::words("factor", of_each(records, &effect_factor)),
        Column::words("level", of_each(records, &level("level"))),
        Column::words("against", of_each(records, &level("from"))),
    ]
}

fn ratio(record: &Record) -> String {
    let summary = record.shown_summary();
    let mark = state_mark(record.verdict.state);
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
