//! What a command, or a request of a service, should cost: the sentence that concludes, and counts
//! × prices beside the measured system time.

use std::collections::BTreeSet;

use fathom_record::quantity::{bare, counted, percent, quantity_within};
use fathom_record::{Cost, CostService, CostTerm, CostTime, CostWait, Record, Unit};

use super::table::{Column, rows};
use crate::wrap::{capitalised, glued, wrapped};

const WIDTH: usize = 8;
const TERMS_MAX: usize = 7;
/// Smaller terms are shown together.
const SMALL: f64 = 0.01;
/// Operations whose size decides their price.
const BY_BYTES: [&str; 3] = ["read,", "write,", "fork"];
/// What-ifs and waits of a line.
const NAMED_MAX: usize = 3;
/// From this share on one kind of time dominates.
const DOMINATES: f64 = 0.6;
/// A smaller share of the wall time on CPUs: the command waits.
const WAITS: f64 = 0.5;
/// From this share of the CPU time on, the kernel did not see which part of it was its own.
const UNDIVIDED: f64 = 0.25;
/// A smaller share of the CPU time needs no explanation.
const TRIFLE: f64 = 0.02;
const CHILD: &str = "child";
const CROWDED: &str = " for a CPU that others use";
/// Calls that are shorter on the average do not wait: a switch of threads takes longer.
const WAIT_MIN_NS: f64 = 5e3;
/// Counting that takes longer may change what a command does.
const SLOW: f64 = 1.2;

fn time(ns: f64) -> String {
    glued(&quantity_within(ns, Unit::Nanoseconds, WIDTH - 1).replace('-', "−"))
}

fn half(of: CostTime) -> String {
    time(of.half_width_ns())
}

/// The times of one request of a service; of a command all.
fn of_one(cost: &Cost) -> (Cost, f64) {
    let Some(service) = &cost.service else { return (cost.clone(), 1.0) };
    let requests = service.requests.max(1) as f64;
    let each = |time: CostTime| time.times(1.0 / requests);
    let mut one = Cost { wall_ns: cost.wall_ns / requests, ..cost.clone() };
    for time in [&mut one.user, &mut one.system, &mut one.expected, &mut one.unexplained] {
        *time = each(*time);
    }
    for term in &mut one.terms {
        term.time = term.time.map(each);
        term.what_if.iter_mut().for_each(|other| other.time = each(other.time));
    }
    // All threads of it wait together, most of them for requests.
    one.waits.clear();
    one.service = Some(CostService { requests: 1, ..service.clone() });
    (one, requests)
}

/// Where the time of a command or of a request goes, in one sentence.
pub(super) fn conclusion(name: &str, cost: &Cost, is_crowded: bool) -> String {
    let (cost, _) = &of_one(cost);
    let rest = unexplained(cost);
    let cpu_ns = cost.user.ns + cost.system.ns;
    let share = |ns: f64| glued(&percent(ns / cpu_ns));
    let [wall, user, system] = [cost.wall_ns, cost.user.ns, cost.system.ns].map(time);
    let first = cost.terms.iter().find_map(|term| Some((term, term.time?)));
    let largest = largest(cost);
    if let Some(service) = &cost.service {
        let kernel = match cost.user.ns >= DOMINATES * cpu_ns {
            true => {
                format!("{} of it user time: the kernel is not the problem", share(cost.user.ns))
            }
            false => format!("{} of it in the kernel", share(cost.system.ns)),
        };
        // Without a price nothing is expected.
        let expected = match first.is_some() {
            true => format!(", expected {} ± {}", time(cost.expected.ns), half(cost.expected)),
            false => String::new(),
        };
        return format!(
            "A request takes {} of CPU time of {}, {kernel} ({system}{expected}); {largest}{rest}.",
            time(cpu_ns),
            service.server
        );
    }
    match cpu_ns {
        ..=0.0 => format!("{name}: too short for a CPU time."),
        _ if cpu_ns < WAITS * cost.wall_ns => {
            let on_cpu = glued(&percent(cpu_ns / cost.wall_ns));
            let off_ns = cost.wall_ns - cpu_ns;
            let most = cost.waits.iter().find(|wait| wait.ns > 0.0);
            // A child waits for something itself.
            let of_child = |wait: &&CostWait| wait.what != CHILD && wait.ns >= off_ns / 2.0;
            let what = match cost.waits.iter().find(of_child).or(most) {
                // Its calls wait longer for it, too.
                Some(wait) if is_crowded && wait.ns < off_ns / 2.0 => CROWDED.to_owned(),
                None if is_crowded => CROWDED.to_owned(),
                Some(wait) => format!(" ({})", wait.what),
                None => String::new(),
            };
            format!(
                "{name}: waits{what}; it is on a CPU for {on_cpu} of {wall}, and {largest}{rest}."
            )
        }
        _ if cost.system.half_width_ns() > UNDIVIDED * cpu_ns => {
            let cpu = time(cpu_ns);
            let expected = match first.is_some() {
                true => format!("; it should take {} itself", time(cost.expected.ns)),
                false => String::new(),
            };
            format!(
                "{name}: {cpu} of CPU time, too short for the kernel to divide it{expected}. {}",
                capitalised(&format!("{largest}."))
            )
        }
        _ if cost.user.ns >= DOMINATES * cpu_ns => {
            let share = share(cost.user.ns);
            format!(
                "{name}: {share} of its CPU time is user time ({user}): the kernel is not the \
                 problem. Of {system} system time {largest}{rest}."
            )
        }
        _ => {
            let share = share(cost.system.ns);
            format!("{name}: {share} of its CPU time is the kernel's ({system}): {largest}{rest}.")
        }
    }
}

