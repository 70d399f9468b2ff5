//! Probes: metrics that fresh worker processes measure.

use fathom_measure::Sampler;
use fathom_measure::sampler::SamplerFault;
use fathom_record::{
    Counter, Counters, Effort, Host, NoModel, NotSelected, Params, Prediction, Stratum,
};

use crate::{HasAbout, Inputs};

/// What the cases of a probe depend on, beside the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub effort: Effort,
    /// Smallest sizes only, for tests of the probe's function.
    pub smoke: bool,
    /// Also the cases of a mounted network file system: the folder for test files is on one, or
    /// they are selected.
    pub mount: bool,
}

impl From<Effort> for Sizes {
    fn from(effort: Effort) -> Self {
        Self { effort, ..Self::default() }
    }
}

/// A probe's metric with its parameters. All cases of a probe usually share a visit and interleave
/// their rounds, so that the memory layout of the process affects all of them alike.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeCase {
    pub params: Params,
    /// Expected time of the rounds of one visit with their share of the setup, in nanoseconds. The
    /// estimated run time and the timeout of a worker derive from it.
    pub cost_ns: f64,
}

impl ProbeCase {
    /// A case with batches of the usual length: warm-up and 12 rounds take about 8 ms.
    pub fn usual(params: Params) -> Self {
        Self { params, cost_ns: 8e6 }
    }
}

/// A metric measured by visits. Stateless; listed once in the registry.
pub trait Probe: HasAbout {
    /// Counters that the measured work increments itself. Cases with different sets must not share
    /// a visit.
    fn expects(&self, _: &ProbeCase) -> Counters {
        self.about().expects
    }
    /// Whether the case reads from a device: a doubt about the device of its files is one about its
    /// result.
    fn reads_device(&self, case: &ProbeCase) -> bool {
        let state = case.params.text("state");
        self.about().disk.is_some() && matches!(state, Some("cold" | "direct"))
    }
    /// The stratum that selected visits of this case form, or why visits cannot be selected by core
    /// speed. A probe overrides it for work outside the core, threads on other CPUs and long
    /// operations.
    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        let expects = self.expects(case);
        match () {
            () if self.about().disk.is_some() || expects.has(Counter::MajorFaults) => {
                Err(NotSelected::Device)
            }
            () if expects.has(Counter::NotRunning) => Err(NotSelected::SecondCpu),
            () => Ok(Stratum::ToItself),
        }
    }
    /// Whether a case waits for memory, beyond the caches: what others do with it is then sensed.
    fn waits_for_memory(&self, _: &ProbeCase, _: &Host) -> bool {
        false
    }
    /// The noise limit of a case. A probe overrides it where some cases use what guests share.
    fn noise_limit(&self, _: &ProbeCase, _: &Host) -> f64 {
        self.about().noise_limit
    }
    /// The cases to measure on this host.
    fn cases(&self, _host: &Host, _sizes: &Sizes) -> Vec<ProbeCase> {
        vec![ProbeCase::usual(Params::none())]
    }
    /// The same case with the far end on another host, if there is one.
    fn remote(&self, _case: &ProbeCase, _to: &str) -> Option<ProbeCase> {
        None
    }
    /// The expected value of a case, from earlier results, host facts and published constants.
    fn predict(
        &self,
        case: &ProbeCase,
        host: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel>;
    /// Sets up and passes the work to the sampler.
    ///
    /// # Errors
    /// Why no case can be measured. [`Sampler::fault`] takes the error of a single case.
    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<(), SamplerFault>;
}
