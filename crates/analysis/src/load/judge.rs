//! The judgement of a step of a load: whether it is valid, which limit it met, and whether it is a
//! point of the curve. It is made from the sums of its windows, and written by the records.

mod open_loop;

use fathom_record::load_facts::NOT_SUSTAINED;
use fathom_record::quantity::{counted, percent};
use fathom_record::{Cause, Reason, Remedy, State, Verdict};

pub use self::open_loop::{OpenLimit, late_generator, limit_of_window};
use super::measured::{BUSY_MAX, MeasuredStep, ReachedLimit, SWEEPS, ServerEnd};
use super::{ERRORS_MAX, Little, little};

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

/// Clients that are in no response and do not think, as a share.
const LITTLE_MAX: f64 = 0.05;
/// The words by which bodies with another content than the file are counted among the faults.
pub const WRONG_CONTENT: &str = "content is not that of the file";

/// What was asked of all steps of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepAsked {
    pub think_ns: f64,
    /// So many requests, rather than a time.
    pub is_counted: bool,
    /// A new connection for each request.
    pub is_fresh: bool,
    /// Whether the server evicts each file after its response, or before each sweep.
    pub evicts_each: bool,
    pub evicts_before: bool,
    /// Whether other members load the server, too.
    pub is_share: bool,
    /// The widest relative half width of the throughput on a quiet machine.
    pub noise_limit: f64,
}

/// What is judged of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepJudgement {
    pub verdict: Verdict,
    /// Why it is no point of the curve, if it is none.
    pub left_out: Option<LeftOut>,
}

impl StepJudgement {
    /// Whether the step has numbers.
    pub fn shows(&self) -> bool {
        self.verdict.shows_number()
    }

    pub fn is_point(&self) -> bool {
        self.left_out.is_none()
    }

    pub fn is_noisy(&self) -> bool {
        self.verdict.state == State::Noisy
    }
}

/// Why a step is no point of the curve: what to mend first comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Too many requests failed by a limit of this machine.
    Limit(ReachedLimit),
    /// Too many requests failed.
    Failed,
    /// Responses ended outside the windows.
    Cut,
    /// A sweep had no response.
    Empty,
    /// Too few responses for an interval.
    Short,
    /// It has no numbers.
    Invalid,
}

impl LeftOut {
    pub fn words(&self) -> String {
        match self {
            Self::Limit(limit) => limit.words.clone(),
            Self::Failed => {
                format!("more than {} of the requests failed", percent(ERRORS_MAX))
            }
            Self::Cut => "longer responses ended outside the windows".to_owned(),
            Self::Empty => "a window had no response".to_owned(),
            Self::Short => "too few responses for an interval".to_owned(),
            Self::Invalid => "invalid".to_owned(),
        }
    }

    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Limit(limit) => Some(limit.remedy.clone()),
            Self::Failed => Some(Remedy::Do {
                action: "find out why requests fail: more clients do not help".to_owned(),
            }),
            Self::Cut | Self::Empty | Self::Short => Some(Remedy::MeasureLonger),
            Self::Invalid => None,
        }
    }
}

/// The judgement of a step, of which this was asked.
pub fn judge_step(step: &MeasuredStep, asked: &StepAsked) -> StepJudgement {
    let unasked = unasked(step, asked);
    let cut = [Cause::TooShort, Cause::Stalled];
    let is_cut = unasked.iter().any(|reason| cut.contains(&reason.cause));
    let verdict = verdict(step, unasked, asked.noise_limit);
    let left_out = left_out(step, &verdict, is_cut);
    StepJudgement { verdict, left_out }
}

/// The most frequent faults with their counts.
pub fn fault_words(step: &MeasuredStep) -> String {
    let mut faults: Vec<(&String, &u64)> = step.counts.faults.iter().collect();
    faults.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let words = faults.iter().take(3).map(|(fault, count)| format!("{fault} ({count}×)"));
    words.collect::<Vec<String>>().join(", ")
}

/// The remedy for a time that is too short, of which this is the least that is enough.
pub fn measure_for(seconds: f64) -> Remedy {
    Remedy::MeasureFor { seconds: whole_seconds(seconds) }
}

/// A time that is not shorter, in whole fives of seconds, or in minutes.
pub fn whole_seconds(seconds: f64) -> u64 {
    let fives = (seconds / 5.0).ceil() * 5.0;
    let minutes = (seconds / 60.0).ceil() * 60.0;
    if fives <= 120.0 { fives as u64 } else { minutes as u64 }
}

