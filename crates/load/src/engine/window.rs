//! The measured window of one sweep of a step: warm-up, begin, end, and the threads meanwhile.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns as now_ns;

use super::reactor::Reactor;
use super::tally::SLOTS;
use super::{Fault, Tally, Workload};

/// Between two looks whether the window has begun.
const GATE: Duration = Duration::from_micros(50);
/// Between two looks at the threads.
const TICK: Duration = Duration::from_millis(20);
/// A part of the warm-up lasts at least this long and has this many completions.
const PART_NS: [u64; 2] = [20_000_000, 1_000_000_000];
const PART_COMPLETIONS: u64 = 8;
/// Warmed up: two parts in a row differ by less than this, or by less than their counts scatter.
const SETTLED: f64 = 0.10;
/// No completion for this long, but failures: the server is gone.
const SILENCE_NS: u64 = 1_000_000_000;
/// Failures in that time if connections are possible.
const FAILURES_MIN: u64 = 100;

/// Counters of one thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Seat {
    completed: AtomicU64,
    body_bytes: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) unconnected: AtomicU64,
    thread: AtomicU32,
    /// CPU time of the thread at its end, and its wait for a CPU: a thread that has ended has no
    /// file in /proc.
    final_cpu_ns: AtomicU64,
    final_wait_ns: AtomicU64,
}

impl Seat {
    /// Only its thread writes: no locked instruction is needed.
    pub(super) fn count(&self, bytes: u64) {
        self.completed.store(self.completed.load(Relaxed) + 1, Relaxed);
        self.body_bytes.store(self.body_bytes.load(Relaxed) + bytes, Relaxed);
    }
}

/// The window, and the counters of all threads.
pub(super) struct Shared {
    from_ns: AtomicU64,
    length_ns: AtomicU64,
    until_ns: AtomicU64,
    /// Requests of the window, if they are counted, and how many of them are not begun.
    limit: Option<u64>,
    left: AtomicU64,
    /// Then the window is divided by completions: how many there were, and the last of each slot.
    completions: AtomicU64,
    slot_ends_ns: [AtomicU64; SLOTS],
    pub(super) seats: Vec<Seat>,
    last_fault: Mutex<Option<Fault>>,
}

impl Shared {
    fn new(threads: u32, limit: Option<u64>) -> Self {
        Self {
            limit,
            left: AtomicU64::new(limit.unwrap_or(0)),
            completions: AtomicU64::new(0),
            slot_ends_ns: [const { AtomicU64::new(0) }; SLOTS],
            from_ns: AtomicU64::new(u64::MAX),
            length_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(u64::MAX),
            seats: (0..threads).map(|_| Seat::default()).collect(),
            last_fault: Mutex::new(None),
        }
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.until_ns.load(Relaxed)
    }

    /// Counted requests begin with the window.
    pub(super) fn await_window(&self) {
        let is_open = || self.from_ns.load(Acquire) != u64::MAX || self.is_over(0);
        while self.limit.is_some() && !is_open() {
            std::thread::sleep(GATE);
        }
    }

    /// Whether a further request may begin.
    pub(super) fn admits(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.limit.is_none() || self.left.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }

    /// The time since the window began; `None` outside of it.
    pub(super) fn since_begin(&self, at: u64) -> Option<u64> {
        let since = at.checked_sub(self.from_ns.load(Acquire))?;
        (since < self.length_ns.load(Relaxed)).then_some(since)
    }

    /// The slot of a completion; `None` outside the window.
    pub(super) fn slot(&self, at: u64) -> Option<usize> {
        let since = self.since_begin(at)?;
        let Some(limit) = self.limit else {
            let length = self.length_ns.load(Relaxed);
            return Some((u128::from(since) * SLOTS as u128 / u128::from(length)) as usize);
        };
        let before = u128::from(self.completions.fetch_add(1, Relaxed));
        let slot = (before * SLOTS as u128 / u128::from(limit)) as usize;
        self.slot_ends_ns[slot].fetch_max(at, Relaxed);
        Some(slot)
    }

