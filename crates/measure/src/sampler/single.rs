//! Operations that cannot be repeated within one batch: each is timed for itself.

use super::{Fault, Operation, Slot};
use crate::clock::Clock;

/// Operations in one round at most: a round is what the counters are read around.
const PER_ROUND_MAX: u32 = 16;

pub(super) struct Single<'k> {
    pub(super) cases: Vec<usize>,
    batch: u64,
    operation: Operation<'k>,
    per_round: u32,
    values_ns: Vec<f64>,
}

impl<'k> Single<'k> {
    pub(super) fn new(cases: Vec<usize>, batch: u64, operation: Operation<'k>) -> Self {
        let values_ns = vec![0.0; cases.len()];
        Self { cases, batch, operation, per_round: 1, values_ns }
    }

    /// Two operations as warm-up; as many in a round as fill a batch, for they are then read
    /// between counters as seldom as a batch is.
    pub(super) fn find_count(&mut self, clock: &Clock, floor_ns: f64) -> Result<(), Fault> {
        self.once(clock)?;
        let start = clock.start();
        self.once(clock)?;
        let took_ns = clock.ns(start, clock.stop()).max(1.0);
        self.per_round = ((floor_ns / took_ns) as u32).clamp(1, PER_ROUND_MAX);
        Ok(())
    }

    pub(super) fn round(&mut self, clock: &Clock, slots: &mut [Slot]) -> Result<usize, Fault> {
        for _ in 0..self.per_round {
            self.once(clock)?;
            for (case, ns) in self.cases.iter().zip(&self.values_ns) {
                slots[*case].sample.batch = self.batch;
                slots[*case].sample.values.push(*ns);
            }
        }
        Ok(self.per_round as usize)
    }

    fn once(&mut self, clock: &Clock) -> Result<(), Fault> {
        self.values_ns.fill(f64::NAN);
        (self.operation)(clock, &mut self.values_ns)?;
        match self.values_ns.iter().all(|ns| ns.is_finite()) {
            true => Ok(()),
            false => Err(Fault::Failed("the probe left a value unwritten".to_owned())),
        }
    }
}
