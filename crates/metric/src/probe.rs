//! What fresh worker processes measure.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{
    Counter, Counters, Effort, Host, NoModel, NotSelected, Params, Prediction, Stratum,
};

use crate::{About, Known};

/// What was asked for, as far as a probe's cases depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
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

/// What a probe takes of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far {
    /// A process of its own on this host.
    Here,
    /// One on another host too, where the run has one.
    Anywhere,
}

/// What a probe takes beside the CPU of its worker; nothing, if it does not say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Of a folder on a device.
    pub disk: Option<Disk>,
    /// Of a far end.
    pub far: Option<Far>,
}

/// A thing that can be measured. Stateless; listed once in the registry.
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
    /// The counters that the work itself moves in this case. Cases that differ in them must not
    /// share a visit.
    fn expects(&self, _: &Case) -> Counters {
        self.about().expects
    }
    /// The stratum of visits that are selected for a core at full speed in this case, or why none
    /// may be. Work beyond the core, threads on other CPUs and long operations are for the probe to
    /// say.
    ///
    /// # Errors
    /// Why none may be selected.
    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        let expects = self.expects(case);
        match () {
            () if self.needs().disk.is_some() || expects.has(Counter::MajorFaults) => {
                Err(NotSelected::Device)
            }
            () if expects.has(Counter::NotRunning) => Err(NotSelected::SecondCpu),
            () => Ok(Stratum::FullSpeed),
        }
    }
    /// What it takes beside the CPU of its worker.
    fn needs(&self) -> Needs {
        Needs::default()
    }
    /// The cases to take on this host.
    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case>;
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
