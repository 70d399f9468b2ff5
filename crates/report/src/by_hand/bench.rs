//! The output of `fathom bench`: the ranking of commands, their runs, how they compare, and the
//! curve over a parameter.

use fathom_analysis::scaling::{self, Law};
use fathom_record::command::{self as facts, CERTIFICATE_METRIC, RATIO_METRIC};
use fathom_record::quantity::{NOTHING, bare, percent, quantity, quantity_within};
use fathom_record::{Cause, FactValue, ParamValue, Record, State, Stratum, Summary, Unit};

use super::cost;
use super::table::{Column, fit, rows};
use crate::distinct::distinct;
use crate::shown::half_width;
use crate::spark;
use crate::wrap::{glued, wrapped};

const WIDTH: usize = 8;
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 5] = ["switches", "memory", "faults", "system", "user"];
const STRIP: usize = 12;
const REMARKS_MAX: usize = 6;
/// Smaller differences are not called one (METHOD 27).
const EFFECT_MIN: f64 = 0.01;
const UNCHANGED: f64 = 0.02;
const PAIRS_MIN: usize = 8;
/// From this share of its time on a command is CPU-bound; below the other one it waits.
const BOUND: f64 = 0.9;
const WAITS: f64 = 0.5;
/// A smaller share of a difference is not named.
const PART_MIN: f64 = 0.02;
/// CPU time may be longer than the wall time by so much of it: means beside a median.
const OVERLAP: f64 = 0.1;
/// From this share of its time on it runs on several CPUs, or is runnable without one.
const SEVERAL: f64 = 1.2;
const QUEUED: f64 = 0.25;
/// Commands whose shares differ by less are of one kind.
const OTHER_KIND: f64 = 0.2;
/// From this share of a time on the pipe matters.
const PIPE_MATTERS: f64 = 0.01;
/// From this share on "most" is all that two times measured apart can say.
const PIPE_MOST: f64 = 0.7;

pub(super) fn is_bench(record: &Record) -> bool {
    record.metric.as_str() == RATIO_METRIC || record.text_of(facts::COMMAND).is_some()
}

/// Commands that were run in turn, and their ratios; not a single one that is the answer above
/// (`is_answered`).
pub(super) fn group(records: &[Record], width: usize, is_answered: bool) -> String {
    let is_ratio = |record: &&Record| record.metric.as_str() == RATIO_METRIC;
    let (ratios, others): (Vec<&Record>, Vec<&Record>) = records.iter().partition(is_ratio);
    let is_certificate = |record: &&Record| record.metric.as_str() == CERTIFICATE_METRIC;
    let (certificates, commands): (Vec<&Record>, Vec<&Record>) =
        others.into_iter().partition(is_certificate);
    let mut ranked = commands.clone();
    if !is_scan(&commands) {
        let time = |record: &Record| record.shown_summary().map_or(f64::INFINITY, |it| it.median);
        ranked.sort_by(|a, b| time(a).total_cmp(&time(b)));
    }
    let mut text = String::from("\n");
    if let [record] = ranked.as_slice()
        && record.cost.is_some()
    {
        text += &format!("{}\n", one_line(record));
    } else if !ranked.is_empty() {
        let mut columns = columns(&ranked);
        columns.retain(Column::has_content);
        let left_out = fit(&mut columns, &OPTIONAL, width);
        text += &(rows(&columns) + &left_out + "\n");
    }
    for ratio in ratios.iter().filter(|_| !is_answered || ratios.len() > 1) {
        text += &wrapped(&compared(ratio, &commands), width, "", "  ");
    }
    text += &certificates.iter().map(|one| certificate(one, width)).collect::<String>();
    for record in ranked.iter().filter(|record| record.cost.is_some()) {
        let gap = if text.ends_with("\n\n") || ranked.len() == 1 { "" } else { "\n" };
        text += &format!("{gap}{}", cost::group(&label(record), record, width));
    }
    text += &laws(&commands, width);
    text + &remarks(&ranked, width)
}

/// From which loss on a gate detects it.
fn smallest_limit(certificate: &Record) -> String {
    let of = certificate.params.text("of").unwrap_or_default();
    match certificate.shown_summary() {
        Some(summary) => {
            let least = glued(&percent(summary.median));
            format!("{of} can be gated here from --fail-on {least} on")
        }
        None => {
            format!("{of} cannot be gated here: so few runs vary too much for 5 % (--time, --runs)")
        }
    }
}

