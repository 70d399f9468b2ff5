//! The windows of a share as they are recorded, and back: a window of several members is one in
//! which the threads of all of them counted.

use fathom_record::{LoadSlot, LoadThread, LoadWindow, ServerUse};

use crate::engine::{Backlog, End, Heat, Outcome, Phases, SLOTS, Slot, Tally, ThreadUse, Workload};
use crate::share::Share;
use crate::step::Step;

/// More of anything is implausible: sums over all members and windows then do not overflow.
const COUNT_MAX: u64 = 1 << 45;
/// Requests in flight of a member, and threads.
const IN_FLIGHT_MAX: u64 = 1 << 20;
const THREADS_MAX: usize = 1_024;
/// Kinds of faults, and statuses, which have three digits.
const FAULTS_MAX: usize = 256;
const STATUSES_MAX: usize = 900;

impl Step {
    /// The work of a share of this step.
    pub fn share_of(&self, share: Share, work: Workload) -> Workload {
        let clients = self.of_all.unwrap_or(0.0) as u32;
        Workload {
            seed: share.seed(work.seed),
            first: if self.rate.is_none() { share.before(clients) } else { 0 },
            shift_ns: self.rate.map_or(0, |rate| share.shift_ns(rate)),
            ..work
        }
    }

    /// Keeps what a window counted.
    pub fn keep(&mut self, outcome: &Outcome, server: Option<ServerUse>, others: Option<f64>) {
        let Outcome { tally, .. } = outcome;
        let slot = |(slot, ns): (&Slot, u64)| LoadSlot {
            ns,
            completed: slot.completed,
            body_bytes: slot.body_bytes,
            sum_ns: slot.sum_ns,
            times: slot.times.clone(),
            times_from_send: slot.times_from_send.clone(),
        };
        let thread = |&ThreadUse { cpu_ns, wait_ns, wall_ns }: &ThreadUse| LoadThread {
            cpu_ns,
            wait_ns,
            wall_ns,
        };
        let faults = tally.window_faults.iter().map(|(fault, count)| (fault.to_string(), *count));
        self.windows.push(LoadWindow {
            begun_ns: tally.heat.from_ns,
            late_ns: outcome.late_ns,
            window_ns: outcome.window_ns,
            warm_up_ns: outcome.warm_up_ns,
            is_settled: outcome.is_settled,
            slots: tally.slots.iter().zip(outcome.slots_ns).map(slot).collect(),
            statuses: tally.statuses.clone(),
            faults: faults.collect(),
            wrong_path: self.wrong_path.clone(),
            connections: tally.connections,
            window_connections: tally.window_connections,
            closed_idle: tally.closed_idle,
            in_flight: tally.in_flight,
            longest_in_flight_ns: tally.longest_in_flight_ns,
            in_flight_times: tally.in_flight_ns.iter().map(|ns| *ns as f64).collect(),
            lag_ns: tally.lag_ns,
            lags: tally.lags,
            sent_late: tally.late.clone(),
            backlog: outcome.backlog.map(|backlog| backlog.requests),
            is_drained: outcome.backlog.map(|backlog| backlog.is_drained),
            phases: tally.phases.as_ref().map_or(Vec::new(), Phases::all),
            threads: outcome.threads.iter().map(thread).collect(),
            throttled_ns: outcome.throttled_ns,
            quota: self.quota(),
            others,
            server,
        });
    }
}

/// What the engine counted in a recorded window; `None` if that cannot be.
pub fn outcome(window: &LoadWindow) -> Option<Outcome> {
    let timings: Vec<_> = window.slots.iter().map(|slot| slot.times.timings()).collect();
    let is_whole = |(slot, timings): (&LoadSlot, &Vec<(f64, u64)>)| {
        timings.iter().map(|(_, count)| count).sum::<u64>() == slot.completed
    };
    if !is_plausible(window) || !window.slots.iter().zip(&timings).all(is_whole) {
        return None;
    }
    let slot = |slot: &LoadSlot| Slot {
        completed: slot.completed,
        body_bytes: slot.body_bytes,
        sum_ns: slot.sum_ns,
        times: slot.times.clone(),
        times_from_send: slot.times_from_send.clone(),
    };
    let in_flight = window.in_flight_times.timings().into_iter();
    let in_flight_ns = in_flight.flat_map(|(ns, count)| (0..count).map(move |_| ns as u64));
    let slots = window.slots.iter().map(|slot| slot.ns).zip(timings);
    let slots_ns: [u64; SLOTS] = std::array::from_fn(|at| window.slots[at].ns);
    Some(Outcome {
        tally: Tally {
            slots: window.slots.iter().map(slot).collect(),
            heat: Heat::of_slots(window.begun_ns, slots),
            statuses: window.statuses.clone(),
            connections: window.connections,
            window_connections: window.window_connections,
            closed_idle: window.closed_idle,
            in_flight: window.in_flight,
            longest_in_flight_ns: window.longest_in_flight_ns,
            in_flight_ns: in_flight_ns.collect(),
            lag_ns: window.lag_ns,
            lags: window.lags,
            late: window.sent_late.clone(),
            phases: Phases::of_all(&window.phases),
            ..Tally::default()
        },
        window_ns: window.window_ns,
        slots_ns,
        warm_up_ns: window.warm_up_ns,
        late_ns: window.late_ns,
        is_settled: window.is_settled,
        threads: window
            .threads
            .iter()
            .map(|&LoadThread { cpu_ns, wait_ns, wall_ns }| ThreadUse { cpu_ns, wait_ns, wall_ns })
            .collect(),
        throttled_ns: window.throttled_ns,
        backlog: window
            .backlog
            .zip(window.is_drained)
            .map(|(requests, is_drained)| Backlog { requests, is_drained }),
        end: End::Complete,
    })
}

