//! A step of a load: its parameters, and its windows so far, measured in several sweeps. `analysis`
//! judges it, and [`records`](crate::records) writes it.

use std::collections::BTreeMap;

use fathom_analysis::load::{MeasuredStep, ReachedLimit, ServerEnd};
use fathom_record::load_window::add_each;
use fathom_record::{LoadWindow, Reason};

use crate::engine::{Fault, Heat, Outcome, ScheduleRate, Workload, by_words};
use crate::options::LoadOptions;
use crate::share::Share;

#[derive(Clone, Default)]
pub struct Step {
    /// Of an open loop.
    pub rate: Option<ScheduleRate>,
    /// Of a share: the clients or the requests a second of all members, by which it is recorded.
    pub of_all: Option<f64>,
    /// Of a share: its windows, for those who merge all shares.
    pub windows: Vec<LoadWindow>,
    /// Of each sweep.
    pub heat: Vec<Heat>,
    /// Faults within the windows; of a step without a complete sweep, all.
    faults: BTreeMap<Fault, u64>,
    /// State of the server's page cache before each sweep.
    pub cache: Vec<String>,
    pub measured: MeasuredStep,
}

impl Step {
    pub fn new(clients: u32) -> Self {
        Self { measured: MeasuredStep::new(clients), ..Self::default() }
    }

    /// A step of an open loop with so many requests in flight, at most.
    pub fn open_loop(rate: ScheduleRate, in_flight: u32) -> Self {
        Self { rate: Some(rate), measured: MeasuredStep::open_loop(in_flight), ..Self::default() }
    }

    pub fn clients(&self) -> u32 {
        self.measured.clients
    }

    /// Adds a sweep.
    pub fn add(&mut self, outcome: &Outcome) {
        self.heat.push(outcome.tally.heat.clone());
        self.measured.add(&outcome.tally.window);
        self.add_faults(&outcome.tally.window_faults);
    }

    /// What failed in a step without a complete sweep; of others, only the complete ones count.
    pub fn add_incomplete(&mut self, outcome: &Outcome) {
        if self.measured.sweeps > 0 {
            return;
        }
        self.faults.clear();
        self.add_faults(&outcome.tally.faults);
        self.measured.counts.faults = by_words(&self.faults);
    }

    fn add_faults(&mut self, faults: &BTreeMap<Fault, u64>) {
        add_each(&mut self.faults, faults);
        let most = self.faults.iter().max_by_key(|(_, count)| **count).map(|(fault, _)| *fault);
        self.measured.reached_limit = most.and_then(|fault| {
            Some(ReachedLimit { words: fault.to_string(), remedy: fault.remedy()? })
        });
    }

    /// The server stopped answering.
    pub fn end(&mut self, fault: Fault) {
        let reason = Reason::new(fault.end_cause(), fault.end_words());
        self.measured.server_end = Some(ServerEnd { reason, words: fault.to_string() });
    }

    /// The work of a share of this step.
    pub fn share_of(&self, share: Share, work: Workload) -> Workload {
        let clients = self.of_all.unwrap_or(0.0) as u32;
        Workload {
            seed: share.seed(work.seed),
            first: if self.rate.is_none() { share.before(clients) } else { 0 },
            shift_ns: self.rate.map_or(0, |rate| share.shift_ns(rate)),
            ..work
        }
    }
}

impl LoadOptions {
    /// All steps of a case, those of closed loops first: of a share its part of them.
    pub fn steps(&self) -> Vec<Step> {
        let closed = self.closed().into_iter().map(|clients| Step {
            of_all: self.share.map(|_| clients.into()),
            ..Step::new(self.own(clients))
        });
        let open = self.open().into_iter().map(|rate| Step {
            of_all: self.share.map(|_| rate.per_second),
            ..Step::open_loop(self.share.map_or(rate, |it| it.rate(rate)), self.own_in_flight())
        });
        closed.chain(open).collect()
    }
}
