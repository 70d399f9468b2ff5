//! The measured window of one sweep of a step: warm-up, begin, end, and the threads meanwhile.

use std::fs;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use fathom_analysis::load::SLOTS;
use fathom_measure::clock::monotonic_raw_ns as now_ns;
use fathom_measure::disturbance::throttled_ns;
use fathom_record::{LoadSlot, LoadThread};

use super::reactor::Reactor;
use super::shared::{EngineSeat, EngineShared};
use super::tally::SLICES;
use super::{Fault, Tally, Workload};

/// Between two looks at the threads.
const TICK: Duration = Duration::from_millis(20);
/// A part of the warm-up lasts at least this long and has this many completions.
const PART_NS: [u64; 2] = [20_000_000, 1_000_000_000];
const PART_COMPLETIONS: u64 = 8;
/// Warmed up: two parts in a row differ by less than this, or by less than their counts scatter.
const SETTLED: f64 = 0.10;
/// The window of an open loop begins so much later: all threads know of it when it does.
const AHEAD_NS: u64 = 2_000_000;
/// The warm-up before a window at a planned time ends so much before it: the counters of both ends
/// are read meanwhile.
const PLANNED_AHEAD_NS: u64 = 20_000_000;
/// A backlog at the end of a window may take as long as the window to go down, or this long.
const DRAIN_MIN_NS: u64 = 1_000_000_000;
/// Parts of a window by which it is judged whether it does, and those in a row in which it grows
/// instead.
const GROWTH_PARTS: u64 = 10;
const GROWTHS: u32 = 3;
/// No completion for this long, but failures: the server is gone.
const SILENCE_NS: u64 = 1_000_000_000;
/// Failures in that time if connections are possible.
const FAILURES_MIN: u64 = 100;

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub window_ns: u64,
    pub warm_up_max_ns: u64,
    /// Makes exactly so many requests, without a warm-up, if the window is not over before.
    pub requests: Option<u64>,
    /// When requests begin, by the clock: the warm-up then has its longest length, and the window
    /// begins behind it, whatever was measured. `None`: at once, and as soon as it is steady.
    pub begin_ns: Option<u64>,
}

impl Timing {
    /// The longest warm-up is a quarter of the window; that of an open loop has this length.
    pub fn with_window(window_ns: u64, requests: Option<u64>) -> Self {
        let warm_up_max_ns = (window_ns / 4).max(5 * PART_NS[0]);
        Self { window_ns, warm_up_max_ns, requests, begin_ns: None }
    }

    /// When the window is planned to begin.
    fn planned_ns(self) -> Option<u64> {
        Some(self.begin_ns? + self.warm_up_max_ns)
    }

    /// The longest time for the backlog of an open loop at the end of a window.
    pub fn drain_max_ns(self) -> u64 {
        self.window_ns.max(DRAIN_MIN_NS)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    WarmUp,
    /// Just before the window.
    Begin,
    Running,
    /// Just after the window.
    End,
}

/// The state at a moment, since the threads began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    pub completed: u64,
    pub body_bytes: u64,
    pub failed: u64,
    pub now_ns: u64,
    /// Of an open loop: requests that are due and not done.
    pub backlog: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// By the caller.
    Stopped,
    /// The server no longer answers.
    Dead(Fault),
}

/// What a window counted, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    pub tally: Tally,
    pub end: End,
}

/// Called at every moment; returns whether to go on.
pub type WindowWatch<'w> = dyn FnMut(Moment, &Live) -> bool + 'w;

