//! The output of a load: the capacities, one row for each number of clients and each rate, the
//! highest throughput, what limits it, and the memory of both ends.

mod answer;
mod limit;
mod open;
mod questions;

use fathom_analysis::load::{ERRORS_MAX, MemoryGrowth};
use fathom_record::load_facts::{
    CLIENT_CPU, DISK, ERRORS, LONGEST_IN_FLIGHT, LONGEST_RESPONSE, PHASES, REQUESTS, RESOLVE,
    SERVER_CPU, p99_of,
};
use fathom_record::quantity::{NOTHING, bare, percent, quantity, quantity_within, time_option};
use fathom_record::{Fact, FactValue, ParamValue, Params, Record, State, Summary, Unit};

pub(super) use self::answer::answer;
pub(super) use self::limit::capacities;
pub(crate) use self::questions::questions;
use super::table::{Column, fit, legend, rows};
use super::{cost, fact_words, facts};
use crate::case::{case, counted};
use crate::counts::cause_words;
use crate::distinct::distinct;
use crate::remedy;
use crate::shown::state_mark;
use crate::spark;
use crate::wrap::{glued, wrapped};

const THROUGHPUT: &str = "load.throughput";
const RESPONSE_TIME: &str = "load.response_time";
const BANDWIDTH: &str = "load.bandwidth";
/// With the operations of a request.
const SYSTEM: &str = "load.server.system_per_request";
/// Width of a time.
const TIME: usize = 7;
const MB: f64 = 1e6;
/// Columns beside the bars of a curve.
const CURVE_WORDS: usize = 45;
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 7] = ["mean", "p99.9", "max", "p90", "client", "disk", "server"];
/// The columns that need words.
const LEGEND: [(&str, &str); 3] = [
    ("server", "server: CPU time of the server (100 %: one CPU)"),
    ("client", "client: of the busiest client thread"),
    ("disk", "disk: MB/s that the server itself reads from its device"),
];

pub(super) fn is_load(record: &Record) -> bool {
    record.metric.group() == "load"
}

/// Capacities have lines of their own.
pub(super) fn is_capacity(record: &Record) -> bool {
    record.metric.as_str() == limit::CAPACITY
}

/// Records of a run that belong together: the steps of a case, its limit, or memory.
/// `earlier`: the records of the run before them.
pub(super) fn group(records: &[Record], earlier: &[Record], width: usize) -> String {
    let of = |metric: &'static str| {
        records.iter().filter(move |record| record.metric.as_str() == metric)
    };
    let mut steps: Vec<&Record> = of(THROUGHPUT).collect();
    steps.sort_by_key(|record| record.params.integer("clients"));
    steps.sort_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    let mut text = String::new();
    for of_case in by_case(&steps) {
        text += &table(&of_case, records, width);
    }
    for found in of(open::MAX_RATE) {
        text += &open::max_rate(found, width);
    }
    for bottleneck in of(limit::BOTTLENECK) {
        text += &limit::limit(bottleneck, records, earlier, width);
    }
    for counted in of(SYSTEM) {
        let at = names_of(std::iter::once(counted));
        text += &format!("\n{}", cost::group(&format!("a request, {at}"), counted, width));
    }
    // Memory is in the last group; without it the cases of a group stand beside each other.
    let memory = memory(records, width);
    let earlier = if memory.is_empty() { &[] } else { earlier };
    text += &compared(&[earlier, records].concat(), width);
    text + &memory
}

/// Steps that differ only in the number of clients or the rate.
fn by_case<'r>(steps: &[&'r Record]) -> Vec<Vec<&'r Record>> {
    let mut cases: Vec<(Params, Vec<&Record>)> = Vec::new();
    for step in steps {
        let params = open::case_of(step);
        match cases.iter_mut().find(|(known, _)| *known == params) {
            Some((_, of_case)) => of_case.push(step),
            None => cases.push((params, vec![step])),
        }
    }
    cases.into_iter().map(|(_, steps)| steps).collect()
}

