//! One step: a number of clients or a rate, measured in several sweeps, and what both ends used
//! meanwhile.

use std::collections::BTreeMap;

use fathom_analysis::load::{ERRORS_MAX, SweepPoint, quantile_limits};
use fathom_analysis::statistics;
use fathom_record::quantity::{counted, percent, quantity};
use fathom_record::{Basis, Histogram, Interval, LoadWindow, Reason, Remedy, ServerUse, Unit};

use crate::batch::{Batch, interval};
use crate::engine::{
    Fault, Heat, Outcome, Phases, Rate, SLOTS, Slot, ThreadUse, add_counts, merge,
};
use crate::figures::Telemetry;
use crate::options::Load;
use crate::used::between;

/// Sweeps over all steps, each in another random order.
pub const SWEEPS: usize = 3;
/// Slots of a batch: the slots of all sweeps form ten batches, or five of a slow server.
const BATCH_SLOTS: usize = SWEEPS;
/// The fewest batches with an interval.
const BATCHES_MIN: usize = 5;
const _: () = assert!(SWEEPS * SLOTS == 2 * BATCHES_MIN * BATCH_SLOTS);
/// A batch with fewer completions, or shorter than two response times, gives no interval.
const COMPLETIONS_MIN: u64 = 8;
const RESPONSES_MIN: f64 = 2.0;
/// So many times the completions are enough for every batch, as they scatter.
const SCATTER: f64 = 1.5;
/// Completions of a step with an interval.
pub const COMPLETIONS_NEEDED: f64 = SCATTER * (BATCHES_MIN as u64 * COMPLETIONS_MIN) as f64;

/// Quantiles, and the responses beyond them that they need, less a rounding error.
const TAILS: [(f64, &str); 3] = [(0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
const TAIL_MIN: f64 = 10.0 * (1.0 - 1e-9);

/// Fewer requests that were due in a window show no backlog: one slow response looks like one.
pub const DUE_MIN: u64 = 8;

/// Responses of a server that stalls: at most this share of all, for at least so many medians, and
/// in sum this share of all response times.
const STALLS_MAX: f64 = 0.01;
const STALL_MIN: f64 = 20.0;
const STALLED_MIN: f64 = 0.05;

/// METHOD 24: the load generator is the limit.
pub const BUSY_MAX: f64 = 0.9;
/// An end that waits for a CPU for more than this share of the time lacks one.
pub const WAITING_MIN: f64 = 0.1;
/// Fewer CPUs are what the kernel uses for a load.
const OTHERS_MIN: f64 = 0.2;

/// What a sweep alone gives: figures of whole sweeps have intervals by their scatter.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub point: SweepPoint,
    pub server: Option<ServerUse>,
    /// The share of the client's CPUs in use: of its quota, or of its busiest thread.
    pub client_share: f64,
    /// The share of the time in which a thread of it was ready and had no CPU, at most.
    pub client_waiting: f64,
    /// CPUs that all but the two ends used, if known and the machine was hardly idle.
    pub others: Option<f64>,
}

impl Sweep {
    /// The share of the time in which an end was ready and had no CPU, at most.
    pub fn waiting(&self) -> f64 {
        self.server.as_ref().map_or(0.0, ServerUse::waiting).max(self.client_waiting)
    }
}

/// What a step of merged shares has beside the sums of their counts.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Failed requests, by words.
    pub faults: BTreeMap<String, u64>,
    /// Why the step is invalid: a member was the limit, or its share is missing.
    pub invalid: Vec<Reason>,
    pub doubts: Vec<Reason>,
    /// Whether the generator of a member was the limit.
    pub is_client_bound: bool,
}

