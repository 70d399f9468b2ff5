//! From steps to records.

mod heat;
mod memory;
mod open;
mod phases;
mod shared;

use fathom_analysis::load::{ERRORS_MAX, Little, little};
use fathom_http::Address;
use fathom_metric::{Measured, Recorder};
use fathom_record::quantity::{counted, percent};
use fathom_record::{
    Cause, Check, Fact, Interval, Params, Reason, Remedy, State, Unit, Verdict, escaped,
};

pub use memory::memory;
pub use open::{Limit, late_generator, limit};
pub use shared::Shared;

use crate::batch::Batch;
use crate::engine::{Fault, fault_words};
use crate::metrics::{self, OfServer};
use crate::options::ServerCache;
use crate::run::whole_time;
use crate::step::{BUSY_MAX, Judged, LeftOut, SWEEPS, Step};
use crate::target::Target;

/// Events that are handled one after another make the last ones late: more than this share of the
/// response time is a doubt, and more than the second share invalid.
const LAG_NOISY: f64 = 0.05;
const LAG_MAX: f64 = 0.25;
/// More failed requests than this share make a step invalid, and more than [`ERRORS_MAX`] no
/// answer.
const FAILED_MAX: f64 = 0.05;
/// More connections than this share of the responses were not kept.
const CLOSED_MAX: f64 = 0.1;
/// A smaller share of the bytes from a device is not cold.
const COLD_MIN: f64 = 0.9;
/// Causes of a wide interval.
const EXPLAINS: [Cause; 4] =
    [Cause::Contention, Cause::LoadGenerator, Cause::TooShort, Cause::Drift];

/// The parameters of a server and its files.
pub fn place(target: &Target) -> Params {
    let mut params = Params::one("to", target.to.as_str());
    // Several servers of one host are not one case.
    if target.control.is_none() {
        params = match &target.address {
            Address::Tcp(address) => params.and("port", i64::from(address.port())),
            Address::Unix(path) => params.and("socket", escaped(&path.to_string_lossy()).as_str()),
        };
    }
    match target.file_bytes {
        Some(bytes) => params.and("file_bytes", bytes as i64),
        None => params,
    }
}

/// Clients that are in no response and do not think, as a share.
const LITTLE_MAX: f64 = 0.05;

fn judgement(shared: &Shared<'_>, step: &Step) -> (Verdict, Judged) {
    let more = as_asked(step, shared);
    let cut = [Cause::TooShort, Cause::Stalled];
    let is_cut = more.iter().any(|reason| cut.contains(&reason.cause));
    let verdict = judge(step, more);
    let judged = judged(step, &verdict, is_cut);
    (verdict, judged)
}

/// What the records of a step will say of it.
pub fn judged_of(shared: &Shared<'_>, step: &Step) -> Judged {
    judgement(shared, step).1
}

/// Makes the records of a step.
pub fn step(recorder: &mut dyn Recorder, shared: &Shared<'_>, step: &Step) -> Judged {
    let params = shared.params(step);
    let (verdict, judged) = judgement(shared, step);
    let record = |metric: &OfServer, value: f64, interval: Option<Interval>| Measured {
        metric: metric.0.id,
        params: params.clone(),
        values: vec![value],
        headline: Some((value, interval)),
        verdict: Some(verdict.clone()),
        ..Measured::default()
    };
    if step.completed == 0 {
        let empty = Measured { values: Vec::new(), ..record(&metrics::THROUGHPUT, 0.0, None) };
        recorder.record(Measured {
            facts: shared.facts(step),
            checks: checks(step),
            windows: step.windows.clone(),
            ..empty
        });
        return judged;
    }
    let of = |value: f64, of: fn(&Batch) -> f64| step.mean_interval(value, of);
    let rates = |of: fn(&Batch) -> f64| step.batches.iter().map(of).collect::<Vec<f64>>();
    let values = |of: fn(&Batch) -> f64, whole: f64| {
        if step.batches.is_empty() { vec![whole] } else { rates(of) }
    };
    let throughput = step.throughput();
    let rate: fn(&Batch) -> f64 = |it| it.completed as f64 / it.seconds;
    // With all sweeps it is a reason of the verdict.
    let no_interval = step.no_interval().filter(|_| step.sweeps < SWEEPS);
    recorder.record(Measured {
        values: values(rate, throughput),
        checks: checks(step),
        facts: shared.facts(step),
        notes: no_interval.into_iter().chain(step.stalled()).collect(),
        windows: step.windows.clone(),
        ..record(&metrics::THROUGHPUT, throughput, of(throughput, rate))
    });
    let median = step.times.quantile(0.5).unwrap_or(0.0);
    let mean = step.mean_ns();
    let mean_fact = Fact::quantity("mean", mean, Unit::Nanoseconds);
    let limits = of(mean, |it| it.mean_ns).map(Interval::limits);
    let ends = limits.into_iter().flat_map(|[low, high]| ends("mean", low, Some(high)));
    recorder.record(Measured {
        values: Vec::new(),
        histogram: Some(step.times.clone()),
        heat_map: heat::map(step),
        facts: std::iter::once(mean_fact).chain(ends).chain(tails(step)).collect(),
        ..record(&metrics::RESPONSE_TIME, median, step.interval(median, |it| it.median_ns))
    });
    let sent = open::from_send(step, &params, &verdict);
    sent.into_iter().for_each(|one| _ = recorder.record(one));
    let bandwidth = step.bandwidth();
    if bandwidth > 0.0 {
        let rate: fn(&Batch) -> f64 = |it| it.body_bytes as f64 / it.seconds;
        recorder.record(Measured {
            values: values(rate, bandwidth),
            ..record(&metrics::BANDWIDTH, bandwidth, of(bandwidth, rate))
        });
    }
    for (metric, whole, values) in cpu_times(step) {
        recorder.record(Measured { values, ..record(metric, whole, None) });
    }
    judged
}

