//! The output of a load: the capacities, one row for each number of clients with the highest
//! throughput, what limits it, and the memory of both ends.

mod limit;

use fathom_analysis::load::ERRORS_MAX;
use fathom_record::quantity::{NOTHING, bare, percent, quantity, quantity_within};
use fathom_record::{Fact, FactValue, ParamValue, Params, Record, State, Summary, Unit};

use super::table::{Column, fit, legend, rows};
use super::{fact_words, facts};
use crate::case::{case, counted};
use crate::counts::cause_words;
use crate::remedy;
use crate::spark;
use crate::wrap::{glued, wrapped};

const THROUGHPUT: &str = "load.throughput";
const RESPONSE_TIME: &str = "load.response_time";
const BANDWIDTH: &str = "load.bandwidth";
/// Width of a time.
const TIME: usize = 7;
const MB: f64 = 1e6;
/// Columns beside the bars of a curve.
const CURVE_WORDS: usize = 45;
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 4] = ["p90", "client", "disk", "server"];
/// The parts of a response time.
const PHASES: [&str; 5] = ["resolve", "connect", "TLS handshake", "first byte", "body"];
/// The columns that need words.
const LEGEND: [(&str, &str); 3] = [
    ("server", "server: CPU time of the server (100 %: one CPU)"),
    ("client", "client: of the busiest client thread"),
    ("disk", "disk: MB/s that the server itself reads from its device"),
];

pub(super) fn is_load(record: &Record) -> bool {
    record.metric.group() == "load"
}

/// Records of a run that belong together: capacities, the steps of a case, its limit, or memory.
/// `earlier`: the records of the run before them.
pub(super) fn group(records: &[Record], earlier: &[Record], width: usize) -> String {
    let of = |metric: &'static str| {
        records.iter().filter(move |record| record.metric.as_str() == metric)
    };
    let mut steps: Vec<&Record> = of(THROUGHPUT).collect();
    steps.sort_by_key(|record| record.params.integer("clients"));
    let mut text = limit::capacities(records, width);
    for of_case in by_case(&steps) {
        text += &table(&of_case, records, width);
    }
    for bottleneck in of(limit::BOTTLENECK) {
        text += &limit::limit(bottleneck, records, earlier, width);
    }
    text + &memory(records, width)
}

/// Steps that differ only in the number of clients.
fn by_case<'r>(steps: &[&'r Record]) -> Vec<Vec<&'r Record>> {
    let mut cases: Vec<(Params, Vec<&Record>)> = Vec::new();
    for step in steps {
        let mut params = step.params.clone();
        params.0.remove("clients");
        match cases.iter_mut().find(|(known, _)| *known == params) {
            Some((_, of_case)) => of_case.push(step),
            None => cases.push((params, vec![step])),
        }
    }
    cases.into_iter().map(|(_, steps)| steps).collect()
}

fn table(steps: &[&Record], records: &[Record], width: usize) -> String {
    let mut common = steps[0].params.clone();
    common.0.remove("clients");
    let mut text = format!("\n{}", wrapped(&format!("load{}", case(&common)), width, "", "  "));
    let shared = |fact: &&Fact| {
        matches!(fact.value, FactValue::Text { .. })
            && steps.iter().all(|step| step.facts.contains(fact))
    };
    let shared = steps[0].facts.iter().filter(shared);
    let lines: Vec<(&str, String)> =
        shared.map(|fact| (fact.name.as_str(), fact_words(steps[0], fact))).collect();
    text += &facts(&lines, width);
    text.push('\n');
    let mut columns = columns(steps, records);
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &OPTIONAL, width);
    text += &rows(&columns);
    text += &legend(&columns, &LEGEND, width);
    text += &left_out;
    text += &remarks(steps, width);
    text += &highest(steps, width);
    text += &longest(steps, width);
    text + &phases(steps, width)
}

/// The record of another metric with the parameters of a step.
fn beside<'r>(records: &'r [Record], step: &Record, metric: &str) -> Option<&'r Record> {
    records.iter().find(|one| one.metric.as_str() == metric && one.params == step.params)
}