/// Runs one sweep of a step.
///
/// # Errors
/// If a thread cannot be started or has no epoll instance.
pub fn run(
    work: &Workload,
    timing: Timing,
    watch: &mut WindowWatch<'_>,
) -> std::io::Result<Outcome> {
    let begun_ns = timing.begin_ns.unwrap_or_else(now_ns);
    let shared = EngineShared::new(work.threads, timing.requests, work.rate.is_some(), begun_ns);
    let reactors: Vec<Reactor<'_>> = (0..work.threads)
        .map(|thread| Reactor::new(work, &shared, thread))
        .collect::<rustix::io::Result<_>>()?;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (reactor, seat) in reactors.into_iter().zip(&shared.seats) {
            let body = move || {
                let id = rustix::thread::gettid().as_raw_nonzero().get();
                seat.thread.store(id as u32, Relaxed);
                let tally = reactor.run();
                let (cpu_ns, wait_ns) = schedule_ns(id as u32).unwrap_or_default();
                seat.final_wait_ns.store(wait_ns, Relaxed);
                seat.final_cpu_ns.store(cpu_ns, Release);
                tally
            };
            let started = std::thread::Builder::new().name("load".to_owned());
            match started.spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.until_ns.store(0, Relaxed);
                    return Err(error);
                }
            }
        }
        let mut outcome = WindowCoordinator::new(&shared, work, watch).sweep(timing);
        shared.until_ns.store(0, Relaxed);
        for thread in threads {
            let tally = thread.join().map_err(|_| std::io::Error::other("a thread panicked"))?;
            outcome.tally.merge(&tally);
        }
        Ok(outcome)
    })
}

/// The calling thread: it sleeps, looks and decides.
struct WindowCoordinator<'c, 'w> {
    shared: &'c EngineShared,
    clients: u64,
    watch: &'c mut WindowWatch<'w>,
    /// The state when a request was last completed.
    alive: (Live, u64),
}

impl<'c, 'w> WindowCoordinator<'c, 'w> {
    fn new(shared: &'c EngineShared, work: &Workload, watch: &'c mut WindowWatch<'w>) -> Self {
        let now = Live { now_ns: now_ns(), ..Live::default() };
        Self { shared, clients: work.clients.into(), watch, alive: (now, 0) }
    }

    fn sweep(&mut self, timing: Timing) -> Outcome {
        let begun_ns = now_ns();
        let mut outcome = Outcome { tally: Tally::default(), end: End::Complete };
        let Outcome { tally: Tally { window, heat, .. }, end } = &mut outcome;
        let length = timing.window_ns.max(PART_NS[0]);
        let early = self.open_early(timing, length);
        match timing.requests.map_or_else(|| self.warm_up(timing), |_| Ok(true)) {
            Ok(is_settled) => window.is_settled = is_settled,
            Err(why) => return Outcome { end: why, ..outcome },
        }
        let begun = self.live();
        if !(self.watch)(Moment::Begin, &begun) {
            return Outcome { end: End::Stopped, ..outcome };
        }
        let (before, held) = (self.threads(), throttled_ns());
        let from = early.unwrap_or_else(|| self.open(timing, length));
        window.late_ns = timing.planned_ns().map_or(0, |planned| from - planned);
        window.warm_up_ns = from - begun_ns;
        // The largest up to the middle of the window.
        let mut usual = begun.backlog;
        *end = loop {
            if now_ns() < from + length / 2 {
                usual = usual.max(self.backlog());
            }
            let left = (from + length).saturating_sub(now_ns());
            if left == 0 || self.is_all_done() {
                break End::Complete;
            }
            if let Err(why) = self.step(Moment::Running, Duration::from_nanos(left).min(TICK)) {
                break why;
            }
        };
        let end_ns = now_ns();
        window.window_ns = length.min(end_ns.saturating_sub(from));
        let slices_ns = self.shared.slices_ns(window.window_ns);
        let slot = |of: &[u64]| LoadSlot { ns: of.iter().sum(), ..LoadSlot::default() };
        window.slots = slices_ns.chunks(SLICES / SLOTS).map(slot).collect();
        (heat.from_ns, heat.slices_ns) = (from, slices_ns.to_vec());
        if timing.requests.is_some() {
            // Up to the last completion.
            let slots_ns: u64 = slices_ns.iter().sum();
            window.window_ns = slots_ns.clamp(1, window.window_ns);
        }
        let after = self.threads();
        let used = |(a, b): (&Stamped, &Stamped)| LoadThread {
            cpu_ns: b.cpu_ns.saturating_sub(a.cpu_ns),
            wait_ns: b.wait_ns.saturating_sub(a.wait_ns),
            wall_ns: end_ns.saturating_sub(a.at_ns),
        };
        window.threads = before.iter().zip(&after).map(used).collect();
        let held = held.zip(throttled_ns()).map(|(then, now)| now.saturating_sub(then));
        window.throttled_ns = held.unwrap_or(0);
        let live = self.live();
        (self.watch)(Moment::End, &live);
        if self.shared.is_open_loop && *end == End::Complete {
            let growth = Growth::new(&begun, &live, length);
            let due_ns = from + length;
            match self.drain(growth, usual, (due_ns, due_ns + timing.drain_max_ns())) {
                Ok((requests, is_drained)) => {
                    (window.backlog, window.is_drained) = (Some(requests), Some(is_drained));
                }
                Err(dead) => *end = dead,
            }
        }
        outcome
    }