/// What the largest term should take, and with what changed less.
fn largest(cost: &Cost) -> String {
    let first = cost.terms.iter().find_map(|term| Some((term, term.time?)));
    let largest = first.map(|(term, expected)| {
        let better = term.what_if.as_ref().and_then(|other| {
            let (now, then, names) = changed(cost, &other.change);
            let now = if names.len() < 2 { String::new() } else { time(now.ns) + " → " };
            (!names.is_empty()).then(|| format!(" ({}: {now}{})", other.change, time(then.ns)))
        });
        let [expected, half] = [time(expected.ns), half(expected)];
        let better = better.unwrap_or_default();
        format!("{} should take {expected} ± {half}{better}", term.operation)
    });
    largest.unwrap_or_else(|| "no price is known (--measure)".to_owned())
}

/// `; 56 % of the system time is unexplained`, where that is most of it, surely some, and no trifle
/// such as the interrupts of a program that computes.
fn unexplained(cost: &Cost) -> String {
    let share = cost.unexplained.ns / cost.system.ns;
    let of_cpu = cost.unexplained.ns / (cost.user.ns + cost.system.ns);
    // Without a price nothing was expected.
    let is_priced = cost.terms.iter().any(|term| term.time.is_some());
    match is_priced && cost.unexplained.low_ns > 0.0 && share > 0.5 && of_cpu >= TRIFLE {
        true => format!("; {} of the system time is unexplained", glued(&percent(share))),
        false => String::new(),
    }
}

/// The terms of a command, largest first, and what they rest on.
pub(super) fn group(name: &str, record: &Record, width: usize) -> String {
    let Some(cost) = &record.cost else { return String::new() };
    let (cost, requests) = &of_one(cost);
    let count = |number: u64| match cost.service {
        Some(_) => bare(number as f64 / requests),
        None => count(number),
    };
    let mut lines: Vec<[String; 5]> = Vec::new();
    let line = |name: &str, of: CostTime| {
        [name.to_owned(), String::new(), String::new(), time(of.ns), half(of)]
    };
    let priced: Vec<(&CostTerm, CostTime)> =
        cost.terms.iter().filter_map(|term| Some((term, term.time?))).collect();
    let is_large = |(at, (_, of)): &(usize, &(&CostTerm, CostTime))| {
        *at < TERMS_MAX && of.ns >= SMALL * cost.expected.ns
    };
    let shown = priced.iter().enumerate().take_while(is_large).count();
    for (term, of) in &priced[..shown] {
        let each = term.price.as_ref().map_or(String::new(), |price| time(price.time.ns));
        lines.push([named(term), count(term.count), each, time(of.ns), half(*of)]);
    }
    let small = &priced[shown..];
    if !small.is_empty() {
        let name = counted(small.len(), "smaller term");
        let number = small.iter().fold(0_u64, |sum, (term, _)| sum.saturating_add(term.count));
        let [_, _, each, sum, half] = line("", CostTime::sum(small.iter().map(|(_, of)| *of)));
        lines.push([name, count(number), each, sum, half]);
    }
    if !priced.is_empty() {
        lines.push(line("expected system time", cost.expected));
    }
    lines.push(line("measured system time", cost.system));
    if !priced.is_empty() {
        lines.push(line("unexplained", cost.unexplained));
    }
    let cells = |at: usize| lines.iter().map(move |line| line[at].clone());
    let columns = [
        Column::words(&format!("kernel time of {name}"), cells(0)),
        Column::new("count", cells(1)),
        Column::new("each", cells(2)),
        Column::new("time", cells(3)),
        Column::new("±", cells(4)),
    ];
    let notes =
        [what_ifs(cost), without_price(cost, &count), missing(cost), ceiling(cost), waits(cost)];
    let notes = notes
        .into_iter()
        .flatten()
        .chain([limits(cost)])
        .map(|note| wrapped(&note, width, "", "  "));
    rows(&columns) + &notes.collect::<String>()
}