fn columns(steps: &[&Record], records: &[Record]) -> Vec<Column> {
    let rate = |step: &&Record| {
        let mark = if step.verdict.state == State::Noisy { "~" } else { "" };
        let shown = step.shown_summary();
        shown.map_or(NOTHING.to_owned(), |one| format!("{mark}{}", bare(one.median)))
    };
    let half = |step: &&Record| {
        let half = step.shown_summary().and_then(Summary::relative_half_width);
        half.map_or(NOTHING.to_owned(), percent)
    };
    let bandwidth = |step: &&Record| {
        let summary = beside(records, step, BANDWIDTH).and_then(Record::shown_summary);
        summary.map_or(NOTHING.to_owned(), |one| bare(one.median / MB))
    };
    let time = |q: Option<f64>| {
        move |step: &&Record| {
            let summary = beside(records, step, RESPONSE_TIME).and_then(Record::shown_summary);
            let value = summary.and_then(|one| match q {
                None => Some(one.median),
                Some(q) => one.quantiles.iter().find(|it| it.q == q).map(|it| it.value),
            });
            let text = |ns| quantity_within(ns, Unit::Nanoseconds, TIME);
            value.map_or(NOTHING.to_owned(), text)
        }
    };
    let fact = |name: &'static str, words: fn(f64) -> String| {
        let cells =
            steps.iter().map(move |step| step.quantity_of(name).map_or(String::new(), words));
        cells.collect::<Vec<String>>().into_iter()
    };
    let clients = |step: &&Record| match step.params.0.get("clients") {
        Some(ParamValue::Integer(clients)) => clients.to_string(),
        _ => NOTHING.to_owned(),
    };
    let state = |step: &&Record| match step.verdict.state {
        State::Valid => String::new(),
        state => state.word().to_owned(),
    };
    let errors = |count: f64| if count > 0.0 { format!("{count:.0}") } else { String::new() };
    vec![
        Column::new("clients", steps.iter().map(clients)),
        Column::new("req/s", steps.iter().map(rate)),
        Column::new("±", steps.iter().map(half)),
        Column::new("MB/s", steps.iter().map(bandwidth)),
        Column::new("median", steps.iter().map(time(None))),
        Column::new("p90", steps.iter().map(time(Some(0.9)))),
        Column::new("p99", steps.iter().map(time(Some(0.99)))),
        Column::new("server", fact("server CPU", percent)),
        Column::new("disk", fact("disk", |rate| bare(rate / MB))),
        Column::new("client", fact("client CPU", percent)),
        Column::new("errors", fact("errors", errors)),
        Column::words("", steps.iter().map(state)),
    ]
}

/// Why steps are noisy, invalid or without an interval.
fn remarks(steps: &[&Record], width: usize) -> String {
    let mut lines: Vec<(String, Vec<i64>)> = Vec::new();
    for step in steps {
        let of_verdict = step.verdict.reasons.iter().map(|reason| {
            // Of a step with a number, what to do follows below the table.
            let remedy = reason.remedy.as_ref().filter(|_| !step.verdict.shows_number());
            let remedy = remedy.map_or(String::new(), |it| format!("; {}", remedy::words(it)));
            let (state, cause) = (step.verdict.state.word(), cause_words(reason.cause));
            format!("{state} ({cause}): {}{remedy}", reason.text)
        });
        let without = step.notes.iter().filter(|note| note.starts_with("no interval")).cloned();
        let clients = step.params.integer("clients").unwrap_or(0);
        for line in of_verdict.chain(without) {
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, of)) => of.push(clients),
                None => lines.push((line, vec![clients])),
            }
        }
    }
    let line = |(line, of): &(String, Vec<i64>)| {
        let numbers = match of.len() {
            2.. if of.len() == steps.len() => "all steps".to_owned(),
            _ => numbers_of(of),
        };
        wrapped(&format!("{numbers}: {line}"), width, "", "  ")
    };
    lines.iter().map(line).collect()
}

/// Whether more requests failed than in a step that counts as an answer. An older record has no
/// number of requests.
fn fails(step: &Record) -> bool {
    let errors = step.quantity_of("errors").unwrap_or(0.0);
    errors > ERRORS_MAX * step.quantity_of("requests").unwrap_or(0.0)
}

/// `1 client`, or `2, 4 clients`.
fn clients_of<'r>(steps: impl Iterator<Item = &'r Record>) -> String {
    let all: Vec<i64> = steps.filter_map(|step| step.params.integer("clients")).collect();
    numbers_of(&all)
}

fn numbers_of(clients: &[i64]) -> String {
    match clients {
        [one] => counted(*one as usize, "client"),
        many => {
            let list: Vec<String> = many.iter().map(ToString::to_string).collect();
            format!("{} clients", list.join(", "))
        }
    }
}