fn table(steps: &[&Record], records: &[Record], width: usize) -> String {
    let (of_rates, of_clients): (Vec<&Record>, Vec<&Record>) =
        steps.iter().partition(|step| open::is_open(step));
    let mut common = of_clients.first().map_or(open::case_of(steps[0]), |it| it.params.clone());
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
    if !of_clients.is_empty() {
        text += &by_clients(&of_clients, records, width);
    }
    if !of_clients.is_empty() && !of_rates.is_empty() {
        text.push('\n');
    }
    if !of_rates.is_empty() {
        text += &open::table(&of_rates, records, width);
        text += &open::hidden(&of_clients, &of_rates, records, width);
    }
    text
}

/// The steps of closed loops.
fn by_clients(steps: &[&Record], records: &[Record], width: usize) -> String {
    let mut columns = columns(steps, records);
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &OPTIONAL, width);
    let mut text = rows(&columns);
    text += &legend(&columns, &LEGEND, width);
    text += &left_out;
    text += &marked(steps, width);
    text += &remarks(steps, width);
    text += &by_clients_bars(steps, width);
    text += &longest(steps, width);
    text + &phases(steps, width)
}

/// The known summary of another metric with these parameters.
fn beside<'r>(records: &'r [Record], params: &Params, metric: &str) -> Option<&'r Summary> {
    let record = records.iter().find(|one| one.metric.as_str() == metric && one.params == *params);
    record.filter(|record| !open::has_no_times(record)).and_then(known)
}

/// The summary of a record: also of an invalid step, whose rate has a mark.
fn known(record: &Record) -> Option<&Summary> {
    match record.verdict.state {
        State::Invalid => record.summary.as_ref(),
        _ => record.shown_summary(),
    }
}

/// Marks the rate of an invalid step.
const INVALID: &str = "!";

/// What the mark means, if a step has it.
fn marked(steps: &[&Record], width: usize) -> String {
    let is_marked = |step: &&Record| step.verdict.state == State::Invalid && known(step).is_some();
    match steps.iter().any(is_marked) {
        true => wrapped(&format!("{INVALID}: invalid, as said below"), width, "", "  "),
        false => String::new(),
    }
}

/// The rate of a step of an open loop; 0 of others.
fn rate_of(step: &Record) -> f64 {
    let text = step.params.0.get("rate").map(ToString::to_string);
    text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// A quantile of the response times; without `q` the median.
pub(crate) fn quantile_of(records: &[Record], params: &Params, q: Option<f64>) -> Option<f64> {
    let summary = beside(records, params, RESPONSE_TIME)?;
    match q {
        None => Some(summary.median),
        Some(q) => summary.quantiles.iter().find(|it| it.q == q).map(|it| it.value),
    }
}

fn mean_of(step: &Record, records: &[Record]) -> Option<f64> {
    Some(beside(records, &step.params, RESPONSE_TIME)?.mean)
}

fn max_of(step: &Record, records: &[Record]) -> Option<f64> {
    Some(beside(records, &step.params, RESPONSE_TIME)?.max)
}

fn time(ns: Option<f64>) -> String {
    ns.map_or(NOTHING.to_owned(), |ns| quantity_within(ns, Unit::Nanoseconds, TIME))
}

fn throughput(step: &&Record) -> String {
    known(step).map_or(NOTHING.to_owned(), |one| format!("{}{}", mark(step), bare(one.median)))
}

/// What a number begins with that is not valid.
fn mark(record: &Record) -> &'static str {
    match record.verdict.state {
        State::Invalid => INVALID,
        state => state_mark(state),
    }
}

fn state(step: &&Record) -> String {
    match step.verdict.state {
        State::Valid => String::new(),
        state => state.word().to_owned(),
    }
}

fn fact<'s>(
    steps: &'s [&Record],
    name: &'static str,
    words: fn(f64) -> String,
) -> impl Iterator<Item = String> + 's {
    steps.iter().map(move |step| step.quantity_of(name).map_or(String::new(), words))
}

fn count(count: f64) -> String {
    if count > 0.0 { format!("{count:.0}") } else { String::new() }
}