/// The sweeps of a step so far.
#[derive(Default)]
pub struct Step {
    /// In an open loop the most requests in flight.
    pub clients: u32,
    /// Of an open loop.
    pub rate: Option<Rate>,
    /// Of a share: the clients or the requests a second of all members, by which it is recorded.
    pub of_all: Option<f64>,
    /// Of a share: what each window counted, for those who merge all shares.
    pub windows: Vec<LoadWindow>,
    /// Of merged shares.
    pub merged: Merged,
    /// Of an open loop: response times from the send, and how late requests were sent.
    pub times_from_send: Option<Histogram>,
    pub late: Option<Histogram>,
    /// Of an open loop: the most requests that waited at the end of a window, and the sweeps in
    /// which their number did not go down to what it was.
    pub waiting: u64,
    pub undrained: usize,
    /// Requests without a complete response at the end of a window; of an open loop, at the end of
    /// the time that they had beyond it.
    pub in_flight: u64,
    /// Of a closed loop: for how long they had been in flight.
    pub in_flight_ns: Vec<u64>,
    pub sweeps: usize,
    pub by_sweep: Vec<Sweep>,
    pub batches: Vec<Batch>,
    /// Slots that do not fill a batch yet, with their time.
    pending: Option<(Slot, usize, f64)>,
    pub times: Histogram,
    /// Of each sweep.
    pub heat: Vec<Heat>,
    pub completed: u64,
    pub body_bytes: u64,
    pub window_ns: u64,
    pub warm_up_ns: u64,
    /// Sweeps whose warm-up did not become steady.
    pub unsettled: usize,
    pub sum_ns: f64,
    pub statuses: BTreeMap<u16, u64>,
    /// Faults within the windows; of a step without a complete sweep, all.
    pub faults: BTreeMap<Fault, u64>,
    /// The path of a file of which a body had another content.
    pub wrong_path: Option<String>,
    pub connections: u64,
    /// Those of them that were made within the windows.
    pub window_connections: u64,
    pub closed_idle: u64,
    /// Of the requests that had no complete response at the end of a window.
    pub longest_in_flight_ns: u64,
    lag_ns: f64,
    lags: u64,
    /// CPU time of all client threads, and of the busiest one with its wall time.
    pub client_cpu_ns: u64,
    busiest: (u64, u64),
    /// CPUs of the client's quota, if it has one, and the share of it in use in the busiest sweep.
    quota: Option<f64>,
    of_quota: f64,
    pub client_per_request_ns: Vec<f64>,
    pub server: Option<ServerUse>,
    /// State of the server's page cache before each sweep.
    pub cache: Vec<String>,
    pub cache_doubt: Option<String>,
    pub phases: Option<Phases>,
    /// The server stopped answering.
    pub death: Option<Fault>,
}

impl Step {
    pub fn new(clients: u32) -> Self {
        Self { clients, ..Self::default() }
    }

    /// A step of an open loop with so many requests in flight, at most.
    pub fn at(rate: Rate, clients: u32, quota: Option<f64>) -> Self {
        Self { rate: Some(rate), ..Self::within(clients, quota) }
    }

    /// A step of a generator with a quota of so many CPUs.
    pub fn within(clients: u32, quota: Option<f64>) -> Self {
        Self { clients, quota, ..Self::default() }
    }

    /// Adds a sweep, with the server's counters before and after its window, and the CPUs that
    /// other processes used.
    pub fn add(
        &mut self,
        outcome: &Outcome,
        telemetry: Option<(Telemetry, Telemetry)>,
        others: Option<f64>,
    ) {
        self.add_used(outcome, telemetry.map(|(begin, end)| between(&begin, &end)), others);
    }