/// The same, and how each limit did.
fn certificate(record: &Record, width: usize) -> String {
    let is_limit = |name: &str| name.ends_with('%');
    let line = |name: &str, fact: &FactValue| match fact {
        FactValue::Text { text } => format!("  {name:>6}: {text}\n"),
        _ => String::new(),
    };
    let limits = record.facts.iter().filter(|fact| is_limit(&fact.name));
    wrapped(&(smallest_limit(record) + ":"), width, "", "  ")
        + &limits.map(|fact| line(&fact.name, &fact.value)).collect::<String>()
}

/// A single command without a table of its own: what is counted of it is wanted.
fn one_line(record: &Record) -> String {
    let columns = columns(&[record]);
    let cell = |column: &Column| format!("{} {}", column.title, column.cell[0]);
    let wanted = ["time", "±", "user", "system", "runs"];
    let all = columns.iter().filter(|it| wanted.contains(&it.title.as_ref()) && it.has_content());
    all.map(cell).collect::<Vec<String>>().join(", ").replace(", ±", " ±")
}

/// Whether rows follow the values of a parameter.
fn is_scan(commands: &[&Record]) -> bool {
    commands.iter().any(|record| !record.params.is_empty())
}

fn label(record: &Record) -> String {
    let name = record.metric.as_str().split_once('.').map_or("", |(_, name)| name);
    format!("{name}{}", record.params)
}

fn columns(commands: &[&Record]) -> Vec<Column> {
    let of = |head: &str, cell: &dyn Fn(&Record) -> String| {
        Column::new(head, commands.iter().map(|record| cell(record)))
    };
    let fact = |name: &'static str| {
        move |record: &Record| match record.fact(name).map(|fact| &fact.value) {
            Some(FactValue::Quantity { value: 0.0, .. }) => "0".to_owned(),
            Some(FactValue::Quantity { value, unit: Unit::Ratio }) => count(*value),
            Some(FactValue::Quantity { value, unit }) => quantity_within(*value, *unit, WIDTH - 1),
            Some(FactValue::Text { text } | FactValue::Line { line: text }) => text.clone(),
            None => String::new(),
        }
    };
    let strip = |record: &Record| {
        let times = record.shown_summary().map(|summary| summary.process_medians.as_slice());
        spark::line(times.unwrap_or_default(), STRIP)
    };
    let runs = |record: &Record| {
        record.shown_summary().map_or(String::new(), |summary| summary.n.to_string())
    };
    let switches = |record: &Record| {
        let [own, others] = [facts::VOLUNTARY, facts::INVOLUNTARY].map(|it| record.quantity_of(it));
        own.zip(others).map_or(String::new(), |(own, others)| count(own + others))
    };
    vec![
        Column::words("command", commands.iter().map(|record| label(record))),
        of("time", &time),
        of("±", &|record| half_width(record).unwrap_or_default()),
        of("user", &fact(facts::USER)),
        of("system", &fact(facts::SYSTEM)),
        of("memory", &fact(facts::MEMORY)),
        of("faults", &fact(facts::MINOR_FAULTS)),
        of("switches", &switches),
        of("runs", &runs),
        Column::words("in order", commands.iter().map(|record| strip(record))),
    ]
}

/// Medians of counts may end in a half.
fn count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn time(record: &Record) -> String {
    match record.shown_summary() {
        Some(Summary { bound: Some(bound), .. }) => {
            fathom_record::quantity::at_most(*bound, record.unit)
        }
        Some(summary) => quantity_within(summary.median, record.unit, WIDTH),
        None => NOTHING.to_owned(),
    }
}

/// How a command compares with the first one, and what differs between them.
fn compared(ratio: &Record, commands: &[&Record]) -> String {
    let name = |param: &str| ratio.params.text(param).unwrap_or_default();
    let (of, to) = (name("of"), name("to"));
    let mut at = ratio.params.clone();
    at.0.retain(|name, _| name != "of" && name != "to");
    let suffix = if at.is_empty() { String::new() } else { format!(" at {at}") };
    let Some(summary) = ratio.shown_summary() else {
        return format!("{of} and {to}{suffix}: no ratio");
    };
    let is_less = ratio.verdict.reasons.iter().any(|it| it.cause == Cause::WrongWork);
    let less = is_less.then(|| "not the same work with /dev/null (--output pipe)".to_owned());
    let mut parts = Vec::from_iter(less);
    parts.push(format!("{}{suffix}", difference(summary, of, to)));
    parts.extend(in_state(ratio).map(|words| words.replace(" runs", " pairs")));
    let find = |name: &str| {
        let is = |record: &&&Record| {
            record.metric.as_str() == format!("bench.{name}")
                && record.params.0.iter().all(|(param, value)| at.0.get(param) == Some(value))
        };
        commands.iter().find(is).copied()
    };
    if let (Some(one), Some(other)) = (find(of), find(to)) {
        parts.extend(is_changed(summary).then(|| split([one, other], summary)).flatten());
        parts.extend(causes([one, other], [of, to]));
    }
    parts.join("; ")
}