    /// Opens a planned window before the warm-up: its threads know of it, however late this one
    /// wakes up. Returns when it begins.
    fn open_early(&self, timing: Timing, length: u64) -> Option<u64> {
        let from = timing.planned_ns().filter(|planned| now_ns() + AHEAD_NS < *planned)?;
        self.shared.open(from, length);
        Some(from)
    }

    /// Opens the window; returns when it begins.
    fn open(&self, timing: Timing, length: u64) -> u64 {
        let ahead = if self.shared.is_open_loop { AHEAD_NS } else { 0 };
        let from = (now_ns() + ahead).max(timing.planned_ns().unwrap_or(0));
        self.shared.open(from, length);
        from
    }

    /// Waits until all requests of the window are done and the backlog is as usual, with further
    /// requests at the same rate. Without it, a stall at the end would be lost: the requests that
    /// it delays most would have no response time. Returns the backlog at the end of the window,
    /// and whether it went back to what it was in the first half, with requests at the same rate:
    /// then the server sustains the rate.
    fn drain(
        &mut self,
        mut growth: Growth,
        usual: u64,
        (end_ns, until_ns): (u64, u64),
    ) -> Result<(u64, bool), End> {
        let (mut requests, mut is_counted) = (growth.last.backlog, false);
        loop {
            let live = self.live();
            if !is_counted {
                requests = requests.max(live.backlog);
                is_counted = self.is_counted(end_ns);
            }
            let is_usual = is_counted && live.backlog <= usual;
            if is_usual && self.shared.sum(|seat| &seat.unfinished) == 0 {
                return Ok((requests, true));
            }
            if growth.is_certain(&live) || live.now_ns >= until_ns {
                return Ok((requests, is_usual));
            }
            self.step(Moment::Running, TICK)?;
        }
    }

    /// Whether the threads of an open loop have seen all requests that were due until then.
    fn is_counted(&self, end_ns: u64) -> bool {
        let counted = |seat: &EngineSeat| seat.arrived_until_ns.load(Acquire) >= end_ns;
        self.shared.seats.iter().all(counted)
    }

    fn backlog(&self) -> u64 {
        self.shared.sum(|seat| &seat.backlog)
    }

    /// Whether the counted requests have ended, in whichever way.
    fn is_all_done(&self) -> bool {
        let ended = self.shared.sum(|seat| &seat.completed) + self.shared.sum(|seat| &seat.failed);
        self.shared.limit.is_some_and(|limit| ended >= limit)
    }

    /// Waits until the throughput is steady, or the longest warm-up is over; returns whether it is.
    fn warm_up(&mut self, timing: Timing) -> Result<bool, End> {
        let mut parts = Parts::new(timing, self.live());
        if let Some(from_ns) = timing.planned_ns() {
            return self.warm_up_until(from_ns.saturating_sub(PLANNED_AHEAD_NS), parts);
        }
        loop {
            self.step(Moment::WarmUp, TICK)?;
            // The throughput of an open loop is its rate from the beginning on.
            if self.shared.is_open_loop {
                match parts.is_over(now_ns()) {
                    true => return Ok(true),
                    false => continue,
                }
            }
            if let Some(is_steady) = parts.add(self.live()) {
                return Ok(is_steady);
            }
        }
    }

    /// Warms up until a time; returns whether the throughput became steady before.
    fn warm_up_until(&mut self, until_ns: u64, mut parts: Parts) -> Result<bool, End> {
        let mut is_steady = self.shared.is_open_loop;
        loop {
            let left = until_ns.saturating_sub(now_ns());
            if left == 0 {
                return Ok(is_steady || !parts.has_changed);
            }
            self.step(Moment::WarmUp, Duration::from_nanos(left).min(TICK))?;
            is_steady |= parts.add(self.live()) == Some(true);
        }
    }

