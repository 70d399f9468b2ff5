//! The window, and what the threads count in it.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use fathom_analysis::load::SLOTS;

use super::Fault;
use super::tally::SLICES;

/// Between two looks whether the window has begun.
const GATE: Duration = Duration::from_micros(50);

/// Counters of one thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct EngineSeat {
    pub(super) completed: AtomicU64,
    pub(super) body_bytes: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) unconnected: AtomicU64,
    pub(super) thread: AtomicU32,
    /// CPU time of the thread at its end, and its wait for a CPU: a thread that has ended has no
    /// file in /proc.
    pub(super) final_cpu_ns: AtomicU64,
    pub(super) final_wait_ns: AtomicU64,
    /// Of an open loop: requests that are due and not done, those of the window among them, and up
    /// to when due requests are counted.
    pub(super) backlog: AtomicU64,
    pub(super) unfinished: AtomicU64,
    pub(super) arrived_until_ns: AtomicU64,
}

impl EngineSeat {
    /// Only its thread writes: no locked instruction is needed.
    pub(super) fn count(&self, bytes: u64) {
        self.completed.store(self.completed.load(Relaxed) + 1, Relaxed);
        self.body_bytes.store(self.body_bytes.load(Relaxed) + bytes, Relaxed);
    }
}

/// The window, and the counters of all threads.
pub(super) struct EngineShared {
    pub(super) from_ns: AtomicU64,
    pub(super) length_ns: AtomicU64,
    pub(super) until_ns: AtomicU64,
    /// Requests of the window, if they are counted, and how many of them are not begun.
    pub(super) limit: Option<u64>,
    pub(super) left: AtomicU64,
    /// Then the window is divided by completions: how many there were, and the last of each slice.
    pub(super) completions: AtomicU64,
    pub(super) slice_ends_ns: [AtomicU64; SLICES],
    pub(super) seats: Vec<EngineSeat>,
    pub(super) last_fault: Mutex<Option<Fault>>,
    /// Whether requests are due at a rate: then they belong to the window in which they are due.
    pub(super) is_open_loop: bool,
    pub(super) begun_ns: u64,
}

impl EngineShared {
    pub(super) fn new(threads: u32, limit: Option<u64>, is_open_loop: bool, begun_ns: u64) -> Self {
        Self {
            is_open_loop,
            begun_ns,
            limit,
            left: AtomicU64::new(limit.unwrap_or(0)),
            completions: AtomicU64::new(0),
            slice_ends_ns: [const { AtomicU64::new(0) }; SLICES],
            from_ns: AtomicU64::new(u64::MAX),
            length_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(u64::MAX),
            seats: (0..threads).map(|_| EngineSeat::default()).collect(),
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

    /// The slice of a completion; `None` outside the window.
    pub(super) fn slice(&self, at: u64) -> Option<usize> {
        let since = self.since_begin(at)?;
        let Some(limit) = self.limit else {
            let length = self.length_ns.load(Relaxed);
            return Some((u128::from(since) * SLICES as u128 / u128::from(length)) as usize);
        };
        let before = u128::from(self.completions.fetch_add(1, Relaxed));
        let slice = (before * SLICES as u128 / u128::from(limit)) as usize;
        self.slice_ends_ns[slice].fetch_max(at, Relaxed);
        Some(slice)
    }

    /// The slot of a time; `None` outside the window. That of counted requests has slots by
    /// completions: it is the next one's.
    pub(super) fn slot(&self, at: u64) -> Option<usize> {
        let since = self.since_begin(at)?;
        let (at, of) = match self.limit {
            None => (since, self.length_ns.load(Relaxed)),
            Some(limit) => (self.completions.load(Relaxed).min(limit - 1), limit),
        };
        Some((u128::from(at) * SLOTS as u128 / u128::from(of)) as usize)
    }

    /// The lengths of the slices of a window that has ended.
    pub(super) fn slices_ns(&self, window_ns: u64) -> [u64; SLICES] {
        if self.limit.is_none() {
            return [window_ns / SLICES as u64; SLICES];
        }
        let mut before = self.from_ns.load(Relaxed);
        self.slice_ends_ns.each_ref().map(|end| {
            let end = end.load(Relaxed).max(before);
            end - std::mem::replace(&mut before, end)
        })
    }

    pub(super) fn note(&self, fault: Fault) {
        if let Ok(mut last) = self.last_fault.lock() {
            *last = Some(fault);
        }
    }

    /// Opens the window. The threads of a closed loop end with it.
    pub(super) fn open(&self, from: u64, length: u64) {
        self.length_ns.store(length, Relaxed);
        if !self.is_open_loop {
            self.until_ns.store(from + length, Relaxed);
        }
        self.from_ns.store(from, Release);
    }

    pub(super) fn sum(&self, of: impl Fn(&EngineSeat) -> &AtomicU64) -> u64 {
        self.seats.iter().map(|seat| of(seat).load(Relaxed)).sum()
    }
}