    /// The same with what the server used.
    pub fn add_used(&mut self, outcome: &Outcome, server: Option<ServerUse>, others: Option<f64>) {
        let tally = &outcome.tally;
        for (slot, ns) in tally.slots.iter().zip(outcome.slots_ns) {
            self.add_slot(slot, ns as f64 / 1e9);
        }
        self.heat.push(tally.heat.clone());
        self.in_flight += tally.in_flight;
        self.in_flight_ns.extend(&tally.in_flight_ns);
        merge(&mut self.late, tally.late.as_ref());
        if let Some(backlog) = outcome.backlog {
            self.waiting = self.waiting.max(backlog.requests);
            let failed: u64 = tally.window_faults.values().sum();
            let due = tally.completed() + failed + tally.in_flight;
            self.undrained += usize::from(!backlog.is_drained && due >= DUE_MIN);
        }
        self.longest_in_flight_ns = self.longest_in_flight_ns.max(tally.longest_in_flight_ns);
        self.window_ns += outcome.window_ns;
        self.warm_up_ns += outcome.warm_up_ns;
        self.unsettled += usize::from(!outcome.is_settled);
        add_counts(&mut self.statuses, &tally.statuses);
        add_counts(&mut self.faults, &tally.window_faults);
        self.connections += tally.connections;
        self.window_connections += tally.window_connections;
        Phases::merge(&mut self.phases, tally.phases.as_ref());
        self.closed_idle += tally.closed_idle;
        (self.lag_ns, self.lags) = (self.lag_ns + tally.lag_ns, self.lags + tally.lags);
        let cpu_ns: u64 = outcome.threads.iter().map(|thread| thread.cpu_ns).sum();
        self.client_cpu_ns += cpu_ns;
        if let Some(busiest) = outcome.threads.iter().max_by_key(|thread| thread.cpu_ns) {
            self.busiest.0 += busiest.cpu_ns;
            self.busiest.1 += busiest.wall_ns;
        }
        let completed = tally.completed();
        if completed > 0 {
            self.client_per_request_ns.push(cpu_ns as f64 / completed as f64);
        }
        let bytes = tally.slots.iter().map(|slot| slot.body_bytes).sum();
        let server = server.map(|server| server.counted_by_client(completed, bytes));
        let seconds = outcome.window_ns as f64 / 1e9;
        let sum_ns: f64 = tally.slots.iter().map(|slot| slot.sum_ns).sum();
        let threads = || outcome.threads.iter();
        let of_quota = self.quota.map_or(0.0, |cpus| cpu_ns as f64 / 1e9 / seconds / cpus);
        // The kernel hands a quota out in slices, and takes back what is left of them: less than
        // all of it is used, and still the threads that want to run are held back.
        let held = outcome.throttled_ns as f64 / 1e9 / seconds;
        let wants = threads().map(|it| it.used() + it.waiting()).fold(0.0, f64::max);
        let of_quota = if held > WAITING_MIN { of_quota.max(wants) } else { of_quota };
        self.of_quota = self.of_quota.max(of_quota);
        let used = threads().map(ThreadUse::used).fold(of_quota, f64::max);
        self.by_sweep.push(Sweep {
            point: SweepPoint {
                throughput: completed as f64 / seconds,
                response_s: sum_ns / 1e9 / completed.max(1) as f64,
            },
            server: server.clone(),
            client_share: used.min(1.0),
            client_waiting: threads().map(ThreadUse::waiting).fold(0.0, f64::max),
            others,
        });
        // One sweep without telemetry makes the step's unknown.
        self.server = match (self.sweeps, self.server.take(), server) {
            (0, None, server) => server,
            (_, Some(sum), Some(server)) => Some(sum.plus(server)),
            _ => None,
        };
        self.sweeps += 1;
    }

    fn add_slot(&mut self, slot: &Slot, seconds: f64) {
        self.completed += slot.completed;
        self.body_bytes += slot.body_bytes;
        self.sum_ns += slot.sum_ns;
        self.times.merge(&slot.times);
        merge(&mut self.times_from_send, slot.times_from_send.as_ref());
        let (mut sum, mut count, mut time) = self.pending.take().unwrap_or_default();
        sum.merge(slot);
        (count, time) = (count + 1, time + seconds);
        // Slots of counted requests may be empty.
        if count < BATCH_SLOTS || time == 0.0 {
            self.pending = Some((sum, count, time));
            return;
        }
        self.batches.push(Batch::of(&sum, time));
        let is_whole = self.batches.len() == 2 * BATCHES_MIN;
        if is_whole && self.short_batch().is_some() {
            self.batches = self.batches.chunks(2).map(|pair| pair[0].and(&pair[1])).collect();
        }
    }

    pub fn seconds(&self) -> f64 {
        self.window_ns as f64 / 1e9
    }