    /// The lengths of the slots of a window that has ended.
    fn slots_ns(&self, window_ns: u64) -> [u64; SLOTS] {
        if self.limit.is_none() {
            return [window_ns / SLOTS as u64; SLOTS];
        }
        let mut before = self.from_ns.load(Relaxed);
        self.slot_ends_ns.each_ref().map(|end| {
            let end = end.load(Relaxed).max(before);
            end - std::mem::replace(&mut before, end)
        })
    }

    pub(super) fn note(&self, fault: Fault) {
        if let Ok(mut last) = self.last_fault.lock() {
            *last = Some(fault);
        }
    }

    fn open(&self, from: u64, length: u64) {
        self.length_ns.store(length, Relaxed);
        self.until_ns.store(from + length, Relaxed);
        self.from_ns.store(from, Release);
    }

    fn sum(&self, of: impl Fn(&Seat) -> &AtomicU64) -> u64 {
        self.seats.iter().map(|seat| of(seat).load(Relaxed)).sum()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub window_ns: u64,
    pub warm_up_max_ns: u64,
    /// Makes exactly so many requests, without a warm-up, if the window is not over before.
    pub requests: Option<u64>,
}

impl Timing {
    /// The longest warm-up is a quarter of the window.
    pub fn of(window_ns: u64, requests: Option<u64>) -> Self {
        Self { window_ns, warm_up_max_ns: (window_ns / 4).max(5 * PART_NS[0]), requests }
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
}

/// CPU time of a thread during the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadUse {
    pub cpu_ns: u64,
    /// Time in which it was ready and had no CPU.
    pub wait_ns: u64,
    pub wall_ns: u64,
}

impl ThreadUse {
    /// The share of the time in which it ran.
    pub fn used(&self) -> f64 {
        self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }

    /// The share of the time in which it was ready and had no CPU.
    pub fn waiting(&self) -> f64 {
        self.wait_ns as f64 / self.wall_ns.max(1) as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// By the caller.
    Stopped,
    /// The server no longer answers.
    Dead(Fault),
}

pub struct Outcome {
    pub tally: Tally,
    pub window_ns: u64,
    pub slots_ns: [u64; SLOTS],
    pub warm_up_ns: u64,
    /// Whether the throughput was steady before the window.
    pub is_settled: bool,
    pub threads: Vec<ThreadUse>,
    pub end: End,
}

/// Called at every moment; returns whether to go on.
pub type Watch<'w> = dyn FnMut(Moment, &Live) -> bool + 'w;

/// Runs one sweep of a step.
///
/// # Errors
/// If a thread cannot be started or has no epoll instance.
pub fn run(work: &Workload, timing: Timing, watch: &mut Watch<'_>) -> std::io::Result<Outcome> {
    let shared = Shared::new(work.threads, timing.requests);
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
        let mut outcome = Coordinator::new(&shared, work, watch).sweep(timing);
        shared.until_ns.store(0, Relaxed);
        for thread in threads {
            let tally = thread.join().map_err(|_| std::io::Error::other("a thread panicked"))?;
            outcome.tally.merge(&tally);
        }
        Ok(outcome)
    })
}

/// The calling thread: it sleeps, looks and decides.
struct Coordinator<'c, 'w> {
    shared: &'c Shared,
    clients: u64,
    watch: &'c mut Watch<'w>,
    /// The state when a request was last completed.
    alive: (Live, u64),
}

impl<'c, 'w> Coordinator<'c, 'w> {
    fn new(shared: &'c Shared, work: &Workload, watch: &'c mut Watch<'w>) -> Self {
        let now = Live { now_ns: now_ns(), ..Live::default() };
        Self { shared, clients: work.clients.into(), watch, alive: (now, 0) }
    }