/// `read, file, 512 B`.
fn named(term: &CostTerm) -> String {
    match term.size {
        Some(bytes) if BY_BYTES.iter().any(|begin| term.operation.starts_with(begin)) => {
            let size = quantity_within(bytes.round(), Unit::Bytes, WIDTH);
            format!("{}, {size}", term.operation)
        }
        _ => term.operation.clone(),
    }
}

/// `41,200`.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a change does: the time of its terms as they are, and then; and their names.
fn changed(cost: &Cost, change: &str) -> (CostTime, CostTime, Vec<String>) {
    let is_large = |now: CostTime, other: CostTime| now.ns - other.ns >= SMALL * cost.expected.ns;
    let of_term = |term: &CostTerm| {
        let (now, other) = (term.time?, term.what_if.as_ref()?);
        (other.change == change && is_large(now, other.time))
            .then(|| (now, other.time, named(term)))
    };
    let terms: Vec<(CostTime, CostTime, String)> = cost.terms.iter().filter_map(of_term).collect();
    let now = CostTime::sum(terms.iter().map(|(now, ..)| *now));
    let then = CostTime::sum(terms.iter().map(|(_, then, _)| *then));
    (now, then, terms.into_iter().map(|(.., name)| name).collect())
}

fn what_ifs(cost: &Cost) -> Option<String> {
    let of_change = |change: &str| {
        let (now, then, names) = changed(cost, change);
        let [a, b] = [now.ns, then.ns].map(time);
        let text = format!("{change}: {a} → {b} ± {} ({})", half(then), names.join("; "));
        (!names.is_empty()).then_some((now.ns - then.ns, text))
    };
    let changes = cost.terms.iter().filter_map(|term| Some(term.what_if.as_ref()?.change.as_str()));
    let changes: BTreeSet<&str> = changes.collect();
    let mut all: Vec<(f64, String)> = changes.into_iter().filter_map(of_change).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let texts: Vec<String> = all.into_iter().take(NAMED_MAX).map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| format!("what if, as measured here: {}", texts.join("; ")))
}

fn without_price(cost: &Cost, count: &dyn Fn(u64) -> String) -> Option<String> {
    let mut of_kind: Vec<(u64, &str)> = Vec::new();
    for term in cost.terms.iter().filter(|term| term.time.is_none()) {
        match of_kind.iter_mut().find(|(_, operation)| *operation == term.operation) {
            Some((sum, _)) => *sum = sum.saturating_add(term.count),
            None => of_kind.push((term.count, &term.operation)),
        }
    }
    let texts: Vec<String> =
        of_kind.iter().map(|(sum, operation)| format!("{} {operation}", count(*sum))).collect();
    let more = texts.len().saturating_sub(2 * NAMED_MAX);
    let shown = texts[..texts.len() - more].join(", ");
    let more = if more > 0 { format!(", {more} more kinds") } else { String::new() };
    (!texts.is_empty()).then(|| format!("without a price: {shown}{more}"))
}

/// The command that measures missing prices.
fn missing(cost: &Cost) -> Option<String> {
    let metric = |name: &String| name.split('{').next().unwrap_or_default().to_owned();
    let mut metrics: Vec<String> = cost.missing.iter().map(metric).collect();
    metrics.dedup();
    (!metrics.is_empty()).then(|| {
        let next = glued(&format!("`fathom run {}`", metrics.join(" ")));
        // More are no command that one types.
        match metrics.len() > NAMED_MAX {
            true => format!(
                "{} missing: add --measure, once about 4 s for each",
                counted(metrics.len(), "price metric")
            ),
            false => format!("prices missing: {next}, or add --measure"),
        }
    })
}

