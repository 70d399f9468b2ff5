//! What is read around rounds and visits: the kernel's counters, or a script in tests.

use fathom_record::{Counter, Counters, Disturbance};

use super::spin::{self, LoopTime};
use crate::clock::Clock;
use crate::disturbance::{RoundCounters, VisitCounters};

/// What the counters say of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundMark {
    /// A counter moved that the work itself does not move.
    pub disturbed: bool,
    /// The round ended on another CPU than it began on.
    pub migrated: bool,
}

/// Reads the counters around rounds and visits.
pub trait Observer {
    /// Before the first round of a set-up.
    fn begin_visit(&mut self);
    fn end_visit(&mut self) -> Disturbance;
    fn begin_round(&mut self);
    fn end_round(&mut self) -> RoundMark;
    /// Counts the CPU time of a living child of the probe's to the visit.
    fn also_count(&mut self, _child: u32) {}
    /// Counts threads of this process that work in step with the caller's, in place of those
    /// before: thread number and CPU of each.
    fn work_with(&mut self, _threads: &[(u32, u32)]) {}
    /// Runs the reference loop once.
    fn reference_loop(&mut self, clock: &Clock) -> LoopTime;
}

pub struct KernelCounters {
    round: RoundCounters,
    visit: VisitCounters,
    expects: Counters,
}

impl KernelCounters {
    /// Counters of this process, and of the CPU it is pinned to; those that the work itself moves
    /// disturb no round.
    pub fn new(cpu: u32, expects: Counters) -> Self {
        Self { round: RoundCounters::read(), visit: VisitCounters::open(cpu), expects }
    }
}

impl Observer for KernelCounters {
    fn begin_visit(&mut self) {
        self.visit.mark();
    }

    fn end_visit(&mut self) -> Disturbance {
        self.visit.since_mark()
    }

    fn begin_round(&mut self) {
        self.round = RoundCounters::read();
    }

    fn end_round(&mut self) -> RoundMark {
        let delta = RoundCounters::read().since(&self.round);
        let preempted = delta.involuntary_switches > 0 && !self.expects.has(Counter::Preemptions);
        let waited = delta.major_faults > 0 && !self.expects.has(Counter::MajorFaults);
        RoundMark { disturbed: preempted || delta.migrated || waited, migrated: delta.migrated }
    }

    fn also_count(&mut self, child: u32) {
        self.visit.also_count(child);
    }

    fn work_with(&mut self, threads: &[(u32, u32)]) {
        self.visit.work_with(threads);
    }

    fn reference_loop(&mut self, clock: &Clock) -> LoopTime {
        spin::reference_loop(clock)
    }
}
