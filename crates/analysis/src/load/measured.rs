//! What was measured of a step of a load: the sums of its windows, batches of them and intervals.
//! The judgement ([`judge_step`](super::judge_step)) is made from it.

use fathom_record::quantity::{counted, percent};
use fathom_record::{Basis, Interval, LoadSlot, LoadThread, LoadWindow, Reason, Remedy, ServerUse};

use super::SweepPoint;
use super::batch::{StepBatch, batch_interval};
use super::tail::quantile_limits;
use crate::statistics;

/// Sweeps over all steps, each in another random order.
pub const SWEEPS: usize = 3;
/// Slots of one sweep's window. Three sweeps have thirty, which form ten batches.
pub const SLOTS: usize = 10;
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
/// Of the time in which a generator that is seldom due had work, beside others that used so many
/// CPUs.
const WAITED_MIN: f64 = 0.2;
const TAKEN_MIN: f64 = 0.8;
/// Fewer CPUs are what the kernel uses for a load.
const OTHERS_MIN: f64 = 0.2;

/// What a sweep alone gives: figures of whole sweeps have intervals by their scatter.
#[derive(Clone, Debug)]
pub struct MeasuredSweep {
    pub point: SweepPoint,
    /// Bytes a second that arrived.
    pub received_s: f64,
    pub server: Option<ServerUse>,
    /// The share of the client's CPUs in use: of its quota, or of its busiest thread.
    pub client_share: f64,
    /// The share of the time in which a thread of it was ready and had no CPU, at most.
    pub client_waiting: f64,
    /// CPUs that all but the two ends used, if known and the machine was hardly idle.
    pub others: Option<f64>,
}

impl MeasuredSweep {
    /// The share of the time in which an end was ready and had no CPU, at most.
    pub fn waiting(&self) -> f64 {
        self.server.as_ref().map_or(0.0, ServerUse::waiting).max(self.client_waiting)
    }
}

/// What the members of a load say of a step beside the sums of their counts.
#[derive(Clone, Debug, Default)]
pub struct OfMembers {
    /// Why the step is invalid: a member was the limit, or its share is missing.
    pub invalid: Vec<Reason>,
    pub doubts: Vec<Reason>,
    /// Whether the generator of a member was the limit.
    pub is_client_bound: bool,
}

/// A limit of the generator's machine that requests failed by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReachedLimit {
    pub words: String,
    pub remedy: Remedy,
}

/// The server stopped answering.
#[derive(Clone, Debug)]
pub struct ServerEnd {
    /// Why the load ended, and by which end.
    pub reason: Reason,
    /// The last fault.
    pub words: String,
}

/// Longest responses that are so few that no quantile shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    pub count: u64,
    pub of: u64,
    pub longest_ns: f64,
    /// Their share of the time of all.
    pub share: f64,
}

/// The sweeps of a step so far.
#[derive(Clone, Default)]
pub struct MeasuredStep {
    /// In an open loop the most requests in flight.
    pub clients: u32,
    /// Whether requests are sent at a rate, whatever the responses.
    pub is_open: bool,
    pub sweeps: usize,
    pub by_sweep: Vec<MeasuredSweep>,
    pub batches: Vec<StepBatch>,
    /// Slots that do not fill a batch yet.
    pending: Option<(LoadSlot, usize)>,
    /// All slots.
    pub all: LoadSlot,
    /// The other counts of all windows, and their length. Of a step without a complete sweep, its
    /// faults are those of the warm-up too.
    pub counts: LoadWindow,
    /// Of an open loop: the most requests that waited at the end of a window, and the sweeps in
    /// which their number did not go down to what it was.
    pub waiting: u64,
    pub undrained: usize,
    /// Sweeps whose warm-up did not become steady.
    pub unsettled: usize,
    /// CPU time of all client threads, and of the busiest one with its wall time.
    pub client_cpu_ns: u64,
    busiest: (u64, u64),
    /// The share of the client's quota of CPUs in use in the busiest sweep, if it has one.
    pub of_quota: f64,
    pub client_per_request_ns: Vec<f64>,
    pub server: Option<ServerUse>,
    /// The state of the server's page cache, if it is not the one asked for.
    pub cache_doubt: Option<String>,
    /// The limit that most requests failed by, if they failed by one.
    pub reached_limit: Option<ReachedLimit>,
    pub server_end: Option<ServerEnd>,
    pub members: OfMembers,
}

