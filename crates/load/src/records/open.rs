//! What records of an open loop have of their own: whether the rate is sustained, and if not,
//! whether the server or the generator was the limit.

use fathom_metric::Measured;
use fathom_record::quantity::{counted, quantity};
use fathom_record::{Cause, Fact, ParamValue, Params, Reason, Remedy, Unit, Verdict};

use crate::engine::Rate;
use crate::metrics;
use crate::rates;
use crate::step::{BUSY_MAX, Step};

/// A generator that sends its requests so late at the last quantile with ten requests beyond it,
/// and by more than the second share of the response times there, makes them noisy. At the quantile
/// before that, by more than the third share, it is the limit.
const LATE_NS: f64 = 1e6;
const LATE_NOISY: f64 = 0.05;
const LATE_MAX: f64 = 0.5;
/// More requests without a response than this share could change the 99th percentile by more than
/// a tenth of what is beyond it.
const UNANSWERED_NOISY: f64 = 0.001;
/// The parameter of response times from when the request was sent.
const FROM: (&str, &str) = ("from", "send");

/// The parameters of an open loop: it has no clients, which could think.
pub(super) fn params(mut common: Params, rate: Rate) -> Params {
    common.0.remove("think_s");
    let param: ParamValue = rates::param(rate.per_second);
    common.and("rate", param).and("arrivals", rate.arrivals.word())
}

/// The response times from the send.
pub(super) fn from_send(step: &Step, params: &Params, verdict: &Verdict) -> Option<Measured> {
    let times = step.times_from_send.clone()?;
    let median = times.quantile(0.5).unwrap_or(0.0);
    Some(Measured {
        metric: metrics::RESPONSE_TIME.0.id,
        params: params.clone().and(FROM.0, FROM.1),
        headline: Some((median, step.interval(median, |it| it.median_from_send_ns))),
        histogram: Some(times),
        verdict: Some(verdict.clone()),
        ..Measured::default()
    })
}

/// What was the limit where a rate is not sustained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The generator, or a CPU that it shares with others.
    Generator,
    /// The server or the network.
    Server,
}

/// What was the limit in a single window.
pub fn limit(step: &Step) -> Option<(Limit, String)> {
    if step.is_client_bound() {
        return Some((Limit::Generator, "a client thread is busy".to_owned()));
    }
    let reason = not_sustained(step)?;
    let is_server = reason.cause == Cause::NotAsAsked;
    let limit = if is_server { Limit::Server } else { Limit::Generator };
    Some(match limit {
        Limit::Server => (limit, format!("{} waiting", counted(step.waiting as usize, "request"))),
        Limit::Generator => (limit, reason.text),
    })
}

/// Why the rate is not sustained: then the response times are those of a queue that grows.
pub(super) fn not_sustained(step: &Step) -> Option<Reason> {
    step.rate?;
    if let Some(text) = late_generator(step) {
        let text = format!("not sustained, the generator was the limit: {text}");
        let action = "lower --rate, or leave the generator a CPU of its own".to_owned();
        let reason = Reason::new(Cause::LoadGenerator, text);
        return Some(reason.with_remedy(Remedy::Do { action }));
    }
    (step.undrained > 0).then(|| {
        let (limit, cause) = match step.contention() {
            _ if step.wants_cpu() > BUSY_MAX => ("the generator", Cause::LoadGenerator),
            Some(_) => ("a CPU that others use", Cause::Contention),
            None => ("the server or the network", Cause::NotAsAsked),
        };
        let text = format!(
            "not sustained, {limit} was the limit: {} waiting at the end of a window{}",
            counted(step.waiting as usize, "request"),
            match step.sweeps {
                // A window of a search.
                0 | 1 => String::new(),
                sweeps => format!(", {} of {sweeps} sweeps", step.undrained),
            }
        );
        let action = "lower --rate".to_owned();
        Reason::new(cause, text).with_remedy(Remedy::Do { action })
    })
}

/// How late the generator of an open loop was, if it was the limit.
pub fn late_generator(step: &Step) -> Option<String> {
    // A rare delay is no limit: the last quantile is only in doubt.
    let tails: Vec<_> = step.tails().collect();
    let most = tails.len().checked_sub(2).map_or(tails.first(), |at| tails.get(at));
    let late = most.and_then(|tail| late(step, *tail));
    late.filter(|(_, share)| *share > LATE_MAX).map(|(text, _)| text)
}

/// Why response times may not be what they should: of an open loop whose generator is late, and
/// of either loop by requests without a response.
pub(super) fn doubts(step: &Step) -> Vec<Reason> {
    let late = step.tails().last().and_then(|tail| late(step, tail));
    let late = late.filter(|(_, share)| *share > LATE_NOISY);
    let late = late.map(|(text, _)| Reason::new(Cause::LoadGenerator, text));
    let (unanswered, all) = (step.unanswered(), step.completed + step.failed());
    let is_many = unanswered as f64 > UNANSWERED_NOISY * (unanswered + all) as f64;
    let unanswered = is_many.then(|| {
        let count = counted(unanswered as usize, "request");
        let text = match step.rate {
            Some(_) => format!("{count} of the windows had no response: they are in no quantile"),
            None => format!(
                "{count} in flight at the end of a window had lasted longer than p99: they are in \
                 no quantile"
            ),
        };
        Reason::new(Cause::TooShort, text).with_remedy(Remedy::MeasureLonger)
    });
    late.into_iter().chain(unanswered).collect()
}

/// How late the generator was at a quantile, and the share of that in the response times there.
fn late(step: &Step, (q, name): (f64, &str)) -> Option<(String, f64)> {
    let late_ns = step.late.as_ref()?.quantile(q)?;
    let response_ns = step.times.quantile(q)?;
    let text = format!(
        "requests were sent late: {name} {}, and that of their response times is {}",
        quantity(late_ns, Unit::Nanoseconds),
        quantity(response_ns, Unit::Nanoseconds)
    );
    (late_ns > LATE_NS).then_some((text, late_ns / response_ns))
}

pub(super) fn facts(step: &Step) -> Vec<Fact> {
    let Some(late) = step.late.as_ref().filter(|late| !late.is_empty()) else {
        return Vec::new();
    };
    let ratio = |name: &str, value: u64| Fact::quantity(name, value as f64, Unit::Ratio);
    let late = [("sent late, median", 0.5), ("sent late, p99.9", 0.999)]
        .map(|(name, q)| late.quantile(q).map(|ns| Fact::quantity(name, ns, Unit::Nanoseconds)));
    let counts =
        [ratio("waiting at the end", step.waiting), ratio("without a response", step.in_flight)];
    counts.into_iter().chain(late.into_iter().flatten()).collect()
}