    /// Completions per second: all work by all time.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 / self.seconds()
    }

    pub fn bandwidth(&self) -> f64 {
        self.body_bytes as f64 / self.seconds()
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.completed.max(1) as f64
    }

    pub fn failed(&self) -> u64 {
        self.faults.values().chain(self.merged.faults.values()).sum()
    }

    /// Of all requests.
    pub fn failed_share(&self) -> f64 {
        self.failed() as f64 / (self.failed() + self.completed).max(1) as f64
    }

    /// The most frequent fault, if it is a limit of this machine.
    pub fn reached_limit(&self) -> Option<Fault> {
        let most = self.faults.iter().max_by_key(|(_, count)| **count).map(|(fault, _)| *fault);
        most.filter(|fault| fault.remedy().is_some())
    }

    /// CPUs of the client's quota, if it has one.
    pub fn quota(&self) -> Option<f64> {
        self.quota
    }

    /// CPU utilisation of the busiest client thread, or of the client's quota.
    pub fn busiest(&self) -> f64 {
        (self.busiest.0 as f64 / self.busiest.1.max(1) as f64).max(self.of_quota)
    }

    /// Whether the generator was the limit.
    pub fn is_client_bound(&self) -> bool {
        self.completed > 0 && (self.busiest() > BUSY_MAX || self.merged.is_client_bound)
    }

    #[cfg(test)]
    pub fn mark_busy(&mut self, share: f64) {
        (self.completed, self.of_quota) = (1, share);
    }

    /// Whether the quota of the client was the limit rather than a thread.
    pub fn is_quota_bound(&self) -> bool {
        self.of_quota > BUSY_MAX
    }

    /// CPUs that others used and the share of the time in which an end waited for one, on
    /// average, if both are too large to be usual.
    pub fn contention(&self) -> Option<(f64, f64)> {
        let others: Option<Vec<f64>> = self.by_sweep.iter().map(|sweep| sweep.others).collect();
        let others = statistics::mean(&others?)?;
        let waiting: Vec<f64> = self.by_sweep.iter().map(Sweep::waiting).collect();
        let waiting = statistics::mean(&waiting)?;
        (others > OTHERS_MIN && waiting > WAITING_MIN).then_some((others, waiting))
    }

    /// The share of the time in which a thread of the generator ran or was ready to, on average.
    pub fn wants_cpu(&self) -> f64 {
        let wants = self.by_sweep.iter().map(|sweep| sweep.client_share + sweep.client_waiting);
        statistics::mean(&wants.collect::<Vec<f64>>()).unwrap_or(0.0)
    }

    /// Mean delay between the readiness of a connection and its handling.
    pub fn mean_lag_ns(&self) -> f64 {
        self.lag_ns / self.lags.max(1) as f64
    }

    /// Why batches give no interval; `None` if they do.
    pub fn no_interval(&self) -> Option<String> {
        if self.batches.len() < BATCHES_MIN {
            let count = self.batches.len();
            return Some(format!("no interval: {count} of {} batches", 2 * BATCHES_MIN));
        }
        self.short_batch().map(|text| format!("no interval: {text}"))
    }

    fn short_batch(&self) -> Option<String> {
        let least = self.batches.iter().map(|batch| batch.completed).min()?;
        let shortest =
            self.batches.iter().map(|batch| batch.seconds * 1e9).fold(f64::MAX, f64::min);
        if least < COMPLETIONS_MIN {
            let count = counted(least as usize, "completion");
            return Some(format!("a batch has {count}, below {COMPLETIONS_MIN}"));
        }
        (shortest < RESPONSES_MIN * self.mean_ns())
            .then(|| "a batch is shorter than two response times".to_owned())
    }

    /// Seconds in which each of five batches would have enough completions: where there are enough
    /// in all, twice as many.
    pub fn time_for_interval(&self) -> f64 {
        let by_count = COMPLETIONS_NEEDED / self.completed.max(1) as f64;
        let by_time = BATCHES_MIN as f64 * RESPONSES_MIN * self.mean_ns() / self.window_ns as f64;
        self.seconds() * by_count.max(SCATTER * by_time).max(2.0)
    }

    /// The confidence interval of a rate or a mean over all work, from its value in each batch, by
    /// Student's t: batch means (Law and Kelton, Simulation Modeling and Analysis).
    pub fn mean_interval(&self, headline: f64, of: impl Fn(&Batch) -> f64) -> Option<Interval> {
        if self.no_interval().is_some() {
            return None;
        }
        let half = statistics::mean_half_width(&self.batches.iter().map(of).collect::<Vec<f64>>())?;
        let limits = [(headline - half).max(0.0), headline + half];
        Some(Interval::new(limits, 0.95, Basis::WithinRun))
    }

    /// Requests in flight at the end of a window that had lasted longer than the 99th percentile,
    /// if there is one: their response times are in none. Of an open loop all without a response.
    pub fn unanswered(&self) -> u64 {
        let has_p99 = self.tails().any(|(q, _)| q == 0.99);
        let p99 = self.times.quantile(0.99).filter(|_| has_p99).unwrap_or(f64::INFINITY);
        match self.rate {
            Some(_) => self.in_flight,
            None => self.in_flight_ns.iter().filter(|ns| **ns as f64 > p99).count() as u64,
        }
    }

    /// Of a closed loop: the longest responses, if they are so few that no quantile shows them,
    /// and a large part of the time of the clients. Those that the end of a window cut are among
    /// them.
    pub fn stalled(&self) -> Option<String> {
        let cut = || self.in_flight_ns.iter().map(|ns| (*ns as f64, 1));
        let longest = cut().fold(self.times.max(), |longest, (ns, _)| longest.max(ns));
        let is_long = |(ns, _): &(f64, u64)| *ns >= longest / 2.0;
        let all = self.times.timings().into_iter().chain(cut());
        let stalls: Vec<(f64, u64)> = all.filter(is_long).collect();
        let count: u64 = stalls.iter().map(|(_, count)| count).sum();
        let sum_ns: f64 = stalls.iter().map(|(ns, count)| ns * *count as f64).sum();
        let all_ns = self.sum_ns + cut().map(|(ns, _)| ns).sum::<f64>();
        let share = sum_ns / all_ns.max(1.0);
        let median = self.times.quantile(0.5).unwrap_or(0.0);
        let is_rare = count as f64 <= STALLS_MAX * self.completed as f64;
        let is_stalled = self.rate.is_none() && is_rare && share >= STALLED_MIN;
        (is_stalled && longest >= STALL_MIN * median).then(|| {
            format!(
                "stalled answers: {count} of {} requests took up to {}, {} of the time of all: \
                 a closed loop sends nothing meanwhile, --rate shows the delay",
                self.completed + self.in_flight_ns.len() as u64,
                quantity(longest, Unit::Nanoseconds),
                percent(share)
            )
        })
    }

    /// The quantiles with ten responses beyond them, ascending: those of a summary.
    pub fn tails(&self) -> impl Iterator<Item = (f64, &'static str)> {
        let all = self.times.len() as f64;
        TAILS.into_iter().filter(move |(q, _)| all * (1.0 - q) >= TAIL_MIN)
    }

    /// The limits of a quantile of the response times, by the share beyond it in each batch. The
    /// upper one is absent if too few responses are beyond it.
    pub fn quantile_limits(&self, q: f64) -> Option<(f64, Option<f64>)> {
        let value = self.times.quantile(q).filter(|_| self.no_interval().is_none())?;
        let beyond = |batch: &Batch| {
            let beyond = batch.times.iter().filter(|(ns, _)| *ns >= value);
            (beyond.map(|(_, count)| count).sum(), batch.completed)
        };
        let (low, high) = quantile_limits(q, &self.batches.iter().map(beyond).collect::<Vec<_>>())?;
        Some((self.times.quantile(low)?, high.and_then(|high| self.times.quantile(high))))
    }

    /// The confidence interval of a median from its value in each batch.
    pub fn interval(&self, headline: f64, of: impl Fn(&Batch) -> f64) -> Option<Interval> {
        if self.no_interval().is_some() {
            return None;
        }
        interval(headline, &self.batches.iter().map(of).collect::<Vec<f64>>())
    }
}

