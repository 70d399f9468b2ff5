//! What a load does each second, and at present.

use std::sync::{Arc, Mutex};

use fathom_record::{Phase, Second};

use crate::engine::{Live, Meter, MeterCounts, Moment, Workload};

const SECOND_NS: u64 = 1_000_000_000;
/// A shorter rest without a response says nothing.
const REST_NS: u64 = 100_000_000;

/// The counters of a load, and its present window: for its own seconds, and for others.
pub struct Watched {
    pub meter: Arc<Meter>,
    /// As of the last second.
    present: Mutex<Second>,
}

impl Watched {
    pub fn new(threads: u32) -> Arc<Self> {
        Arc::new(Self { meter: Arc::new(Meter::new(threads)), present: Mutex::default() })
    }

    /// The last second, whose phase is that of the present one.
    pub fn present(&self) -> Second {
        self.present.lock().map(|present| present.clone()).unwrap_or_default()
    }

    fn show(&self, second: &Second) {
        if let Ok(mut present) = self.present.lock() {
            present.clone_from(second);
        }
    }
}

/// The seconds of one window.
pub struct Seconds {
    watched: Arc<Watched>,
    begun_ns: u64,
    /// What all seconds of the window share, with the present phase.
    shared: Second,
    is_open: bool,
    last_ns: u64,
    last: MeterCounts,
    /// Of the last look.
    backlog: u64,
}

impl Seconds {
    /// `begun_ns`: when the load began.
    pub fn from_watched(
        watched: &Arc<Watched>,
        (work, step): (&Workload, &str),
        (begun_ns, now_ns): (u64, u64),
    ) -> Self {
        let shared = Second {
            step: step.to_owned(),
            clients: work.rate.is_none().then_some(work.clients),
            rate: work.rate.map(|rate| rate.per_second),
            ..Second::default()
        };
        watched.show(&shared);
        Self {
            watched: Arc::clone(watched),
            begun_ns,
            shared,
            is_open: work.rate.is_some(),
            last_ns: now_ns,
            last: watched.meter.read(),
            backlog: 0,
        }
    }

    /// The second that has ended, if one has: also at the ends of a window, so that none is of two
    /// phases.
    pub fn at(&mut self, moment: Moment, live: &Live) -> Option<Second> {
        let next = match moment {
            Moment::Begin => Some(Phase::Window),
            Moment::End => Some(Phase::Backlog),
            Moment::WarmUp | Moment::Running => None,
        };
        self.backlog = live.backlog;
        let is_over = live.now_ns >= self.last_ns + SECOND_NS;
        let ended = (is_over || next.is_some()).then(|| self.end(live.now_ns)).flatten();
        if let Some(next) = next {
            self.shared.phase = next;
            let present = ended.as_ref().unwrap_or(&self.shared);
            self.watched.show(&Second { phase: next, ..present.clone() });
        }
        ended
    }

    /// The rest of an open loop, unless its backlog was gone at once.
    pub fn rest(&mut self, now_ns: u64) -> Option<Second> {
        (self.is_open && now_ns >= self.last_ns + REST_NS).then(|| self.end(now_ns)).flatten()
    }

    fn end(&mut self, now_ns: u64) -> Option<Second> {
        let counts = self.watched.meter.read();
        let more = counts.since(&self.last);
        let length_ns = now_ns.saturating_sub(self.last_ns);
        let responses = more.completed();
        let is_empty = responses == 0 && more.faults.is_empty();
        if length_ns == 0 || (is_empty && length_ns < REST_NS) {
            return None;
        }
        (self.last_ns, self.last) = (now_ns, counts);
        let per_s = |count: u64| count as f64 / (length_ns as f64 / 1e9);
        let second = Second {
            at_ns: now_ns.saturating_sub(self.begun_ns),
            length_ns,
            responses,
            responses_per_s: per_s(responses),
            body_bytes_per_s: per_s(more.body_bytes),
            p50_ns: more.quantile_ns(0.5),
            p90_ns: more.quantile_ns(0.9),
            p99_ns: more.quantile_ns(0.99),
            failed: more.faults.iter().map(|(fault, n)| (fault.to_string(), *n)).collect(),
            in_flight: more.in_flight,
            backlog: self.is_open.then_some(self.backlog),
            ..self.shared.clone()
        };
        self.watched.show(&second);
        Some(second)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::engine::{Arrivals, Fault, ScheduleRate};
    use crate::fixture::target;
    use crate::options::LoadOptions;

    #[test]
    fn seconds_end_with_the_phases_of_a_window() {
        let load = LoadOptions::parse_from(["load", "http://far/"]);
        let work = load.workload(&target(false), load.all_cases()[0], 4, 1);
        let rate = Some(ScheduleRate { per_second: 500.0, arrivals: Arrivals::Poisson });
        let work = Workload { rate, ..work };
        let watched = Watched::new(1);
        let dial = watched.meter.dial(0).unwrap();
        let at = |ms: u64| Live { now_ns: ms * 1_000_000, backlog: 3, ..Live::default() };
        let mut seconds =
            Seconds::from_watched(&watched, (&work, "500 requests/s"), (0, 2_000_000_000));
        assert_eq!(seconds.at(Moment::WarmUp, &at(2_999)), None);
        dial.begin();
        (0..10).for_each(|_| dial.complete(5_000_000, 100));
        assert_eq!(seconds.at(Moment::WarmUp, &at(2_999)), None, "no second yet");
        let warm = seconds.at(Moment::Begin, &at(2_500)).unwrap();
        let found = (warm.phase, warm.length_ns, warm.responses_per_s, warm.in_flight);
        assert_eq!(found, (Phase::WarmUp, 500_000_000, 20.0, 1));
        assert_eq!((warm.rate, warm.clients, warm.backlog), (Some(500.0), None, Some(3)));
        assert!((warm.p99_ns.unwrap() / 5e6 - 1.0).abs() < 0.02, "{warm:?}");
        assert_eq!(watched.present().phase, Phase::Window);
        watched.meter.note(Fault::Status(503));
        let second = seconds.at(Moment::Running, &at(3_500)).unwrap();
        assert_eq!((second.phase, second.responses, second.p50_ns), (Phase::Window, 0, None));
        assert_eq!(second.failed, [("status 503".to_owned(), 1)].into());
        assert_eq!(seconds.at(Moment::End, &at(3_550)), None, "nothing within 50 ms");
        dial.complete(9_000_000, 100);
        assert_eq!(seconds.rest(3_599_000_000), None);
        let rest = seconds.rest(3_700_000_000).unwrap();
        assert_eq!((rest.phase, rest.responses, rest.length_ns), (Phase::Backlog, 1, 200_000_000));
    }
}
