//! The steps of an open loop, one row for each rate, and what a closed loop beside it hides.

use fathom_record::load_facts::{
    CLIENT_CPU, DISK, ERRORS, NOT_SUSTAINED, RATE, RESPONSES, RESULT, SENT_LATE, SERVER_CPU,
    WAITING, WITHIN, is_of_window, of_window,
};
use fathom_record::quantity::{bare, percent, quantity};
use fathom_record::{Cause, Params, Record, State, Unit};

use super::super::table::{Column, fit, legend, rows};
use super::super::{fact_words, facts};
use super::{MB, count, fact, marked, quantile_of, rate_of, remarks, state, throughput, time};
use crate::case::{case, counted};
use crate::remedy;
use crate::wrap::{glued, wrapped};

pub(super) const MAX_RATE: &str = "load.max_rate";
/// Parameters that only an open loop has.
const OWN: [&str; 3] = ["rate", "arrivals", "from"];
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 7] = ["mean", "p99 sent", "disk", "client", "server", "late", "p90"];
const LEGEND: [(&str, &str); 3] = [
    ("waiting", "waiting: requests that were due and not done at the end of a window, at most"),
    ("late", "late: sent so long after they were due, although a connection was free (p99.9)"),
    ("p99 sent", "p99 sent: from when requests were sent"),
];
/// Throughputs that differ by less are about the same, and so are times.
const SAME: f64 = 1.2;
const HIDDEN: f64 = 1.5;

pub(super) fn is_open(step: &Record) -> bool {
    step.params.0.contains_key("rate")
}

/// Whether its response times are those of a queue that grows, or of a late generator.
pub(super) fn has_no_times(record: &Record) -> bool {
    let fails = record.verdict.reasons.first().is_some_and(|it| it.cause == Cause::WrongWork);
    is_open(record) && record.verdict.state == State::Invalid && !fails
}

/// The parameters of the case: an open loop has neither clients nor a think time.
pub(super) fn case_of(step: &Record) -> Params {
    let mut params = step.params.clone();
    OWN.iter().chain(&["clients"]).for_each(|name| _ = params.0.remove(*name));
    if params.integer("think_s") == Some(0) {
        params.0.remove("think_s");
    }
    params
}

fn from_send(step: &Record) -> Params {
    step.params.clone().and("from", "send")
}

/// The steps by rate.
pub(super) fn table(steps: &[&Record], records: &[Record], width: usize) -> String {
    let arrivals = steps[0].params.text("arrivals").unwrap_or_default();
    let head = format!("open loop, {arrivals} arrivals; times are from when requests were due");
    let of = |q| steps.iter().map(move |step| time(quantile_of(records, &step.params, q)));
    let sent = |step: &&Record| time(quantile_of(records, &from_send(step), Some(0.99)));
    let mut columns = vec![
        Column::new("rate", steps.iter().map(|step| rate_of(step).to_string())),
        Column::new("req/s", steps.iter().map(throughput)),
        Column::new("mean", steps.iter().map(|step| time(super::mean_of(step, records)))),
        Column::new("p50", of(None)),
        Column::new("p90", of(Some(0.9))),
        Column::new("p99", of(Some(0.99))),
        Column::new("p99.9", of(Some(0.999))),
        Column::new("max", steps.iter().map(|step| time(super::max_of(step, records)))),
        Column::new("p99 sent", steps.iter().map(sent)),
        Column::new("late", fact(steps, SENT_LATE, |ns| time(Some(ns)))),
        Column::new("server", fact(steps, SERVER_CPU, percent)),
        Column::new("disk", fact(steps, DISK, |rate| bare(rate / MB))),
        Column::new("client", fact(steps, CLIENT_CPU, percent)),
        Column::new("waiting", fact(steps, WAITING, count)),
        Column::new("errors", fact(steps, ERRORS, count)),
        Column::words("", steps.iter().map(state)),
    ];
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &OPTIONAL, width);
    let mut text = wrapped(&head, width, "", "  ") + &rows(&columns);
    text += &legend(&columns, &LEGEND, width);
    text += &left_out;
    text += &marked(steps, width);
    text += &remarks(steps, width);
    text + &facts(&[("sustained", sustained(steps))], width)
}

/// The highest rate within limits, and how it was found.
pub(super) fn max_rate(record: &Record, width: usize) -> String {
    let of_record = record.facts.iter().filter(|fact| !is_of_window(&fact.name));
    let mut lines: Vec<(&str, String)> =
        of_record.map(|fact| (fact.name.as_str(), fact_words(record, fact))).collect();
    if let Some(summary) = record.shown_summary() {
        let interval = summary.limits().map(|ends| format!(" ({})", ends.map(bare).join(" to ")));
        let rate = throughput(&record);
        lines.push(("highest rate", format!("{rate} requests/s{}", interval.unwrap_or_default())));
    }
    let state = record.verdict.state.word();
    lines.extend(record.verdict.reasons.iter().map(|reason| {
        let remedy = reason.remedy.as_ref();
        let remedy = remedy.map_or(String::new(), |it| format!("; {}", remedy::words(it)));
        ("verdict", format!("{state}: {}{remedy}", reason.text))
    }));
    let head = format!("load{}", case(&record.params));
    let head = format!("\n{}", wrapped(&head, width, "", "  "));
    head + &windows(record, width) + &facts(&lines, width)
}

