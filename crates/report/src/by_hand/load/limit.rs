//! What limits the throughput of a load: what it uses of each resource, the bottleneck with its
//! evidence, knee and effects of added load; or why there is no answer, and what to do next.

use fathom_analysis::evidence::shown_agreement;
use fathom_record::load_facts::{DEMAND, USED, UTILISATION};
use fathom_record::quantity::{NOTHING, bare, percent, quantity_within, scaled_within};
use fathom_record::{Agreement, Cause, Record, Summary, Unit, Value, load_facts};

use super::super::facts;
use super::super::table::{Column, blocks, rows};
use super::{MB, TIME, mark};
use crate::case::counted;
use crate::remedy;
use crate::wrap::{capitalised, glued, wrapped};

pub(super) const CAPACITY: &str = "load.capacity";
pub(super) const BOTTLENECK: &str = "load.bottleneck";
const SATURATION: &str = "load.saturation";
const DOSE: &str = "load.dose";
/// In the order of the table; as in the parameter `of`.
const RESOURCES: [&str; 5] = ["network", "pacing", "disk", "server-cpu", "client"];
/// From this utilisation on the paragraph has its interval.
const MUCH: f64 = 0.5;
const UNDETERMINED: &str = "undetermined";
const FASTER: &str = "more threads (`--threads`) or a faster client";
const MORE: &str = "more clients (`--clients`), or longer steps (`--time`)";
const LONGER: &str = "longer steps (`--time`)";
const DOSES: &str = "work added to each resource in turn (`--prove`)";
const ONLY: &str = "its added load lowers the throughput as predicted for a bottleneck, and the \
    interval of each other excludes that";

/// The capacities that were measured before a load.
pub(in crate::by_hand) fn capacities(records: &[Record], width: usize) -> String {
    let name = |(at, text)| (if at == 0 { "capacity" } else { "" }, text);
    let lines: Vec<(&str, String)> = capacity_words(records).enumerate().map(name).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", facts(&lines, width)) }
}

/// Each capacity, and how it was measured.
pub(super) fn capacity_words(records: &[Record]) -> impl Iterator<Item = String> {
    records.iter().filter(|record| record.metric.as_str() == CAPACITY).map(|record| {
        let method =
            record.text_of(load_facts::METHOD).map_or(String::new(), |how| format!(": {how}"));
        let requests = requests_of(record)
            .map_or(String::new(), |rate| format!(" = {}", glued(&requests(rate))));
        let rate = rate(record).map_or(NOTHING.to_owned(), |rate| format!("{} MB/s", mb(rate)));
        let what = word(record.params.text("of").unwrap_or_default());
        format!("{what} {}{requests}{method}", glued(&rate))
    })
}

/// The name of a bottleneck, with its proof.
pub(super) fn short(bottleneck: Option<&Record>) -> String {
    let Some(bottleneck) = bottleneck else { return NOTHING.to_owned() };
    let case = LimitCase { bottleneck, records: &[], earlier: &[] };
    let is_proved = bottleneck.text_of(load_facts::PROOF) == Some(load_facts::CONFIRMED);
    format!("{}{}", word(case.name()), if is_proved { ", confirmed" } else { "" })
}

/// The limit of a case. `records`: those of its group; `earlier`: of the run.
pub(super) fn limit(
    bottleneck: &Record,
    records: &[Record],
    earlier: &[Record],
    width: usize,
) -> String {
    let of_case = LimitCase { bottleneck, records, earlier };
    // The run begins with what limits it.
    let mut text = format!("\n{}", wrapped(&of_case.uses().join(" "), width, "", ""));
    if of_case.is_ours() {
        blocks(of_case.resources(), 1, width).iter().for_each(|block| text += &rows(block));
    }
    text + &facts(&of_case.numbers_of_clients(), width) + &of_case.doses(width)
}

/// What limits a case, and what to do next.
pub(super) struct Conclusion {
    pub(super) sentences: Vec<String>,
    pub(super) next: Option<String>,
}

/// What limits the case of a bottleneck, with its proof, and what to do next.
pub(super) fn conclusion(bottleneck: &Record, records: &[Record]) -> Conclusion {
    let case = LimitCase { bottleneck, records, earlier: &[] };
    let mut conclusion = case.conclusion();
    // The bottleneck says why it is refuted.
    let proof = bottleneck.text_of(load_facts::PROOF).filter(|word| *word != load_facts::REFUTED);
    let proof = proof.map(|word| format!("Proof by added load: {word}."));
    conclusion.sentences.extend(proof);
    conclusion
}