/// Where the time of commands goes, if it was counted, their comparisons, and which loss a gate
/// detects; else nothing of a single one.
pub(super) fn answer(records: &[Record]) -> Vec<String> {
    let is_certificate = |record: &&Record| record.metric.as_str() == CERTIFICATE_METRIC;
    let certificates = records.iter().filter(is_certificate).map(|it| smallest_limit(it) + ".");
    let is_ratio = |record: &&Record| record.metric.as_str() == RATIO_METRIC;
    let (ratios, commands): (Vec<&Record>, Vec<&Record>) = records.iter().partition(is_ratio);
    let is_crowded = |record: &Record| {
        record.verdict.reasons.iter().any(|reason| reason.cause == Cause::Contention)
    };
    let of_cost = |record: &&Record| {
        Some(cost::conclusion(&label(record), record.cost.as_ref()?, is_crowded(record)))
    };
    let costs = commands.iter().filter_map(of_cost);
    let compared = ratios.into_iter().map(|ratio| compared(ratio, &commands) + ".");
    certificates.chain(costs).chain(compared).collect()
}

fn is_changed(summary: &Summary) -> bool {
    summary.limits().is_some_and(|[low, high]| {
        (low > 1.0 || high < 1.0) && (summary.median - 1.0).abs() > EFFECT_MIN
    })
}

/// Where the difference of two times lies: `+61.2 ms = user +15.3 ms, off the CPU +45.9 ms`.
/// Nothing of commands that were on several CPUs, whose times do not add up, and nothing where the
/// medians differ otherwise than the pairs: the machine changed meanwhile.
fn split(pair: [&Record; 2], ratio: &Summary) -> Option<String> {
    let times = |record: &Record| {
        let wall = record.shown_summary()?.median;
        let [user, system] = [facts::USER, facts::SYSTEM].map(|name| record.quantity_of(name));
        let (user, system) = (user?, system?);
        let off = wall - user - system;
        (off > -OVERLAP * wall).then_some([wall, user, system, off])
    };
    let [Some(of), Some(to)] = pair.map(times) else { return None };
    let [low, high] = ratio.limits()?;
    if !(low..=high).contains(&(of[0] / to[0])) {
        return None;
    }
    let change = |at: usize| of[at] - to[at];
    let words = |at: usize| {
        let sign = if change(at) < 0.0 { "−" } else { "+" };
        let size = quantity_within(change(at).abs(), Unit::Nanoseconds, WIDTH - 1);
        glued(&format!("{sign}{size}"))
    };
    let is_large = |at: &usize| change(*at).abs() >= PART_MIN * change(0).abs();
    let terms = (1..of.len()).filter(is_large);
    let names = ["", "user", "system", "off the CPU"];
    let terms: Vec<String> = terms.map(|at| format!("{} {}", names[at], words(at))).collect();
    Some(format!("{} = {}", words(0), terms.join(", ")))
}

fn difference(summary: &Summary, of: &str, to: &str) -> String {
    let ratio = summary.median;
    let Some(limits) = summary.limits() else {
        // A single pair: the difference of two commands that are the same may be as large.
        return format!("{of} and {to}: inconclusive, too few runs for an interval");
    };
    if is_changed(summary) {
        let word = if summary.process_medians.len() < PAIRS_MIN { "looks" } else { "is" };
        let side = if ratio < 1.0 { "faster" } else { "slower" };
        let (size, span) = changed(ratio, limits);
        return format!("{of} {word} {size} {side} than {to} ({span})");
    }
    let span = unchanged(limits, ["faster", "slower"]);
    let [low, high] = limits;
    match (1.0 - low).max(high - 1.0) <= UNCHANGED {
        true => format!("{of} and {to}: no difference beyond 2 % ({span})"),
        false => format!("{of} and {to}: inconclusive, {span}"),
    }
}