/// The windows of a search by their rates, with these; an older record has none.
fn windows_by_rate(record: &Record) -> Vec<(usize, f64)> {
    let rate = |number| Some((number, record.quantity_of(&of_window(number, RATE))?));
    let mut all: Vec<(usize, f64)> = (1..).map_while(rate).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// The highest rate of a window that was within the limits.
pub(super) fn highest_held(record: &Record) -> Option<f64> {
    let is_within =
        |number| record.text_of(&of_window(number, RESULT)).is_some_and(|text| text == WITHIN);
    windows_by_rate(record).into_iter().rfind(|(number, _)| is_within(*number)).map(|it| it.1)
}

fn windows(record: &Record, width: usize) -> String {
    let of = |number: usize, what: &str| record.quantity_of(&of_window(number, what));
    let by_rate = windows_by_rate(record);
    let all: Vec<usize> = by_rate.iter().map(|(number, _)| *number).collect();
    if all.is_empty() {
        return String::new();
    }
    let column = |what: &str, words: fn(f64) -> String| {
        let cell = |number: &usize| of(*number, what).map_or(String::new(), words);
        Column::new(what, all.iter().map(cell))
    };
    let times = |what| column(what, |ns| time(Some(ns)));
    let result = |number: &usize| {
        let text = record.text_of(&of_window(*number, RESULT)).unwrap_or_default();
        if text == WITHIN { String::new() } else { text.to_owned() }
    };
    let mut columns = vec![
        Column::new("window", all.iter().map(ToString::to_string)),
        Column::new("rate", by_rate.iter().map(|(_, rate)| rate.to_string())),
        column(RESPONSES, count),
        times("p50"),
        times("p90"),
        times("p99"),
        times("p99.9"),
        times("max"),
        column(ERRORS, count),
        Column::words("beyond", all.iter().map(result)),
    ];
    columns.retain(Column::has_content);
    let left_out = fit(&mut columns, &["p90", "p50", "p99.9", "max", "responses"], width);
    // Why a window is beyond may be a sentence; the verdict has that of the last one.
    let cut = |row: &str| crate::cut(row, width) + "\n";
    rows(&columns).lines().map(cut).collect::<String>() + &left_out
}

/// Whether other programs or the generator kept a step from being judged.
pub(super) fn is_of_others(step: &Record) -> bool {
    let cause = step.verdict.reasons.first().map(|reason| reason.cause);
    matches!(cause, Some(Cause::Contention | Cause::LoadGenerator))
}

/// Whether as many requests were completed as were due, but for the scatter of arrivals, and none
/// was left.
pub(super) fn was_completed(step: &Record) -> bool {
    const LEAST: f64 = 0.95;
    let is_left = step.verdict.reasons.iter().any(|it| it.text.starts_with(NOT_SUSTAINED));
    !is_left && step.summary.as_ref().is_some_and(|it| it.median >= LEAST * rate_of(step))
}

/// `up to 400 requests/s; not 800, 1000`.
fn sustained(steps: &[&Record]) -> String {
    let (shown, others): (Vec<&Record>, Vec<&Record>) =
        steps.iter().partition(|step| step.verdict.shows_number());
    let list = |steps: &[&Record]| {
        steps.iter().map(|step| rate_of(step).to_string()).collect::<Vec<String>>().join(", ")
    };
    match (shown.last(), others.as_slice()) {
        (None, _) if others.iter().all(|it| is_of_others(it) && was_completed(it)) => {
            format!("{} requests/s completed; response times not known", list(&others))
        }
        (None, _) if others.iter().all(|step| is_of_others(step)) => {
            format!("not known of {} requests/s", list(&others))
        }
        (None, _) => format!("none of {} requests/s", list(&others)),
        (Some(most), []) => format!("{} requests/s, the highest rate tried", rate_of(most)),
        (Some(most), _) => format!("up to {} requests/s; not {}", rate_of(most), list(&others)),
    }
}

/// What the closed loop does not show: it sends nothing while it waits for a server that stalls.
pub(super) fn hidden(
    closed: &[&Record],
    open: &[&Record],
    records: &[Record],
    width: usize,
) -> String {
    let rate = |step: &Record| Some(step.shown_summary()?.median).filter(|rate| *rate > 0.0);
    let sentence = || {
        let at = open.iter().rfind(|step| step.verdict.shows_number())?;
        let distance = |step: &Record| Some((rate(step)? / rate(at)?).ln().abs().exp());
        let near = closed.iter().filter_map(|step| Some((distance(step)?, step)));
        let (apart, near) = near.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let both = |q| {
            let of = |step: &Record| quantile_of(records, &step.params, Some(q));
            Some((of(near)?, of(at)?))
        };
        let known = [(0.99, "p99"), (0.9, "p90")].into_iter();
        let mut known = known.filter_map(|(q, name)| Some((q, name, both(q)?)));
        let (q, name, (of_closed, of_open)) = known.next()?;
        // Requests that were sent when they were due waited for no other: what makes them slower
        // than those of the closed loop, such as the wake-up of an idle CPU, it does not hide.
        let sent = quantile_of(records, &from_send(at), Some(q));
        if sent.is_some_and(|sent| of_open < SAME * sent) && of_open >= HIDDEN * of_closed {
            return None;
        }
        let clients = near.params.integer("clients").unwrap_or(0);
        let words = |ns| glued(&quantity(ns, Unit::Nanoseconds));
        let numbers = format!(
            "{name} is {} with {} ({} requests/s), and {} at {} requests/s",
            words(of_closed),
            counted(clients as usize, "client"),
            bare(rate(near)?),
            words(of_open),
            rate_of(at)
        );
        let is_same = apart <= SAME;
        let same = if is_same { "about the same throughput" } else { "other throughputs" };
        Some(match of_open / of_closed {
            more if more >= HIDDEN => format!(
                "At {same}, {numbers}: a closed loop sends nothing while it waits for a slow \
                 response, and hides the delay of the requests that were due meanwhile."
            ),
            _ => format!("At {same}, {numbers}: the closed loop hides no delay."),
        })
    };
    sentence().map_or(String::new(), |text| wrapped(&text, width, "", ""))
}