/// Whether the figures of a member can be: they are sums and divisors of all.
fn is_plausible(window: &LoadWindow) -> bool {
    let slots = || window.slots.iter();
    let counts = [
        window.begun_ns,
        window.late_ns,
        window.window_ns,
        window.warm_up_ns,
        window.connections,
        window.window_connections,
        window.closed_idle,
        window.in_flight,
        window.longest_in_flight_ns,
        window.lags,
        window.throttled_ns,
        window.backlog.unwrap_or(0),
    ];
    let threads = window.threads.iter().flat_map(|it| [it.cpu_ns, it.wait_ns, it.wall_ns]);
    let numbers = slots().flat_map(|slot| [slot.ns, slot.completed, slot.body_bytes]);
    let by_words = window.statuses.values().chain(window.faults.values()).copied();
    let sums = slots().map(|slot| slot.sum_ns).chain([window.lag_ns]);
    let sums = sums.chain(window.quota).chain(window.others);
    let is_whole = |slot: &LoadSlot| {
        slot.times_from_send.as_ref().is_none_or(|times| times.len() == slot.completed)
    };
    let mut all = counts.into_iter().chain(threads).chain(numbers).chain(by_words);
    all.all(|count| count <= COUNT_MAX)
        && sums.into_iter().all(|sum| (0.0..=COUNT_MAX as f64).contains(&sum))
        && window.window_ns > 0
        && window.slots.len() == SLOTS
        && slots().all(is_whole)
        && window.in_flight_times.len() <= IN_FLIGHT_MAX
        && window.threads.len() <= THREADS_MAX
        && window.faults.len() <= FAULTS_MAX
        && window.statuses.len() <= STATUSES_MAX
        && [0, Phases::COUNT].contains(&window.phases.len())
        && window.server.as_ref().is_none_or(|server| {
            server.per_request_ns.len() <= 1
                && server.per_byte_ns.len() <= 1
                && [server.wall_ns, server.cpu_ns].iter().all(|ns| *ns <= COUNT_MAX)
        })
}

/// The window of all members; none of them is missing.
pub fn whole<'o>(windows: impl Iterator<Item = &'o Outcome> + Clone) -> Outcome {
    let mut tally = Tally::default();
    windows.clone().for_each(|window| tally.merge(&window.tally));
    let most = |of: fn(&Outcome) -> u64| windows.clone().map(of).max().unwrap_or(0);
    let first = windows.clone().next();
    if let Some(first) = first {
        let heat = &first.tally.heat;
        (tally.heat.from_ns, tally.heat.slices_ns) = (heat.from_ns, heat.slices_ns.clone());
    }
    let backlogs: Vec<Backlog> = windows.clone().filter_map(|window| window.backlog).collect();
    Outcome {
        tally,
        window_ns: most(|it| it.window_ns),
        slots_ns: first.map_or([0; SLOTS], |it| it.slots_ns),
        warm_up_ns: most(|it| it.warm_up_ns),
        late_ns: most(|it| it.late_ns),
        is_settled: windows.clone().all(|window| window.is_settled),
        threads: windows.flat_map(|window| window.threads.iter().copied()).collect(),
        throttled_ns: 0,
        backlog: (!backlogs.is_empty()).then(|| Backlog {
            requests: backlogs.iter().map(|backlog| backlog.requests).sum(),
            is_drained: backlogs.iter().all(|backlog| backlog.is_drained),
        }),
        end: End::Complete,
    }
}
