//! The output of a load: what limits its throughput.

use fathom_record::summary::Quantile;
use fathom_record::{
    Agreement, Basis, Cause, Document, Fact, Interval, Params, Prediction, Reason, Record, Remedy,
    State, Unit, Value, Verdict,
};
use fathom_report::by_hand_screen;

use crate::fixture::{assert_fits, measured, record};
use crate::{assert_snapshot, assert_titled};

/// A load of these records, on a screen.
fn group(records: &[Record], earlier: &[Record], width: usize) -> String {
    let mut document = Document { records: [earlier, records].concat(), ..Document::fixture() };
    document.run.procedure = Some("load".to_owned());
    document.run.planned = document.records.len() as u64;
    document.records.iter_mut().for_each(|record| record.visit = String::new());
    let text = by_hand_screen(&document, width);
    // Without colours.
    let mut parts = text.split('\u{1b}').map(|part| part.split_once('m').unwrap_or(("", part)).1);
    let first = text.split('\u{1b}').next().unwrap_or_default();
    parts.next();
    format!("\n{first}{}", parts.collect::<String>())
}

fn case() -> Params {
    Params::one("mode", "random").and("think_s", 0).and("to", "bench-4")
}

fn number(metric: &str, params: Params, unit: Unit, value: f64, ends: [f64; 2]) -> Record {
    measured(metric, params, unit, value, 0.01)
        .with_summary(|it| it.interval = Some(Interval::new(ends, 0.95, Basis::WithinRun)))
}

fn capacity(of: &str, rate: f64, requests: f64, method: &str) -> Record {
    let params = Params::one("to", "bench-4").and("of", of);
    let mut record =
        number("load.capacity", params, Unit::BytesPerSecond, rate, [0.9 * rate, 1.1 * rate]);
    record.facts =
        vec![Fact::quantity("requests", requests, Unit::PerSecond), Fact::text("method", method)];
    record
}

fn capacities() -> Vec<Record> {
    vec![
        capacity("network", 11.8e6, 5.9, "bodies of 128 KiB from memory over 8 connections"),
        capacity("disk", 2.92e9, 1361.0, "direct reads of the same files, in random order"),
        capacity("server-cpu", 3.47e9, 1618.0, "warm files: 1236.4 µs of CPU per request"),
        capacity("client", 494e6, 230.0, "warm files: 4342.3 µs of CPU per request"),
    ]
}

/// A resource in the facts of the bottleneck; bytes per second used, of what, if known.
fn used(resource: &str, rates: Option<[f64; 2]>, share: [f64; 3], demand_ns: f64) -> Vec<Fact> {
    let fact = |what: &str, value, unit| Fact::quantity(&format!("{resource} {what}"), value, unit);
    let rates = rates.map(|rates| {
        let [used, of] = rates.map(|rate| (rate, Unit::BytesPerSecond));
        [fact("used", used.0, used.1), fact("capacity", of.0, of.1)]
    });
    let [value, low, high] = share;
    let rest = [
        fact("utilisation", value, Unit::Ratio),
        fact("utilisation, low", low, Unit::Ratio),
        fact("utilisation, high", high, Unit::Ratio),
        fact("demand", demand_ns, Unit::Nanoseconds),
    ];
    rates.into_iter().flatten().chain(rest).collect()
}

fn bottleneck(name: &str, facts: Vec<Fact>, why: Option<&str>) -> Record {
    let mut record = record("load.bottleneck", case(), Unit::Ratio);
    record.value = Some(Value::Text(name.to_owned()));
    record.facts = facts;
    record.verdict.reasons =
        why.into_iter().map(|why| Reason::new(Cause::NotAsAsked, why)).collect();
    record
}

fn busy_network() -> Vec<Fact> {
    [
        used("network", Some([11.95e6, 11.8e6]), [1.01, 0.904, 1.12], 169e6),
        used("disk", Some([471e3, 2.92e9]), [0.00016, 0.00007, 0.00026], 27e3),
        used("server-cpu", None, [0.0056, 0.0041, 0.0072], 943e3),
        used("client", None, [0.13, 0.091, 0.16], 21.1e6),
    ]
    .concat()
}

fn saturation(falls: Option<f64>) -> Vec<Record> {
    let mut rate = number("load.saturation", case(), Unit::PerSecond, 5.98, [5.89, 6.07]);
    rate.facts = vec![Fact::quantity("from clients", 1.0, Unit::Ratio)];
    rate.facts.extend(falls.map(|at| Fact::quantity("falls from clients", at, Unit::Ratio)));
    vec![
        rate,
        number("load.knee", case(), Unit::Ratio, 1.41, [1.22, 1.63]),
        number("load.clients_95", case(), Unit::Ratio, 1.0, [1.0, 1.0]),
    ]
}