    fn step(&mut self, moment: Moment, pause: Duration) -> Result<(), End> {
        std::thread::sleep(pause);
        let live = self.live();
        if !(self.watch)(moment, &live) {
            return Err(End::Stopped);
        }
        self.check_alive(&live)
    }

    /// Fails if nothing was completed for a while, but requests fail.
    fn check_alive(&mut self, live: &Live) -> Result<(), End> {
        let unconnected = self.shared.sum(|seat| &seat.unconnected);
        let (last, before) = &self.alive;
        if live.completed > last.completed {
            self.alive = (*live, unconnected);
            return Ok(());
        }
        let is_silent = live.now_ns - last.now_ns >= SILENCE_NS;
        let refused = unconnected - before >= self.clients;
        if is_silent && (refused || live.failed - last.failed >= FAILURES_MIN) {
            let fault = self.shared.last_fault.lock().ok().and_then(|fault| *fault);
            return Err(End::Dead(fault.unwrap_or(Fault::Closed)));
        }
        Ok(())
    }

    fn live(&self) -> Live {
        Live {
            completed: self.shared.sum(|seat| &seat.completed),
            body_bytes: self.shared.sum(|seat| &seat.body_bytes),
            failed: self.shared.sum(|seat| &seat.failed),
            now_ns: now_ns(),
            backlog: self.backlog(),
        }
    }

    fn threads(&self) -> Vec<Stamped> {
        let stamped = |seat: &EngineSeat| {
            let running = schedule_ns(seat.thread.load(Relaxed));
            let ended = || (seat.final_cpu_ns.load(Acquire), seat.final_wait_ns.load(Relaxed));
            let (cpu_ns, wait_ns) = running.unwrap_or_else(ended);
            Stamped { at_ns: now_ns(), cpu_ns, wait_ns }
        };
        self.shared.seats.iter().map(stamped).collect()
    }
}

/// A backlog after a window: of a server that stalls it may still go down, of one that is slower
/// than the rate it grows further.
struct Growth {
    part_ns: u64,
    /// Completions of an average part of the window.
    usual: u64,
    last: Live,
    /// Parts in a row in which it grew.
    parts: u32,
}

impl Growth {
    fn new(begun: &Live, end: &Live, window_ns: u64) -> Self {
        let usual = (end.completed - begun.completed) / GROWTH_PARTS;
        Self { part_ns: window_ns / GROWTH_PARTS, usual, last: *end, parts: 0 }
    }

    /// Whether it grows although the server works: waiting is in vain.
    fn is_certain(&mut self, live: &Live) -> bool {
        if live.now_ns < self.last.now_ns + self.part_ns {
            return false;
        }
        let works = live.completed - self.last.completed > self.usual / 2;
        let grows = works && live.backlog >= self.last.backlog;
        self.parts = if grows { self.parts + 1 } else { 0 };
        self.last = *live;
        self.parts >= GROWTHS
    }
}

/// The parts of a warm-up so far.
struct Parts {
    timing: Timing,
    begun: Live,
    /// At the end of the last part, and the rate in it.
    last: Live,
    rate: Option<f64>,
    /// Whether two parts were unlike.
    has_changed: bool,
}

impl Parts {
    fn new(timing: Timing, begun: Live) -> Self {
        Self { timing, begun, last: begun, rate: None, has_changed: false }
    }

    /// Whether the throughput was steady, once the warm-up is over.
    fn add(&mut self, live: Live) -> Option<bool> {
        let part_ns = (self.timing.window_ns / 40).clamp(PART_NS[0], PART_NS[1]);
        let elapsed_ns = live.now_ns - self.last.now_ns;
        let count = live.completed - self.last.completed;
        if elapsed_ns >= part_ns && count >= PART_COMPLETIONS {
            let now = count as f64 / elapsed_ns as f64 * 1e9;
            let chance = 3.0 / (count as f64).sqrt();
            let before = self.rate.replace(now);
            self.last = live;
            if let Some(before) = before {
                if (now / before - 1.0).abs() < SETTLED.max(chance) {
                    return Some(true);
                }
                self.has_changed = true;
            }
        }
        // Too few completions to compare are no sign of drift.
        self.is_over(live.now_ns).then_some(!self.has_changed)
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns - self.begun.now_ns >= self.timing.warm_up_max_ns
    }
}

