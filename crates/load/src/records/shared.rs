//! What the records of all steps of a case share: parameters, and facts of the place and the work.

use std::time::Duration;

use fathom_analysis::load::{MeasuredStep, SWEEPS, StepAsked};
use fathom_record::load_facts::{
    CLIENT_CPU, DISK, ERRORS, LONGEST_IN_FLIGHT, LONGEST_RESPONSE, PHASES, REQUESTS, RESOLVE,
    SENT_LATE, SERVER_CPU, WAITING, p99_of,
};
use fathom_record::{Fact, Histogram, LoadWindow, ParamValue, Params, Record, Unit};

use super::place;
use crate::engine::{Distribution, EngineChoice};
use crate::metrics;
use crate::options::{LoadOptions, LoadVariant, ServerCache};
use crate::rates;
use crate::share::Share;
use crate::step::Step;
use crate::target::Target;

/// What each connection by TLS begins with.
const SESSION: &str = "a full handshake for each connection, no resumption";
/// Parameters of a step, and of a share.
const STEP: [&str; 4] = ["clients", "rate", "arrivals", SHARE];
const SHARE: &str = "share";
/// The fewest times with a 99th percentile.
const TIMES_MIN: u64 = 1_000;
/// Facts of the place and the work, without those that a step measures.
const PLACE: [&str; 7] =
    ["server", "files", "TLS", "session", "bodies", "think time", "congestion"];

/// Exactly: a time that was asked for.
fn time_words(time: Duration) -> String {
    match time.subsec_millis() {
        ms @ 1.. if Duration::from_millis(ms.into()) == time => format!("{ms} ms"),
        _ => format!("{} s", time.as_secs_f64()),
    }
}

/// Whole numbers as such, others as text.
fn seconds(think: Duration) -> ParamValue {
    match think.subsec_nanos() {
        0 => ParamValue::Integer(think.as_secs() as i64),
        _ => ParamValue::Text(format!("{}", think.as_secs_f64())),
    }
}

/// What the steps of a case share.
pub struct RecordContext<'s> {
    pub load: &'s LoadOptions,
    pub case: LoadVariant,
    /// Whether the server evicts each file after its response.
    pub is_cold: bool,
    common: Params,
    place: Vec<Fact>,
    resolve_ns: Option<u64>,
}

impl<'s> RecordContext<'s> {
    /// `congestion`: of the sockets, if known.
    pub fn from_load(
        load: &'s LoadOptions,
        target: &Target,
        case: LoadVariant,
        congestion: Option<&str>,
    ) -> Self {
        let of_work = OfWork { load, target, case };
        Self {
            load,
            case,
            is_cold: target.is_cold,
            common: of_work.params(),
            place: of_work.facts(congestion),
            resolve_ns: target.resolve_ns,
        }
    }

    /// Of merged shares, by the record of one of them; `members`: their number and names.
    pub fn merged(
        load: &'s LoadOptions,
        case: LoadVariant,
        one: &Record,
        members: (u32, &str),
    ) -> Self {
        let is_common = |(name, _): &(&String, &ParamValue)| !STEP.contains(&name.as_str());
        let common = one.params.0.iter().filter(is_common);
        let common = common.map(|(name, value)| (name.clone(), value.clone())).collect();
        let known = one.facts.iter().filter(|fact| PLACE.contains(&fact.name.as_str()));
        let mut place: Vec<Fact> = known.cloned().collect();
        let (count, names) = members;
        place.push(Fact::text("steps", sweep_words(load)));
        place.push(Fact::text("members", format!("{count}: {names}")));
        Self {
            load,
            case,
            is_cold: false,
            common: Params(common).and("members", i64::from(count)),
            place,
            resolve_ns: None,
        }
    }

    /// The parameters of all steps of the case.
    pub fn common(&self) -> Params {
        self.common.clone()
    }

    pub fn params(&self, step: &Step) -> Params {
        let mut common = self.common();
        match step.rate {
            Some(rate) => {
                // An open loop has no clients, which could think.
                common.0.remove("think_s");
                let per_second = step.of_all.unwrap_or(rate.per_second);
                common.and("rate", rates::param(per_second)).and("arrivals", rate.arrivals.word())
            }
            None => {
                let clients = step.of_all.map_or(step.clients(), |all| all as u32);
                common.and("clients", i64::from(clients))
            }
        }
    }

