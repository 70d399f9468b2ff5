//! The near end of round trips over any protocol: repeats, times and counts them.

use std::cell::RefCell;

use fathom_far::{FarError, TripEnd};
use fathom_record::Histogram;

use super::ends;
use crate::prelude::*;

/// More losses end a visit: each takes a second.
const LOST_MAX: u64 = 8;

/// The near end. `F` sends a request and waits for its answer.
pub(super) struct Near<F> {
    trip: F,
    request: Vec<u8>,
    pub(super) trips: u64,
    pub(super) lost: u64,
    error: Option<FarError>,
}

impl<F: FnMut(&[u8]) -> Result<TripEnd, FarError>> Near<F> {
    pub(super) fn new(bytes: usize, trip: F) -> Self {
        Self { trip, request: vec![0; bytes], trips: 0, lost: 0, error: None }
    }

    /// Makes round trips and times each. Returns how many were right.
    pub(super) fn repeat(
        &mut self,
        trips: u64,
        clock: &Clock,
        timings: &RefCell<Histogram>,
    ) -> u64 {
        let mut timings = timings.borrow_mut();
        let mut done = 0;
        let mut earlier = clock.start();
        while done < trips {
            // Not those of the trip before, so that its late answer is none to this request.
            let first = (self.trips + self.lost) as u8;
            self.request.iter_mut().zip(0..).for_each(|(byte, at)| *byte = first.wrapping_add(at));
            match (self.trip)(&self.request) {
                Ok(TripEnd::Answered) => {
                    self.trips += 1;
                    done += 1;
                    // One stamp for each trip: its end is the start of the next.
                    let now = clock.stop();
                    timings.add(clock.ns(earlier, now));
                    earlier = now;
                }
                // The wait is in the time of the batch, one of many, but in no timing.
                Ok(TripEnd::Lost) if self.lost < LOST_MAX => {
                    self.lost += 1;
                    earlier = clock.start();
                }
                Ok(TripEnd::Lost) => {
                    self.lost += 1;
                    return done;
                }
                Ok(TripEnd::Wrong) => return done,
                Err(error) => {
                    self.error = Some(error);
                    return done;
                }
            }
        }
        done
    }

    /// Makes the round trips of a visit.
    pub(super) fn run(&mut self, case: usize, sampler: &mut Sampler) {
        let timings = RefCell::new(Histogram::new());
        let clock = sampler.clock().clone();
        let work = SamplerWork::batched(case, |trips| self.repeat(trips, &clock, &timings));
        sampler.run(vec![work.timed(&timings)]);
    }

    /// Why the round trips ended early.
    pub(super) fn fault(&mut self, to: &str) -> Option<SamplerFault> {
        match self.error.take() {
            Some(error) => Some(ends::fault(to, error)),
            None if self.lost > LOST_MAX => Some(SamplerFault::WrongWork(self.losses())),
            None => None,
        }
    }

    pub(super) fn losses(&self) -> String {
        format!("{} of {} round trips lost", self.lost, self.trips + self.lost)
    }

    /// One loss spoils one round, whatever the number of trips.
    pub(super) fn has_few_losses(&self) -> bool {
        self.lost <= 1 + self.trips / 100
    }

    /// The fact and the check of losses.
    pub(super) fn check_losses(&self, case: usize, sampler: &mut Sampler) {
        sampler.state(case, Fact::quantity("lost round trips", self.lost as f64, Unit::Ratio));
        sampler.check(case, "losses", self.has_few_losses(), self.losses());
    }
}

pub(super) fn check_cpu(case: usize, sampler: &mut Sampler) {
    let allowed = affinity::allowed();
    let is_pinned = allowed == [sampler.settings().cpu];
    sampler.check(case, "CPU", is_pinned, format!("affinity: {allowed:?}"));
}

/// Linux delays an acknowledgement by 40 ms at least (TCP_DELACK_MIN), and its timer by ticks.
const DELAYED_NS: std::ops::Range<f64> = 38e6..50e6;
/// Fewer are those of a busy machine: an acknowledgement is delayed in most trips, or in none.
const DELAYED_MIN: usize = 5;
const DELAYED_SHARE_MIN: f64 = 0.1;
/// Further trips beyond this are slow for whatever reason.
const SLOW_NS: f64 = 20e6;

/// The share of trips that took 40 ms longer than the fastest, if these explain the slow ones: a
/// queue on the way gives all sorts of times. `min_rtt_ns`: by TCP_INFO, whose handshake has no
/// delayed acknowledgement.
pub(super) fn delayed_acknowledgements(timings: &Histogram, min_rtt_ns: f64) -> Option<f64> {
    const RANKS: u64 = 1000;
    let ranks = timings.ranks(RANKS);
    let fastest = if min_rtt_ns > 0.0 { min_rtt_ns.min(timings.min()) } else { timings.min() };
    let over = ranks.iter().map(|ns| ns - fastest);
    let slow = over.clone().filter(|ns| *ns > SLOW_NS).count();
    let delayed = over.filter(|ns| DELAYED_NS.contains(ns)).count();
    let share = delayed as f64 / ranks.len().max(1) as f64;
    let is_typical = delayed >= DELAYED_MIN && share >= DELAYED_SHARE_MIN;
    (is_typical && delayed * 10 >= slow * 8).then_some(share)
}
