//! Batched kernels: batch size, timing of N and 2N iterations, value of a round.
//!
//! A round times N and 2N iterations. The slope (t₂ − t₁)/N has a variance of 2σ²/N², and is
//! negative after an interrupt in the shorter batch. (t₁ + t₂)/3N has a variance of 2σ²/9N², but
//! includes the clock's cost. So the overhead o per batch is estimated once per visit, as the
//! median of 2t₁ − t₂ if its interval excludes 0, and the value of a round is (t₁ + t₂ − 2o)/3N.
//! With batches of 100 µs, an overhead that is not significant is below 0.1 %.

use std::cell::RefCell;

use fathom_analysis::statistics;
use fathom_record::{Histogram, Sample};

use super::{BATCH_MAX, Dose, Fault, Kernel, injected};
use crate::clock::Clock;

/// Length of the warm-up in shortest batches: 2 ms with the usual 100 µs.
pub(super) const WARM_UP_FLOORS: f64 = 20.0;

pub(super) struct Batched<'k> {
    pub(super) cases: Vec<usize>,
    kernel: Kernel<'k>,
    twin: Option<Kernel<'k>>,
    per_iteration: f64,
    to_unit: fn(f64) -> f64,
    timings: Option<&'k RefCell<Histogram>>,
    floor_ns: f64,
    batch: u64,
    twin_batch: u64,
    rounds: Vec<Round>,
    twin_rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    once_ns: f64,
    twice_ns: f64,
}

impl<'k> Batched<'k> {
    pub(super) fn new(
        cases: Vec<usize>,
        kernel: Kernel<'k>,
        twin: Option<Kernel<'k>>,
        (per_iteration, to_unit): (f64, fn(f64) -> f64),
        timings: Option<&'k RefCell<Histogram>>,
    ) -> Self {
        let (batch, twin_batch, floor_ns) = (1, 1, 0.0);
        let (rounds, twin_rounds) = (Vec::new(), Vec::new());
        Self {
            cases,
            kernel,
            twin,
            per_iteration,
            to_unit,
            timings,
            floor_ns,
            batch,
            twin_batch,
            rounds,
            twin_rounds,
        }
    }

    /// Doubles the batch until it lasts `floor_ns`, then warms up. Nothing of this is sampled.
    pub(super) fn find_batch(&mut self, clock: &Clock, floor_ns: f64) -> Result<(), Fault> {
        self.batch = doubled(clock, &mut self.kernel, floor_ns)?;
        self.floor_ns = floor_ns;
        warm(clock, &mut self.kernel, self.batch, floor_ns)?;
        // Discards the single timings of the warm-up.
        self.timings.map(RefCell::take);
        Ok(())
    }

    /// Adds injected work to the kernel, not to the twin.
    pub(super) fn inject(&mut self, clock: &Clock, dose: Dose, rounds: u32) -> Result<(), Fault> {
        if dose != Dose::default() {
            let kernel = std::mem::replace(&mut self.kernel, Box::new(|iterations| iterations));
            self.kernel = injected::into(kernel, dose, rounds, self.batch, clock)?;
        }
        Ok(())
    }

    pub(super) fn round(&mut self, clock: &Clock, sample: &mut Sample) -> Result<usize, Fault> {
        self.rounds.push(timed(clock, &mut self.kernel, self.batch)?);
        // A placeholder for the index of the round: the value needs the overhead of the visit.
        sample.values.push(0.0);
        Ok(1)
    }

    /// Times as many rounds of the twin, after those of the kernel: between them, the twin would
    /// make the process a CPU hog to the scheduler, which then preempts it.
    pub(super) fn twin_rounds(&mut self, clock: &Clock) -> Result<(), Fault> {
        let Some(twin) = &mut self.twin else { return Ok(()) };
        self.twin_batch = doubled(clock, twin, self.floor_ns)?;
        warm(clock, twin, self.twin_batch, self.floor_ns)?;
        for _ in 0..self.rounds.len() {
            self.twin_rounds.push(timed(clock, twin, self.twin_batch)?);
        }
        Ok(())
    }

