//! What a procedure is given to work with: the clock, who is to stop it, earlier results, and the
//! way of a result into the run.

use fathom_measure::Clock;
use fathom_measure::sampler::{KernelCounters, Observer as _};
use fathom_record::{
    Check, Counters, Disturbance, Fact, Host, NoModel, Params, Prediction, Reason, Record, Verdict,
};

use crate::Stop;

/// Takes the results of a procedure in, and reaches whoever follows it.
pub trait Recorder {
    /// The clock.
    fn clock(&self) -> &Clock;
    /// Who is to stop it.
    fn stop(&self) -> &Stop;
    /// The machine.
    fn host(&self) -> &Host;
    /// The CPU that counts as the one it runs on.
    fn cpu(&self) -> u32;
    /// What is known by now: earlier results of this host, then the run's own.
    fn known(&self) -> &[Record];
    /// What a case should give, by what is known so far.
    ///
    /// # Errors
    /// Why there is no model.
    fn predicted(&self, metric: &str, params: &Params) -> Result<Prediction, NoModel>;
    /// Makes a record of what was measured.
    ///
    /// # Panics
    /// For a metric that is not registered: a mistake in this program.
    fn record(&mut self, measured: Measured) -> Record;
    /// Shows the records since the last call: they belong together.
    fn show(&mut self);
    /// Says what is going on. Never during a timed pass.
    fn event(&mut self, event: Event<'_>);
    /// Whether the person lets it go on, who is told what it is about to do.
    fn may_go_on(&mut self, text: &str, ask: bool) -> bool;
}

/// What goes on between timed passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// So many steps of all are done, and what comes next.
    Progress {
        /// Steps that are done.
        done: u64,
        /// All steps.
        all: u64,
        /// What comes next.
        what: &'a str,
    },
    /// Something that a person should know, whatever becomes of it.
    Warning(&'a str),
}

/// What was measured of one case.
#[derive(Default)]
pub struct Measured {
    /// The metric, which is registered.
    pub metric: &'static str,
    /// The case.
    pub params: Params,
    /// A value for each pass, in the metric's unit.
    pub values: Vec<f64>,
    /// Whether each value comes from processes of its own, and not all from this one.
    pub in_fresh_processes: bool,
    /// Whether the values are slopes or differences, which may lie around nothing.
    pub is_difference: bool,
    /// What the counters say of all passes.
    pub disturbance: Disturbance,
    /// What was verified of the work.
    pub checks: Vec<Check>,
    /// The verdict where the work itself decides it, whatever the values.
    pub verdict: Option<Verdict>,
    /// What speaks against the number though it stands.
    pub doubts: Vec<Reason>,
    /// What held the number where it is, though nothing speaks against it.
    pub remarks: Vec<Reason>,
    /// Facts beside the number, in the order in which they are read.
    pub facts: Vec<Fact>,
    /// Notes beside the number.
    pub notes: Vec<String>,
    /// What was predicted beforehand, where that rests on what is so at the moment; the metric's
    /// own model otherwise.
    pub prediction: Option<Prediction>,
}

/// Does something, and tells what the counters say of it. By hand nothing is pinned, and whoever
/// reads a file waits for a device.
pub fn observed<T>(cpu: u32, work: impl FnOnce() -> T) -> (T, Disturbance) {
    let mut counters = KernelCounters::new(cpu, Counters::DEVICE);
    counters.begin_visit();
    let done = work();
    (done, counters.end_visit())
}