impl Load {
    /// All steps of a case, those of closed loops first: of a share its part of them.
    pub fn steps(&self, quota: Option<f64>) -> Vec<Step> {
        let closed = self.closed().into_iter().map(|clients| Step {
            of_all: self.share.map(|_| clients.into()),
            ..Step::within(self.own(clients), quota)
        });
        let open = self.open().into_iter().map(|rate| Step {
            of_all: self.share.map(|_| rate.per_second),
            ..Step::at(self.share.map_or(rate, |it| it.rate(rate)), self.own_in_flight(), quota)
        });
        closed.chain(open).collect()
    }
}

/// What the records of a step say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// It has numbers.
    pub shows: bool,
    /// Why it is no point of the curve, if it is none.
    pub left_out: Option<LeftOut>,
    pub is_noisy: bool,
}

impl Judged {
    pub fn is_point(self) -> bool {
        self.left_out.is_none()
    }
}

/// Why a step is no point of the curve: what to mend first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Too many requests failed by this fault, a limit of this machine.
    Limit(Fault),
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
    pub fn words(self) -> String {
        match self {
            Self::Limit(fault) => fault.to_string(),
            Self::Failed => {
                format!("more than {} of the requests failed", percent(ERRORS_MAX))
            }
            Self::Cut => "longer responses ended outside the windows".to_owned(),
            Self::Empty => "a window had no response".to_owned(),
            Self::Short => "too few responses for an interval".to_owned(),
            Self::Invalid => "invalid".to_owned(),
        }
    }

    pub fn remedy(self) -> Option<Remedy> {
        match self {
            Self::Limit(fault) => fault.remedy(),
            Self::Failed => Some(Remedy::Do {
                action: "find out why requests fail: more clients do not help".to_owned(),
            }),
            Self::Cut | Self::Empty | Self::Short => Some(Remedy::MeasureLonger),
            Self::Invalid => None,
        }
    }
}

#[cfg(test)]
mod tests;