fn columns(steps: &[&Record], records: &[Record]) -> Vec<Column> {
    let half = |step: &&Record| {
        let half = step.shown_summary().and_then(Summary::relative_half_width);
        half.map_or(NOTHING.to_owned(), percent)
    };
    let bandwidth = |step: &&Record| {
        let summary = beside(records, &step.params, BANDWIDTH);
        summary.map_or(NOTHING.to_owned(), |one| bare(one.median / MB))
    };
    let of = |q| steps.iter().map(move |step| time(quantile_of(records, &step.params, q)));
    let clients = |step: &&Record| match step.params.0.get("clients") {
        Some(ParamValue::Integer(clients)) => clients.to_string(),
        _ => NOTHING.to_owned(),
    };
    vec![
        Column::new("clients", steps.iter().map(clients)),
        Column::new("req/s", steps.iter().map(throughput)),
        Column::new("±", steps.iter().map(half)),
        Column::new("MB/s", steps.iter().map(bandwidth)),
        Column::new("mean", steps.iter().map(|step| time(mean_of(step, records)))),
        Column::new("median", of(None)),
        Column::new("p90", of(Some(0.9))),
        Column::new("p99", of(Some(0.99))),
        Column::new("p99.9", of(Some(0.999))),
        Column::new("max", steps.iter().map(|step| time(max_of(step, records)))),
        Column::new("server", fact(steps, SERVER_CPU, percent)),
        Column::new("disk", fact(steps, DISK, |rate| bare(rate / MB))),
        Column::new("client", fact(steps, CLIENT_CPU, percent)),
        Column::new("errors", fact(steps, ERRORS, count)),
        Column::words("", steps.iter().map(state)),
    ]
}

/// Why steps are noisy, invalid or without an interval: a line for each cause, with the figures of
/// the last step that has it.
fn remarks(steps: &[&Record], width: usize) -> String {
    let mut lines: Vec<(String, Vec<(&Record, String)>)> = Vec::new();
    for step in steps {
        let of_verdict = step.verdict.reasons.iter().map(|reason| {
            // Of a step with a number, what to do follows below the table.
            let remedy = reason.remedy.as_ref().filter(|_| !step.verdict.shows_number());
            let remedy = remedy.map_or(String::new(), |it| format!("; {}", remedy::words(it)));
            let (state, cause) = (step.verdict.state.word(), cause_words(reason.cause));
            (format!("{state} ({cause}): "), format!("{}{remedy}", reason.text))
        });
        let of_notes = step.notes.iter().map(|note| match note.split_once(": ") {
            Some((what, figures)) => (format!("{what}: "), figures.to_owned()),
            None => (note.clone(), String::new()),
        });
        for (what, figures) in of_verdict.chain(of_notes) {
            match lines.iter_mut().find(|(known, _)| *known == what) {
                Some((_, of)) => of.push((step, figures)),
                None => lines.push((what, vec![(step, figures)])),
            }
        }
    }
    let line = |(what, of): &(String, Vec<(&Record, String)>)| {
        let (last, figures) = &of[of.len() - 1];
        let at = match of.iter().all(|(_, other)| other == figures) {
            true => String::new(),
            false => format!("at {} ", names_of([*last].into_iter())),
        };
        let with: Vec<&Record> = distinct(of.iter().map(|(step, _)| *step));
        let numbers = match with.len() {
            2.. if with.len() == steps.len() => "all steps".to_owned(),
            _ => names_of(with.into_iter()),
        };
        wrapped(&format!("{numbers}: {what}{at}{figures}"), width, "", "  ")
    };
    lines.iter().map(line).collect()
}

/// Whether more requests failed than in a step that counts as an answer. An older record has no
/// number of requests.
fn fails(step: &Record) -> bool {
    let errors = step.quantity_of(ERRORS).unwrap_or(0.0);
    errors > ERRORS_MAX * step.quantity_of(REQUESTS).unwrap_or(0.0)
}