/// `12 %`, and `8.0 % to 15 %`; from twice on as factors.
pub(super) fn changed(ratio: f64, [low, high]: [f64; 2]) -> (String, String) {
    let size = |at: f64| match (0.5..2.0).contains(&ratio) {
        true => percent((at - 1.0).abs()),
        false => format!("{} ×", bare(if ratio < 1.0 { 1.0 / at } else { at })),
    };
    let [least, most] = if ratio < 1.0 { [high, low] } else { [low, high] };
    (size(ratio), format!("{} to {}", size(least), size(most)))
}

/// `1.0 % faster to 2.0 % slower`, with these words for less and more.
pub(super) fn unchanged(limits: [f64; 2], [less, more]: [&str; 2]) -> String {
    let words = |end: f64| {
        let side = if end < 1.0 { less } else { more };
        format!("{} {side}", percent((end - 1.0).abs()))
    };
    limits.map(words).join(" to ")
}

/// What the counters of two commands show.
fn causes([one, other]: [&Record; 2], [of, to]: [&str; 2]) -> Vec<String> {
    let mut parts = bounds([one, other].map(shares_of_time), [of, to]);
    let checks: [(&str, f64, &str); 4] = [
        (facts::MINOR_FAULTS, 100.0, "faults"),
        (facts::VOLUNTARY, 20.0, "sleeps"),
        (facts::MEMORY, 1e6, "memory"),
        (facts::DEVICE_READ, 1e6, "reads"),
    ];
    for (fact, least, what) in checks {
        let [Some(a), Some(b)] = [one, other].map(|record| record.quantity_of(fact)) else {
            continue;
        };
        let (more, [many, few]) = if a > b { (of, [a, b]) } else { (to, [b, a]) };
        if many - few < least || many < 1.5 * few {
            continue;
        }
        let times = if few > 0.0 { format!("{:.1} ×", many / few) } else { "far more".to_owned() };
        parts.push(match what {
            "memory" => format!("{more} uses {times} as much memory"),
            "reads" if few > 0.0 => format!("{more} reads {times} as much from devices"),
            "reads" => format!("only {more} reads from devices"),
            _ if few > 0.0 => format!("{more} {what} {times} as often"),
            _ => format!("only {more} {what}"),
        });
    }
    parts
}

/// The shares of its time in which a command was on CPUs, and runnable without one.
fn shares_of_time(record: &Record) -> Option<[f64; 2]> {
    record.shown_summary()?;
    let spent = &record.disturbance;
    let share = |ns: u64| ns as f64 / spent.wall_ns as f64;
    (spent.wall_ns > 0).then(|| [spent.cpu_ns, spent.run_queue_ns.unwrap_or(0)].map(share))
}

/// What holds each of two commands back: one word for both, unless they differ clearly.
fn bounds(shares: [Option<[f64; 2]>; 2], names: [&str; 2]) -> Vec<String> {
    let words = match shares {
        [Some(a), Some(b)] if a.iter().zip(b).all(|(a, b)| (a - b).abs() < OTHER_KIND) => {
            [bound_words([0, 1].map(|at| (a[at] + b[at]) / 2.0)); 2]
        }
        each => each.map(|shares| bound_words(shares?)),
    };
    match words {
        [Some(a), Some(b)] if a == b => vec![format!("both {a}")],
        words => {
            let named = names.into_iter().zip(words);
            named.filter_map(|(name, words)| Some(format!("{name} {}", words?))).collect()
        }
    }
}

fn bound_words([on_cpu, queued]: [f64; 2]) -> Option<&'static str> {
    match on_cpu + queued {
        _ if on_cpu >= SEVERAL => Some("on several CPUs"),
        _ if queued >= QUEUED => Some("waiting for a CPU"),
        BOUND.. => Some("CPU-bound"),
        ..WAITS => Some("waiting"),
        _ => None,
    }
}

/// Where the output went, and what that takes of the time of the commands.
fn output(commands: &[&Record]) -> Option<String> {
    let place = commands.first()?.text_of(facts::OUTPUT)?;
    let share = |record: &Record| {
        Some(record.quantity_of(facts::PIPE_TIME)? / record.shown_summary()?.median)
    };
    let shares = commands.iter().filter_map(|record| Some((*record, share(record)?)));
    let most = shares.max_by(|(_, a), (_, b)| a.total_cmp(b));
    Some(match most {
        Some((record, share)) if share >= PIPE_MATTERS => {
            let bytes = quantity(record.quantity_of(facts::PIPED)?, Unit::Bytes);
            // Both times are measured, one after the other.
            let share = match share {
                ..PIPE_MOST => format!("about {}", percent(share)),
                _ => "most".to_owned(),
            };
            let name = label(record);
            format!("{place}, {share} of the time of {name} ({bytes}, pipe cost measured with cat)")
        }
        Some(_) => format!("{place}, below 1 % of each time (pipe cost measured with cat)"),
        None => place.to_owned(),
    })
}