/// `is_cut`: whether responses ended outside the windows.
fn left_out(step: &MeasuredStep, verdict: &Verdict, is_cut: bool) -> Option<LeftOut> {
    if step.failed_share() > ERRORS_MAX {
        Some(step.reached_limit.clone().map_or(LeftOut::Failed, LeftOut::Limit))
    } else if step.all.completed == 0 {
        Some(LeftOut::Empty)
    } else if !verdict.shows_number() {
        Some(LeftOut::Invalid)
    } else if step.by_sweep.iter().any(|sweep| sweep.point.throughput <= 0.0) {
        Some(LeftOut::Empty)
    } else if is_cut {
        Some(LeftOut::Cut)
    } else {
        step.no_interval().map(|_| LeftOut::Short)
    }
}

/// Doubts whether a step did what was asked.
fn unasked(step: &MeasuredStep, asked: &StepAsked) -> Vec<Reason> {
    let mut doubts = Vec::new();
    // Counted requests all end within their windows, at whose end there are fewer clients.
    if !asked.is_counted && !step.is_open {
        doubts.extend(missing_work(step, asked));
    }
    // Those of the warm-up have other responses.
    let made = step.counts.window_connections;
    let is_lost = made > u64::from(step.clients) * SWEEPS as u64
        && made as f64 > CLOSED_MAX * step.all.completed as f64;
    if is_lost && !asked.is_fresh && step.all.completed > 0 {
        let text =
            format!("connections were not kept: {made} for {} responses", step.all.completed);
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    let fetched = step.server.as_ref().and_then(|server| {
        let sent = server.bytes_sent.max(1) as f64;
        Some(server.disk_bytes? as f64 / sent)
    });
    if let Some(share @ ..COLD_MIN) = fetched {
        let percent = percent(share);
        // Two clients that ask for one file, and one that asks again before it is evicted.
        if asked.evicts_each {
            let text = format!("partly warm: {percent} of the bytes came from the device");
            doubts.push(Reason::new(Cause::NotAsAsked, text));
        } else if asked.evicts_before {
            let text = format!(
                "cold at the start of each sweep only: {percent} of the bytes came from the device"
            );
            let reason = Reason::new(Cause::NotAsAsked, text);
            doubts.push(reason.with_remedy(Remedy::EvictEach));
        }
    }
    doubts
}

/// Little's law: N clients are either in a response or thinking. By the client's own count less
/// than that was in a response that ended outside the windows, such as behind a server that stalls;
/// by the server's count more is work of others.
fn missing_work(step: &MeasuredStep, asked: &StepAsked) -> Option<Reason> {
    if step.all.completed == 0 || step.counts.failed() > 0 {
        return None;
    }
    let cycle_s = (step.all.mean_ns() + asked.think_ns) / 1e9;
    let window_s = step.seconds() / step.sweeps.max(1) as f64;
    let law = |throughput| little(step.clients, throughput, cycle_s, 0.0, window_s);
    let by_client = law(step.throughput());
    // Of a share, it has those of all members.
    let server = step.server.as_ref().filter(|server| server.looks.is_none() && !asked.is_share);
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
        return Some(match step.stall() {
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
pub fn busy_generator(step: &MeasuredStep) -> Option<String> {
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

fn lag(step: &MeasuredStep) -> f64 {
    step.mean_lag_ns() / step.all.mean_ns()
}

fn lag_words(step: &MeasuredStep) -> String {
    format!("responses handled late by {:.0} % of their time", 100.0 * lag(step))
}

/// The verdict on a step.
fn verdict(step: &MeasuredStep, unasked: Vec<Reason>, noise_limit: f64) -> Verdict {
    let because = |state, reason| Verdict { state, reasons: vec![reason] };
    if !step.members.invalid.is_empty() {
        return Verdict { state: State::Invalid, reasons: step.members.invalid.clone() };
    }
    let faults = fault_words(step);
    if let Some(end) = step.server_end.as_ref().filter(|_| step.sweeps == 0) {
        return because(State::Failed, end.reason.clone());
    }
    if step.all.completed == 0 {
        let reason = match faults.is_empty() {
            true => Reason::new(Cause::TooShort, "no response within the window")
                .with_remedy(Remedy::MeasureLonger),
            false => of_faults(step, format!("no request succeeded: {faults}")),
        };
        return because(State::Failed, reason);
    }
    if let Some(path) = &step.counts.wrong_path {
        let count = step.counts.faults.get(WRONG_CONTENT).unwrap_or(&0);
        let text = format!("{count} bodies with wrong content, one of {path}");
        return because(State::Invalid, Reason::new(Cause::WrongWork, text));
    }
    if let Some(what) = busy_generator(step) {
        return because(State::Invalid, late_client(step, &what));
    }
    if let Some(reason) = open_loop::not_sustained(step) {
        return because(State::Invalid, reason);
    }
    let failed = step.failed_share();
    if failed > FAILED_MAX {
        let text = format!("{:.0} % of the requests failed: {faults}", 100.0 * failed);
        return because(State::Invalid, of_faults(step, text));
    }
    let mut doubts = unasked;
    doubts.extend(step.members.doubts.iter().cloned());
    let lag = (lag(step) > LAG_NOISY).then(|| format!("{}: they include it", lag_words(step)));
    let late = lag.into_iter().chain(open_loop::sent_late(step));
    match step.taken_by_others() {
        // One cause.
        Some(by) => {
            let text = std::iter::once(by).chain(late).collect::<Vec<String>>().join("; ");
            doubts.push(contended(&text));
        }
        None => {
            let by = step.contention();
            doubts.extend(by.map(|by| contended(&by)));
            let own = || Remedy::Do { action: "give the generator a CPU of its own".to_owned() };
            let late = late.map(|text| Reason::new(Cause::LoadGenerator, text).with_remedy(own()));
            doubts.extend(late);
        }
    }
    doubts.extend(open_loop::unanswered(step));
    doubts.extend(self::doubts(step, &faults));
    // The throughput of an open loop scatters as its arrivals do.
    if !step.is_open && !doubts.iter().any(|reason| EXPLAINS.contains(&reason.cause)) {
        doubts.extend(spread(step, noise_limit));
    }
    // Without doubts the number is valid: the judge of visits does not apply.
    let state = if doubts.is_empty() { State::Valid } else { State::Noisy };
    Verdict { state, reasons: doubts }
}

/// A reason by what others used.
fn contended(text: &str) -> Reason {
    Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu)
}

/// What a late client is due to: others that took the CPU, or itself.
fn late_client(step: &MeasuredStep, what: &str) -> Reason {
    // What was sent late was done all the same, if nothing was left at the end of a window.
    let lacks = if step.undrained > 0 { NOT_SUSTAINED } else { "response times not known" };
    if let Some(by) = step.taken_by_others() {
        let start = if step.is_open { format!("{lacks}: ") } else { String::new() };
        return contended(&format!("{start}{by}; {what}"));
    }
    let bound = match step.is_open {
        true => format!("{lacks}, the generator was the limit"),
        false => "client-bound".to_owned(),
    };
    let reason = Reason::new(Cause::LoadGenerator, format!("{bound}: {what}"));
    reason.with_remedy(step.is_open.then_some(Remedy::LowerRateOrOwnCpu))
}

/// Failed requests: a limit of this machine is not work of the server.
fn of_faults(step: &MeasuredStep, text: String) -> Reason {
    match &step.reached_limit {
        Some(limit) => Reason::new(Cause::LoadGenerator, text).with_remedy(limit.remedy.clone()),
        None => Reason::new(Cause::WrongWork, text),
    }
}

/// A spread that no other reason explains.
fn spread(step: &MeasuredStep, noise_limit: f64) -> Option<Reason> {
    let whole = step.throughput();
    let interval = step.mean_interval(whole, |it| it.arrived / it.seconds)?;
    let half = (interval.high - interval.low) / 2.0 / whole;
    (half > noise_limit).then(|| {
        let text = format!("throughput ± {:.0} % between batches", 100.0 * half);
        match step.stall() {
            Some(_) => Reason::new(Cause::Stalled, format!("{text}: stalled answers")),
            None => Reason::new(Cause::Spread, text),
        }
    })
}

/// Why a number of a step may not be what it should, beside a late client.
fn doubts(step: &MeasuredStep, faults: &str) -> Vec<Reason> {
    let mut doubts = Vec::new();
    if step.counts.failed() > 0 {
        let text =
            format!("{} failed: {faults}", counted(step.counts.failed() as usize, "request"));
        doubts.push(of_faults(step, text));
    }
    if let Some(ServerEnd { words, .. }) = &step.server_end {
        let text = format!("{} of {SWEEPS} sweeps, then the server stopped: {words}", step.sweeps);
        doubts.push(Reason::new(Cause::Crashed, text));
    } else if step.sweeps < SWEEPS {
        let text = format!("{} of {SWEEPS} sweeps", step.sweeps);
        doubts.push(Reason::new(Cause::Interrupted, text));
    } else if let Some(text) = step.no_interval() {
        let reason = Reason::new(Cause::TooShort, text);
        doubts.push(reason.with_remedy(measure_for(step.time_for_interval())));
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

#[cfg(test)]
mod tests;