impl MeasuredStep {
    pub fn new(clients: u32) -> Self {
        Self { clients, ..Self::default() }
    }

    /// Of requests at a rate, with so many in flight at most.
    pub fn open_loop(in_flight: u32) -> Self {
        Self { is_open: true, ..Self::new(in_flight) }
    }

    /// Adds the window of a sweep.
    pub fn add(&mut self, window: &LoadWindow) {
        window.slots.iter().for_each(|slot| self.add_slot(slot));
        self.counts.add_counts(window);
        self.counts.window_ns += window.window_ns;
        if let Some((backlog, is_drained)) = window.backlog.zip(window.is_drained) {
            self.waiting = self.waiting.max(backlog);
            let due = window.completed() + window.failed() + window.in_flight;
            self.undrained += usize::from(!is_drained && due >= DUE_MIN);
        }
        self.unsettled += usize::from(!window.is_settled);
        let cpu_ns: u64 = window.threads.iter().map(|thread| thread.cpu_ns).sum();
        self.client_cpu_ns += cpu_ns;
        if let Some(busiest) = window.threads.iter().max_by_key(|thread| thread.cpu_ns) {
            self.busiest.0 += busiest.cpu_ns;
            self.busiest.1 += busiest.wall_ns;
        }
        let mut all = LoadSlot::default();
        for slot in &window.slots {
            all.completed += slot.completed;
            all.partial += slot.partial;
            all.body_bytes += slot.body_bytes;
            all.received_bytes += slot.received_bytes;
            all.sum_ns += slot.sum_ns;
        }
        if all.completed > 0 {
            self.client_per_request_ns.push(cpu_ns as f64 / all.completed as f64);
        }
        let server = window.server.clone();
        let server = server.map(|it| it.counted_by_client(all.completed, all.body_bytes));
        let seconds = window.window_ns as f64 / 1e9;
        let of_quota = window.quota.map_or(0.0, |cpus| cpu_ns as f64 / 1e9 / seconds / cpus);
        // The kernel hands a quota out in slices, and takes back what is left of them: less than
        // all of it is used, and still the threads that want to run are held back.
        let held = window.throttled_ns as f64 / 1e9 / seconds;
        let wants = window.threads.iter().map(|it| it.used() + it.waiting()).fold(0.0, f64::max);
        let of_quota = if held > WAITING_MIN { of_quota.max(wants) } else { of_quota };
        self.of_quota = self.of_quota.max(of_quota);
        let used = window.threads.iter().map(LoadThread::used).fold(of_quota, f64::max);
        self.by_sweep.push(MeasuredSweep {
            point: SweepPoint {
                throughput: if all.completed > 0 { all.arrived() / seconds } else { 0.0 },
                response_s: all.mean_ns() / 1e9,
            },
            received_s: all.received_bytes as f64 / seconds,
            server: server.clone(),
            client_share: used.min(1.0),
            client_waiting: window.threads.iter().map(LoadThread::waiting).fold(0.0, f64::max),
            others: window.others,
        });
        // One sweep without telemetry makes the step's unknown.
        self.server = match (self.sweeps, self.server.take(), server) {
            (0, None, server) => server,
            (_, Some(sum), Some(server)) => Some(sum.plus(server)),
            _ => None,
        };
        self.sweeps += 1;
    }

