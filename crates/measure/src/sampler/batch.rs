//! Batched kernels: batch size, timing of a round, and its value.
//!
//! A round is N iterations, which bring back what other cases displaced from caches and predictors,
//! and then 2N, which are timed. The overhead, what an empty kernel seems to take, is that of the
//! clock: one figure for all visits of a run, always subtracted. Where each call of the kernel has
//! a cost of its own, the time of the first N is subtracted instead. An overhead estimated from the
//! first N of each visit and subtracted where it was significant made 3.97 cycles of the 4 of an L1
//! hit and shifted context switches by 2 to 11 %: it was what the displaced lines cost.

use std::cell::RefCell;

use fathom_analysis::statistics;
use fathom_record::{Histogram, Sample};

use super::watch::switch_away;
use super::{BATCH_MAX, InjectedDose, Kernel, SamplerFault, injected};
use crate::clock::Clock;

/// Length of the warm-up in shortest batches: 2 ms with the usual 100 µs.
pub(super) const WARM_UP_FLOORS: f64 = 20.0;

pub(super) struct Batched<'k> {
    pub(super) cases: Vec<usize>,
    kernel: Kernel<'k>,
    twin: Option<Kernel<'k>>,
    has_entry: bool,
    per_iteration: f64,
    to_unit: fn(f64) -> f64,
    timings: Option<&'k RefCell<Histogram>>,
    floor_ns: f64,
    batch: u64,
    twin_batch: u64,
    /// The time of the timed iterations of each round, without the overhead.
    rounds_ns: Vec<f64>,
    twin_rounds_ns: Vec<f64>,
}

