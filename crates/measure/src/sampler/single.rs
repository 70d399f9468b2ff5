//! Operations that cannot be batched: each is timed singly.

use std::cell::RefCell;

use fathom_record::Histogram;

use super::batch::WARM_UP_FLOORS;
use super::{Operation, SamplerFault, SamplerSlot};
use crate::clock::Clock;

/// Operations in a round, at most: counters are read around each round.
const PER_ROUND_MAX: u32 = 16;
/// Operations of a warm-up, at most.
const WARM_UP_MAX: u32 = 256;

pub(super) struct Single<'k> {
    pub(super) cases: Vec<usize>,
    batch: u64,
    operation: Operation<'k>,
    timings: Option<&'k RefCell<Histogram>>,
    per_round: u32,
    values_ns: Vec<f64>,
}

impl<'k> Single<'k> {
    pub(super) fn new(
        cases: Vec<usize>,
        batch: u64,
        operation: Operation<'k>,
        timings: Option<&'k RefCell<Histogram>>,
    ) -> Self {
        let values_ns = vec![0.0; cases.len()];
        Self { cases, batch, operation, timings, per_round: 1, values_ns }
    }

    /// Warms up with at least two operations, as long as for a batched kernel. A round has as many
    /// operations as fill a batch, so that counters are read as rarely as with batches.
    pub(super) fn find_count(
        &mut self,
        clock: &Clock,
        floor_ns: f64,
        trials: bool,
    ) -> Result<(), SamplerFault> {
        let (mut took_ns, mut count) = (0.0, 0);
        while count < 2 || (took_ns < WARM_UP_FLOORS * floor_ns && count < WARM_UP_MAX) {
            let start = clock.start();
            self.once(clock)?;
            took_ns += clock.ns(start, clock.stop());
            count += 1;
        }
        let each_ns = (took_ns / f64::from(count)).max(1.0);
        // A trial is a round with one value.
        let most = if trials { 1 } else { PER_ROUND_MAX };
        self.per_round = ((floor_ns / each_ns) as u32).clamp(1, most);
        // Discards the single timings of the warm-up.
        if let Some(timings) = self.timings {
            timings.take();
        }
        Ok(())
    }

    pub(super) fn round(
        &mut self,
        clock: &Clock,
        slots: &mut [SamplerSlot],
    ) -> Result<usize, SamplerFault> {
        for _ in 0..self.per_round {
            self.once(clock)?;
            for (case, ns) in self.cases.iter().zip(&self.values_ns) {
                slots[*case].sample.batch = self.batch;
                slots[*case].sample.values.push(*ns);
            }
        }
        Ok(self.per_round as usize)
    }

    /// Adds single timings to the sample of the first case.
    pub(super) fn finish(self, slots: &mut [SamplerSlot]) {
        slots[self.cases[0]].sample.histogram = self.timings.map(RefCell::take);
    }

    fn once(&mut self, clock: &Clock) -> Result<(), SamplerFault> {
        // NaN marks a case whose value the operation does not write.
        self.values_ns.fill(f64::NAN);
        (self.operation)(clock, &mut self.values_ns)?;
        match self.values_ns.iter().all(|ns| ns.is_finite()) {
            true => Ok(()),
            false => Err(SamplerFault::Failed("the probe did not write a value".to_owned())),
        }
    }
}
