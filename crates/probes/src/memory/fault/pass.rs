//! One pass of page faults: accesses pages between two timestamps and compares the kernel's count
//! of faults with the expected one.

use std::cell::RefCell;

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
    /// Unmaps or evicts the pages, outside the timer.
    fn prepare(&mut self) -> Result<()>;
    /// Accesses each page once.
    fn touch(&mut self);
    /// Further conditions after a pass, outside the timer.
    fn verify(&mut self) -> Result<()> {
        Ok(())
    }
    /// Whether the pages have the requested properties after the last pass, with the figures.
    fn check(&mut self) -> Result<(bool, String)>;
}

/// Runs one pass. Returns nanoseconds per page, or per fault where a fault may map several pages,
/// and the number of faults.
pub(super) fn once(clock: &Clock, memory: &mut dyn FaultSource) -> Result<(f64, u64)> {
    memory.prepare()?;
    let expected = memory.expected();
    // Read outside the stamps, because reading the counters is a system call.
    let before = FaultCounts::now();
    let start = clock.start();
    memory.touch();
    let stop = clock.stop();
    let counted = FaultCounts::now().since(before);
    let divisor = expected.divisor(counted)?;
    memory.verify()?;
    // With major faults, the minor ones are strays.
    let faults = if expected.major > 0 { counted.major } else { counted.minor };
    Ok((clock.ns(start, stop) / divisor as f64, faults))
}

/// Measures one case.
pub(super) fn rounds(
    case: usize,
    memory: &mut dyn FaultSource,
    sampler: &mut Sampler,
) -> Result<()> {
    let pages = memory.pages();
    // Not counted: it also faults in the code of a pass.
    memory.prepare()?;
    memory.touch();
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
