//! The visits of a block, in seeded random order.

use fathom_analysis::clean::{Conditions, Loop, clean_visits};
use fathom_analysis::strata::Strata;
use fathom_analysis::{judge, statistics};
use fathom_measure::sampler::{BATCH_FLOOR_NS, Dose, Fault, LoopTime, Resources, Settings};
use fathom_metric::{Entry, Probe};
use fathom_record::{Host, NotSelected, Reason, Sample, Stratum};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::InjectedSpin;
use crate::machine::{Machine, Outcome, VisitRequest};
use crate::plan::{Plan, VisitGroup, Visits};

/// Duration of a visit that does not reach full speed.
const UNMET_NS: f64 = 35e6;
/// Start, pinning and exit of a worker.
const WORKER_NS: f64 = 10e6;

/// A probe of a block and the results of its visits so far.
pub(crate) struct ProbeVisits<'p> {
    pub(crate) unit: &'p VisitGroup,
    pub(crate) probe: &'static dyn Probe,
    /// For each case, the samples in the order of the processes.
    pub(crate) samples: Vec<Vec<Sample>>,
    /// For each case, the first fault.
    pub(crate) faults: Vec<Option<Fault>>,
    /// For each case, the stratum of selected visits.
    pub(crate) selection: Vec<Result<Stratum, NotSelected>>,
    /// The failure of a whole visit.
    pub(crate) failure: Option<Reason>,
    /// The number of unfiltered visits.
    found: u32,
    /// For each case, the number of all visits, including those that did not reach full speed.
    pub(crate) tried: Vec<u32>,
    spent_ns: u64,
    /// The number of processes of each estimate.
    pub(crate) processes: u32,
}

/// Limit on visits for each process of an estimate while there are too few clean ones.
const VISITS_PER_PROCESS: u32 = 4;

impl<'p> ProbeVisits<'p> {
    /// The probes of a block. Derived metrics have no visits.
    pub(crate) fn of_block(plan: &'p Plan, block: &[usize], host: &Host) -> Vec<Self> {
        let measured = |index: &usize| match plan.units[*index].entry {
            Entry::Probe(probe) => {
                Some(Self::new(&plan.units[*index], *probe, plan.visits(), host))
            }
            Entry::Derived(_) | Entry::ByHand(_) => None,
        };
        block.iter().filter_map(measured).collect()
    }