pub(super) struct LimitCase<'r> {
    pub(super) bottleneck: &'r Record,
    pub(super) records: &'r [Record],
    pub(super) earlier: &'r [Record],
}

impl Conclusion {
    /// The sentences, the next step last.
    pub(super) fn in_order(self) -> Vec<String> {
        let next = self.next.map(|next| format!("Next: {next}."));
        self.sentences.into_iter().chain(next).collect()
    }
}

impl<'r> LimitCase<'r> {
    fn name(&self) -> &'r str {
        match &self.bottleneck.value {
            Some(Value::Text(name)) => name,
            _ => UNDETERMINED,
        }
    }

    fn fact(&self, resource: &str, what: &str) -> Option<f64> {
        self.bottleneck.quantity_of(&load_facts::of_resource(resource, what))
    }

    fn record(&self, metric: &str) -> Option<&'r Record> {
        let is_own = |record: &&Record| {
            record.metric.as_str() == metric && record.params == self.bottleneck.params
        };
        self.records.iter().find(is_own)
    }

    fn shown(&self, metric: &str) -> Option<&'r Summary> {
        let record = self.record(metric)?;
        record.shown_summary()
    }

    fn capacity(&self, of: &str) -> Option<&'r Record> {
        let is_of =
            |one: &&Record| one.metric.as_str() == CAPACITY && one.params.text("of") == Some(of);
        self.earlier.iter().chain(self.records).find(is_of)
    }

    /// The optimal number of clients, and that of nearly the highest throughput.
    pub(super) fn numbers_of_clients(&self) -> Vec<(&'static str, String)> {
        let clients = |(name, metric): (&'static str, &str)| {
            let summary = self.shown(metric)?;
            let interval = summary.limits().filter(|[low, high]| low < high);
            let interval = interval.map(|ends| format!(" ({})", ends.map(bare).join(" to ")));
            let mark = self.record(metric).map_or("", mark);
            let clients = match summary.median {
                whole if whole.fract() == 0.0 => counted(whole as usize, "client"),
                part => format!("{} clients", bare(part)),
            };
            let expected = self.record(SATURATION).is_some_and(|it| it.shown_summary().is_none());
            let law = if expected { " expected, (R + Z) ÷ R of one client" } else { "" };
            Some((name, format!("{mark}{clients}{}{law}", interval.unwrap_or_default())))
        };
        let numbers = [("knee", "load.knee"), ("95 % at", "load.clients_95")];
        numbers.into_iter().filter_map(clients).collect()
    }

    /// The interval of a utilisation: `90 to 112 %`.
    fn interval(&self, resource: &str) -> Option<String> {
        let ends = load_facts::ends_of(UTILISATION);
        let [low, high] = ends.map(|what| self.fact(resource, &what).map(percent));
        let (low, high) = (low?, high?);
        Some(format!("{} to {high}", low.trim_end_matches(" %")))
    }

    /// A utilisation in the paragraph, and of a busy resource its interval.
    fn share(&self, resource: &str) -> Option<Vec<String>> {
        let value = self.fact(resource, UTILISATION)?;
        let interval = self.interval(resource).filter(|_| value >= MUCH);
        Some([percent(value)].into_iter().chain(interval).map(|text| glued(&text)).collect())
    }

    /// What the requests use of each resource at saturation, or at the largest step.
    pub(super) fn uses(&self) -> Vec<String> {
        let is_local = self.is_local();
        let bytes = |(resource, does, waits): (&str, &str, &str)| {
            let rates = self.fact(resource, USED).zip(self.fact(resource, load_facts::CAPACITY));
            let Some(value) = self.fact(resource, UTILISATION) else {
                let (used, of) = rates.filter(|(used, of)| used > of)?;
                let rates = [used, of].map(|rate| glued(&format!("{} MB/s", mb(rate))));
                let [used, of] = rates;
                return Some(format!(
                    "{does} {used}, more than its capacity measured before, {of}"
                ));
            };
            let share = self.share(resource)?;
            if is_local {
                let interval = share.get(1).map_or(String::new(), |ends| format!(" ({ends})"));
                return Some(format!("{waits} {}{interval} of the time", share[0]));
            }
            let share = share.join(", ");
            Some(match rates {
                Some((used, of)) if used > 0.0 => {
                    let amount = glued(&format!("{} of {} MB/s", mb(used), mb(of)));
                    format!("{does} {amount} ({share})")
                }
                _ if value == 0.0 => format!("{does} nothing"),
                _ => format!("{does} {share} of what is possible"),
            })
        };
        let all = [
            ("network", "the network carries", "responses are in the network"),
            ("pacing", "paced connections carry", ""),
            ("disk", "the disk reads", "the server waits for the disk"),
        ];
        let mut parts: Vec<String> = all.into_iter().filter_map(bytes).collect();
        let cpu = |resource: &str, of: &str| {
            let share = self.share(resource)?;
            let interval = share.get(1).map_or(String::new(), |ends| format!(" ({ends})"));
            Some(format!("{}{of}{interval}", share[0]))
        };
        let of = " of its CPU";
        parts.extend(match (cpu("server-cpu", of), cpu("client", "")) {
            (Some(server), Some(client)) => {
                Some(format!("the server uses {server}, the client {client}"))
            }
            (Some(server), None) => Some(format!("the server uses {server}")),
            (None, _) => cpu("client", of).map(|client| format!("the client uses {client}")),
        });
        let sentence = |text: String| format!("{}.", capitalised(&text));
        (!parts.is_empty()).then(|| sentence(parts.join("; "))).into_iter().collect()
    }

    /// The bottleneck; or why none is known, and what to do next.
    pub(super) fn conclusion(&self) -> Conclusion {
        let is_known = |record: &Record| record.verdict.shows_number();
        // Beside other runs only records with a number are left.
        let is_open = self.record(SATURATION).map(|it| !is_known(it));
        if is_open.unwrap_or(self.name() == UNDETERMINED) {
            return self.not_saturated();
        }
        let rate = self.saturation().map_or(String::new(), |rate| format!(": {rate}"));
        let limits = |what: &str| vec![format!("{what} limits the throughput{rate}.")];
        let mut sentences = match self.name() {
            UNDETERMINED => {
                let why = &self.bottleneck.verdict.reasons;
                // Noise is no reason for this.
                let own = why.iter().find(|reason| reason.cause == Cause::NotAsAsked);
                let why = own.or(why.first());
                let why = why.map_or("no evidence", |reason| reason.text.as_str());
                vec![
                    format!("The throughput is saturated{rate}."),
                    format!("The bottleneck is undetermined: {why}{}.", self.foreign()),
                ]
            }
            "serial" => vec![format!(
                "No resource is saturated, but the throughput is{rate}. It serves one \
                 request at a time (lock or queue)."
            )],
            "client" => limits("The client, not the server,"),
            "server-cpu" => limits("The CPU of the server"),
            "pacing" => limits("The pacing of the congestion control"),
            name => limits(&format!("The {name}")),
        };
        let falls =
            self.record(SATURATION).and_then(|it| it.quantity_of(load_facts::FALLS_FROM_CLIENTS));
        sentences
            .extend(falls.map(|from| format!("The throughput falls from {from:.0} clients on.")));
        sentences.extend(self.left_out().map(|steps| steps + "."));
        sentences.extend(self.client_bound());
        let next = match self.name() {
            "client" => Some(FASTER),
            UNDETERMINED if self.is_ours() && self.proof().is_some() => Some(LONGER),
            UNDETERMINED if self.is_ours() => Some(DOSES),
            _ => None,
        };
        Conclusion { sentences, next: next.map(str::to_owned) }
    }

    /// `5.98 requests/s (5.89 to 6.07) from 1 client on`.
    pub(super) fn saturation(&self) -> Option<String> {
        let summary = self.shown(SATURATION)?;
        let interval = summary
            .limits()
            .map_or(String::new(), |ends| format!(" ({})", ends.map(bare).join(" to ")));
        let from = self.record(SATURATION)?.quantity_of(load_facts::FROM_CLIENTS);
        let from = from.map(|from| format!(" from {} on", counted(from as usize, "client")));
        let mark = self.record(SATURATION).map_or("", mark);
        let rate = format!("{mark}{}{interval}", glued(&requests(summary.median)));
        Some(rate + &from.unwrap_or_default())
    }

    pub(super) fn why_not_saturated(&self) -> Option<&'r str> {
        let reasons = &self.record(SATURATION).unwrap_or(self.bottleneck).verdict.reasons;
        // Noise is no reason for this.
        let own = reasons.iter().find(|reason| reason.cause == Cause::NotAsAsked);
        Some(&own.or(reasons.first())?.text)
    }

    fn not_saturated(&self) -> Conclusion {
        if let Some(bound) = self.client_bound() {
            let left_out = self.left_out().map(|steps| steps + ".");
            let sentences = [Some(bound), left_out].into_iter().flatten().collect();
            return Conclusion { sentences, next: Some(FASTER.to_owned()) };
        }
        let reasons = self.record(SATURATION).map(|record| &record.verdict.reasons);
        let why = self.why_not_saturated().unwrap_or("not saturated");
        // A busy resource has a name before the throughput is level.
        let busy = match self.name() {
            UNDETERMINED => None,
            "server-cpu" => Some("The CPU of the server is busy".to_owned()),
            "pacing" => Some("The pacing of the congestion control is reached".to_owned()),
            "serial" => Some(format!("{} is busy", capitalised(word("serial")))),
            name => Some(format!("The {name} is busy")),
        };
        let sentences = [Some(capitalised(why)), self.left_out(), busy].into_iter().flatten();
        let sentences = sentences.map(|sentence| format!("{sentence}.")).collect();
        // More clients add to what leaves steps out.
        let remedy = reasons.and_then(remedy::first);
        let more = self.shown("load.knee").map(|knee| more(knee.median));
        let next: Vec<String> = more.into_iter().chain(remedy).collect();
        let next = if next.is_empty() { MORE.to_owned() } else { next.join("; ") };
        Conclusion { sentences, next: Some(next) }
    }

    /// Steps of the table that are no points of the curve.
    fn left_out(&self) -> Option<String> {
        let steps = self.record(SATURATION)?.text_of(load_facts::LEFT_OUT)?;
        Some(format!("Left out: {steps}"))
    }

    fn client_bound(&self) -> Option<String> {
        let from = self.bottleneck.quantity_of(load_facts::CLIENT_BOUND_FROM)?;
        let from = counted(from as usize, "client");
        Some(format!("From {from} on the load is client-bound, so that those steps are invalid."))
    }

    /// Whether the server is `fathom serve`: only then there are capacities.
    pub(super) fn is_ours(&self) -> bool {
        RESOURCES.iter().any(|of| self.capacity(of).is_some())
    }

    /// Whether the server's figures are those of its processes: they have no capacities.
    fn is_local(&self) -> bool {
        let is_known = |of: &str| self.fact(of, load_facts::CAPACITY).is_some();
        let has_cpu = self.fact("server-cpu", UTILISATION).is_some();
        has_cpu && !self.is_ours() && !RESOURCES.into_iter().any(is_known)
    }

    fn foreign(&self) -> &'static str {
        match self.is_ours() || self.is_local() {
            true => "",
            false => " (the server is not `fathom serve`)",
        }
    }

    pub(super) fn resources(&self) -> Vec<Column> {
        let known = |of: &&str| self.capacity(of).is_some() || self.fact(of, UTILISATION).is_some();
        let all: Vec<&str> = RESOURCES.into_iter().filter(known).collect();
        let cell = |value: Option<String>| value.unwrap_or(NOTHING.to_owned());
        let bytes = |of: &&str| cell(self.capacity(of).and_then(rate).map(mb));
        let rates = |of: &&str| cell(self.capacity(of).and_then(requests_of).map(bare));
        let used = |of: &&str| cell(self.fact(of, USED).map(mb));
        let share = |of: &&str| {
            let interval = self.interval(of).map_or(String::new(), |ends| format!(" ({ends})"));
            cell(self.fact(of, UTILISATION).map(|value| percent(value) + &interval))
        };
        let time = |ns| match ns {
            0.0 => "0".to_owned(),
            ns => quantity_within(ns, Unit::Nanoseconds, TIME),
        };
        let demand = |of: &&str| cell(self.fact(of, DEMAND).map(time));
        let mut columns = vec![
            Column::words("resource", all.iter().map(|of| word(of).to_owned())),
            Column::new("MB/s", all.iter().map(bytes)),
            Column::new("req/s", all.iter().map(rates)),
            Column::new("MB/s used", all.iter().map(used)),
            Column::words("utilisation", all.iter().map(share)),
            Column::new("demand", all.iter().map(demand)),
        ];
        columns.retain(Column::has_content);
        columns
    }

    /// The effect of each added load, and what follows for the bottleneck.
    fn doses(&self, width: usize) -> String {
        let proof = self.proof().map(|proof| ("proof", proof));
        let proof = facts(proof.as_slice(), width);
        let Some((head, mut columns)) = self.effects() else { return proof };
        if columns.iter().map(|column| column.width() + 2).sum::<usize>() > width {
            columns.pop();
        }
        let table: String = blocks(columns, 1, width).iter().map(|block| rows(block)).collect();
        wrapped(&format!("\n{head}:"), width, "\n", "") + &table + &proof
    }

    /// Whether the added loads confirm the bottleneck, and why.
    pub(super) fn proof(&self) -> Option<String> {
        self.bottleneck.text_of(load_facts::PROOF).map(|proof| match proof {
            load_facts::CONFIRMED => format!("confirmed: {ONLY}"),
            proof => proof.to_owned(),
        })
    }

    /// The effect of each added load, and what the table is of.
    pub(super) fn effects(&self) -> Option<(String, Vec<Column>)> {
        let is_own = |record: &&Record| {
            let mut params = record.params.clone();
            params.0.remove("clients");
            params.0.remove("resource");
            record.metric.as_str() == DOSE && params == self.bottleneck.params
        };
        let all: Vec<&Record> = self.records.iter().filter(is_own).collect();
        let clients = all.first()?.params.integer("clients").unwrap_or(0);
        let head = format!(
            "Throughput with load added to one resource, as a ratio to that without, at {}",
            counted(clients as usize, "client")
        );
        let measured = |it: &&Record| match it.shown_summary() {
            None => NOTHING.to_owned(),
            Some(one) => one.limits().map_or(ratio(one.median), |ends| {
                format!("{} ({})", ratio(one.median), ends.map(ratio).join(" to "))
            }),
        };
        let predicted =
            |it: &&Record| it.quantity_of(load_facts::PREDICTED).map_or(NOTHING.to_owned(), ratio);
        let effect = |it: &&Record| match it.shown_summary() {
            Some(one) => effect(one.median),
            None => NOTHING.to_owned(),
        };
        let agreement = |it: &&Record| shown_agreement(it).map_or("", Agreement::word).to_owned();
        let of = |it: &&Record| word(it.params.text("resource").unwrap_or_default()).to_owned();
        let dose = |it: &&Record| it.text_of(load_facts::DOSE).unwrap_or_default().to_owned();
        let columns = vec![
            Column::words("resource", all.iter().map(of)),
            Column::words("added load", all.iter().map(dose)),
            Column::new("predicted", all.iter().map(predicted)),
            Column::words("measured", all.iter().map(measured)),
            Column::new("effect", all.iter().map(effect)),
            Column::words("prediction", all.iter().map(agreement)),
        ];
        Some((head, columns))
    }
}