impl<'k> Batched<'k> {
    pub(super) fn new(
        cases: Vec<usize>,
        (kernel, has_entry): (Kernel<'k>, bool),
        twin: Option<Kernel<'k>>,
        (per_iteration, to_unit): (f64, fn(f64) -> f64),
        timings: Option<&'k RefCell<Histogram>>,
    ) -> Self {
        let (batch, twin_batch, floor_ns) = (1, 1, 0.0);
        let (rounds_ns, twin_rounds_ns) = (Vec::new(), Vec::new());
        Self {
            cases,
            kernel,
            twin,
            has_entry,
            per_iteration,
            to_unit,
            timings,
            floor_ns,
            batch,
            twin_batch,
            rounds_ns,
            twin_rounds_ns,
        }
    }

    /// Doubles the batch until it lasts `floor_ns`, then warms up. Nothing of this is sampled.
    pub(super) fn find_batch(&mut self, clock: &Clock, floor_ns: f64) -> Result<(), SamplerFault> {
        self.batch = doubled(clock, &mut self.kernel, floor_ns)?;
        self.floor_ns = floor_ns;
        warm(clock, &mut self.kernel, self.batch, floor_ns)?;
        // Discards the single timings of the warm-up.
        self.timings.map(RefCell::take);
        Ok(())
    }

    /// Adds injected work to the kernel, not to the twin.
    pub(super) fn inject(
        &mut self,
        clock: &Clock,
        dose: InjectedDose,
        rounds: u32,
    ) -> Result<(), SamplerFault> {
        if dose != InjectedDose::default() {
            let kernel = std::mem::replace(&mut self.kernel, Box::new(|iterations| iterations));
            self.kernel = injected::into(kernel, dose, rounds, self.batch, clock)?;
        }
        Ok(())
    }

    pub(super) fn round(
        &mut self,
        clock: &Clock,
        sample: &mut Sample,
    ) -> Result<usize, SamplerFault> {
        self.rounds_ns.push(timed(clock, &mut self.kernel, self.batch, self.has_entry)?);
        // A placeholder for the index of the round: the value needs the twin, which is timed last.
        sample.values.push(0.0);
        Ok(1)
    }

    /// Times as many rounds of the twin, after those of the kernel: between them, the twin would
    /// make the process a CPU hog to the scheduler, which then preempts it.
    pub(super) fn twin_rounds(&mut self, clock: &Clock) -> Result<(), SamplerFault> {
        let Some(twin) = &mut self.twin else { return Ok(()) };
        self.twin_batch = doubled(clock, twin, self.floor_ns)?;
        warm(clock, twin, self.twin_batch, self.floor_ns)?;
        for _ in 0..self.rounds_ns.len() {
            self.twin_rounds_ns.push(timed(clock, twin, self.twin_batch, false)?);
        }
        Ok(())
    }

    pub(super) fn finish(self, clock: &Clock, sample: &mut Sample) {
        let per_iteration_ns = |rounds_ns: &[f64], batch: u64| -> Vec<f64> {
            rounds_ns.iter().map(|ns| ns / batch as f64).collect()
        };
        let timed = if self.has_entry { 1 } else { TIMED };
        let own = per_iteration_ns(&self.rounds_ns, timed * self.batch);
        // One figure for the visit: subtracting round by round would add the twin's noise to each
        // value.
        let twin_ns =
            statistics::median(&per_iteration_ns(&self.twin_rounds_ns, TIMED * self.twin_batch));
        sample.batch = TIMED * self.batch;
        sample.histogram = self.timings.map(RefCell::take);
        sample.overhead_ns = if self.has_entry { 0.0 } else { clock.specification().empty_ns };
        sample.twin_ns = twin_ns.map(|ns| ns / self.per_iteration);
        let first = sample.values.len() - own.len();
        for (round, ns) in own.iter().enumerate() {
            let difference = ns - twin_ns.unwrap_or(0.0);
            sample.values[first + round] = (self.to_unit)(difference / self.per_iteration);
        }
    }
}

/// Timed iterations of a round, in batches.
const TIMED: u64 = 2;

/// The time of the timed iterations of a round, without the overhead.
fn timed(
    clock: &Clock,
    kernel: &mut Kernel<'_>,
    batch: u64,
    has_entry: bool,
) -> Result<f64, SamplerFault> {
    // Back to back: nothing else runs between.
    let first_ns = time(clock, kernel, batch)?;
    let both_ns = time(clock, kernel, TIMED * batch)?;
    let overhead_ns = if has_entry { first_ns } else { clock.specification().empty_ns };
    let net_ns = both_ns - overhead_ns;
    // An interrupt made the first N longer than the 2N: the round is an outlier, but has a time.
    Ok(if net_ns > 0.0 { net_ns } else { both_ns / TIMED as f64 })
}

/// Times one batch and compares the kernel's count with the requested iterations.
fn time(clock: &Clock, kernel: &mut Kernel<'_>, iterations: u64) -> Result<f64, SamplerFault> {
    let start = clock.start();
    let done = kernel(iterations);
    let stop = clock.stop();
    // A kernel whose operations fail is fast: its time must not become a value.
    if done != iterations {
        return Err(SamplerFault::WrongWork(format!(
            "{done} of {iterations} iterations succeeded"
        )));
    }
    Ok(clock.ns(start, stop))
}

/// Repeats a batch for 20 shortest batches: branch predictors trained by other code need thousands
/// of iterations to settle.
fn warm(
    clock: &Clock,
    kernel: &mut Kernel<'_>,
    batch: u64,
    floor_ns: f64,
) -> Result<(), SamplerFault> {
    let mut took_ns = 0.0;
    while took_ns < WARM_UP_FLOORS * floor_ns {
        took_ns += time(clock, kernel, batch)?;
    }
    Ok(())
}

fn doubled(clock: &Clock, kernel: &mut Kernel<'_>, floor_ns: f64) -> Result<u64, SamplerFault> {
    // Powers of two reach any length in few timings, and at most twice the floor.
    let mut batch = 1;
    let mut is_short = |batch| -> Result<bool, SamplerFault> {
        switch_away();
        Ok(time(clock, kernel, batch)? < floor_ns)
    };
    // Confirm once: the first batch may have been long because of an interrupt.
    while is_short(batch)? || is_short(batch)? {
        batch *= 2;
        if batch > BATCH_MAX {
            return Err(SamplerFault::Failed("the kernel takes no measurable time".to_owned()));
        }
    }
    Ok(batch)
}