/// What a thread has used at a time.
struct Stamped {
    at_ns: u64,
    cpu_ns: u64,
    wait_ns: u64,
}

/// CPU time of a thread of this process, in nanoseconds and not in ticks, and its wait for a CPU.
fn schedule_ns(thread: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_ends_when_two_parts_are_alike() {
        // Parts of 50 ms, for at most 500 ms.
        let timing = Timing::with_window(2_000_000_000, None);
        let after = |readings: &[(u64, u64)]| {
            let at = |&(ms, completed): &(u64, u64)| Live {
                completed: 70 + completed,
                now_ns: 1_000_000_000 + ms * 1_000_000,
                ..Live::default()
            };
            let mut parts = Parts::new(timing, at(&(0, 0)));
            readings.iter().map(|reading| parts.add(at(reading))).collect::<Vec<_>>()
        };
        // Above 900 completions chance is less than a tenth.
        assert_eq!(after(&[(50, 1_000), (100, 2_090)]), [None, Some(true)], "9 % more");
        assert_eq!(after(&[(50, 1_000), (100, 1_910)]), [None, Some(true)], "9 % less");
        assert_eq!(after(&[(50, 1_000), (100, 2_110)]), [None; 2], "11 % more");
        assert_eq!(after(&[(50, 1_000), (150, 2_950)]), [None, Some(true)], "by their times");
        assert_eq!(after(&[(50, 100), (100, 229)]), [None; 2], "29 % more, and chance 26 %");
        assert_eq!(after(&[(50, 100), (100, 224)]), [None, Some(true)], "24 %");
        let early = [(49, 1_000), (50, 1_000), (99, 2_000), (100, 2_000)];
        assert_eq!(after(&early), [None, None, None, Some(true)]);
        let few = [(50, 7), (100, 8), (150, 15), (200, 16)];
        assert_eq!(after(&few), [None, None, None, Some(true)], "eight complete a part");
        assert_eq!(after(&[(50, 1_000), (499, 20_000), (500, 20_007)])[1..], [None, Some(false)]);
        assert_eq!(after(&[(300, 9), (499, 15), (500, 16)])[2..], [Some(true)], "one part only");
        assert_eq!(after(&[(499, 7), (500, 7)]), [None, Some(true)], "nothing to compare");
        let short = Timing::with_window(100_000_000, None);
        let limits = [short.warm_up_max_ns, timing.warm_up_max_ns];
        assert_eq!(limits, [100_000_000, 500_000_000]);
    }

    #[test]
    fn backlog_of_a_slow_server_grows_and_that_of_a_stalled_one_does_not() {
        // A second with 1 000 completions.
        let at = |ms: u64, completed: u64, backlog: u64| Live {
            now_ns: ms * 1_000_000,
            completed,
            backlog,
            ..Live::default()
        };
        let after = |readings: &[(u64, u64, u64)]| {
            let mut growth = Growth::new(&at(0, 0, 0), &at(1_000, 1_000, 300), 1_000_000_000);
            let is_certain = readings
                .iter()
                .map(|&(ms, completed, backlog)| growth.is_certain(&at(ms, completed, backlog)));
            is_certain.collect::<Vec<bool>>()
        };
        let grows =
            [(1_099, 1_099, 330), (1_100, 1_100, 330), (1_200, 1_200, 330), (1_300, 1_300, 331)];
        assert_eq!(after(&grows), [false, false, false, true]);
        let stalls = [(1_100, 1_000, 400), (1_200, 1_000, 500), (1_300, 1_000, 600)];
        assert_eq!(after(&stalls), [false; 3], "no work");
        let falls = [(1_100, 1_100, 299), (1_200, 1_200, 300), (1_300, 1_300, 301)];
        assert_eq!(after(&falls), [false; 3]);
        let once =
            [(1_100, 1_100, 330), (1_200, 1_200, 340), (1_300, 1_300, 330), (1_400, 1_400, 350)];
        assert_eq!(after(&once), [false; 4], "not in a row");
    }
}