/// The law of each command over its only parameter with numbers.
fn laws(commands: &[&Record], width: usize) -> String {
    let mut text = String::new();
    for of_command in commands.chunk_by(|a, b| a.metric == b.metric) {
        let names: Vec<&String> = of_command[0].params.0.keys().collect();
        let [axis] = names.as_slice() else { continue };
        let point = |record: &&Record| match record.params.0.get(*axis)? {
            ParamValue::Integer(at) => Some((*at as f64, record.shown_summary()?.median)),
            ParamValue::Text(_) => None,
        };
        let points: Vec<(f64, f64)> = of_command.iter().filter_map(point).collect();
        if points.len() < of_command.len() {
            continue;
        }
        let Some(fit) = scaling::fit(&points) else { continue };
        let ns = |value: f64| quantity(value, Unit::Nanoseconds);
        let law = match fit.law {
            Law::Constant { value } => format!("{} for each {axis}", ns(value)),
            Law::Line { intercept, slope } => {
                let sign = if slope < 0.0 { "−" } else { "+" };
                let start = if intercept < 0.0 { "−" } else { "" };
                let [intercept, slope] = [intercept, slope].map(|it| ns(it.abs()));
                format!("{start}{intercept} {sign} {slope} × {axis}")
            }
            Law::Power { factor, exponent } => {
                format!("{} × {axis}^{exponent:.2}", ns(factor))
            }
        };
        let name = of_command[0].metric.as_str().trim_start_matches("bench.");
        let line = format!("{name}: {law}, all points within {}", percent(fit.deviation));
        text += &wrapped(&line, width, "", "  ");
    }
    text
}

/// Why commands are noisy, their undisturbed runs, what was subtracted, and what to do.
fn remarks(commands: &[&Record], width: usize) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for record in commands {
        let reasons = record.verdict.reasons.iter().map(|reason| reason.text.clone());
        let mut parts: Vec<String> = reasons.collect();
        if let (Some(count), Some(summary)) = (disturbed(record), &record.summary) {
            let all = summary.as_found.as_ref().map_or(summary.n, |all| u64::from(all.visits));
            parts.push(format!("{count} of {all} runs disturbed, by counters"));
        }
        if !record.verdict.shows_number() || record.verdict.state == State::Noisy {
            parts.insert(0, record.verdict.state.word().to_owned());
        }
        parts.extend(in_state(record));
        if !parts.is_empty() {
            lines.push((label(record), parts.join("; ")));
        }
    }
    let reasons = commands.iter().flat_map(|record| &record.verdict.reasons);
    let next = distinct(reasons.filter_map(|it| it.remedy.as_ref()).map(crate::remedy::words));
    let hidden = lines.len().saturating_sub(REMARKS_MAX);
    let shown = lines.iter().take(REMARKS_MAX).map(|(name, text)| format!("{name}: {text}"));
    let more = (hidden > 0).then(|| format!("{hidden} more: `fathom show latest:bench --json`"));
    let first = |name| commands.first()?.text_of(name).map(str::to_owned);
    let facts = [
        (facts::OUTPUT, output(commands)),
        (facts::SHELL, first(facts::SHELL)),
        (facts::COLD, first(facts::COLD)),
    ];
    let facts = facts.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", text?)));
    let all = shown.chain(more).chain(facts).chain(next);
    all.map(|line| wrapped(&line, width, "", "  ")).collect()
}

fn disturbed(record: &Record) -> Option<f64> {
    record.quantity_of(facts::DISTURBED).filter(|count| *count > 0.0)
}

fn in_state(record: &Record) -> Option<String> {
    let summary = record.shown_summary().filter(|it| it.stratum != Stratum::AsFound)?;
    let (clean, all) = (summary.in_state.as_ref()?, summary.as_found.as_ref()?);
    let of_all = glued(&quantity(all.median, record.unit));
    let words = summary.stratum.words();
    Some(format!("{words}: {} of {} runs; all {of_all}", clean.visits, clean.of))
}
