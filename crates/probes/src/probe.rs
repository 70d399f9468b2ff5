//! The two things that can be registered: a probe, which measures, and a derived metric, which is
//! computed from others.

use fathom_analysis::statistics::Ratio;
use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Counters, Effort, Host, NoModel, Params, Prediction, Reason, Record};

use crate::{About, Known};

/// What was asked for, as far as a probe's cases depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// How thoroughly.
    pub effort: Effort,
    /// Smallest sizes only: for tests that want to see a probe work, not its numbers.
    pub smoke: bool,
}

/// One case: a probe's metric with its parameters. All cases of a probe are usually taken in one
/// visit, interleaved, so that what a process is dealt when it starts falls on all of them alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The parameters.
    pub params: Params,
    /// Expected time of one visit's rounds of this case with its share of the set-up, in
    /// nanoseconds: for the estimate a person sees, and the bound after which a worker is given up.
    pub cost_ns: f64,
}

impl Case {
    /// A case whose batches have the usual length, so that warm-up and 12 rounds take some 8 ms.
    pub fn usual(params: Params) -> Self {
        Self { params, cost_ns: 8e6 }
    }
}

/// What a probe takes of a folder on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of the large file that it reads; 0 where it reads none.
    pub large: u64,
    /// Bytes that one visit writes itself, at a time.
    pub own: u64,
}

/// A thing that can be measured. Stateless; listed once in [`crate::REGISTRY`].
pub trait Probe: Sync {
    /// What it is.
    fn about(&self) -> &'static About;
    /// Whether its values are differences, which are printed as a bound where their interval is
    /// too wide to tell them from nothing (METHOD 6).
    fn is_difference(&self) -> bool {
        false
    }
    /// Whether all cases are taken in one visit. Not where what one case leaves behind in the core
    /// changes what the next one costs.
    fn cases_share_visits(&self) -> bool {
        true
    }
    /// The counters that the work itself moves in this case. Cases that differ in it must not share a visit.
    fn expects(&self, _: &Case) -> Counters {
        self.about().expects
    }
    /// What it takes of a folder on a device; none where it touches no file.
    fn disk(&self) -> Option<Disk> {
        None
    }
    /// The cases to take on this host.
    fn cases(&self, host: &Host, plan: &Plan) -> Vec<Case>;
    /// What a case should give, from earlier results, host facts and sourced constants.
    ///
    /// # Errors
    /// Why there is no model.
    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel>;
    /// Sets up, and hands its work to the sampler.
    ///
    /// # Errors
    /// Why none of the cases can be taken. What spoils a single case goes to [`Sampler::fault`].
    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault>;
}

/// A metric computed from other records: a slope, a plateau, an edge.
pub trait Derived: Sync {
    /// What it is; [`About::needs`] are the metrics it is computed from.
    fn about(&self) -> &'static About;
    /// The metrics it is computed from: those of [`About::needs`] whose doubts are its own.
    fn inputs(&self) -> &'static [&'static str];
    /// Whether the result with these parameters is computed from this record, so that the doubts
    /// of the one are the other's. Which record is used may depend on which there are.
    fn rests_on(&self, _: &Params, record: &Record, _: &Known<'_>) -> bool {
        self.inputs().contains(&record.metric.as_str())
    }
    /// The parameters of its results.
    fn cases(&self) -> Vec<Params>;
    /// Computes one result, per process first, so that it has an interval.
    ///
    /// # Errors
    /// Which input is missing.
    fn reduce(&self, params: &Params, known: &Known<'_>) -> Result<Estimate, String>;
    /// What it should be.
    ///
    /// # Errors
    /// Why there is no model.
    fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel>;
}

/// A metric that is measured by a command of its own only, on a file that a person names or for
/// as long as a person wants to wait.
pub trait ByHand: Sync {
    /// What it is.
    fn about(&self) -> &'static About;
    /// The command, such as `fathom file capacity`.
    fn command(&self) -> &'static str;
    /// What a case should give.
    ///
    /// # Errors
    /// Why there is no model.
    fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel>;
}

/// A derived result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// One estimate for each process.
    pub per_process: Vec<f64>,
    /// Whether it is a difference or a slope, which is printed as a bound where its interval is
    /// too wide (METHOD 6).
    pub difference: bool,
    /// Where it is one metric divided by another and each has processes of its own: the quotient of
    /// their headlines, which stands in place of the median of `per_process`.
    pub quotient: Option<Ratio>,
    /// Facts beside the number, such as how well a line fits.
    pub notes: Vec<String>,
    /// What speaks against the number though there is one, such as processes that gave none: it
    /// makes the record noisy.
    pub doubts: Vec<Reason>,
}
