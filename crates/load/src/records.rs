//! What is written of a step: its sums and its judgement, as the records of a run. Here the walk
//! from a window to a record ends.

mod heat;
mod memory;
mod shared;

use fathom_analysis::load::{
    MeasuredStep, SWEEPS, Stall, StepBatch, StepJudgement, fault_words, judge_step,
};
use fathom_http::ServerAddress;
use fathom_metric::{Measured, Recorder};
use fathom_record::load_facts::{MEAN, ends_of};
use fathom_record::quantity::{percent, quantity};
use fathom_record::{Check, Fact, Interval, Params, Unit, Verdict, escaped};

pub use memory::memory;
pub use shared::RecordContext;

use crate::metrics::{self, OfServer};
use crate::step::Step;
use crate::target::Target;

/// The parameters of a server and its files.
pub fn place(target: &Target) -> Params {
    let mut params = Params::one("to", target.to.as_str());
    // Several servers of one host are not one case.
    if target.control.is_none() {
        params = match &target.address {
            ServerAddress::Tcp(address) => params.and("port", i64::from(address.port())),
            ServerAddress::Unix(path) => {
                params.and("socket", escaped(&path.to_string_lossy()).as_str())
            }
        };
    }
    match target.file_bytes {
        Some(bytes) => params.and("file_bytes", bytes as i64),
        None => params,
    }
}

/// Makes the records of a step.
pub fn step(recorder: &mut dyn Recorder, shared: &RecordContext<'_>, step: &Step) -> StepJudgement {
    let params = shared.params(step);
    let judgement = judge_step(&step.measured, &shared.asked());
    let (measured, verdict) = (&step.measured, &judgement.verdict);
    let record = |metric: &OfServer, value: f64, interval: Option<Interval>| Measured {
        metric: metric.0.id,
        params: params.clone(),
        values: vec![value],
        headline: Some((value, interval)),
        verdict: Some(verdict.clone()),
        ..Measured::default()
    };
    if measured.all.completed == 0 {
        let empty = Measured { values: Vec::new(), ..record(&metrics::THROUGHPUT, 0.0, None) };
        recorder.record(Measured {
            facts: shared.facts(step),
            checks: checks(measured),
            windows: step.windows.clone(),
            ..empty
        });
        return judgement;
    }
    let of = |mean: f64, each: fn(&StepBatch) -> f64| measured.mean_interval(mean, each);
    let rates =
        |each: fn(&StepBatch) -> f64| measured.batches.iter().map(each).collect::<Vec<f64>>();
    let values = |each: fn(&StepBatch) -> f64, whole: f64| {
        if measured.batches.is_empty() { vec![whole] } else { rates(each) }
    };
    let throughput = measured.throughput();
    let rate: fn(&StepBatch) -> f64 = |it| it.arrived / it.seconds;
    // With all sweeps it is a reason of the verdict.
    let no_interval = measured.no_interval().filter(|_| measured.sweeps < SWEEPS);
    recorder.record(Measured {
        values: values(rate, throughput),
        checks: checks(measured),
        facts: shared.facts(step),
        notes: no_interval.into_iter().chain(measured.stall().map(stall_words)).collect(),
        windows: step.windows.clone(),
        ..record(&metrics::THROUGHPUT, throughput, of(throughput, rate))
    });
    let median = measured.all.times.quantile(0.5).unwrap_or(0.0);
    let mean = measured.all.mean_ns();
    let mean_fact = Fact::quantity(MEAN, mean, Unit::Nanoseconds);
    let limits = of(mean, |it| it.mean_ns).map(Interval::limits);
    let ends = limits.into_iter().flat_map(|[low, high]| ends(MEAN, low, Some(high)));
    recorder.record(Measured {
        values: Vec::new(),
        histogram: Some(measured.all.times.clone()),
        heat_map: heat::map(&step.heat),
        facts: std::iter::once(mean_fact).chain(ends).chain(tails(measured)).collect(),
        ..record(&metrics::RESPONSE_TIME, median, measured.interval(median, |it| it.median_ns))
    });
    let sent = from_send(measured, &params, verdict);
    sent.into_iter().for_each(|one| _ = recorder.record(one));
    let bandwidth = measured.bandwidth();
    if bandwidth > 0.0 {
        let bytes: fn(&StepBatch) -> f64 = |it| it.body_bytes as f64 / it.seconds;
        recorder.record(Measured {
            values: values(bytes, bandwidth),
            ..record(&metrics::BANDWIDTH, bandwidth, of(bandwidth, bytes))
        });
    }
    for (metric, whole, values) in cpu_times(measured) {
        recorder.record(Measured { values, ..record(metric, whole, None) });
    }
    judgement
}

/// The intervals of quantiles.
fn tails(step: &MeasuredStep) -> Vec<Fact> {
    let of =
        |(q, name): (f64, &str)| step.quantile_limits(q).map(|(low, high)| ends(name, low, high));
    step.tails().filter_map(of).flatten().collect()
}

fn ends(name: &str, low: f64, high: Option<f64>) -> Vec<Fact> {
    let ends = ends_of(name).into_iter().zip([Some(low), high]);
    ends.filter_map(|(end, ns)| Some(Fact::quantity(&end, ns?, Unit::Nanoseconds))).collect()
}

/// The response times from the send.
fn from_send(step: &MeasuredStep, params: &Params, verdict: &Verdict) -> Option<Measured> {
    let times = step.all.times_from_send.clone()?;
    let median = times.quantile(0.5).unwrap_or(0.0);
    Some(Measured {
        metric: metrics::RESPONSE_TIME.0.id,
        params: params.clone().and("from", "send"),
        headline: Some((median, step.interval(median, |it| it.median_from_send_ns))),
        histogram: Some(times),
        verdict: Some(verdict.clone()),
        ..Measured::default()
    })
}

fn stall_words(stall: Stall) -> String {
    format!(
        "stalled answers: {} of {} requests took up to {}, {} of the time of all: a closed loop \
         sends nothing meanwhile, --rate shows the delay",
        stall.count,
        stall.of,
        quantity(stall.longest_ns, Unit::Nanoseconds),
        percent(stall.share)
    )
}

/// CPU times of a step: metric, whole, and the value of each second.
fn cpu_times(step: &MeasuredStep) -> Vec<(&'static OfServer, f64, Vec<f64>)> {
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
        let whole = step.client_cpu_ns as f64 / step.all.completed as f64;
        times.push((&metrics::CLIENT_CPU_PER_REQUEST, whole, step.client_per_request_ns.clone()));
    }
    times
}

fn checks(step: &MeasuredStep) -> Vec<Check> {
    let check = |name: &str, detail: String| Check { name: name.to_owned(), passed: true, detail };
    let statuses = step.counts.statuses.iter().map(|(status, count)| format!("{status}: {count}"));
    let mut checks = vec![
        check("requests completed", step.all.completed.to_string()),
        check("statuses", statuses.collect::<Vec<_>>().join(", ")),
        check("connections", step.counts.connections.to_string()),
    ];
    if step.counts.closed_idle > 0 {
        checks.push(check("connections closed by the server", step.counts.closed_idle.to_string()));
    }
    if step.counts.failed() > 0 {
        checks.push(check("failed requests", fault_words(step)));
    }
    checks
}

#[cfg(test)]
mod tests;