/// The intervals of quantiles.
fn tails(step: &Step) -> Vec<Fact> {
    let of =
        |(q, name): (f64, &str)| step.quantile_limits(q).map(|(low, high)| ends(name, low, high));
    step.tails().filter_map(of).flatten().collect()
}

fn ends(name: &str, low: f64, high: Option<f64>) -> Vec<Fact> {
    let end = |end: &str, ns| Fact::quantity(&format!("{name}, {end}"), ns, Unit::Nanoseconds);
    [Some(end("low", low)), high.map(|high| end("high", high))].into_iter().flatten().collect()
}

/// `is_cut`: whether responses ended outside the windows.
fn judged(step: &Step, verdict: &Verdict, is_cut: bool) -> Judged {
    let shows = verdict.shows_number();
    let left_out = if step.failed_share() > ERRORS_MAX {
        Some(step.reached_limit().map_or(LeftOut::Failed, LeftOut::Limit))
    } else if step.completed == 0 {
        Some(LeftOut::Empty)
    } else if !shows {
        Some(LeftOut::Invalid)
    } else if step.by_sweep.iter().any(|sweep| sweep.point.throughput <= 0.0) {
        Some(LeftOut::Empty)
    } else if is_cut {
        Some(LeftOut::Cut)
    } else {
        step.no_interval().map(|_| LeftOut::Short)
    };
    Judged { shows, left_out, is_noisy: verdict.state == State::Noisy }
}

/// CPU times of a step: metric, whole, and the value of each second.
fn cpu_times(step: &Step) -> Vec<(&'static OfServer, f64, Vec<f64>)> {
    let mut times: Vec<(&OfServer, f64, Vec<f64>)> = Vec::new();
    if let Some(server) = step.server.as_ref().filter(|server| server.cpu_ns > 0) {
        let cpu_ns = server.cpu_ns as f64;
        if server.responses > 0 {
            let whole = cpu_ns / server.responses as f64;
            times.push((&metrics::SERVER_CPU_PER_REQUEST, whole, server.per_request_ns.clone()));
        }
        if server.bytes_sent > 0 {
            let whole = cpu_ns / server.bytes_sent as f64 * 1e9;
            let values = server.per_byte_ns.iter().map(|ns| ns * 1e9).collect();
            times.push((&metrics::SERVER_CPU_PER_GB, whole, values));
        }
    }
    if step.client_cpu_ns > 0 {
        let whole = step.client_cpu_ns as f64 / step.completed as f64;
        times.push((&metrics::CLIENT_CPU_PER_REQUEST, whole, step.client_per_request_ns.clone()));
    }
    times
}

