//! Counters around rounds and visits: the kernel's, or scripted in tests.

use fathom_record::{Counter, Counters, Disturbance};

use super::spin::{self, LoopTime};
use crate::clock::Clock;
use crate::disturbance::{RoundCounters, VisitCounters};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundMark {
    /// A counter increased that the work itself does not increase.
    pub disturbed: bool,
    pub migrated: bool,
}

/// Reads the counters around rounds and visits.
pub trait Observer {
    /// Before the first round of a set-up.
    fn begin_visit(&mut self);
    fn end_visit(&mut self) -> Disturbance;
    fn begin_round(&mut self);
    fn end_round(&mut self) -> RoundMark;
    /// Includes the CPU time of a running child of the probe.
    fn also_count(&mut self, _child: u32) {}
    /// Sets the threads that work in lockstep with the calling one: thread id and CPU.
    fn work_with(&mut self, _threads: &[(u32, u32)]) {}
    fn reference_loop(&mut self, clock: &Clock) -> LoopTime;
}

pub struct KernelCounters {
    round: RoundCounters,
    visit: VisitCounters,
    expects: Counters,
}

impl KernelCounters {
    /// Counters of this process and of its CPU. Expected ones do not disturb a round.
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
        let (usage, migrated) = RoundCounters::read().since(&self.round);
        let preempted = usage.involuntary_switches > 0 && !self.expects.has(Counter::Preemptions);
        let faulted = usage.major_faults > 0 && !self.expects.has(Counter::MajorFaults);
        RoundMark { disturbed: preempted || migrated || faulted, migrated }
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