/// What shows a knee: numbers of clients up to twice as many.
fn more(knee: f64) -> String {
    let all: Vec<String> = (0..17)
        .map(|at| 1 << at)
        .take_while(|all| f64::from(*all) < 4.0 * knee)
        .map(|all: i32| all.to_string())
        .collect();
    format!("more clients than the knee (`--clients {}`)", all.join(","))
}

fn word(resource: &str) -> &str {
    match resource {
        "server-cpu" => "server CPU",
        "serial" => "one request at a time (lock or queue)",
        other => other,
    }
}

fn rate(record: &Record) -> Option<f64> {
    Some(record.shown_summary()?.median)
}

fn requests_of(record: &Record) -> Option<f64> {
    record.quantity_of(load_facts::REQUESTS).filter(|_| record.verdict.shows_number())
}

/// In MB/s, with a figure more than [`bare`] where two rates are compared.
fn mb(rate: f64) -> String {
    match rate / MB {
        small if small < 10.0 => bare(small),
        _ => scaled_within(rate, MB, TIME),
    }
}

fn requests(rate: f64) -> String {
    format!("{} requests/s", bare(rate))
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// `−34 %`.
fn effect(ratio: f64) -> String {
    let change = 100.0 * (ratio - 1.0);
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("{sign}{:.0} %", change.abs())
}
