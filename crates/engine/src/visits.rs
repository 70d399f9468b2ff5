//! The visits of a block: in seeded random order, and as many as its cases need.

use fathom_analysis::{judge, statistics};
use fathom_measure::sampler::{BATCH_FLOOR_NS, Dose, Fault, Resources, Settings};
use fathom_metric::{Entry, Probe};
use fathom_record::{Reason, Sample};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::InjectedSpin;
use crate::machine::{Machine, Outcome, VisitAnswer, VisitRequest};
use crate::plan::{Plan, Unit, Visits};

/// Starting a worker, pinning it and ending it.
pub(crate) const WORKER_NS: f64 = 10e6;

/// A probe of the block, and what its visits gave so far.
pub(crate) struct Visited<'p> {
    pub(crate) unit: &'p Unit,
    pub(crate) probe: &'static dyn Probe,
    /// Of each case, the samples in the order of the processes.
    pub(crate) samples: Vec<Vec<Sample>>,
    /// Of each case, the first fault that a process met.
    pub(crate) faults: Vec<Option<Fault>>,
    /// Why a visit gave nothing at all.
    pub(crate) failure: Option<Reason>,
    pub(crate) visits: u32,
    pub(crate) spent_ns: u64,
    pub(crate) visits_wanted: u32,
}

impl<'p> Visited<'p> {
    /// The measured units of a block; derived ones need no visit.
    pub(crate) fn of_block(plan: &'p Plan, block: &[usize]) -> Vec<Self> {
        let wanted = plan.visits().processes_min;
        let measured = |index: &usize| match plan.units[*index].entry {
            Entry::Probe(probe) => Some(Self::new(&plan.units[*index], *probe, wanted)),
            Entry::Derived(_) | Entry::ByHand(_) => None,
        };
        block.iter().filter_map(measured).collect()
    }

    fn new(unit: &'p Unit, probe: &'static dyn Probe, visits_wanted: u32) -> Self {
        let cases = unit.cases.len();
        Self {
            unit,
            probe,
            samples: vec![Vec::new(); cases],
            faults: vec![None; cases],
            failure: None,
            visits: 0,
            spent_ns: 0,
            visits_wanted,
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        self.probe.about().id
    }

    /// What one visit is expected to take, from the visits so far, or else by its estimate.
    pub(crate) fn visit_ns(&self, rounds: u32) -> f64 {
        match self.visits {
            0 => estimated_visit_ns(self.unit, rounds),
            visits => self.spent_ns as f64 / f64::from(visits),
        }
    }

    fn wants_visit(&self) -> bool {
        self.failure.is_none() && self.visits < self.visits_wanted && !self.all_faulty()
    }

    /// Visits that are still expected.
    pub(crate) fn visits_left(&self) -> u32 {
        if self.wants_visit() { self.visits_wanted - self.visits } else { 0 }
    }

    fn all_faulty(&self) -> bool {
        self.faults.iter().all(Option::is_some)
    }

    /// Takes one visit. An interrupted one leaves no trace.
    pub(crate) fn visit(
        &mut self,
        machine: &mut dyn Machine,
        visits: Visits,
        request: RequestFacts<'_>,
    ) -> Option<(u64, f64)> {
        let begun = machine.elapsed_ns();
        let cost_ns = estimated_visit_ns(self.unit, visits.rounds);
        let outcome = machine.visit(&VisitRequest {
            metric: self.id().to_owned(),
            params: self.unit.cases.iter().map(|case| case.params.clone()).collect(),
            settings: Settings {
                rounds: visits.rounds,
                seed: request.seed,
                process: self.visits,
                cpu: request.cpu,
                other_cpu: request.other_cpu,
                batch_floor_ns: BATCH_FLOOR_NS,
                // Three times the estimate and a second: a slow machine still gives its rounds.
                time_limit_ns: 3.0 * cost_ns + 1e9,
                trials: visits.trials,
                injected: request
                    .injected
                    .map_or_else(Dose::default, |spin| spin.dose_of(self.id())),
            },
            clock: machine.clock(),
            coordinator: std::process::id(),
            priority: request.priority,
            resources: request.resources.clone(),
        });
        self.spent_ns += machine.elapsed_ns() - begun;
        match outcome {
            Outcome::Answered(answer) => {
                self.visits += 1;
                return self.keep(answer);
            }
            Outcome::Failed(reason) => self.failure = Some(reason),
            Outcome::Interrupted => {}
        }
        None
    }

    fn keep(&mut self, answer: VisitAnswer) -> Option<(u64, f64)> {
        for (case, result) in answer.samples.into_iter().enumerate().take(self.samples.len()) {
            match result {
                Ok(sample) => self.samples[case].push(sample),
                Err(fault) => {
                    self.faults[case].get_or_insert(fault);
                }
            }
        }
        answer.spin
    }

    /// Asks for one more visit while a case's interval is wide, up to the effort's most.
    fn extend(&mut self, visits: Visits) {
        if self.visits < self.visits_wanted || self.visits_wanted >= visits.processes_max {
            return;
        }
        let is_wide = |samples: &Vec<Sample>| {
            let medians: Vec<f64> =
                samples.iter().filter_map(|sample| statistics::median(&sample.values)).collect();
            !judge::is_precise(&medians)
        };
        let open = self
            .samples
            .iter()
            .zip(&self.faults)
            .any(|(samples, fault)| fault.is_none() && is_wide(samples));
        self.visits_wanted += u32::from(open);
    }
}

/// What a visit takes by its estimate, the worker's start included.
pub(crate) fn estimated_visit_ns(unit: &Unit, rounds: u32) -> f64 {
    let rounds = f64::from(rounds) / 12.0;
    WORKER_NS + rounds * unit.cases.iter().map(|case| case.cost_ns).sum::<f64>()
}

/// What all visits of a block have in common.
#[derive(Clone, Copy)]
pub(crate) struct RequestFacts<'s> {
    pub(crate) seed: u64,
    pub(crate) cpu: u32,
    pub(crate) other_cpu: Option<u32>,
    pub(crate) priority: bool,
    pub(crate) injected: Option<&'s InjectedSpin>,
    pub(crate) resources: &'s Resources,
}

/// The next probe to visit: one of those that want it, by chance; none when all are done.
pub(crate) fn next(
    visited: &mut [Visited<'_>],
    visits: Visits,
    random: &mut Xoshiro256PlusPlus,
) -> Option<usize> {
    visited.iter_mut().filter(|unit| unit.failure.is_none()).for_each(|unit| unit.extend(visits));
    // Each outstanding visit is a ticket, so that the order is that of a shuffled deck.
    let tickets: u64 = visited.iter().map(|unit| u64::from(unit.visits_left())).sum();
    let mut drawn = if tickets == 0 { return None } else { random.next_u64() % tickets };
    visited.iter().position(|unit| {
        let own = u64::from(unit.visits_left());
        let here = drawn < own;
        drawn = drawn.saturating_sub(own);
        here
    })
}
