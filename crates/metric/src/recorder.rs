//! The interface of a procedure to the running session: clock, interruption, earlier results and
//! recording.

use fathom_analysis::core_state::CoreStates;
use fathom_measure::Clock;
use fathom_measure::sampler::{KernelCounters, Observer as _};
use fathom_record::{
    Better, Cause, Check, Cost, Counters, Disturbance, Fact, FarEnd, FarHost, HeatMap, Histogram,
    Host, Interval, LoadWindow, NoModel, NotSelected, Params, Prediction, Reason, Record, Sample,
    Second, Series, Unit, Verdict, quantity::quantity,
};

use crate::Stop;

/// Records the results of a procedure and reports its progress.
pub trait Recorder {
    fn clock(&self) -> &Clock;
    fn stop(&self) -> &Stop;
    fn host(&self) -> &Host;
    /// The CPU whose counters are read. The process is not pinned.
    fn cpu(&self) -> u32;
    /// When the work of all members of a group starts, by CLOCK_MONOTONIC_RAW; `None` alone.
    fn start_ns(&self) -> Option<u64> {
        None
    }
    /// Stored results of this host, then the records of this run.
    fn known(&self) -> &[Record];
    /// The prediction of a case from [`Self::known`].
    fn predicted(&self, metric: &str, params: &Params) -> Result<Prediction, NoModel>;
    /// Creates a record.
    ///
    /// # Panics
    /// If the metric is neither registered nor [`Measured::own`].
    fn record(&mut self, measured: Measured) -> Record;
    /// Stores the records that `make` creates, of a step that is measured again: they are neither
    /// printed nor known, and those of the end replace them. Must not be called during a timed
    /// pass.
    fn draft(&mut self, make: &mut dyn FnMut(&mut dyn Recorder));
    /// Prints and stores the records made since the last call as one group. Must not be called
    /// during a timed pass.
    fn show(&mut self);
    /// Notes the seed of random orders.
    fn set_seed(&mut self, seed: u64);
    /// Adds the facts of a far host.
    fn add_far(&mut self, far: FarHost);
    /// Reports progress. Must not be called during a timed pass.
    fn event(&mut self, event: Event<'_>);
    /// Prints what the command is about to do and, with `ask`, waits for confirmation.
    fn confirm(&mut self, text: &str, ask: bool) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    Progress {
        done: u64,
        all: u64,
        /// The next step.
        what: &'a str,
    },
    Warning(&'a str),
    /// What the command is about to do.
    Plan(&'a str),
    /// What a load did within a second.
    Second(&'a Second),
}

/// A metric outside the registry, such as a command of the user. Its record says what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnMetric {
    /// In one of the groups of [`fathom_record::OWN_GROUPS`].
    pub id: String,
    pub title: String,
    pub unit: Unit,
    pub better: Better,
    /// Counters that the work itself moves.
    pub expects: Counters,
    pub noise_limit: f64,
}

/// Samples of separate processes, of which those in one state of the core may be selected.
#[derive(Clone, Debug)]
pub struct Processes {
    pub samples: Vec<Sample>,
    /// Why processes are not selected by the state of the core, if they are not.
    pub selection: Result<(), NotSelected>,
    /// The states of the core over all of them.
    pub states: Option<CoreStates>,
    /// Half the width of the interval of what was subtracted from each value.
    pub subtracted_half_width: f64,
}

/// The measured values of one case.
#[derive(Default)]
pub struct Measured {
    pub metric: &'static str,
    /// In place of `metric`.
    pub own: Option<OwnMetric>,
    pub params: Params,
    /// One value per pass, in the metric's unit.
    pub values: Vec<f64>,
    /// Overrides the median of the values and its interval, where they are the means of batches: a
    /// rate is all work by all time.
    pub headline: Option<(f64, Option<Interval>)>,
    /// Instead of a number.
    pub text: Option<String>,
    /// Single timings, if there are too many for `values`.
    pub histogram: Option<Histogram>,
    pub heat_map: Option<HeatMap>,
    /// Of a share of a load.
    pub windows: Vec<LoadWindow>,
    pub series: Vec<Series>,
    /// In place of values.
    pub processes: Option<Processes>,
    /// Whether each value comes from separate processes.
    pub in_fresh_processes: bool,
    /// Whether values are slopes or differences, which may scatter around 0.
    pub is_difference: bool,
    /// Counter differences of each process in the order of `values`, of this end and of the far
    /// one. Of one process: over all passes.
    pub disturbance: Vec<Disturbance>,
    pub far: Vec<FarEnd>,
    pub checks: Vec<Check>,
    /// Overrides the verdict computed from the values.
    pub verdict: Option<Verdict>,
    /// Reasons that make the record noisy.
    pub doubts: Vec<Reason>,
    /// Limits that determined the value, such as a cgroup's I/O limit. The record stays valid.
    pub remarks: Vec<Reason>,
    /// Printed beside the number, in this order.
    pub facts: Vec<Fact>,
    pub notes: Vec<String>,
    /// Of a command of the user.
    pub cost: Option<Cost>,
    /// Overrides the metric's own model, where the prediction depends on the state before the pass.
    pub prediction: Option<Prediction>,
}

/// The doubt about the rate of a pass that took less than 200 µs besides its setup, or whose setup
/// was more than a tenth of it: startup (threads, buffers, connections, the first call) is part of
/// the number. `setup_ns` is the part of `ns` that is known as such.
pub fn too_short(ns: f64, setup_ns: f64) -> Option<Reason> {
    const SHORT_NS: f64 = 200_000.0;
    const SETUP_MAX: f64 = 0.1;
    let [all, setup] = [ns, setup_ns].map(|ns| quantity(ns, Unit::Nanoseconds));
    let text = if setup_ns > SETUP_MAX * ns {
        format!("a pass took {all}, of which setup was {setup}: too short")
    } else if ns - setup_ns < SHORT_NS {
        format!("a pass took {all}: too short, startup dominates")
    } else {
        return None;
    };
    Some(Reason::new(Cause::TooShort, text))
}

/// Runs `work` and returns its counter differences. Waiting for a device is expected.
pub fn observed<T>(cpu: u32, work: impl FnOnce() -> T) -> (T, Disturbance) {
    let mut counters = KernelCounters::new(cpu, Counters::DEVICE);
    counters.begin_visit();
    let output = work();
    (output, counters.end_visit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pass_or_long_setup_is_a_doubt() {
        for (ns, setup_ns, is_doubted) in [
            (200_000.0, 0.0, false),
            (199_999.0, 0.0, true),
            (220_000.0, 20_000.0, false),
            (220_000.0, 20_001.0, true),
            (1e9, 1e8, false),
            (1e9, 1.01e8, true),
        ] {
            let doubt = too_short(ns, setup_ns);
            assert_eq!(doubt.is_some(), is_doubted, "{ns} {setup_ns}: {doubt:?}");
            assert!(doubt.is_none_or(|doubt| doubt.cause == Cause::TooShort));
        }
    }
}