fn highest(steps: &[&Record], width: usize) -> String {
    let value = |step: &Record| step.summary.as_ref().map_or(0.0, |it| it.median);
    let shown = steps.iter().filter(|step| step.verdict.shows_number());
    // Failed requests make room for others.
    let (failed, whole): (Vec<&&Record>, Vec<&&Record>) = shown.partition(|step| fails(step));
    let best = whole.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
    let without = match failed.as_slice() {
        [] => String::new(),
        failed => format!(
            "; without {}: more than {} of the requests failed",
            clients_of(failed.iter().copied().copied()),
            percent(ERRORS_MAX)
        ),
    };
    let Some((best, summary)) = best.and_then(|it| Some((it, it.summary.as_ref()?))) else {
        let none = format!("none{without}");
        return if failed.is_empty() { String::new() } else { facts(&[("highest", none)], width) };
    };
    let clients = best.params.integer("clients").unwrap_or(0);
    let interval = summary
        .limits()
        .map_or(String::new(), |[low, high]| format!(" ({} to {})", bare(low), bare(high)));
    let at = counted(clients as usize, "client");
    let text = format!("{} requests/s{interval} at {at}{without}", bare(summary.median));
    let mut lines = vec![("highest", text)];
    if steps.len() > 2 {
        let rate = |step: &&Record| Some(value(step)).filter(|_| step.verdict.shows_number());
        let rates: Vec<Option<f64>> = steps.iter().map(rate).collect();
        let bars = spark::curve(&rates, width.saturating_sub(CURVE_WORDS).max(8));
        let [first, last] = [steps[0], steps[steps.len() - 1]]
            .map(|step| step.params.integer("clients").unwrap_or(0));
        lines.push(("by clients", format!("{bars}  {first} to {last}, log scale")));
    }
    facts(&lines, width)
}

/// The longest response of all steps, and what was longer and had none: a stall at the end.
fn longest(steps: &[&Record], width: usize) -> String {
    let most = |name: &str| {
        let of = |step: &&Record| Some((step.quantity_of(name)?, step.params.integer("clients")?));
        let (ns, clients) = steps.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let time = glued(&quantity(ns, Unit::Nanoseconds));
        Some(format!("{time} at {}", counted(clients as usize, "client")))
    };
    let response = most("longest response").map(|text| format!("response {text}"));
    let in_flight =
        most("longest in flight at the end").map(|text| format!("in flight at the end {text}"));
    let words: Vec<String> = response.into_iter().chain(in_flight).collect();
    if words.is_empty() {
        return String::new();
    }
    facts(&[("longest", words.join("; "))], width)
}

/// The parts of response times over new or encrypted connections, of the first and the last step.
fn phases(steps: &[&Record], width: usize) -> String {
    let last = steps.len() - 1;
    let of_step = |step: &Record| {
        let time = |ns| glued(&quantity(ns, Unit::Nanoseconds));
        let of = |name: &&str| {
            let p99 = step.quantity_of(&format!("{name}, p99"));
            let p99 = p99.map_or(String::new(), |ns| format!(" (p99 {})", time(ns)));
            step.quantity_of(name).map(|ns| format!("{name} {}{p99}", time(ns)))
        };
        let words: Vec<String> = PHASES.iter().filter_map(of).collect();
        let clients = counted(step.params.integer("clients").unwrap_or(0) as usize, "client");
        (!words.is_empty()).then(|| format!("at {clients}: {}", words.join(", ")))
    };
    let shown = steps.iter().enumerate().filter(|(at, _)| [0, last].contains(at));
    let lines: Vec<String> = shown.filter_map(|(_, step)| of_step(step)).collect();
    let text = format!("medians {}", lines.join("; "));
    if lines.is_empty() { String::new() } else { facts(&[("phases", text)], width) }
}

/// Memory of both ends, with its growth.
fn memory(records: &[Record], width: usize) -> String {
    let mut lines = Vec::new();
    for end in ["client", "server"] {
        let of = |name: String| records.iter().find(|record| record.metric.as_str() == name);
        let Some(resident) = of(format!("load.{end}.resident")) else { continue };
        let Some(summary) = &resident.summary else { continue };
        let mut text = glued(&quantity(summary.median, Unit::Bytes));
        let growth = of(format!("load.{end}.resident.slope"));
        if let Some(growth) = growth.and_then(|record| record.summary.as_ref()) {
            let rate = |value: f64| glued(&quantity(value, Unit::BytesPerSecond));
            text += " at the end, growth ";
            // In a short run the memory of the first steps looks like growth.
            text += &match growth.limits() {
                Some([low, high]) => {
                    format!("{} ({} to {})", rate(growth.median), rate(low), rate(high))
                }
                None => "unknown: the run was too short for an interval".to_owned(),
            };
        }
        lines.push((if end == "client" { "client memory" } else { "server memory" }, text));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}", facts(&lines, width)) }
}
