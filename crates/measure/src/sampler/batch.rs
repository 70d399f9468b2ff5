//! Batched kernels: finding the batch, timing N and 2N, and what a round is worth.
//!
//! A round times N and 2N iterations. The plain slope (t₂ − t₁)/N of a round has variance 2σ²/N²,
//! and is negative when an interrupt fell into the shorter batch; a plain (t₁ + t₂)/3N has 2σ²/9N²,
//! but holds the clock's cost. So the overhead o is taken as the visit's median of 2t₁ − t₂, which
//! is what a batch costs beyond its iterations, and a round is worth (t₁ + t₂ − 2o)/3N: nine times
//! the slope's precision for a round, no negative times, and the same median over a visit.

use fathom_record::{Sample, statistics};

use super::{BATCH_MAX, Fault, Kernel};
use crate::clock::Clock;

pub(super) struct Batched<'k> {
    pub(super) cases: Vec<usize>,
    kernel: Kernel<'k>,
    twin: Option<Kernel<'k>>,
    per_iteration: f64,
    to_unit: fn(f64) -> f64,
    batch: u64,
    twin_batch: u64,
    rounds: Vec<Round>,
    twin_rounds: Vec<Round>,
}

/// The times of N and of 2N iterations.
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
        per_iteration: f64,
        to_unit: fn(f64) -> f64,
    ) -> Self {
        let (batch, twin_batch) = (1, 1);
        let (rounds, twin_rounds) = (Vec::new(), Vec::new());
        Self { cases, kernel, twin, per_iteration, to_unit, batch, twin_batch, rounds, twin_rounds }
    }

    /// Doubles the batch until it lasts. The doubling is the warm-up, and is not sampled.
    pub(super) fn find_batch(&mut self, clock: &Clock, floor_ns: f64) -> Result<(), Fault> {
        self.batch = doubled(clock, &mut self.kernel, floor_ns)?;
        if let Some(twin) = &mut self.twin {
            self.twin_batch = doubled(clock, twin, floor_ns)?;
        }
        Ok(())
    }

    pub(super) fn round(&mut self, clock: &Clock, sample: &mut Sample) -> Result<usize, Fault> {
        self.rounds.push(timed(clock, &mut self.kernel, self.batch)?);
        if let Some(twin) = &mut self.twin {
            self.twin_rounds.push(timed(clock, twin, self.twin_batch)?);
        }
        // A placeholder keeps the index of the round; the value is known when the visit's
        // overhead is.
        sample.values.push(0.0);
        Ok(1)
    }

    pub(super) fn finish(self, sample: &mut Sample) {
        let overhead_ns = overhead_of(&self.rounds);
        let own = per_iteration_ns(&self.rounds, self.batch, overhead_ns);
        let twin =
            per_iteration_ns(&self.twin_rounds, self.twin_batch, overhead_of(&self.twin_rounds));
        sample.batch = self.batch;
        sample.overhead_ns = overhead_ns;
        let first = sample.values.len() - own.len();
        for (round, ns) in own.iter().enumerate() {
            let difference = ns - twin.get(round).copied().unwrap_or(0.0);
            sample.values[first + round] = (self.to_unit)(difference / self.per_iteration);
        }
    }
}

/// What a batch costs beyond its iterations: the median of 2t₁ − t₂; 0 without rounds.
fn overhead_of(rounds: &[Round]) -> f64 {
    let intercepts: Vec<f64> =
        rounds.iter().map(|round| 2.0 * round.once_ns - round.twice_ns).collect();
    statistics::median(&intercepts).unwrap_or(0.0)
}

fn per_iteration_ns(rounds: &[Round], batch: u64, overhead_ns: f64) -> Vec<f64> {
    let iterations = 3.0 * batch as f64;
    rounds
        .iter()
        .map(|round| (round.once_ns + round.twice_ns - 2.0 * overhead_ns) / iterations)
        .collect()
}

fn timed(clock: &Clock, kernel: &mut Kernel<'_>, batch: u64) -> Result<Round, Fault> {
    Ok(Round { once_ns: time(clock, kernel, batch)?, twice_ns: time(clock, kernel, 2 * batch)? })
}

/// Times one batch and holds the kernel's own count against what was asked for.
fn time(clock: &Clock, kernel: &mut Kernel<'_>, iterations: u64) -> Result<f64, Fault> {
    let start = clock.start();
    let done = kernel(iterations);
    let stop = clock.stop();
    if done != iterations {
        return Err(Fault::WrongWork(format!("{done} of {iterations} iterations did their work")));
    }
    Ok(clock.ns(start, stop))
}

fn doubled(clock: &Clock, kernel: &mut Kernel<'_>, floor_ns: f64) -> Result<u64, Fault> {
    let mut batch = 1;
    // Twice over: the first batch that seems long enough may have met an interrupt.
    while time(clock, kernel, batch)? < floor_ns || time(clock, kernel, batch)? < floor_ns {
        batch *= 2;
        if batch > BATCH_MAX {
            return Err(Fault::Failed("the kernel takes no time at all".to_owned()));
        }
    }
    Ok(batch)
}