    /// What was asked of its steps.
    pub fn asked(&self) -> StepAsked {
        let LoadOptions { requests, fresh, share, server_cache, .. } = self.load;
        StepAsked {
            think_ns: self.case.think.as_nanos() as f64,
            is_counted: requests.is_some(),
            is_fresh: *fresh,
            evicts_each: self.is_cold,
            evicts_before: matches!(server_cache, ServerCache::Cold),
            is_share: share.is_some(),
            noise_limit: metrics::THROUGHPUT.0.noise_limit,
        }
    }

    /// Whether a record is of a share of this step.
    pub fn is_share(case: LoadVariant, step: &Step, share: Share, record: &Record) -> bool {
        let mut wanted =
            Params::one("mode", case.choice.word()).and(SHARE, share.to_string().as_str());
        wanted = match step.rate {
            Some(rate) => wanted.and("rate", rates::param(rate.per_second)),
            None => {
                let clients = i64::from(step.clients());
                wanted.and("clients", clients).and("think_s", seconds(case.think))
            }
        };
        record.metric.as_str() == metrics::THROUGHPUT.0.id
            && wanted.0.iter().all(|(name, value)| record.params.0.get(name) == Some(value))
    }

    /// What the views show beside the throughput.
    pub(super) fn facts(&self, step: &Step) -> Vec<Fact> {
        let measured = &step.measured;
        let mut facts = self.place.clone();
        let mut states = step.cache.clone();
        states.dedup();
        if self.is_cold {
            states.push("each file evicted after its response".to_owned());
        }
        if !states.is_empty() {
            facts.push(Fact::text("server cache", states.join("; ")));
        }
        let ratio = |name: &str, value: f64| Fact::quantity(name, value, Unit::Ratio);
        let ns = |name: &str, ns: f64| Fact::quantity(name, ns, Unit::Nanoseconds);
        if let Some(server) = &measured.server {
            facts.extend(server.cpus().map(|cpus| ratio(SERVER_CPU, cpus)));
            let rate = |name: &str, value: Option<f64>, unit| {
                value.map(|value| Fact::quantity(name, value, unit))
            };
            let per_second = |count| server.per_second(count);
            facts.extend(rate(DISK, per_second(server.disk_bytes), Unit::BytesPerSecond));
            facts.extend(rate("disk reads", per_second(server.disk_reads), Unit::PerSecond));
            facts.extend(rate("wire", per_second(server.wire_bytes), Unit::BytesPerSecond));
            let busy = server.disk_busy_ns.map(|ns| ns as f64 / server.wall_ns.max(1) as f64);
            facts.extend(busy.map(|share| ratio("disk busy", share)));
            facts.extend(server.retransmits.map(|it| ratio("retransmits", it as f64)));
            // Of processes only the client counts responses.
            if server.looks.is_none() {
                facts.push(ratio("server responses", server.responses as f64));
                facts.push(ns("server busy", server.busy_ns as f64));
                facts.push(ns("server window", server.wall_ns as f64));
            }
        }
        if measured.counts.longest_in_flight_ns > 0 {
            facts.push(ns(LONGEST_IN_FLIGHT, measured.counts.longest_in_flight_ns as f64));
        }
        if measured.all.completed > 0 {
            facts.push(ns(LONGEST_RESPONSE, measured.all.times.max()));
            facts.push(ratio(CLIENT_CPU, measured.busiest()));
            facts.push(ratio("client lag", measured.mean_lag_ns() / measured.all.mean_ns()));
        }
        facts.extend(phases(&measured.counts, self.resolve_ns));
        facts.extend(lateness(measured));
        facts.push(ratio(REQUESTS, (measured.counts.failed() + measured.all.completed) as f64));
        facts.push(ratio(ERRORS, measured.counts.failed() as f64));
        facts
    }
}

/// Median and 99th percentile of each part of the response times, and how long the name took to
/// resolve.
fn phases(counts: &LoadWindow, resolve_ns: Option<u64>) -> Vec<Fact> {
    if counts.phases.is_empty() {
        return Vec::new();
    }
    let ns = |name: &str, ns: f64| Fact::quantity(name, ns, Unit::Nanoseconds);
    let of = |(word, times): (&str, &Histogram)| {
        let p99 = times.quantile(0.99).filter(|_| times.len() >= TIMES_MIN);
        let p99 = p99.map(|time| ns(&p99_of(word), time));
        times.quantile(0.5).map(|time| ns(word, time)).into_iter().chain(p99)
    };
    let resolve = resolve_ns.map(|time| ns(RESOLVE, time as f64));
    resolve.into_iter().chain(PHASES.into_iter().zip(&counts.phases).flat_map(of)).collect()
}