/// Doubts whether a step did what was asked.
fn as_asked(step: &Step, shared: &Shared<'_>) -> Vec<Reason> {
    let mut doubts = Vec::new();
    // Counted requests all end within their windows, at whose end there are fewer clients.
    if shared.load.requests.is_none() && step.rate.is_none() {
        doubts.extend(missing_work(step, shared.case.think.as_nanos() as f64));
    }
    // Those of the warm-up have other responses.
    let made = step.window_connections;
    let is_lost = made > u64::from(step.clients) * SWEEPS as u64
        && made as f64 > CLOSED_MAX * step.completed as f64;
    if is_lost && !shared.load.fresh && step.completed > 0 {
        let text = format!("connections were not kept: {made} for {} responses", step.completed);
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    let fetched = step.server.as_ref().and_then(|server| {
        let sent = server.bytes_sent.max(1) as f64;
        Some(server.disk_bytes? as f64 / sent)
    });
    if let Some(share @ ..COLD_MIN) = fetched {
        let percent = percent(share);
        let text = match shared.load.server_cache {
            // Two clients that ask for one file, and one that asks again before it is evicted.
            _ if shared.is_cold => {
                Some(format!("partly warm: {percent} of the bytes came from the device"))
            }
            ServerCache::Cold => Some(format!(
                "cold at the start of each sweep only: {percent} of the bytes came from the \
                 device; `fathom serve --cold` evicts after each response"
            )),
            ServerCache::AsIs | ServerCache::Warm => None,
        };
        doubts.extend(text.map(|text| Reason::new(Cause::NotAsAsked, text)));
    }
    doubts
}

/// Little's law: N clients are either in a response or thinking. By the client's own count less
/// than that was in a response that ended outside the windows, such as behind a server that stalls;
/// by the server's count more is work of others.
fn missing_work(step: &Step, think_ns: f64) -> Option<Reason> {
    if step.completed == 0 || step.failed() > 0 {
        return None;
    }
    let cycle_s = (step.mean_ns() + think_ns) / 1e9;
    let window_s = step.seconds() / step.sweeps.max(1) as f64;
    let law = |throughput| little(step.clients, throughput, cycle_s, 0.0, window_s);
    let by_client = law(step.throughput());
    // Of a share, it has those of all members.
    let is_alone = step.of_all.is_none();
    let server = step.server.as_ref().filter(|server| server.looks.is_none() && is_alone);
    let by_server = server.and_then(|it| it.per_second(Some(it.responses))).map(law);
    let percent = |law: Little| percent(1.0 + law.deviation);
    // A think time ends late by a wake-up.
    if by_client.deviation < -by_client.allowed.max(LITTLE_MAX) {
        let text = format!(
            "throughput × (response + think time) is {} of the clients: longer responses ended \
             outside the windows",
            percent(by_client)
        );
        // A longer window ends behind as many stalls.
        return Some(match step.stalled() {
            Some(_) => Reason::new(Cause::Stalled, text),
            None => Reason::new(Cause::TooShort, text).with_remedy(Remedy::MeasureLonger),
        });
    }
    // Below, the readings of the server's counters were late.
    let by_server = by_server.filter(|law| law.deviation > law.allowed)?;
    let text = format!(
        "by the server's count, throughput × (response + think time) is {} of the clients: the \
         server has other clients",
        percent(by_server)
    );
    Some(Reason::new(Cause::NotAsAsked, text))
}

/// Why the generator was the limit, if it was: a thread or a quota is busy, or responses are late.
pub fn busy_generator(step: &Step) -> Option<String> {
    let busy = step.busiest();
    if busy > BUSY_MAX {
        let what = match step.is_quota_bound() {
            true => "the client's quota of CPU time is in use, or holds it back, for",
            false => "a client thread is busy for",
        };
        return Some(format!("{what} {:.0} %", 100.0 * busy.min(1.0)));
    }
    (lag(step) > LAG_MAX).then(|| lag_words(step))
}

fn lag(step: &Step) -> f64 {
    step.mean_lag_ns() / step.mean_ns()
}

fn lag_words(step: &Step) -> String {
    format!("responses handled late by {:.0} % of their time", 100.0 * lag(step))
}

/// The verdict on a step.
fn judge(step: &Step, more: Vec<Reason>) -> Verdict {
    let because = |state, reason| Verdict { state, reasons: vec![reason] };
    if !step.merged.invalid.is_empty() {
        return Verdict { state: State::Invalid, reasons: step.merged.invalid.clone() };
    }
    let faults = fault_words(&step.faults, &step.merged.faults);
    if let Some(fault) = step.death.filter(|_| step.sweeps == 0) {
        return because(State::Failed, Reason::new(fault.end_cause(), fault.end_words()));
    }
    if step.completed == 0 {
        let reason = match faults.is_empty() {
            true => Reason::new(Cause::TooShort, "no response within the window")
                .with_remedy(Remedy::MeasureLonger),
            false => of_faults(step, format!("no request succeeded: {faults}")),
        };
        return because(State::Failed, reason);
    }
    if let Some(path) = &step.wrong_path {
        let count = step.faults.get(&Fault::WrongContent).unwrap_or(&0);
        let text = format!("{count} bodies with wrong content, one of {path}");
        return because(State::Invalid, Reason::new(Cause::WrongWork, text));
    }
    if let Some(what) = busy_generator(step) {
        let bound = match step.rate {
            Some(_) => "not sustained, the generator was the limit",
            None => "client-bound",
        };
        let text = format!("{bound}: {what}");
        return because(State::Invalid, Reason::new(Cause::LoadGenerator, text));
    }
    if let Some(reason) = open::not_sustained(step) {
        return because(State::Invalid, reason);
    }
    let failed = step.failed_share();
    if failed > FAILED_MAX {
        let text = format!("{:.0} % of the requests failed: {faults}", 100.0 * failed);
        return because(State::Invalid, of_faults(step, text));
    }
    let mut doubts = more;
    doubts.extend(step.merged.doubts.iter().cloned());
    if lag(step) > LAG_NOISY {
        let text = format!("{}: they include it", lag_words(step));
        doubts.push(Reason::new(Cause::LoadGenerator, text));
    }
    doubts.extend(open::doubts(step));
    doubts.extend(self::doubts(step, &faults));
    // The throughput of an open loop scatters as its arrivals do.
    if step.rate.is_none() && !doubts.iter().any(|reason| EXPLAINS.contains(&reason.cause)) {
        doubts.extend(spread(step));
    }
    // Without doubts the number is valid: the judge of visits does not apply.
    let state = if doubts.is_empty() { State::Valid } else { State::Noisy };
    Verdict { state, reasons: doubts }
}

/// Failed requests: a limit of this machine is not work of the server.
fn of_faults(step: &Step, text: String) -> Reason {
    match step.reached_limit() {
        Some(fault) => Reason::new(fault.end_cause(), text).with_remedy(fault.remedy()),
        None => Reason::new(Cause::WrongWork, text),
    }
}

/// A spread that no other reason explains.
fn spread(step: &Step) -> Option<Reason> {
    let whole = step.throughput();
    let interval = step.mean_interval(whole, |it| it.completed as f64 / it.seconds)?;
    let half = (interval.high - interval.low) / 2.0 / whole;
    (half > metrics::THROUGHPUT.0.noise_limit).then(|| {
        let text = format!("throughput ± {:.0} % between batches", 100.0 * half);
        match step.stalled() {
            Some(_) => Reason::new(Cause::Stalled, format!("{text}: stalled answers")),
            None => Reason::new(Cause::Spread, text),
        }
    })
}

/// Why a number of a step may not be what it should, beside a late client.
fn doubts(step: &Step, faults: &str) -> Vec<Reason> {
    let mut doubts = Vec::new();
    if let Some((others, waiting)) = step.contention() {
        let text = format!(
            "other processes or the kernel used {others:.1} CPUs, an end waited for \
             one {:.0} % of the time",
            100.0 * waiting
        );
        doubts.push(Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu));
    }
    if step.failed() > 0 {
        let text = format!("{} failed: {faults}", counted(step.failed() as usize, "request"));
        doubts.push(of_faults(step, text));
    }
    if let Some(fault) = step.death {
        let text = format!("{} of {SWEEPS} sweeps, then the server stopped: {fault}", step.sweeps);
        doubts.push(Reason::new(Cause::Crashed, text));
    } else if step.sweeps < SWEEPS {
        let text = format!("{} of {SWEEPS} sweeps", step.sweeps);
        doubts.push(Reason::new(Cause::Interrupted, text));
    } else if let Some(text) = step.no_interval() {
        let remedy = format!("use --time {}", whole_time(step.time_for_interval()));
        let reason = Reason::new(Cause::TooShort, text);
        doubts.push(reason.with_remedy(Remedy::Do { action: remedy }));
    }
    if let Some(text) = &step.cache_doubt {
        doubts.push(Reason::new(Cause::NotAsAsked, format!("server cache: {text}")));
    }
    if step.unsettled > 0 && step.sweeps > 0 {
        let text = format!("warm-up not steady in {} of {} sweeps", step.unsettled, step.sweeps);
        doubts.push(Reason::new(Cause::Drift, text));
    }
    doubts
}

fn checks(step: &Step) -> Vec<Check> {
    let check = |name: &str, detail: String| Check { name: name.to_owned(), passed: true, detail };
    let statuses = step.statuses.iter().map(|(status, count)| format!("{status}: {count}"));
    let mut checks = vec![
        check("requests completed", step.completed.to_string()),
        check("statuses", statuses.collect::<Vec<_>>().join(", ")),
        check("connections", step.connections.to_string()),
    ];
    if step.closed_idle > 0 {
        checks.push(check("connections closed by the server", step.closed_idle.to_string()));
    }
    if step.failed() > 0 {
        checks.push(check("failed requests", fault_words(&step.faults, &step.merged.faults)));
    }
    checks
}

#[cfg(test)]
mod tests;
