//! A known dose of extra work in a kernel, to show that what is injected is what is measured.
//!
//! The dose is a fixed number of dependent additions for each iteration, found once: it takes its
//! time from the core, not from the clock that is on trial.

use std::hint::black_box;

use super::spin::{REFERENCE_ITERATIONS, chain};
use super::{Fault, Kernel};
use crate::clock::Clock;
use fathom_record::statistics;

/// How often kernel and chain are timed to find the dose.
const TRIALS: usize = 9;

/// The kernel with a chain of additions after each batch that lengthens it by `share`.
pub(super) fn into<'k>(
    mut kernel: Kernel<'k>,
    share: f64,
    batch: u64,
    clock: &Clock,
) -> Result<Kernel<'k>, Fault> {
    let (mut of_kernel, mut of_chain) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        let start = clock.start();
        kernel(batch);
        of_kernel.push(clock.ns(start, clock.stop()));
        let start = clock.start();
        black_box(chain(REFERENCE_ITERATIONS));
        of_chain.push(clock.ns(start, clock.stop()));
    }
    let (Some(kernel_ns), Some(chain_ns)) =
        (statistics::median(&of_kernel), statistics::median(&of_chain))
    else {
        return Err(Fault::Failed("no dose for the injected spin could be found".to_owned()));
    };
    let chain_per_batch = share * kernel_ns / chain_ns * REFERENCE_ITERATIONS as f64;
    let dose = chain_per_batch / batch as f64;
    Ok(Box::new(move |iterations| {
        let done = kernel(iterations);
        // At least one: the loop of additions counts down to 0.
        black_box(chain((dose * iterations as f64).max(1.0) as u64));
        done
    }))
}