    fn sweep(&mut self, timing: Timing) -> Outcome {
        let begun_ns = now_ns();
        let mut outcome = Outcome {
            tally: Tally::default(),
            window_ns: 0,
            slots_ns: [0; SLOTS],
            warm_up_ns: 0,
            is_settled: false,
            threads: Vec::new(),
            end: End::Complete,
        };
        match timing.requests.map_or_else(|| self.warm_up(timing), |_| Ok(true)) {
            Ok(is_settled) => outcome.is_settled = is_settled,
            Err(end) => return Outcome { end, ..outcome },
        }
        let length = timing.window_ns.max(PART_NS[0]);
        let live = self.live();
        if !(self.watch)(Moment::Begin, &live) {
            return Outcome { end: End::Stopped, ..outcome };
        }
        let before = self.threads();
        let from = now_ns();
        self.shared.open(from, length);
        outcome.warm_up_ns = from - begun_ns;
        outcome.end = loop {
            let left = (from + length).saturating_sub(now_ns());
            if left == 0 || self.is_all_done() {
                break End::Complete;
            }
            if let Err(end) = self.step(Moment::Running, Duration::from_nanos(left).min(TICK)) {
                break end;
            }
        };
        let end_ns = now_ns();
        outcome.window_ns = length.min(end_ns - from);
        outcome.slots_ns = self.shared.slots_ns(outcome.window_ns);
        if timing.requests.is_some() {
            // Up to the last completion.
            outcome.window_ns = outcome.slots_ns.iter().sum::<u64>().clamp(1, outcome.window_ns);
        }
        let after = self.threads();
        let used = |(a, b): (&Stamped, &Stamped)| ThreadUse {
            cpu_ns: b.cpu_ns.saturating_sub(a.cpu_ns),
            wait_ns: b.wait_ns.saturating_sub(a.wait_ns),
            wall_ns: end_ns.saturating_sub(a.at_ns),
        };
        outcome.threads = before.iter().zip(&after).map(used).collect();
        let live = self.live();
        (self.watch)(Moment::End, &live);
        outcome
    }

    /// Whether the counted requests have ended, in whichever way.
    fn is_all_done(&self) -> bool {
        let ended = self.shared.sum(|seat| &seat.completed) + self.shared.sum(|seat| &seat.failed);
        self.shared.limit.is_some_and(|limit| ended >= limit)
    }

    /// Waits until the throughput is steady, or the longest warm-up is over; returns whether it is.
    fn warm_up(&mut self, timing: Timing) -> Result<bool, End> {
        let part_ns = (timing.window_ns / 40).clamp(PART_NS[0], PART_NS[1]);
        let begun = self.live();
        let (mut last, mut rate) = (begun, None);
        loop {
            self.step(Moment::WarmUp, TICK)?;
            let live = self.live();
            let elapsed_ns = live.now_ns - last.now_ns;
            let count = live.completed - last.completed;
            if elapsed_ns >= part_ns && count >= PART_COMPLETIONS {
                let now = count as f64 / elapsed_ns as f64 * 1e9;
                let chance = 3.0 / (count as f64).sqrt();
                let before = rate.replace(now);
                last = live;
                if before
                    .is_some_and(|before: f64| (now / before - 1.0).abs() < SETTLED.max(chance))
                {
                    return Ok(true);
                }
            }
            let all_ns = live.now_ns - begun.now_ns;
            if all_ns >= timing.warm_up_max_ns {
                // Too few completions to compare are no sign of drift.
                return Ok(rate.is_none());
            }
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
        }
    }

    fn threads(&self) -> Vec<Stamped> {
        let stamped = |seat: &Seat| {
            let running = schedule_ns(seat.thread.load(Relaxed));
            let ended = || (seat.final_cpu_ns.load(Acquire), seat.final_wait_ns.load(Relaxed));
            let (cpu_ns, wait_ns) = running.unwrap_or_else(ended);
            Stamped { at_ns: now_ns(), cpu_ns, wait_ns }
        };
        self.shared.seats.iter().map(stamped).collect()
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
