//! The windows of a share as its record has them: whether they can be, and those of all members as
//! the one window in which the threads of all of them counted.

use fathom_analysis::load::SLOTS;
use fathom_record::load_facts::PHASES;
use fathom_record::{LoadSlot, LoadWindow};

use crate::engine::Heat;

/// More of anything is implausible: sums over all members and windows then do not overflow.
const COUNT_MAX: u64 = 1 << 45;
/// Requests in flight of a member, and threads.
const IN_FLIGHT_MAX: u64 = 1 << 20;
const THREADS_MAX: usize = 1_024;
/// Kinds of faults, and statuses, which have three digits.
const FAULTS_MAX: usize = 256;
const STATUSES_MAX: usize = 900;

/// Whether the figures of a member can be: they are sums and divisors of all.
pub fn is_plausible(window: &LoadWindow) -> bool {
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
    let numbers =
        slots().flat_map(|slot| [slot.ns, slot.completed, slot.body_bytes, slot.received_bytes]);
    let by_words = window.statuses.values().chain(window.faults.values()).copied();
    let sums = slots().flat_map(|slot| [slot.sum_ns, slot.partial.abs()]).chain([window.lag_ns]);
    let sums = sums.chain(window.quota).chain(window.others);
    let is_whole = |slot: &LoadSlot| {
        slot.times.len() == slot.completed
            && slot.times_from_send.as_ref().is_none_or(|times| times.len() == slot.completed)
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
        && [0, PHASES.len()].contains(&window.phases.len())
        && window.server.as_ref().is_none_or(|server| {
            server.per_request_ns.len() <= 1
                && server.per_byte_ns.len() <= 1
                && [server.wall_ns, server.cpu_ns].iter().all(|ns| *ns <= COUNT_MAX)
        })
}

/// The heat map of a recorded window, by its slots.
pub fn heat(window: &LoadWindow) -> Heat {
    let slots = window.slots.iter().map(|slot| (slot.ns, slot.times.timings()));
    Heat::of_slots(window.begun_ns, slots)
}

/// The window of all members; none of them is missing.
pub fn whole<'w>(windows: impl Iterator<Item = &'w LoadWindow> + Clone) -> LoadWindow {
    let first = windows.clone().next();
    let most = |of: fn(&LoadWindow) -> u64| windows.clone().map(of).max().unwrap_or(0);
    let mut whole = LoadWindow {
        begun_ns: first.map_or(0, |it| it.begun_ns),
        window_ns: most(|it| it.window_ns),
        warm_up_ns: most(|it| it.warm_up_ns),
        late_ns: most(|it| it.late_ns),
        is_settled: windows.clone().all(|window| window.is_settled),
        threads: windows.clone().flat_map(|window| window.threads.iter().copied()).collect(),
        backlog: windows.clone().filter_map(|window| window.backlog).reduce(|a, b| a + b),
        is_drained: windows.clone().filter_map(|window| window.is_drained).reduce(|a, b| a && b),
        others: windows.clone().filter_map(|window| window.others).reduce(f64::max),
        server: windows.clone().find_map(|window| window.server.clone()),
        ..LoadWindow::default()
    };
    for window in windows {
        whole.add_counts(window);
        whole.add_slots(window);
    }
    let slots_ns = first.into_iter().flat_map(|first| &first.slots).map(|slot| slot.ns);
    whole.slots.iter_mut().zip(slots_ns).for_each(|(slot, ns)| slot.ns = ns);
    whole
}