/// `1 client`, `2, 4 clients`, or `100, 200 requests/s`.
fn names_of<'r>(steps: impl Iterator<Item = &'r Record>) -> String {
    let (mut all, mut unit) = (Vec::new(), "clients");
    for step in steps {
        match step.params.0.get("rate") {
            Some(rate) => (unit, _) = ("requests/s", all.push(rate.to_string())),
            None => all.extend(step.params.integer("clients").map(|it| it.to_string())),
        }
    }
    match all.as_slice() {
        [one] if one == "1" && unit == "clients" => counted(1, "client"),
        _ => format!("{} {unit}", all.join(", ")),
    }
}

fn median(step: &Record) -> f64 {
    step.summary.as_ref().map_or(0.0, |it| it.median)
}

/// The step with the highest throughput, and the steps that do not count because too many requests
/// failed: these make room for others.
fn best<'r>(steps: &[&'r Record]) -> (Option<&'r Record>, Vec<&'r Record>) {
    let shown = steps.iter().copied().filter(|step| step.verdict.shows_number());
    let (failed, whole): (Vec<&Record>, Vec<&Record>) = shown.partition(|step| fails(step));
    (whole.into_iter().max_by(|a, b| median(a).total_cmp(&median(b))), failed)
}

/// The throughput of each step as bars.
fn by_clients_bars(steps: &[&Record], width: usize) -> String {
    if steps.len() < 3 || best(steps).0.is_none() {
        return String::new();
    }
    let rate = |step: &&Record| Some(median(step)).filter(|_| step.verdict.shows_number());
    let rates: Vec<Option<f64>> = steps.iter().map(rate).collect();
    let bars = spark::curve(&rates, width.saturating_sub(CURVE_WORDS).max(8));
    let [first, last] =
        [steps[0], steps[steps.len() - 1]].map(|step| step.params.integer("clients").unwrap_or(0));
    facts(&[("by clients", format!("{bars}  {first} to {last}, log scale"))], width)
}

/// The longest response of all steps, and what was longer and had none: a stall at the end.
fn longest(steps: &[&Record], width: usize) -> String {
    let most = |name: &str| {
        let of = |step: &&Record| Some((step.quantity_of(name)?, step.params.integer("clients")?));
        let (ns, clients) = steps.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let time = glued(&quantity(ns, Unit::Nanoseconds));
        Some(format!("{time} at {}", counted(clients as usize, "client")))
    };
    let response = most(LONGEST_RESPONSE).map(|text| format!("response {text}"));
    let in_flight = most(LONGEST_IN_FLIGHT).map(|text| format!("in flight at the end {text}"));
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
        let of = |name: &str| {
            let p99 = step.quantity_of(&p99_of(name));
            let p99 = p99.map_or(String::new(), |ns| format!(" (p99 {})", time(ns)));
            step.quantity_of(name).map(|ns| format!("{name} {}{p99}", time(ns)))
        };
        let words: Vec<String> = [RESOLVE].into_iter().chain(PHASES).filter_map(of).collect();
        let clients = counted(step.params.integer("clients").unwrap_or(0) as usize, "client");
        (!words.is_empty()).then(|| format!("at {clients}: {}", words.join(", ")))
    };
    let shown = steps.iter().enumerate().filter(|(at, _)| [0, last].contains(at));
    let lines: Vec<String> = shown.filter_map(|(_, step)| of_step(step)).collect();
    let text = format!("medians {}", lines.join("; "));
    if lines.is_empty() { String::new() } else { facts(&[("phases", text)], width) }
}

/// Memory of both ends, and whether it grows.
fn memory(records: &[Record], width: usize) -> String {
    let lines = memory_words(records);
    if lines.is_empty() { String::new() } else { format!("\n{}", facts(&lines, width)) }
}

