//! A known dose of extra work in a kernel, to test that it is measured.
//!
//! The dose is a fixed number of dependent additions per iteration, calibrated once, so that it
//! depends on the core and not on the clock under test. It may grow over the rounds of a visit, to
//! simulate drift.

use std::hint::black_box;

use super::spin::{REFERENCE_ITERATIONS, chain};
use super::{Kernel, SamplerFault};
use crate::clock::Clock;
use fathom_analysis::statistics;
use serde::{Deserialize, Serialize};

/// Timings of kernel and chain for the calibration of the dose.
const TRIALS: usize = 9;

/// Injected work relative to the kernel's own time, linear from the first to the last round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InjectedDose {
    pub first: f64,
    pub last: f64,
}

impl InjectedDose {
    pub fn steady(share: f64) -> Self {
        Self { first: share, last: share }
    }

    fn in_round(self, round: u32, rounds: u32) -> f64 {
        let way = f64::from(round) / f64::from(rounds.saturating_sub(1).max(1));
        self.first + (self.last - self.first) * way.min(1.0)
    }
}

/// The kernel with a chain of additions after each batch.
pub(super) fn into<'k>(
    mut kernel: Kernel<'k>,
    share: InjectedDose,
    rounds: u32,
    batch: u64,
    clock: &Clock,
) -> Result<Kernel<'k>, SamplerFault> {
    let (mut of_kernel, mut of_chain) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        // Alternately, so that a change of the core speed affects both medians alike.
        let start = clock.start();
        kernel(batch);
        of_kernel.push(clock.ns(start, clock.stop()));
        let chain_start = clock.start();
        black_box(chain(REFERENCE_ITERATIONS));
        of_chain.push(clock.ns(chain_start, clock.stop()));
    }
    let (Some(kernel_ns), Some(chain_ns)) =
        (statistics::median(&of_kernel), statistics::median(&of_chain))
    else {
        return Err(SamplerFault::Failed("calibration of the injected work failed".to_owned()));
    };
    let whole = kernel_ns / chain_ns * REFERENCE_ITERATIONS as f64 / batch as f64;
    let mut batches = 0;
    Ok(Box::new(move |iterations| {
        let done = kernel(iterations);
        // A round has two batches.
        let dose = whole * share.in_round(batches / 2, rounds);
        batches += 1;
        // At least one, because the loop counts down to 0.
        black_box(chain((dose * iterations as f64).max(1.0) as u64));
        done
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dose_is_linear_over_the_rounds() {
        let dose = InjectedDose { first: 0.1, last: 0.5 };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(dose.in_round(0, 5), 0.1) && close(dose.in_round(2, 5), 0.3));
        assert!(close(dose.in_round(4, 5), 0.5) && close(dose.in_round(9, 5), 0.5));
        assert!(close(InjectedDose::steady(0.2).in_round(3, 12), 0.2));
        assert!(close(dose.in_round(0, 1), 0.1), "a single round");
    }
}
