//! The open loop of a thread: which requests are due, which of them wait, and which are not done.
//! No system calls.
//!
//! Requests that wait need no queue: they are the arrivals between two positions in one schedule.

use std::sync::atomic::Ordering::{Relaxed, Release};

use fathom_record::Histogram;

use super::schedule::{Schedule, ScheduleRate};
use super::shared::{EngineSeat, EngineShared};

/// The longest delay of the generator for which its histogram has room from the start.
const LATE_NS: u64 = 1_000_000_000;

pub(super) struct Open {
    /// Behind the arrivals that were counted.
    arrived: Schedule,
    /// Behind the arrivals that have a connection.
    begun: Schedule,
    /// Arrivals between the two.
    waiting: u64,
    /// Arrivals that are not done, and those of the window among them.
    backlog: u64,
    unfinished: u64,
    /// Clients without a request, the one that was used last at the end: it has a connection.
    idle: Vec<u32>,
    /// How late arrivals of the window were counted: because the thread was busy or had no CPU.
    late: Histogram,
}

impl Open {
    pub(super) fn new(
        rate: ScheduleRate,
        begun_ns: u64,
        of: (u32, u32),
        seed: u64,
        clients: u32,
    ) -> Self {
        let schedule = Schedule::new(rate, begun_ns, of, seed);
        Self {
            arrived: schedule.clone(),
            begun: schedule,
            waiting: 0,
            backlog: 0,
            unfinished: 0,
            idle: (0..clients).rev().collect(),
            late: Histogram::with_room(LATE_NS),
        }
    }

    /// When the next request is due, or can begin.
    pub(super) fn wake_ns(&self) -> u64 {
        let can_begin = self.waiting > 0 && !self.idle.is_empty();
        if can_begin { 0 } else { self.arrived.next_ns() }
    }

    /// Counts the requests that are due.
    pub(super) fn arrive(&mut self, now: u64, shared: &EngineShared, seat: &EngineSeat) {
        while self.arrived.next_ns() <= now {
            let due_ns = self.arrived.take();
            self.waiting += 1;
            self.backlog += 1;
            if shared.since_begin(due_ns).is_some() {
                self.unfinished += 1;
                self.late.add((now - due_ns) as f64);
            }
        }
        self.publish(seat);
        // Only then: whoever reads it knows of all arrivals before.
        seat.arrived_until_ns.store(now, Release);
    }

    /// The request that waits longest, and a client for it: when it was due.
    pub(super) fn begin(&mut self) -> Option<(u32, u64)> {
        self.waiting = self.waiting.checked_sub(1).filter(|_| !self.idle.is_empty())?;
        Some((self.idle.pop()?, self.begun.take()))
    }

    /// A request is done, in whichever way.
    pub(super) fn end(
        &mut self,
        client: u32,
        due_ns: u64,
        shared: &EngineShared,
        seat: &EngineSeat,
    ) {
        self.idle.push(client);
        self.backlog -= 1;
        self.unfinished -= u64::from(shared.since_begin(due_ns).is_some());
        self.publish(seat);
    }

    fn publish(&self, seat: &EngineSeat) {
        seat.backlog.store(self.backlog, Relaxed);
        seat.unfinished.store(self.unfinished, Relaxed);
    }

    /// Requests of the window that are not done.
    pub(super) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// When the request of the window that waits longest was due, if one waits.
    pub(super) fn first_waiting_ns(&self, shared: &EngineShared) -> Option<u64> {
        let mut waiting = self.begun.clone();
        (0..self.waiting)
            .map(|_| waiting.take())
            .find(|due_ns| shared.since_begin(*due_ns).is_some())
    }

    pub(super) fn into_late(self) -> Histogram {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Arrivals;
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn requests_wait_for_a_client_in_their_order() {
        let shared = EngineShared::new(1, None, true, 0);
        let seat = &shared.seats[0];
        let rate = ScheduleRate { per_second: 1_000.0, arrivals: Arrivals::Uniform };
        let mut open = Open::new(rate, 0, (0, 1), 1, 2);
        // Those that are due at 2 to 5 ms are of the window.
        shared.open(2 * MS, 4 * MS);
        assert_eq!(open.wake_ns(), 0);
        open.arrive(4 * MS, &shared, seat);
        let counts = || (seat.backlog.load(Relaxed), seat.unfinished.load(Relaxed));
        assert_eq!((counts(), open.wake_ns()), ((5, 3), 0), "they can begin");
        assert_eq!(seat.arrived_until_ns.load(Relaxed), 4 * MS);
        assert_eq!([open.begin(), open.begin()], [Some((0, 0)), Some((1, MS))]);
        assert_eq!((open.begin(), open.first_waiting_ns(&shared)), (None, Some(2 * MS)));
        assert_eq!(open.wake_ns(), 5 * MS);
        // A client that is not free takes no request from those that wait.
        open.end(1, MS, &shared, seat);
        assert_eq!((counts(), open.wake_ns()), ((4, 3), 0), "before the window");
        assert_eq!(open.begin(), Some((1, 2 * MS)));
        open.end(1, 2 * MS, &shared, seat);
        open.end(0, 0, &shared, seat);
        assert_eq!(counts(), (2, 2));
        assert_eq!(open.begin(), Some((0, 3 * MS)), "the client that was used last");
        open.arrive(100 * MS, &shared, seat);
        assert_eq!((counts(), open.unfinished()), ((98, 3), 3));
        let late = open.into_late();
        // Due at 2, 3 and 4 ms and seen at 4; due at 5 and seen at 100.
        assert_eq!((late.len(), late.min()), (4, 0.0));
        assert!((late.max() / 95e6 - 1.0).abs() < 1e-3, "{}", late.max());
    }
}