    fn add_slot(&mut self, slot: &LoadSlot) {
        self.all.add(slot);
        let (mut sum, count) = self.pending.take().unwrap_or_default();
        sum.add(slot);
        let count = count + 1;
        // Slots of counted requests may be empty.
        if count < BATCH_SLOTS || sum.ns == 0 {
            self.pending = Some((sum, count));
            return;
        }
        self.batches.push(StepBatch::from_slot(&sum));
        let is_whole = self.batches.len() == 2 * BATCHES_MIN;
        if is_whole && self.short_batch().is_some() {
            self.batches = self.batches.chunks(2).map(|pair| pair[0].and(&pair[1])).collect();
        }
    }

    pub fn seconds(&self) -> f64 {
        self.counts.window_ns as f64 / 1e9
    }

    /// Responses per second, by the arrival of their bodies: all work by all time.
    pub fn throughput(&self) -> f64 {
        self.all.arrived() / self.seconds()
    }

    pub fn bandwidth(&self) -> f64 {
        self.all.body_bytes as f64 / self.seconds()
    }

    /// Of all requests.
    pub fn failed_share(&self) -> f64 {
        self.counts.failed() as f64 / (self.counts.failed() + self.all.completed).max(1) as f64
    }

    /// CPU utilisation of the busiest client thread, or of the client's quota.
    pub fn busiest(&self) -> f64 {
        (self.busiest.0 as f64 / self.busiest.1.max(1) as f64).max(self.of_quota)
    }

    /// Whether the generator was the limit.
    pub fn is_client_bound(&self) -> bool {
        self.all.completed > 0 && (self.busiest() > BUSY_MAX || self.members.is_client_bound)
    }

    /// Whether the quota of the client was the limit rather than a thread.
    pub fn is_quota_bound(&self) -> bool {
        self.of_quota > BUSY_MAX
    }

    /// CPUs that others used and the share of the time in which an end waited for one, on
    /// average, in words, if both are too large to be usual.
    pub fn contention(&self) -> Option<String> {
        let others = self.others()?;
        let waiting: Vec<f64> = self.by_sweep.iter().map(MeasuredSweep::waiting).collect();
        let waiting = statistics::mean(&waiting)?;
        (others > OTHERS_MIN && waiting > WAITING_MIN).then(|| {
            format!(
                "other processes or the kernel used {others:.1} CPUs, an end waited for one {:.0} \
                 % of the time",
                100.0 * waiting
            )
        })
    }

    /// How others kept the generator from its CPUs, if it waited for one and used none up itself.
    pub fn taken_by_others(&self) -> Option<String> {
        let own: Vec<f64> = self.by_sweep.iter().map(|sweep| sweep.client_waiting).collect();
        let waiting = statistics::mean(&own)?;
        if self.busiest() > BUSY_MAX {
            return None;
        }
        if let Some(by) = self.contention().filter(|_| waiting > WAITING_MIN) {
            return Some(by);
        }
        // One that is seldom due is late by a wait that is short beside the window.
        let waits = waiting > WAITED_MIN * self.wants_cpu();
        let others = self.others().filter(|others| self.is_open && waits && *others > TAKEN_MIN)?;
        let share = percent(waiting / self.wants_cpu());
        Some(format!(
            "other processes or the kernel used {others:.1} CPUs, the generator waited for one in \
             {share} of the time in which it had work"
        ))
    }

    /// CPUs that others used, on average over the sweeps; `None` where one does not tell.
    fn others(&self) -> Option<f64> {
        let others: Option<Vec<f64>> = self.by_sweep.iter().map(|sweep| sweep.others).collect();
        statistics::mean(&others?)
    }

    /// The share of the time in which a thread of the generator ran or was ready to, on average.
    pub fn wants_cpu(&self) -> f64 {
        let wants = self.by_sweep.iter().map(|sweep| sweep.client_share + sweep.client_waiting);
        statistics::mean(&wants.collect::<Vec<f64>>()).unwrap_or(0.0)
    }

    /// Mean delay between the readiness of a connection and its handling.
    pub fn mean_lag_ns(&self) -> f64 {
        self.counts.lag_ns / self.counts.lags.max(1) as f64
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
        (shortest < RESPONSES_MIN * self.all.mean_ns())
            .then(|| "a batch is shorter than two response times".to_owned())
    }