    pub(super) fn finish(self, sample: &mut Sample) {
        let overhead_ns = overhead_of(&self.rounds);
        let own = per_iteration_ns(&self.rounds, self.batch, overhead_ns);
        let twin =
            per_iteration_ns(&self.twin_rounds, self.twin_batch, overhead_of(&self.twin_rounds));
        // One figure for the visit: subtracting round by round would add the twin's noise to each
        // value.
        let twin_ns = statistics::median(&twin);
        sample.batch = self.batch;
        sample.histogram = self.timings.map(RefCell::take);
        sample.overhead_ns = overhead_ns;
        sample.twin_ns = twin_ns.map(|ns| ns / self.per_iteration);
        let first = sample.values.len() - own.len();
        for (round, ns) in own.iter().enumerate() {
            let difference = ns - twin_ns.unwrap_or(0.0);
            sample.values[first + round] = (self.to_unit)(difference / self.per_iteration);
        }
    }
}

/// Clock and call cost less than this share of a batch. A larger estimate is from a batch whose
/// second half differs from its first; subtracting it would split processes into two clusters.
const OVERHEAD_MAX: f64 = 0.05;

/// The overhead per batch: the median of 2t₁ − t₂ if its interval is above 0. Otherwise 0, because
/// subtracting an insignificant overhead adds noise.
fn overhead_of(rounds: &[Round]) -> f64 {
    let intercepts: Vec<f64> =
        rounds.iter().map(|round| 2.0 * round.once_ns - round.twice_ns).collect();
    match (statistics::median(&intercepts), statistics::median_interval(&intercepts)) {
        (Some(overhead_ns), Some(([low, _], _)))
            if low > 0.0 && overhead_ns <= OVERHEAD_MAX * shortest_ns(rounds) =>
        {
            overhead_ns
        }
        _ => 0.0,
    }
}

fn shortest_ns(rounds: &[Round]) -> f64 {
    rounds.iter().map(|round| round.once_ns).fold(f64::INFINITY, f64::min)
}

fn per_iteration_ns(rounds: &[Round], batch: u64, overhead_ns: f64) -> Vec<f64> {
    let iterations = 3.0 * batch as f64;
    rounds
        .iter()
        .map(|round| (round.once_ns + round.twice_ns - 2.0 * overhead_ns) / iterations)
        .collect()
}

fn timed(clock: &Clock, kernel: &mut Kernel<'_>, batch: u64) -> Result<Round, Fault> {
    // Back to back, so that both batches run at the same core speed.
    Ok(Round { once_ns: time(clock, kernel, batch)?, twice_ns: time(clock, kernel, 2 * batch)? })
}

/// Times one batch and compares the kernel's count with the requested iterations.
fn time(clock: &Clock, kernel: &mut Kernel<'_>, iterations: u64) -> Result<f64, Fault> {
    let start = clock.start();
    let done = kernel(iterations);
    let stop = clock.stop();
    // A kernel whose operations fail is fast: its time must not become a value.
    if done != iterations {
        return Err(Fault::WrongWork(format!("{done} of {iterations} iterations succeeded")));
    }
    Ok(clock.ns(start, stop))
}

/// Repeats a batch for 20 shortest batches: branch predictors trained by other code need thousands
/// of iterations to settle.
fn warm(clock: &Clock, kernel: &mut Kernel<'_>, batch: u64, floor_ns: f64) -> Result<(), Fault> {
    let mut took_ns = 0.0;
    while took_ns < WARM_UP_FLOORS * floor_ns {
        took_ns += time(clock, kernel, batch)?;
    }
    Ok(())
}

fn doubled(clock: &Clock, kernel: &mut Kernel<'_>, floor_ns: f64) -> Result<u64, Fault> {
    // Powers of two reach any length in few timings, and at most twice the floor.
    let mut batch = 1;
    // Confirm once: the first batch may have been long because of an interrupt.
    while time(clock, kernel, batch)? < floor_ns || time(clock, kernel, batch)? < floor_ns {
        batch *= 2;
        if batch > BATCH_MAX {
            return Err(Fault::Failed("the kernel takes no measurable time".to_owned()));
        }
    }
    Ok(batch)
}