fn waits(cost: &Cost) -> Option<String> {
    let least_ns = SMALL * cost.slowdown.max(1.0) * cost.wall_ns;
    let waits =
        |wait: &&CostWait| wait.ns >= least_ns && wait.ns >= WAIT_MIN_NS * wait.count as f64;
    let text = |wait: &CostWait| {
        let calls = if wait.count == 1 { "call" } else { "calls" };
        format!("{} {} ({} {calls})", wait.what, time(wait.ns), count(wait.count))
    };
    let texts: Vec<String> = cost.waits.iter().filter(waits).take(NAMED_MAX).map(text).collect();
    (!texts.is_empty()).then(|| format!("in calls that wait, while counted: {}", texts.join(", ")))
}

/// How many requests the prices allow, beside what was measured. Without some prices it would be
/// too many.
fn ceiling(cost: &Cost) -> Option<String> {
    let service = cost.service.as_ref().filter(|_| cost.missing.is_empty())?;
    let most = cost.ceiling()?;
    let cpus = counted(service.cpus.round().max(1.0) as usize, "CPU");
    let share = glued(&percent(service.throughput / most));
    let as_is = most * (cost.user.ns + cost.expected.ns) / (cost.user.ns + cost.system.ns);
    let [most, as_is, measured] = [most, as_is, service.throughput].map(bare);
    Some(format!(
        "ceiling on {cpus}: {most} requests/s by these prices and the user time, {as_is} by the \
         CPU time that it takes; measured: {measured} ({share} of the first)"
    ))
}