/// The name of each end, and the sentence on its memory.
fn memory_words(records: &[Record]) -> Vec<(&'static str, String)> {
    let ends = [("client", "client memory"), ("server", "server memory")];
    let words = |(end, name): (&str, &'static str)| {
        let of = |name: String| records.iter().find(|record| record.metric.as_str() == name);
        let resident = of(format!("load.{end}.resident"))?;
        let bytes = resident.summary.as_ref()?.median;
        let growth = of(format!("load.{end}.resident.slope"));
        let growth = growth.and_then(|record| record.summary.as_ref());
        let measured_s = resident.series.iter().flat_map(|it| it.times_ns.last()).last();
        let measured_s = measured_s.map(|ns| ns / 1e9);
        let growth = growth.map_or(String::new(), |slope| {
            let growth = MemoryGrowth::from_slope(slope, bytes, measured_s);
            format!("; {}", growth_words(growth, slope.median))
        });
        Some((name, format!("{} at the end{growth}", glued(&quantity(bytes, Unit::Bytes)))))
    };
    ends.into_iter().filter_map(words).collect()
}

fn growth_words(growth: MemoryGrowth, slope: f64) -> String {
    let hourly = |slope: f64| glued(&quantity(3600.0 * slope, Unit::Bytes));
    let slope = hourly(slope);
    let undecided = |why: &str, measure_s: Option<u64>| {
        let time = measure_s.map_or("longer".to_owned(), time_option);
        format!("undecided: {why}; measure {time} in all")
    };
    match growth {
        MemoryGrowth::Grows([low, high]) => {
            format!("grows by {slope} per hour ({} to {})", hourly(low), hourly(high))
        }
        MemoryGrowth::NotShown(most) => format!("no growth shown (≤ {} per hour)", hourly(most)),
        MemoryGrowth::OfStart { measure_s } => {
            undecided(&format!("grew by {slope} per hour since the start"), Some(measure_s))
        }
        MemoryGrowth::NotExcluded { slope, measure_s } => {
            undecided(&format!("growth of {} per hour is not excluded", hourly(slope)), measure_s)
        }
        MemoryGrowth::TooShort { measure_s } => {
            undecided("too short to see growth", Some(measure_s))
        }
    }
}

/// A row for each case, and what the rows are.
fn cases(records: &[Record]) -> (&'static str, Vec<Column>) {
    let of = |metric: &'static str| {
        records.iter().filter(move |record| record.metric.as_str() == metric)
    };
    let steps: Vec<&Record> = of(THROUGHPUT).filter(|it| !open::is_open(it)).collect();
    let cases = by_case(&steps);
    let params: Vec<Params> = cases.iter().map(|steps| open::case_of(steps[0])).collect();
    let beside = |metric: &'static str| {
        params.iter().map(move |params| of(metric).find(|it| open::case_of(it) == *params))
    };
    let number = |record: Option<&Record>| {
        let shown = record.and_then(|it| Some((mark(it), it.shown_summary()?)));
        shown.map_or(NOTHING.to_owned(), |(mark, it)| format!("{mark}{}", bare(it.median)))
    };
    let best = cases.iter().map(|steps| best(steps).0);
    let at = best.clone().map(|it| it.and_then(|it| it.params.integer("clients")));
    let columns = vec![
        Column::words("case", params.iter().map(|it| answer::own_name(it, &params))),
        Column::new("highest req/s", best.map(number)),
        Column::new("clients", at.map(|it| it.map_or(NOTHING.to_owned(), |it| it.to_string()))),
        Column::new("saturation", beside("load.saturation").map(number)),
        Column::new("knee", beside("load.knee").map(number)),
        Column::new("95 % at", beside("load.clients_95").map(number)),
        Column::words("bottleneck", beside(limit::BOTTLENECK).map(limit::short)),
    ];
    (
        "The highest throughput, the optimal number of clients and the bottleneck of each case",
        columns,
    )
}

/// The cases of a run beside each other, if there are several.
fn compared(records: &[Record], width: usize) -> String {
    let (head, mut columns) = cases(records);
    if columns[0].cell.len() < 2 {
        return String::new();
    }
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &["saturation", "95 % at", "clients"], width);
    wrapped(&format!("\n{head}:"), width, "\n", "") + &rows(&columns) + &left_out
}