/// Of an open loop: what waited, and how late requests were sent.
fn lateness(step: &MeasuredStep) -> Vec<Fact> {
    let Some(late) = step.counts.sent_late.as_ref().filter(|late| !late.is_empty()) else {
        return Vec::new();
    };
    let ratio = |name: &str, value: u64| Fact::quantity(name, value as f64, Unit::Ratio);
    let late = [("sent late, median", 0.5), (SENT_LATE, 0.999)]
        .map(|(name, q)| late.quantile(q).map(|ns| Fact::quantity(name, ns, Unit::Nanoseconds)));
    let counts = [ratio(WAITING, step.waiting), ratio("without a response", step.counts.in_flight)];
    counts.into_iter().chain(late.into_iter().flatten()).collect()
}

/// What is known before a step.
struct OfWork<'w> {
    load: &'w LoadOptions,
    target: &'w Target,
    case: LoadVariant,
}

impl OfWork<'_> {
    fn params(&self) -> Params {
        let load = self.load;
        let mut params = place(self.target)
            .and("mode", self.case.choice.word())
            .and("think_s", seconds(self.case.think));
        if load.fresh {
            params = params.and("connection", "fresh");
        }
        let message = self.target.requests.message();
        if !message.gets() {
            params = params.and("method", message.method.as_str());
        }
        if !message.body.is_empty() {
            params = params.and("request_bytes", message.body.len() as i64);
        }
        if let Some((version, _)) = &self.target.tls_words {
            params = params.and("tls", *version);
        }
        if self.load.think_distribution == Distribution::Exponential && !self.case.think.is_zero() {
            params = params.and("think", "exponential");
        }
        if let Some(word) = load.body.word() {
            params = params.and("body", word);
        }
        if let Some(share) = load.share {
            params = params.and(SHARE, share.to_string().as_str());
        }
        match load.server_cache {
            ServerCache::AsIs => params,
            ServerCache::Cold => params.and("server_cache", "cold"),
            ServerCache::Warm => params.and("server_cache", "warm"),
        }
    }

    fn facts(&self, congestion: Option<&str>) -> Vec<Fact> {
        let target = self.target;
        let count = target.requests.len();
        let mut facts = vec![
            Fact::text("server", format!("{}, {}", target.address, target.server)),
            Fact::text("files", format!("{count}, {}", self.choice_words(count))),
            Fact::text("steps", sweep_words(self.load)),
        ];
        if let Some((version, ciphers)) = &target.tls_words {
            let trusted = self.load.https.words();
            facts.push(Fact::text("TLS", format!("{version}, {ciphers}, {trusted}")));
            facts.push(Fact::text("session", SESSION));
        }
        if let Some(known) = &target.contents {
            facts.push(Fact::text("bodies", format!("compared with {known}")));
        }
        if !self.case.think.is_zero() {
            facts.push(Fact::text(
                "think time",
                format!("{}, {}", time_words(self.case.think), self.load.think_distribution.word()),
            ));
        }
        if let Some(name) = congestion {
            facts.push(Fact::text(
                "congestion",
                format!("client {name}{}", self.server_congestion()),
            ));
        }
        facts
    }

    fn choice_words(&self, files: usize) -> &'static str {
        match self.case.choice {
            _ if files == 1 => "the same for all clients",
            EngineChoice::Random if self.target.requests.weights().is_some() => {
                "chosen at random by their weights, seeded"
            }
            EngineChoice::Random => "chosen at random, seeded",
            EngineChoice::Fixed => "client i always requests file i",
        }
    }

    fn server_congestion(&self) -> String {
        let name = self.target.congestion.as_ref();
        name.map_or(", server unknown".to_owned(), |name| format!(", server {name}"))
    }
}

fn sweep_words(load: &LoadOptions) -> String {
    let time = time_words(load.time);
    let connection =
        if load.fresh { "a new connection for each request" } else { "kept connections" };
    let each = match load.requests {
        None => format!("{time} each"),
        Some(count) => format!("{count} requests each, no warm-up, at most {time},"),
    };
    format!("{each} in {SWEEPS} sweeps, seed {}, {connection}", load.seed)
}