    /// Seconds in which each of five batches would have enough completions: where there are enough
    /// in all, twice as many.
    pub fn time_for_interval(&self) -> f64 {
        let by_count = COMPLETIONS_NEEDED / self.all.completed.max(1) as f64;
        let by_time =
            BATCHES_MIN as f64 * RESPONSES_MIN * self.all.mean_ns() / self.counts.window_ns as f64;
        self.seconds() * by_count.max(SCATTER * by_time).max(2.0)
    }

    /// The confidence interval of a rate or a mean over all work, from its value in each batch, by
    /// Student's t: batch means (Law and Kelton, Simulation Modeling and Analysis).
    pub fn mean_interval(&self, headline: f64, of: impl Fn(&StepBatch) -> f64) -> Option<Interval> {
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
        let p99 = self.all.times.quantile(0.99).filter(|_| has_p99).unwrap_or(f64::INFINITY);
        if self.is_open {
            return self.counts.in_flight;
        }
        let longer = self.counts.in_flight_times.timings().into_iter().filter(|(ns, _)| *ns > p99);
        longer.map(|(_, count)| count).sum()
    }

    /// Of a closed loop: the longest responses, if they are so few that no quantile shows them,
    /// and a large part of the time of the clients. Those that the end of a window cut are among
    /// them.
    pub fn stall(&self) -> Option<Stall> {
        let cut = self.counts.in_flight_times.timings();
        let longest_ns = cut.iter().fold(self.all.times.max(), |longest, (ns, _)| longest.max(*ns));
        let all_ns = self.all.sum_ns + total(&cut).1;
        let all = self.all.times.timings().into_iter().chain(cut);
        let stalls: Vec<_> = all.filter(|(ns, _)| *ns >= longest_ns / 2.0).collect();
        let (count, sum_ns) = total(&stalls);
        let share = sum_ns / all_ns.max(1.0);
        let median = self.all.times.quantile(0.5).unwrap_or(0.0);
        let is_rare = count as f64 <= STALLS_MAX * self.all.completed as f64;
        let is_stalled = !self.is_open && is_rare && share >= STALLED_MIN;
        let of = self.all.completed + self.counts.in_flight_times.len();
        let stall = Stall { count, of, longest_ns, share };
        (is_stalled && longest_ns >= STALL_MIN * median).then_some(stall)
    }

    /// The quantiles with ten responses beyond them, ascending: those of a summary.
    pub fn tails(&self) -> impl Iterator<Item = (f64, &'static str)> {
        let all = self.all.times.len() as f64;
        TAILS.into_iter().filter(move |(q, _)| all * (1.0 - q) >= TAIL_MIN)
    }

    /// The limits of a quantile of the response times, by the share beyond it in each batch. The
    /// upper one is absent if too few responses are beyond it.
    pub fn quantile_limits(&self, q: f64) -> Option<(f64, Option<f64>)> {
        let value = self.all.times.quantile(q).filter(|_| self.no_interval().is_none())?;
        let beyond = |batch: &StepBatch| {
            let beyond = batch.times.iter().filter(|(ns, _)| *ns >= value);
            (beyond.map(|(_, count)| count).sum(), batch.completed)
        };
        let (low, high) = quantile_limits(q, &self.batches.iter().map(beyond).collect::<Vec<_>>())?;
        Some((self.all.times.quantile(low)?, high.and_then(|high| self.all.times.quantile(high))))
    }

    /// The confidence interval of a median from its value in each batch.
    pub fn interval(&self, headline: f64, of: impl Fn(&StepBatch) -> f64) -> Option<Interval> {
        if self.no_interval().is_some() {
            return None;
        }
        batch_interval(headline, &self.batches.iter().map(of).collect::<Vec<f64>>())
    }
}

/// Number and sum of timings with the number of each.
fn total(timings: &[(f64, u64)]) -> (u64, f64) {
    timings.iter().fold((0, 0.0), |(all, sum), (ns, count)| (all + count, sum + ns * *count as f64))
}

#[cfg(test)]
pub(super) mod tests;
