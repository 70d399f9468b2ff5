//! What the pipeline needs of a machine: someone who takes visits, and the time.

use fathom_measure::clock::{Specification, WholeRun};
use fathom_measure::sampler::{Fault, LoopTime, Resources, Settings};
use fathom_record::{Params, Reason, Sample};
use serde::{Deserialize, Serialize};

/// What a worker is asked to do: one line of JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitRequest {
    pub metric: String,
    pub params: Vec<Params>,
    /// How the visit is to be taken.
    pub settings: Settings,
    pub clock: Specification,
    /// The coordinator's process, without which the worker ends.
    pub coordinator: u32,
    /// Run at the highest ordinary priority.
    pub priority: bool,
    /// What the visit may use.
    pub resources: Resources,
}

/// What a worker answers: one line of JSON on its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitAnswer {
    /// A sample or a fault for each case asked for; none where the core was not at the speed that
    /// the visit was to be taken at.
    pub samples: Vec<Result<Sample, Fault>>,
    pub loops: Vec<LoopTime>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Answered(VisitAnswer),
    /// Without one: the worker crashed, hung or was killed.
    Failed(Reason),
    /// The person stopped the run; the visit is lost.
    Interrupted,
}

/// Takes visits and tells the time.
pub trait Machine {
    /// Takes one visit in a fresh process.
    fn visit(&mut self, request: &VisitRequest) -> Outcome;
    /// Many reference loops on a CPU, spread over a part of a second.
    fn calibrate(&mut self, cpu: u32) -> Vec<LoopTime>;
    /// Nanoseconds since the run began.
    fn elapsed_ns(&self) -> u64;
    /// The time and date, RFC 3339 in UTC.
    fn timestamp(&self) -> String;
    /// How the clock stands since the run began.
    fn clock_check(&self) -> WholeRun;
    fn clock(&self) -> Specification;
    /// Whether the person asked to stop.
    fn interrupted(&self) -> bool;
}
