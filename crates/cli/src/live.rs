//! The real machine behind a run: worker processes and the hardware clock.

use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::AsRawFd;

use fathom_measure::clock::{self, CalibrationWatch, Specification, WholeRun};
use fathom_measure::sampler::{LoopTime, calibration, sensed_memory};

use crate::interrupt::Interrupt;
use fathom_engine::worker::Workers;
use fathom_engine::{EngineOutcome, Machine, VisitRequest};

pub struct LiveMachine {
    workers: Workers,
    pub watch: CalibrationWatch,
    pub interrupt: Interrupt,
    /// Start of the run by CLOCK_MONOTONIC_RAW.
    begun_ns: u64,
    /// Made when a visit first needs it.
    sensed_memory: OnceCell<Option<File>>,
}

impl LiveMachine {
    pub fn new(
        workers: Workers,
        watch: CalibrationWatch,
        interrupt: Interrupt,
        begun_ns: u64,
    ) -> Self {
        Self { workers, watch, interrupt, begun_ns, sensed_memory: OnceCell::new() }
    }
}

impl Machine for LiveMachine {
    fn visit(&mut self, request: &VisitRequest) -> EngineOutcome {
        self.workers.visit(request, &self.interrupt)
    }

    fn calibrate(&mut self, cpu: u32) -> Vec<LoopTime> {
        calibration(self.watch.clock().specification(), cpu)
    }

    fn sensed_memory(&mut self) -> Option<i32> {
        let memory = self.sensed_memory.get_or_init(|| sensed_memory().ok());
        memory.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn elapsed_ns(&self) -> u64 {
        clock::monotonic_raw_ns() - self.begun_ns
    }

    fn timestamp(&self) -> String {
        timestamp()
    }

    fn clock_check(&self) -> WholeRun {
        self.watch.end()
    }

    fn clock(&self) -> Specification {
        self.watch.clock().specification()
    }

    fn interrupted(&self) -> bool {
        self.interrupt.arrived()
    }
}

/// Now, RFC 3339 in UTC, to the millisecond.
pub(crate) fn timestamp() -> String {
    timestamp_of(clock::wall_ns())
}

/// The same of nanoseconds since 1970.
pub(crate) fn timestamp_of(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns));
    time.map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}
