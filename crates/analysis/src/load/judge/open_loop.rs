//! The judgement of an open loop: whether the rate is sustained, and if not, whether the server or
//! the generator was the limit.

use fathom_record::load_facts::NOT_SUSTAINED;
use fathom_record::quantity::{counted, quantity};
use fathom_record::{Cause, Reason, Remedy, Unit};

use super::super::measured::{BUSY_MAX, MeasuredStep};
use super::{contended, late_client};

/// A generator that sends its requests so late at the last quantile with ten requests beyond it,
/// and by more than the second share of the response times there, makes them noisy. At the quantile
/// before that, by more than the third share, it is the limit.
const LATE_NS: f64 = 1e6;
const LATE_NOISY: f64 = 0.05;
const LATE_MAX: f64 = 0.5;
/// More requests without a response than this share could change the 99th percentile by more than
/// a tenth of what is beyond it.
const UNANSWERED_NOISY: f64 = 0.001;
/// What was the limit where a rate is not sustained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenLimit {
    /// The generator, or a CPU that it shares with others.
    Generator,
    /// The server or the network.
    Server,
}

/// What was the limit in a single window.
pub fn limit_of_window(step: &MeasuredStep) -> Option<(OpenLimit, String)> {
    if step.is_client_bound() {
        return Some((OpenLimit::Generator, "a client thread is busy".to_owned()));
    }
    let reason = not_sustained(step)?;
    let is_server = reason.cause == Cause::NotAsAsked;
    let limit = if is_server { OpenLimit::Server } else { OpenLimit::Generator };
    Some(match limit {
        OpenLimit::Server => {
            (limit, format!("{} waiting", counted(step.waiting as usize, "request")))
        }
        OpenLimit::Generator => (limit, reason.text),
    })
}

/// Why the rate is not sustained: then the response times are those of a queue that grows.
pub(super) fn not_sustained(step: &MeasuredStep) -> Option<Reason> {
    if !step.is_open {
        return None;
    }
    if let Some(text) = late_generator(step) {
        return Some(late_client(step, &text));
    }
    (step.undrained > 0).then(|| {
        let waiting = format!(
            "{} waiting at the end of a window{}",
            counted(step.waiting as usize, "request"),
            match step.sweeps {
                // A window of a search.
                0 | 1 => String::new(),
                sweeps => format!(", {} of {sweeps} sweeps", step.undrained),
            }
        );
        if step.taken_by_others().is_some() || step.wants_cpu() > BUSY_MAX {
            return late_client(step, &waiting);
        }
        // The server waited for a CPU.
        if let Some(by) = step.contention() {
            return contended(&format!("{NOT_SUSTAINED}: {by}; {waiting}"));
        }
        let text = format!("{NOT_SUSTAINED}, the server or the network was the limit: {waiting}");
        Reason::new(Cause::NotAsAsked, text).with_remedy(Remedy::LowerRate)
    })
}

/// How late the generator of an open loop was, if it was the limit.
pub fn late_generator(step: &MeasuredStep) -> Option<String> {
    // A rare delay is no limit: the last quantile is only in doubt.
    let tails: Vec<_> = step.tails().collect();
    let most = tails.len().checked_sub(2).map_or(tails.first(), |at| tails.get(at));
    let late = most.and_then(|tail| late(step, *tail));
    late.filter(|(_, share)| *share > LATE_MAX).map(|(text, _)| text)
}

/// How late an open loop sent the requests of its last quantile, if that may be seen there.
pub(super) fn sent_late(step: &MeasuredStep) -> Option<String> {
    let late = step.tails().last().and_then(|tail| late(step, tail));
    late.filter(|(_, share)| *share > LATE_NOISY).map(|(text, _)| text)
}

/// Why response times may not be what they should be by requests without a response.
pub(super) fn unanswered(step: &MeasuredStep) -> Option<Reason> {
    let (unanswered, all) = (step.unanswered(), step.all.completed + step.counts.failed());
    let is_many = unanswered as f64 > UNANSWERED_NOISY * (unanswered + all) as f64;
    is_many.then(|| {
        let count = counted(unanswered as usize, "request");
        let text = if step.is_open {
            format!("{count} of the windows had no response: they are in no quantile")
        } else {
            format!(
                "{count} in flight at the end of a window had lasted longer than p99: they are in \
                 no quantile"
            )
        };
        Reason::new(Cause::TooShort, text).with_remedy(Remedy::MeasureLonger)
    })
}

/// How late the generator was at a quantile, and the share of that in the response times there.
fn late(step: &MeasuredStep, (q, name): (f64, &str)) -> Option<(String, f64)> {
    let late_ns = step.counts.sent_late.as_ref()?.quantile(q)?;
    let response_ns = step.all.times.quantile(q)?;
    let text = format!(
        "requests were sent late: {name} {}, and that of their response times is {}",
        quantity(late_ns, Unit::Nanoseconds),
        quantity(response_ns, Unit::Nanoseconds)
    );
    (late_ns > LATE_NS).then_some((text, late_ns / response_ns))
}