fn dose(resource: &str, words: &str, predicted: f64, measured: f64, ends: [f64; 2]) -> Record {
    let params = case().and("clients", 8).and("resource", resource);
    let mut record = number("load.dose", params, Unit::Ratio, measured, ends);
    record.facts =
        vec![Fact::text("dose", words), Fact::quantity("predicted", predicted, Unit::Ratio)];
    record.prediction = Some(Prediction::sum(predicted, 0.0, 0.1, "", ""));
    record.agreement = Some(Agreement::Inconclusive);
    record
}

fn doses() -> Vec<Record> {
    vec![
        dose("network", "987 kB more per request", 0.667, 0.662, [0.613, 0.715]),
        dose("disk", "16777 kB more per request", 1.0, 0.946, [0.891, 1.004]),
        dose("server-cpu", "100.0 ms more per request", 1.0, 1.02, [0.76, 1.17]),
    ]
}

/// What follows the steps of a case at 80 and 140 columns, none of it wider.
fn views(records: &[Record], earlier: &[Record]) -> String {
    let view = |width: usize| {
        let text = group(records, earlier, width);
        assert_fits(&text, width);
        text
    };
    format!("{}\n=== 140{}", view(80), view(140))
}

#[test]
fn capacities_have_their_methods() {
    assert_snapshot("capacities_have_their_methods.txt", &views(&capacities(), &[]));
}

#[test]
fn bottleneck_has_evidence_and_proof() {
    let mut facts = busy_network();
    facts.push(Fact::text("proof", "confirmed"));
    let own = bottleneck("network", facts, None);
    let records = [doses(), saturation(None), vec![own]].concat();
    assert_snapshot("bottleneck_has_evidence_and_proof.txt", &views(&records, &capacities()));
}

