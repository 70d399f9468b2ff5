//! The interface of the pipeline to the machine: visits and the clock.

use fathom_measure::clock::{Specification, WholeRun};
use fathom_measure::sampler::{LoopTime, Resources, SamplerFault, Settings};
use fathom_record::{Params, Reason, Sample};
use serde::{Deserialize, Serialize};

/// A request to a worker: one line of JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitRequest {
    pub metric: String,
    pub params: Vec<Params>,
    pub settings: Settings,
    pub clock: Specification,
    /// The coordinator's process id. The worker ends with it.
    pub coordinator: u32,
    /// Whether to run at nice −20.
    pub priority: bool,
    pub resources: Resources,
    /// Whether the work uses the second CPU.
    #[serde(default)]
    pub is_on_two_cpus: bool,
    /// The coordinator's descriptor of the memory that is sensed, if the work waits for memory.
    #[serde(default)]
    pub sensed_memory: Option<i32>,
}

/// The answer of a worker: one line of JSON on its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitAnswer {
    /// A sample or a fault for each requested case.
    pub samples: Vec<Result<Sample, SamplerFault>>,
    pub loops: Vec<LoopTime>,
}

impl VisitAnswer {
    /// The same fault for all cases of a request.
    pub(crate) fn fault(fault: &SamplerFault, request: &VisitRequest) -> Self {
        let samples = request.params.iter().map(|_| Err(fault.clone())).collect();
        Self { samples, loops: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum EngineOutcome {
    Answered(VisitAnswer),
    /// The worker crashed, timed out or was killed.
    Failed(Reason),
    /// The user stopped the run. The visit is lost.
    Interrupted,
}

pub trait Machine {
    /// Makes one visit in a fresh process.
    fn visit(&mut self, request: &VisitRequest) -> EngineOutcome;
    /// Many reference loops on a CPU, spread over part of a second.
    fn calibrate(&mut self, cpu: u32) -> Vec<LoopTime>;
    /// The descriptor of the memory that visits sense.
    fn sensed_memory(&mut self) -> Option<i32> {
        None
    }
    /// Nanoseconds since the run began.
    fn elapsed_ns(&self) -> u64;
    /// RFC 3339 in UTC.
    fn timestamp(&self) -> String;
    /// The clock's error since the run began.
    fn clock_check(&self) -> WholeRun;
    fn clock(&self) -> Specification;
    /// Whether the user stopped the run.
    fn interrupted(&self) -> bool;
}
