//! Counters around rounds and visits: the kernel's, or scripted in tests.

use std::fs::File;

use fathom_record::{Counter, Counters, Disturbance};

use super::distance;
use super::memory::MemorySensor;
use super::spin::{self, LoopTime};
use crate::clock::{Clock, monotonic_raw_ns};
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
    /// The distance between the two CPUs of the visit, if it uses two.
    fn distance(&mut self, _: &Clock) -> Option<f64> {
        None
    }
    /// The time of a load from memory, if the visit waits for memory.
    fn memory(&mut self, _: &Clock) -> Option<f64> {
        None
    }
}

/// Gives the CPU away and takes it again. What the kernel keeps of a process that never sleeps, in
/// predictors and in the scheduler, makes its short calls slower or faster by 13 to 49 %, for a
/// batch or for seconds; and a peer on another CPU that spins for its next message falls asleep
/// meanwhile.
pub(super) fn switch_away() {
    // As short as the timer allows: the time does not matter.
    let _ = rustix::thread::nanosleep(&rustix::fs::Timespec { tv_sec: 0, tv_nsec: 1 });
}

pub struct KernelCounters {
    round: RoundCounters,
    /// Time of the visit in which the worker gave its CPU away.
    away_ns: u64,
    visit: VisitCounters,
    expects: Counters,
    /// The second CPU of the visit.
    other_cpu: Option<u32>,
    memory: Option<MemorySensor>,
}

impl KernelCounters {
    /// Counters of this process and of its CPU. Expected ones do not disturb a round.
    pub fn new(cpu: u32, expects: Counters) -> Self {
        let (round, visit) = (RoundCounters::read(), VisitCounters::open(cpu));
        Self { round, away_ns: 0, visit, expects, other_cpu: None, memory: None }
    }

    /// Also senses how far another CPU is.
    #[must_use]
    pub fn beside(self, other_cpu: Option<u32>) -> Self {
        Self { other_cpu, ..self }
    }

    /// Also senses memory, that of [`sensed_memory`](super::sensed_memory).
    #[must_use]
    pub fn with_memory(self, memory: Option<File>) -> Self {
        Self { memory: memory.and_then(|file| MemorySensor::new(file).ok()), ..self }
    }
}

impl Observer for KernelCounters {
    fn begin_visit(&mut self) {
        self.away_ns = 0;
        self.visit.mark();
    }

    fn end_visit(&mut self) -> Disturbance {
        let disturbance = self.visit.since_mark();
        let wall_ns = disturbance.wall_ns.saturating_sub(self.away_ns);
        Disturbance { wall_ns, ..disturbance }
    }

    fn begin_round(&mut self) {
        let begun_ns = monotonic_raw_ns();
        switch_away();
        self.away_ns += monotonic_raw_ns() - begun_ns;
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

    fn distance(&mut self, clock: &Clock) -> Option<f64> {
        distance::to(clock, self.other_cpu?)
    }

    fn memory(&mut self, clock: &Clock) -> Option<f64> {
        self.memory.as_mut()?.sense(clock)
    }
}