    fn new(unit: &'p VisitGroup, probe: &'static dyn Probe, visits: Visits, host: &Host) -> Self {
        let cases = unit.cases.len();
        let selection = |case| match visits.trials {
            true => Err(NotSelected::EveryTrial),
            false => probe.selection(case, host),
        };
        Self {
            unit,
            probe,
            samples: vec![Vec::new(); cases],
            faults: vec![None; cases],
            selection: unit.cases.iter().map(selection).collect(),
            failure: None,
            found: 0,
            tried: vec![0; cases],
            spent_ns: 0,
            processes: visits.processes_min,
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        self.probe.about().id
    }

    /// The duration of a visit, measured so far or else estimated.
    pub(crate) fn visit_ns(&self, rounds: u32) -> f64 {
        match self.tried.iter().max() {
            None | Some(0) => estimated_visit_ns(self.unit, rounds),
            Some(tried) => self.spent_ns as f64 / f64::from(*tried),
        }
    }

    /// The number of remaining visits: those unfiltered, then one for each missing undisturbed
    /// visit.
    pub(crate) fn visits_left(&self, reference: Option<&Loop>) -> u32 {
        if self.failure.is_some() || self.all_faulty() {
            return 0;
        }
        let extra = (0..self.samples.len()).map(|case| self.missing(case, reference));
        self.processes.saturating_sub(self.found).max(extra.max().unwrap_or(0))
    }

    /// The number of missing undisturbed visits of a case, up to the limit.
    fn missing(&self, case: usize, reference: Option<&Loop>) -> u32 {
        let may = self.selection[case].is_ok() && self.faults[case].is_none();
        let Some(reference) = reference.filter(|_| may) else { return 0 };
        let conditions: Vec<Conditions> = self.samples[case].iter().map(Conditions::of).collect();
        let clean = clean_visits(&conditions, reference).len() as u32;
        let most = (VISITS_PER_PROCESS * self.processes).saturating_sub(self.tried[case]);
        self.processes.saturating_sub(clean).min(most)
    }

    /// The estimated duration of all visits with this share of clean ones.
    pub(crate) fn estimate_ns(&self, rounds: u32, clean_share: f64) -> f64 {
        let (processes, cost_ns) =
            (f64::from(self.processes), estimated_visit_ns(self.unit, rounds));
        if self.selection.iter().all(Result::is_err) {
            return processes * cost_ns;
        }
        // Each missing undisturbed visit is retried at full speed only, up to the limit.
        let tries = f64::from(VISITS_PER_PROCESS - 1) * processes;
        let missing = (processes * (1.0 - clean_share)).min(tries * clean_share);
        let failed = (missing / clean_share.max(0.01) - missing).min(tries);
        (processes + missing) * cost_ns + failed * (WORKER_NS + UNMET_NS)
    }

    /// The number of clean unfiltered visits, and of all unfiltered visits.
    pub(crate) fn clean_as_found(&self, reference: &Loop) -> (u32, u32) {
        let of_case = |samples: &&Vec<Sample>| !samples.is_empty();
        let Some(samples) = self.samples.iter().find(of_case) else { return (0, 0) };
        let found = samples.iter().filter(|sample| !sample.waited);
        let conditions: Vec<Conditions> = found.map(Conditions::of).collect();
        (clean_visits(&conditions, reference).len() as u32, conditions.len() as u32)
    }

    fn all_faulty(&self) -> bool {
        self.faults.iter().all(Option::is_some)
    }

    /// Makes one visit and returns its reference loops. An interrupted visit is not counted.
    pub(crate) fn visit(
        &mut self,
        machine: &mut dyn Machine,
        visits: Visits,
        request: VisitContext<'_>,
    ) -> Vec<LoopTime> {
        let begun = machine.elapsed_ns();
        let is_extra = self.found >= self.processes;
        let only_at = request.reference.copied().filter(|_| is_extra);
        let is_wanted = |case: &usize| !is_extra || self.missing(*case, request.reference) > 0;
        let wanted: Vec<usize> = (0..self.samples.len()).filter(is_wanted).collect();
        // A process without rounds has a number, too.
        let process = self.tried.iter().copied().max().unwrap_or(0);
        let cost_ns = estimated_visit_ns(self.unit, visits.rounds);
        let outcome = machine.visit(&VisitRequest {
            metric: self.id().to_owned(),
            params: wanted.iter().map(|case| self.unit.cases[*case].params.clone()).collect(),
            settings: Settings {
                rounds: visits.rounds,
                seed: request.seed,
                process,
                cpu: request.cpu,
                other_cpu: request.other_cpu,
                batch_floor_ns: BATCH_FLOOR_NS,
                // A slow machine may take three times the estimate and a second.
                time_limit_ns: 3.0 * cost_ns + 1e9,
                trials: visits.trials,
                only_at,
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
                self.found += u32::from(!is_extra);
                wanted.iter().for_each(|case| self.tried[*case] += 1);
                for (case, result) in wanted.into_iter().zip(answer.samples) {
                    match result {
                        Ok(sample) => self.samples[case].push(sample),
                        Err(fault) => {
                            self.faults[case].get_or_insert(fault);
                        }
                    }
                }
                return answer.loops;
            }
            Outcome::Failed(reason) => self.failure = Some(reason),
            Outcome::Interrupted => {}
        }
        Vec::new()
    }

    /// Doubles the processes once if all visits are done and the interval of a case is wide.
    fn extend(&mut self, visits: Visits, reference: Option<&Loop>) {
        if self.processes >= visits.processes_max || self.visits_left(reference) > 0 {
            return;
        }
        let is_wide = |case: usize| {
            let (samples, may) = (&self.samples[case], self.selection[case]);
            let tried = self.tried[case];
            let strata =
                Strata::of(samples, may, (self.processes, self.processes), tried, reference);
            let values = strata.headline().iter().map(|sample| &sample.values);
            let medians: Vec<f64> =
                values.filter_map(|values| statistics::median(values)).collect();
            self.faults[case].is_none() && !judge::is_precise(&medians)
        };
        if self.failure.is_none() && (0..self.samples.len()).any(is_wide) {
            self.processes = visits.processes_max;
        }
    }
}

/// The estimated duration of a visit, including the start of its worker.
fn estimated_visit_ns(unit: &VisitGroup, rounds: u32) -> f64 {
    let rounds = f64::from(rounds) / 12.0;
    WORKER_NS + rounds * unit.cases.iter().map(|case| case.cost_ns).sum::<f64>()
}

/// Settings of a visit that do not depend on the probe.
#[derive(Clone, Copy)]
pub(crate) struct VisitContext<'s> {
    pub(crate) seed: u64,
    pub(crate) reference: Option<&'s Loop>,
    pub(crate) cpu: u32,
    pub(crate) other_cpu: Option<u32>,
    pub(crate) priority: bool,
    pub(crate) injected: Option<&'s InjectedSpin>,
    pub(crate) resources: &'s Resources,
}

/// The next probe to visit, at random. `None` if all visits are done.
pub(crate) fn next(
    visited: &mut [ProbeVisits<'_>],
    visits: Visits,
    reference: Option<&Loop>,
    random: &mut Xoshiro256PlusPlus,
) -> Option<usize> {
    visited.iter_mut().for_each(|unit| unit.extend(visits, reference));
    // Each remaining visit is equally likely, as in a shuffled list.
    let left: Vec<u64> =
        visited.iter().map(|unit| u64::from(unit.visits_left(reference))).collect();
    let tickets: u64 = left.iter().sum();
    let mut drawn = if tickets == 0 { return None } else { random.next_u64() % tickets };
    left.iter().position(|own| {
        let here = drawn < *own;
        drawn = drawn.saturating_sub(*own);
        here
    })
}

#[cfg(test)]
mod tests {
    use fathom_metric::Case;
    use fathom_record::{Effort, Params, Protocol};

    use super::*;

    #[test]
    fn estimates_count_missing_and_failed_visits() {
        let asked = vec!["cpu.frequency".to_owned()];
        let (registry, host) = (&fathom_probes::REGISTRY, Host::default());
        let mut plan =
            Plan::new(registry, asked, Effort::Quick, Protocol::Median, 7, &host).expect("a plan");
        let case = |cost_ns| Case { cost_ns, ..Case::usual(Params::none()) };
        plan.units[0].cases = vec![case(3e6), case(4e6)];
        let mut visits = ProbeVisits::of_block(&plan, &[0], &host).remove(0);
        assert_eq!((visits.visit_ns(12), visits.visit_ns(24)), (17e6, 24e6));
        // Five processes of 17 ms each, and visits of 45 ms that do not reach full speed.
        let ms =
            |visits: &ProbeVisits<'_>, share| (visits.estimate_ns(12, share) / 1e4).round() / 1e2;
        assert_eq!(ms(&visits, 1.0), 85.0);
        assert_eq!(ms(&visits, 0.5), 7.5 * 17.0 + 2.5 * 45.0);
        assert_eq!(ms(&visits, 0.2), 8.0 * 17.0 + 12.0 * 45.0);
        assert_eq!(ms(&visits, 0.1), 6.5 * 17.0 + 13.5 * 45.0);
        assert_eq!(ms(&visits, 0.0), 85.0, "no undisturbed visit is expected");
        visits.selection = vec![Err(NotSelected::Device), Ok(Stratum::FullSpeed)];
        assert_eq!(ms(&visits, 0.5), 7.5 * 17.0 + 2.5 * 45.0, "one case is selected");
        visits.selection[1] = Err(NotSelected::Device);
        assert_eq!(ms(&visits, 0.5), 85.0);
        (visits.spent_ns, visits.tried) = (90_000_000, vec![2, 3]);
        assert_eq!(visits.visit_ns(12), 30e6, "as measured");
        assert_eq!(visits.visits_left(None), 5);
        visits.found = 2;
        assert_eq!(visits.visits_left(None), 3);
        visits.failure = Some(Reason::new(fathom_record::Cause::Crashed, ""));
        assert_eq!(visits.visits_left(None), 0);
    }
}