#[test]
fn each_limit_is_one_statement() {
    let text = |name: &str, facts: Vec<Fact>, why: Option<&str>, rate: Vec<Record>| {
        let records = [rate, vec![bottleneck(name, facts, why)]].concat();
        let text = group(&records, &capacities(), 1000);
        let end = text.find("\n  resource").unwrap_or(text.len());
        text[..end].split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    let plain = |name: &str| text(name, Vec::new(), None, saturation(None));
    let mut texts =
        ["network", "disk", "server-cpu", "client", "serial", "pacing"].map(plain).to_vec();
    let why = "disk at 92 %, network at 88 %: too close to tell";
    texts.push(text("undetermined", Vec::new(), Some(why), saturation(Some(32.0))));
    let bound = vec![Fact::quantity("client-bound from clients", 64.0, Unit::Ratio)];
    texts.push(text("network", bound.clone(), None, saturation(None)));
    let paced = used("pacing", Some([5e6, 5.1e6]), [0.98, 0.97, 0.99], 1e6);
    texts.push(text("pacing", paced, None, saturation(None)));
    let idle = used("disk", None, [0.0, 0.0, 0.0], 0.0);
    texts.push(text("network", idle, None, saturation(None)));
    let mut none = record("load.saturation", case(), Unit::PerSecond);
    let why = "not saturated up to 8 clients: throughput grew by 40 % from 4 to 8 clients";
    none.verdict = Verdict::because(State::Unavailable, Cause::TooShort, why);
    let why = Some("not saturated up to 8 clients");
    texts.push(text("undetermined", Vec::new(), why, vec![none.clone()]));
    texts.push(text("server-cpu", Vec::new(), None, vec![none.clone()]));
    let knee = number("load.knee", case(), Unit::Ratio, 6.6, [6.4, 6.8]);
    texts.push(text("undetermined", Vec::new(), why, vec![none.clone(), knee]));
    let mut above = used("network", Some([10.1e6, 7.35e6]), [1.37; 3], 1e6);
    above.retain(|fact| !fact.name.contains("utilisation"));
    let unknown = "utilisation unknown: network";
    texts.push(text("undetermined", above, Some(unknown), saturation(None)));
    texts.push(text("client", bound, None, vec![none.clone()]));
    none.facts = vec![Fact::text("left out", "16 clients: a window had no response")];
    none.verdict.reasons[0].remedy = Some(Remedy::Repeat { option: Some("time".to_owned()) });
    texts.push(text("undetermined", Vec::new(), None, vec![none.clone()]));
    let bound = vec![Fact::quantity("client-bound from clients", 64.0, Unit::Ratio)];
    texts.push(text("client", bound, None, vec![none.clone()]));
    let mut saturated = saturation(None);
    saturated[0].facts.extend(none.facts);
    texts.push(text("network", Vec::new(), None, saturated));
    assert_snapshot("each_limit_is_one_statement.txt", &texts.join("\n"));
}

#[test]
fn undetermined_bottleneck_has_its_reason() {
    let refuted = "refuted: with 987 kB more per request for the network, throughput was 98 % and \
                   not 67 %";
    let mut facts = busy_network();
    facts.push(Fact::text("proof", "refuted"));
    let own = bottleneck("undetermined", facts, Some(refuted));
    let refuted = [doses(), saturation(None), vec![own]].concat();
    let undone = Fact::text("proof", "not done: a window was stopped or had no response");
    let undone = bottleneck("network", [busy_network(), vec![undone]].concat(), None);
    let undone = [saturation(None), vec![undone]].concat();
    let foreign = "utilisation unknown: network, disk, server CPU";
    let facts = used("client", None, [0.41, 0.37, 0.45], 223e3);
    let foreign =
        [saturation(None), vec![bottleneck("undetermined", facts, Some(foreign))]].concat();
    let facts = ["network", "disk", "server-cpu", "client"].map(|of| {
        let share = if of == "network" { [0.98, 0.95, 1.0] } else { [0.0, 0.0, 0.0] };
        used(of, None, share, 0.0)
    });
    let mut local = bottleneck("undetermined", facts.concat(), Some("a reason"));
    let noise = Reason::new(Cause::Spread, "steps of it are noisy");
    local.verdict.reasons.insert(0, noise);
    let local = [saturation(None), vec![local]].concat();
    let alone = [bottleneck("network", busy_network(), None)];
    let text = [
        ("refuted", group(&refuted, &capacities(), 80)),
        ("foreign server", group(&foreign, &[], 80)),
        ("no added load", group(&undone, &capacities(), 80)),
        ("server known by its processes", group(&local, &[], 80)),
        ("the bottleneck alone", group(&alone, &[], 80)),
        ("the saturation alone", group(&saturation(None)[..1], &[], 80)),
    ];
    assert_titled("bottleneck_in_part.txt", &text);
}

fn steps(failed: impl Fn(i64) -> Option<f64>) -> Vec<Record> {
    let step = |clients: i64| {
        let rate = 100.0 * clients as f64;
        let params = case().and("clients", clients);
        let ends = [0.9 * rate, 1.1 * rate];
        let mut step = number("load.throughput", params, Unit::PerSecond, rate, ends);
        let fact = |name: &str, count| Fact::quantity(name, count, Unit::Ratio);
        step.facts = vec![fact("errors", failed(clients).unwrap_or(1.0))];
        step.facts.extend(failed(clients).map(|_| fact("requests", 1000.0)));
        step
    };
    [1, 2, 4].map(step).to_vec()
}

#[test]
fn step_with_failed_requests_is_not_the_highest() {
    let highest = |failed: fn(i64) -> Option<f64>| {
        let text = group(&steps(failed), &[], 140);
        text.lines().nth(1).expect("an answer").trim_end_matches('.').to_owned()
    };
    assert!(highest(|_| Some(0.0)).ends_with(" at 4 clients"));
    assert!(highest(|_| Some(1.0)).ends_with(" at 4 clients"), "1 of 1000");
    let without = "; without 4 clients: more than 0.10 % of the requests failed";
    let text = highest(|clients| Some(if clients == 4 { 2.0 } else { 0.0 }));
    assert!(text.contains(&format!(" at 2 clients{without}")), "{text}");
    // Of older records the share is unknown.
    let text = highest(|clients| (clients < 4).then_some(0.0));
    assert!(text.contains(&format!(" at 2 clients{without}")), "{text}");
    assert!(highest(|_| None).starts_with("Highest throughput: none; without 1, 2, 4 clients: "));
}

#[test]
fn step_without_a_number_has_its_remedy() {
    let mut steps = steps(|_| Some(0.0));
    let remedy = Remedy::Repeat { option: Some("time".to_owned()) };
    for (step, state) in steps.iter_mut().zip([State::Failed, State::Noisy]) {
        let reason = Reason::new(Cause::TooShort, "a reason").with_remedy(remedy.clone());
        step.verdict = Verdict { state, reasons: vec![reason] };
    }
    let text = group(&steps, &[], 140);
    assert!(
        text.contains("1 client: failed (too short): a reason; measure longer: a larger --time\n")
    );
    assert!(text.contains("2 clients: noisy (too short): a reason\n"), "{text}");
}

#[test]
fn load_is_whole_on_a_narrow_terminal() {
    let mut steps = steps(|_| Some(0.0));
    for step in &mut steps {
        let rate = |name: &str| Fact::quantity(name, 9e9, Unit::BytesPerSecond);
        step.facts.extend([rate("disk"), Fact::quantity("server CPU", 0.123, Unit::Ratio)]);
        let name = "a-server-with-a-long-name.of-a-domain.example.com".to_owned();
        step.params = std::mem::take(&mut step.params).and("to", name.as_str());
        step.verdict = Verdict::because(State::Noisy, Cause::WrongWork, "a reason");
    }
    let view = |width: usize| group(&steps, &[], width);
    for width in [60, 80, 140] {
        let text = view(width);
        assert_fits(&text, width);
    }
    let narrow = view(60);
    let (is_shown, is_explained) = (narrow.contains("  disk"), narrow.contains("disk: MB/s"));
    assert_eq!(is_shown, is_explained, "{narrow}");
    assert!(is_shown || narrow.contains("not shown: disk"), "{narrow}");
}

#[test]
fn invalid_capacity_shows_no_rate() {
    let mut one = capacity("disk", 2.92e9, 1361.0, "direct reads");
    one.verdict.state = State::Invalid;
    let text = group(&[one], &[], 80);
    assert!(!text.contains("2920") && !text.contains("1361"), "{text}");
}

fn step(own: Params, rate: f64, times: [f64; 4]) -> Vec<Record> {
    let params =
        own.0.into_iter().fold(Params::one("mode", "random").and("to", "far"), |all, it| {
            let (name, value) = it;
            all.and(&name, value)
        });
    let ends = [0.98 * rate, 1.02 * rate];
    let mut throughput = number("load.throughput", params.clone(), Unit::PerSecond, rate, ends);
    throughput.facts = vec![
        Fact::text("server", "10.0.0.2:80, not fathom serve"),
        Fact::quantity("client CPU", 0.12, Unit::Ratio),
    ];
    let [p50, p90, p99, max] = times;
    let of_times = |params: Params, factor: f64| {
        let id = "load.response_time";
        let mut record = number(id, params, Unit::Nanoseconds, factor * p50, [0.0, 1.0]);
        let summary = record.summary.as_mut().expect("a summary");
        let quantiles = [(0.9, p90), (0.99, p99)].map(|(q, ns)| Quantile { q, value: factor * ns });
        (summary.quantiles, summary.mean, summary.max) = (quantiles.to_vec(), 1.1 * p50, max);
        record
    };
    let is_open = params.0.contains_key("rate");
    let times = of_times(params.clone(), 1.0);
    let sent = is_open.then(|| of_times(params.and("from", "send"), 0.5));
    [throughput, times].into_iter().chain(sent).collect()
}

fn at_rate(rate: i64, times: [f64; 4]) -> Vec<Record> {
    let params = Params::one("rate", rate).and("arrivals", "poisson");
    let mut records = step(params, rate as f64, times);
    records[0].facts.extend([
        Fact::quantity("waiting at the end", 2.0, Unit::Ratio),
        Fact::quantity("sent late, p99.9", 310e3, Unit::Nanoseconds),
        Fact::quantity("errors", 1.0, Unit::Ratio),
    ]);
    records
}

#[test]
fn open_loop_is_beside_the_closed_one() {
    let clients = |count: i64, rate, times| {
        step(Params::one("clients", count).and("think_s", 0), rate, times)
    };
    let closed = [
        clients(1, 260.0, [3.8e6, 4.1e6, 5.0e6, 9.0e6]),
        clients(4, 410.0, [9.1e6, 11e6, 13e6, 1.4e9]),
    ]
    .concat();
    let mut grows = at_rate(1000, [0.0; 4]);
    let text = "not sustained, the server or the network was the limit: 912 requests waiting at \
                the end of a window, 3 of 3 sweeps";
    let reason = Reason::new(Cause::NotAsAsked, text).with_remedy(Remedy::LowerRate);
    for record in &mut grows {
        record.verdict = Verdict { state: State::Invalid, reasons: vec![reason.clone()] };
    }
    let slow = at_rate(400, [5.1e6, 1.12e9, 1.38e9, 1.4e9]);
    let open = [at_rate(100, [3.9e6, 4.2e6, 5.1e6, 6e6]), slow, grows.clone()].concat();
    let quick = at_rate(400, [8.0e6, 9.5e6, 14e6, 1.4e9]);
    let text = format!(
        "{}\n=== alone{}\n=== none sustained{}\n=== alike{}",
        views(&[open.clone(), closed.clone()].concat(), &[]),
        views(&open, &[]),
        views(&grows, &[]),
        views(&[closed, quick].concat(), &[]),
    );
    assert_snapshot("open_loop_is_beside_the_closed_one.txt", &text);
}

/// An idle server is slower to answer, but a closed loop does not hide that.
#[test]
fn delay_is_hidden_only_of_requests_that_waited() {
    let closed = step(Params::one("clients", 1).and("think_s", 0), 410.0, [1e6; 4]);
    let mut open = at_rate(400, [4e6; 4]);
    let said = |open: &[Record]| group(&[closed.clone(), open.to_vec()].concat(), &[], 200);
    assert!(said(&open).contains("hides the delay"), "sent half of the time after they were due");
    let due = open[1].summary.clone();
    let sent = open.iter_mut().find(|it| it.params.text("from") == Some("send"));
    sent.expect("times from the send").summary = due;
    assert!(!said(&open).contains("closed loop"), "sent when they were due");
}

#[test]
fn invalid_step_has_its_rate_with_a_mark() {
    let marked = |records: Vec<Record>, cause: Cause| {
        let mut records = records;
        for record in &mut records {
            record.verdict = Verdict::because(State::Invalid, cause, "90 % of the requests failed");
        }
        group(&records, &[], 140)
    };
    let times = [3.8e6, 4.1e6, 5.0e6, 9.0e6];
    let clients = || step(Params::one("clients", 1).and("think_s", 0), 260.0, times);
    let failed = marked(clients(), Cause::WrongWork);
    assert!(failed.contains(" !260 ") && failed.contains("5.00 ms"), "{failed}");
    assert!(failed.contains("!: invalid, as said below\n"), "{failed}");
    let open = marked(at_rate(100, times), Cause::WrongWork);
    assert!(open.contains(" !100 ") && open.contains("5.00 ms"), "{open}");
    // The times of a queue that grows are no answer.
    let grows = marked(at_rate(100, times), Cause::NotAsAsked);
    assert!(grows.contains(" !100 ") && !grows.contains("5.00 ms"), "{grows}");
    let valid = group(&clients(), &[], 140);
    assert!(!valid.contains('!'), "{valid}");
}

#[test]
fn noisy_highest_throughput_has_a_mark() {
    let mut steps = steps(|_| Some(0.0));
    steps[2].verdict = Verdict::because(State::Noisy, Cause::Spread, "a reason");
    let text = group(&steps, &[], 140);
    assert!(
        text.contains("Highest throughput: ~400 requests/s (360 to 440) at 4 clients."),
        "{text}"
    );
}

#[test]
fn highest_rate_has_its_limits_or_its_reason() {
    let params = Params::one("arrivals", "poisson").and("p99", "50ms").and("to", "far");
    let mut found = number("load.max_rate", params, Unit::PerSecond, 402.0, [395.0, 411.0]);
    found.facts = vec![
        Fact::text("limits", "sustained, p99<50ms"),
        Fact::text("windows", "14, 8 of them within the limits"),
    ];
    let window = |number: u32, rate: f64, result: &str, p99: f64| {
        let name = |what: &str| format!("window {number}, {what}");
        vec![
            Fact::quantity(&name("rate"), rate, Unit::PerSecond),
            Fact::text(&name("result"), result),
            Fact::quantity(&name("responses"), 10.0 * rate, Unit::Ratio),
            Fact::quantity(&name("errors"), 0.0, Unit::Ratio),
            Fact::quantity(&name("p99"), p99, Unit::Nanoseconds),
            Fact::quantity(&name("max"), 2.0 * p99, Unit::Nanoseconds),
        ]
    };
    found.facts.extend(window(1, 500.0, "not sustained, 35 requests waiting", 900e6));
    found.facts.extend(window(2, 380.0, "within the limits", 31e6));
    found.facts.extend(window(3, 419.0, "p99 61.20 ms", 61.2e6));
    let noisy = found.clone();
    let mut late = found.clone();
    let reason = Reason::new(Cause::LoadGenerator, "requests were sent late; 120 requests/s held");
    late.verdict = Verdict { state: State::Invalid, reasons: vec![reason] };
    late.facts.truncate(2);
    let mut noisy = Record { facts: late.facts.clone(), ..noisy };
    let reason = Reason::new(Cause::TooShort, "no interval: the windows have too few responses");
    let reasons = vec![reason.with_remedy(Remedy::MeasureFor { seconds: 60 })];
    noisy.verdict = Verdict { state: State::Noisy, reasons };
    noisy.summary.as_mut().expect("a summary").interval = None;
    let text = [found, noisy, late].map(|one| group(&[one], &[], 80)).concat();
    assert_snapshot("highest_rate_has_its_limits_or_its_reason.txt", &text);
}
