//! One pass of faults: pages are touched between two stamps, and the kernel's own count of what
//! that took is held against what it must have taken.

use std::cell::RefCell;

use fathom_measure::sampler::{Fault, Operation};
use fathom_measure::{Clock, Sampler, Work};

use crate::memory::page_faults::{ExpectedFaults, FaultCounts};

/// Memory that can be made to fault again and again.
pub(super) trait Faulting {
    /// Pages that one pass touches.
    fn pages(&self) -> usize;
    /// How many faults that takes: one for each page, unless told otherwise.
    fn expected(&self) -> ExpectedFaults {
        ExpectedFaults::one_per_page(self.pages())
    }
    /// Takes the pages away, outside the timer.
    fn take_away(&mut self) -> Result<(), Fault>;
    /// Touches each page once.
    fn touch(&mut self);
    /// What must be so after a pass beside its count, outside the timer.
    fn verify(&mut self) -> Result<(), Fault> {
        Ok(())
    }
    /// What the pages were in the end: whether it is what was asked for, and the kernel's words.
    fn check(&mut self) -> Result<(bool, String), Fault>;
}

/// Takes one pass: nanoseconds a page, or a fault where each may map several pages, and how many
/// faults the kernel counted.
pub(super) fn once(clock: &Clock, memory: &mut dyn Faulting) -> Result<(f64, u64), Fault> {
    memory.take_away()?;
    let expected = memory.expected();
    let before = FaultCounts::now();
    let start = clock.start();
    memory.touch();
    let stop = clock.stop();
    let counted = FaultCounts::now().since(before);
    let divisor = expected.divisor(counted)?;
    memory.verify()?;
    // Beside those that waited, the others are strays.
    let faults = if expected.major > 0 { counted.major } else { counted.minor };
    Ok((clock.ns(start, stop) / divisor as f64, faults))
}

/// Takes the rounds of one case.
pub(super) fn rounds(case: usize, memory: &mut dyn Faulting, sampler: &mut Sampler) {
    let pages = memory.pages();
    let memory = RefCell::new(memory);
    let mut fewest_and_most = (u64::MAX, 0);
    let mut keep = |faults: u64| {
        fewest_and_most = (faults.min(fewest_and_most.0), faults.max(fewest_and_most.1));
    };
    let operation: Operation<'_> = Box::new(|clock: &Clock, values: &mut [f64]| {
        let (ns, faults) = once(clock, &mut **memory.borrow_mut())?;
        keep(faults);
        values[0] = ns;
        Ok(())
    });
    sampler.run(vec![Work::Single {
        cases: vec![case],
        batch: pages as u64,
        operation,
        timings: None,
    }]);
    let (fewest, most) = fewest_and_most;
    let counted = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    // Others have ended the case by then.
    sampler.check(case, "faults", true, format!("{counted} counted for {pages} pages"));
    match memory.borrow_mut().check() {
        Ok((passed, detail)) => sampler.check(case, "pages", passed, detail),
        Err(fault) => sampler.fault(case, fault),
    }
}
