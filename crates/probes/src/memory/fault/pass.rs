//! One pass of page faults: accesses pages between two timestamps and compares the kernel's count
//! of faults with the expected one.

use std::cell::RefCell;
use std::ops::Range;

use fathom_analysis::statistics::median;

use crate::memory::page_faults::{ExpectedFaults, FaultCounts};
use crate::prelude::*;

/// Memory that faults on each pass.
pub(super) trait FaultSource {
    /// Pages accessed per pass.
    fn pages(&self) -> usize;
    /// The faults of a pass.
    fn expected(&self) -> ExpectedFaults {
        ExpectedFaults::one_per_page(self.pages())
    }
    /// Parts of a pass that are timed apart, at most [`PARTS`].
    fn parts(&self) -> usize {
        PARTS
    }
    /// Unmaps or evicts the pages, outside the timer.
    fn prepare(&mut self) -> Result<()>;
    /// Accesses each of these pages once, in the order of the pass.
    fn touch(&mut self, pages: Range<usize>);
    /// Further conditions after a pass, outside the timer.
    fn verify(&mut self) -> Result<()> {
        Ok(())
    }
    /// Whether the pages have the requested properties after the last pass, with the figures.
    fn check(&mut self) -> Result<(bool, String)>;
}

/// A pass is timed in parts, each shorter than a time slice of the scheduler: beside neighbours a
/// whole pass would include a wait for the CPU each time. Not of faults that are long themselves,
/// whose cost is the mean over a pass.
pub(super) const PARTS: usize = 8;

/// Runs one pass. Returns nanoseconds per page, or per fault where a fault may map several pages,
/// by the median of its parts, and the number of faults.
pub(super) fn once(clock: &Clock, memory: &mut dyn FaultSource) -> Result<(f64, u64)> {
    memory.prepare()?;
    let (expected, pages) = (memory.expected(), memory.pages());
    let mut of_parts = [0.0; PARTS];
    let step = pages.div_ceil(memory.parts());
    let parts = (0..pages).step_by(step).map(|from| from..(from + step).min(pages));
    // Read outside the stamps, because reading the counters is a system call.
    let before = FaultCounts::now();
    for (part, each_ns) in parts.clone().zip(&mut of_parts) {
        let start = clock.start();
        memory.touch(part.clone());
        *each_ns = clock.ns(start, clock.stop()) / part.len() as f64;
    }
    let counted = FaultCounts::now().since(before);
    let divisor = expected.divisor(counted)?;
    memory.verify()?;
    // With major faults, the minor ones are strays.
    let faults = if expected.major > 0 { counted.major } else { counted.minor };
    let each_ns = median(&of_parts[..parts.len()]).unwrap_or(f64::NAN);
    Ok((each_ns * pages as f64 / divisor as f64, faults))
}

/// Measures one case.
pub(super) fn rounds(
    case: usize,
    memory: &mut dyn FaultSource,
    sampler: &mut Sampler,
) -> Result<()> {
    let pages = memory.pages();
    // Not counted: it also faults in the code of a pass. What fails here fails again.
    let _ = once(sampler.clock(), memory);
    let memory = RefCell::new(memory);
    let (mut fewest, mut most) = (u64::MAX, 0);
    let operation = |clock: &Clock| {
        let (ns, faults) = once(clock, &mut **memory.borrow_mut())?;
        (fewest, most) = (faults.min(fewest), faults.max(most));
        Ok(ns)
    };
    sampler.run(vec![single(case, pages as u64, operation)]);
    let counted = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    // Any other count has ended the case with a fault.
    sampler.check(case, "faults", true, format!("{counted} for {pages} pages"));
    let (passed, detail) = memory.borrow_mut().check()?;
    sampler.check(case, "pages", passed, detail);
    Ok(())
}