/// What counting changed, and what cannot be counted.
fn limits(cost: &Cost) -> String {
    let slow = match cost.slowdown {
        slow if cost.service.is_some() => {
            let [with, without] = [slow, 1.0].map(|slow| bare(1e9 / cost.wall_ns / slow));
            format!("counting: {with} requests/s, {without} just before")
        }
        SLOW.. => format!("counting: {:.1} × as long as without", cost.slowdown),
        _ => "counting: as long as without".to_owned(),
    };
    let uncounted: Vec<&str> = ["interrupts", "vDSO calls", "faults served by the host"]
        .into_iter()
        .chain(cost.uncounted.iter().map(String::as_str))
        .collect();
    let by = match cost.samples.is_none() && cost.service.is_none() {
        true => {
            "; user and system time by the kernel's ticks: root, or a user with \
                 kernel.perf_event_paranoid at 1, has them by samples"
        }
        false => "",
    };
    format!("{slow}; not counted: {}{by}", uncounted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::{CostPrice, CostWait, CostWhatIf};

    fn ms(value: f64) -> CostTime {
        CostTime::new(value * 1e6, value * 0.9e6, value * 1.1e6)
    }

    fn term(operation: &str, count: u64, size: Option<f64>, value: f64) -> CostTerm {
        let each = ms(value).times(1.0 / count as f64);
        CostTerm {
            operation: operation.to_owned(),
            count,
            size,
            price: Some(CostPrice { time: each, from: vec!["os.syscall".to_owned()] }),
            time: Some(ms(value)),
            what_if: None,
        }
    }

    fn cost() -> Cost {
        let mut faults = term("page fault, anonymous", 41_200, None, 98.0);
        faults.what_if = Some(CostWhatIf {
            change: "huge pages".to_owned(),
            time: ms(3.0),
            from: vec!["memory.fault{kind=huge}".to_owned()],
        });
        let unpriced =
            CostTerm { operation: "other calls".to_owned(), count: 3, ..term("", 1, None, 0.0) };
        let unpriced = CostTerm { time: None, price: None, ..unpriced };
        Cost {
            wall_ns: 412e6,
            user: ms(251.0),
            system: ms(151.0),
            expected: ms(131.0),
            unexplained: ms(151.0).without(ms(131.0)),
            slowdown: 3.4,
            samples: Some(4000),
            terms: vec![faults, term("read, file", 120_000, Some(512.0), 33.0), unpriced],
            waits: vec![CostWait { what: "pipe".to_owned(), count: 7, ns: 50e6 }],
            missing: vec!["file.create{bytes=0}".to_owned()],
            ..Cost::default()
        }
    }

    #[test]
    fn user_time_is_said_first_where_it_dominates() {
        let text = conclusion("sort", &cost(), false).replace('\u{a0}', " ");
        let begins =
            "sort: 62 % of its CPU time is user time (251 ms): the kernel is not the problem.";
        assert!(text.starts_with(begins), "{text}");
        let other = Cost { user: ms(20.0), ..cost() };
        let text = conclusion("sort", &other, false).replace('\u{a0}', " ");
        let begins = "sort: waits (pipe); it is on a CPU for 42 % of 412 ms";
        assert!(text.starts_with(begins), "{text}");
        let text = conclusion("sort", &other, true).replace('\u{a0}', " ");
        assert!(text.starts_with("sort: waits for a CPU that others use; it is on"), "{text}");
        let wait = |what: &str, ns| CostWait { what: what.to_owned(), count: 2, ns };
        let script =
            Cost { waits: vec![wait("child", 230e6), wait("sleep", 200e6)], ..other.clone() };
        for is_crowded in [false, true] {
            let text = conclusion("sort", &script, is_crowded);
            assert!(text.starts_with("sort: waits (sleep); it is on"), "{text}");
        }
        let unpriced = Cost { terms: Vec::new(), unexplained: ms(100.0), ..cost() };
        assert!(!conclusion("sort", &unpriced, false).contains("unexplained"));
        let trifle = Cost { user: ms(6000.0), unexplained: ms(100.0), ..cost() };
        assert!(!conclusion("sort", &trifle, false).contains("unexplained"));
        let unknown = Cost { unexplained: ms(100.0), ..cost() };
        let text = conclusion("sort", &unknown, false).replace('\u{a0}', " ");
        assert!(text.ends_with("; 66 % of the system time is unexplained."), "{text}");
        let short = CostTime::new(151e6, 20e6, 300e6);
        let text =
            conclusion("sort", &Cost { system: short, ..cost() }, false).replace('\u{a0}', " ");
        assert!(text.contains("402 ms of CPU time, too short for the kernel to divide"), "{text}");
        let other = Cost { wall_ns: 200e6, ..other };
        let text = conclusion("sort", &other, false).replace('\u{a0}', " ");
        assert!(
            text.contains("88 % of its CPU time is the kernel's (151 ms): page fault"),
            "{text}"
        );
        assert!(text.contains("(huge pages: 3.0"), "{text}");
    }

    #[test]
    fn service_is_shown_by_request_with_its_ceiling() {
        let (server, requests) = ("nginx (PID 7)".to_owned(), 1000);
        let service = CostService { server, requests, cpus: 1.0, throughput: 2000.0 };
        let missing = Vec::new();
        let cost = Cost { user: ms(51.0), service: Some(service), missing, ..cost() };
        let text = conclusion("", &cost, false).replace('\u{a0}', " ");
        let begins = "A request takes 202 µs of CPU time of nginx (PID 7), 75 % of it in the \
                      kernel (151 µs, expected 131 µs ± 13.1 µs); page fault, anonymous should \
                      take 98.0 µs";
        assert!(text.starts_with(begins), "{text}");
        let record = Record { cost: Some(cost), ..Record::default() };
        let text = group("a request", &record, 80).replace('\u{a0}', " ");
        let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        for part in [
            "kernel time of a request count",
            "page fault, anonymous 41.2 2.38 µs 98.0 µs",
            "without a price: 0.00300 other calls",
            // 1 ÷ (51 + 131 µs), 1 ÷ (51 + 151 µs).
            "ceiling on 1 CPU: 5495 requests/s by these prices and the user time, 4950 by the CPU \
             time that it takes; measured: 2000 (36 % of the first)",
            "counting: 714 requests/s, 2427 just before; not counted: interrupts, vDSO calls",
        ] {
            assert!(words.contains(part), "{part}\n{text}");
        }
        assert!(!words.contains("in calls that wait"), "{text}");
    }

    #[test]
    fn screen_has_terms_and_what_they_rest_on() {
        let record = Record { cost: Some(cost()), ..Record::default() };
        let text = group("sort", &record, 80).replace('\u{a0}', " ");
        let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        for part in [
            "41,200",
            "read, file, 512 B",
            "unexplained",
            "huge pages: 98.0 ms → 3.0",
            "(page fault, anonymous)",
            "without a price: 3 other calls",
            "`fathom run file.create`, or add --measure",
            "while counted: pipe 50.0 ms (7 calls)",
            "counting: 3.4 × as long as without; not counted: interrupts, vDSO calls",
        ] {
            assert!(words.contains(part), "{part}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().count() <= 16, "{text}");
    }
}
