//! The visits of a run, in seeded random order.

use fathom_analysis::choice::Distances;
use fathom_analysis::core_state::CoreStates;
use fathom_analysis::schedule::{PilotUnit, VISITS_MIN};
use fathom_analysis::statistics::relative_spread;
use fathom_measure::sampler::{
    BATCH_FLOOR_NS, InjectedDose, LOOPBACK, LoopTime, Resources, SamplerFault, Settings,
};
use fathom_metric::{About, Entry, Probe, ProbeCase};
use fathom_record::{Host, NotSelected, Params, Reason, Sample};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::InjectedSpin;
use crate::machine::{EngineOutcome, Machine, VisitRequest};
use crate::plan::{Plan, VisitGroup, Visits};

/// The sensor of memory needs 64 MiB.
const SENSED_MEMORY_MIN: u64 = 1 << 30;

/// What a visit found of a case.
pub struct CaseOfVisit<'v> {
    pub about: &'static About,
    pub params: &'v Params,
    pub sample: &'v Sample,
}

/// A probe of the plan and the results of its visits so far.
pub(crate) struct ProbeVisits<'p> {
    pub(crate) unit: &'p VisitGroup,
    pub(crate) probe: &'static dyn Probe,
    /// For each case, the samples in the order of the processes.
    pub(crate) samples: Vec<Vec<Sample>>,
    /// For each case, the first fault.
    pub(crate) faults: Vec<Option<SamplerFault>>,
    /// For each case, why its visits are not selected by the state of the core, if they are not.
    pub(crate) selection: Vec<Result<(), NotSelected>>,
    /// The failure of a whole visit.
    pub(crate) failure: Option<Reason>,
    /// For each case, whether its work is on the two CPUs of the visit.
    on_two_cpus: Vec<bool>,
    waiting_for_memory: Vec<bool>,
    /// Why the files of the visits may be on no device.
    pub(crate) doubt: Option<String>,
    /// The number of visits.
    pub(crate) made: u32,
    /// The number of visits to make in all, and of those without which cases have no interval.
    pub(crate) planned: u32,
    pub(crate) least: u32,
    /// Whether it does not fit into the time of the run.
    pub(crate) is_left_out: bool,
    spent_ns: u64,
    /// When the last visit began.
    begun_ns: u64,
    pub(crate) visits: Visits,
}

impl<'p> ProbeVisits<'p> {
    /// The probes of a plan, in its order. Derived metrics have no visits.
    pub(crate) fn of_plan(plan: &'p Plan, host: &Host) -> Vec<Self> {
        let measured = |unit: &'p VisitGroup| match unit.entry {
            Entry::Probe(probe) => Some(Self::new(unit, *probe, plan.visits(), host)),
            Entry::Derived(_) | Entry::ByHand(_) => None,
        };
        plan.units.iter().filter_map(measured).collect()
    }

    fn new(unit: &'p VisitGroup, probe: &'static dyn Probe, visits: Visits, host: &Host) -> Self {
        let cases = unit.cases.len();
        let selection = |case| match visits.trials {
            true => Err(NotSelected::EveryTrial),
            false => probe.selection(case, host).map(|_| ()),
        };
        let selection: Vec<_> = unit.cases.iter().map(selection).collect();
        // Work on all CPUs, or on named ones, is on those two if there are no others.
        let all_are_two = probe.about().on_two_cpus || host.cpu.allowed.len() == 2;
        let is_on_two = |(case, selection): (&ProbeCase, &Result<(), NotSelected>)| {
            all_are_two && *selection == Err(NotSelected::SecondCpu) && is_on_second_cpu(case)
        };
        let memory = [host.memory.available_bytes, host.cgroup.memory_limit_bytes];
        let has_room = memory.into_iter().flatten().min() >= Some(SENSED_MEMORY_MIN);
        let waits = |case: &ProbeCase| has_room && probe.waits_for_memory(case, host);
        Self {
            unit,
            probe,
            waiting_for_memory: unit.cases.iter().map(waits).collect(),
            on_two_cpus: unit.cases.iter().zip(&selection).map(is_on_two).collect(),
            samples: vec![Vec::new(); cases],
            faults: vec![None; cases],
            selection,
            failure: None,
            doubt: None,
            made: 0,
            planned: visits.processes.unwrap_or(0),
            least: visits.processes.unwrap_or(VISITS_MIN),
            is_left_out: false,
            spent_ns: 0,
            begun_ns: 0,
            visits,
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        self.probe.about().id
    }

    /// The duration of a visit, measured so far or else estimated.
    pub(crate) fn visit_ns(&self) -> f64 {
        match self.made {
            0 => self.unit.visit_ns(self.visits.rounds),
            made => self.spent_ns as f64 / f64::from(made),
        }
    }

    /// The number of visits that are still to be made.
    pub(crate) fn visits_left(&self) -> u32 {
        if self.is_over() { 0 } else { self.planned.saturating_sub(self.made) }
    }

    /// What the pilot shows of the unit. `slower` is how many times longer visits take than
    /// estimated.
    pub(crate) fn piloted(
        &self,
        states: Option<&CoreStates>,
        distances: &Distances,
        slower: f64,
    ) -> PilotUnit {
        let is_selected = self.selection.iter().any(Result::is_ok);
        let share = states.filter(|_| is_selected).map_or(1.0, CoreStates::share);
        let is_apart = self.on_two_cpus.contains(&true);
        let share = if is_apart { share * distances.share() } else { share };
        let times = if self.made == 0 { slower } else { 1.0 };
        let samples = self.samples.iter().flatten();
        let spreads = samples.filter_map(|sample| relative_spread(&sample.values));
        PilotUnit {
            cost_ns: times * self.visit_ns(),
            spread: spreads.reduce(f64::max),
            share,
            is_first: self.unit.is_first,
            made: self.made,
        }
    }

    /// The cases that have a sample of the last visit.
    pub(crate) fn of_last_visit(&self) -> impl Iterator<Item = CaseOfVisit<'_>> {
        let about = self.probe.about();
        let cases = self.unit.cases.iter().zip(&self.samples);
        cases.filter_map(move |(case, samples)| {
            let sample = samples.last().filter(|it| it.started_ns == Some(self.begun_ns))?;
            Some(CaseOfVisit { about, params: &case.params, sample })
        })
    }

    /// Whether no case can be measured.
    pub(crate) fn is_over(&self) -> bool {
        self.failure.is_some() || self.faults.iter().all(Option::is_some)
    }

    /// Makes one visit and returns its reference loops. An interrupted visit is not counted.
    pub(crate) fn visit(
        &mut self,
        machine: &mut dyn Machine,
        request: VisitContext<'_>,
    ) -> Vec<LoopTime> {
        let begun = machine.elapsed_ns();
        self.begun_ns = begun;
        self.doubt = request.resources.files.as_ref().ok().and_then(|files| files.doubt.clone());
        let process = self.made;
        let (visits, cost_ns) = (self.visits, self.unit.visit_ns(self.visits.rounds));
        let waits_for_memory = self.waiting_for_memory.contains(&true);
        let sensed_memory = waits_for_memory.then(|| machine.sensed_memory()).flatten();
        let outcome = machine.visit(&VisitRequest {
            metric: self.id().to_owned(),
            params: self.unit.cases.iter().map(|case| case.params.clone()).collect(),
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
                injected: request
                    .injected
                    .map_or_else(InjectedDose::default, |spin| spin.dose_of(self.id())),
            },
            clock: machine.clock(),
            coordinator: std::process::id(),
            priority: request.priority,
            resources: request.resources.clone(),
            is_on_two_cpus: self.on_two_cpus.contains(&true),
            sensed_memory,
        });
        self.spent_ns += machine.elapsed_ns() - begun;
        match outcome {
            EngineOutcome::Answered(answer) => {
                self.made += 1;
                for (case, result) in answer.samples.into_iter().enumerate() {
                    match result {
                        Ok(mut sample) => {
                            sample.started_ns = Some(begun);
                            if !self.on_two_cpus[case] {
                                sample.distance_ns.clear();
                            }
                            if !self.waiting_for_memory[case] {
                                sample.memory_ns.clear();
                            }
                            self.samples[case].push(sample);
                        }
                        Err(fault) => {
                            self.faults[case].get_or_insert(fault);
                        }
                    }
                }
                return answer.loops;
            }
            EngineOutcome::Failed(reason) => self.failure = Some(reason),
            EngineOutcome::Interrupted => {}
        }
        Vec::new()
    }
}

/// Whether the work of a case that uses a second CPU is here, and not for one CPU or another host.
fn is_on_second_cpu(case: &ProbeCase) -> bool {
    case.params.text("to").is_none_or(|to| to == LOOPBACK)
        && case.params.integer("cpus").is_none_or(|cpus| cpus == 2)
}

/// Settings of a visit that do not depend on the probe.
#[derive(Clone, Copy)]
pub(crate) struct VisitContext<'s> {
    pub(crate) seed: u64,
    pub(crate) cpu: u32,
    pub(crate) other_cpu: Option<u32>,
    pub(crate) priority: bool,
    pub(crate) injected: Option<&'s InjectedSpin>,
    pub(crate) resources: &'s Resources,
}

/// The order of the visits left: of each probe at even distances, with a random offset. Visits that
/// follow one another share an episode of the machine; these are apart (METHOD 11).
pub(crate) fn order(visited: &[ProbeVisits<'_>], random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut places: Vec<(f64, usize)> = Vec::new();
    for (at, unit) in visited.iter().enumerate() {
        let left = unit.visits_left();
        places.extend((0..left).map(|visit| {
            let offset = random.next_u64() as f64 / 2f64.powi(64);
            ((f64::from(visit) + offset) / f64::from(left), at)
        }));
    }
    places.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    places.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use fathom_record::{Effort, Params, Protocol};
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn work_on_one_cpu_or_another_host_is_not_on_two_cpus() {
        let of = |metric: &str, allowed: u32, params: Params| {
            let mut host = Host::default();
            host.cpu.allowed = (0..allowed).collect();
            host.cpu.cores = Some(allowed);
            let asked = vec![metric.to_owned()];
            let registry = &fathom_probes::REGISTRY;
            let plan = Plan::new(registry, asked, Effort::Quick, Protocol::Median, 7, &host);
            let mut plan = plan.expect("a plan").alone();
            plan.units[0].cases = vec![ProbeCase::usual(params)];
            ProbeVisits::of_plan(&plan, &host).remove(0).on_two_cpus
        };
        for (cpus, to, expected) in [(2, LOOPBACK, true), (1, LOOPBACK, false), (2, "b", false)] {
            let params = Params::one("cpus", cpus).and("to", to);
            assert_eq!(of("network.tcp.rtt", 4, params), [expected], "{cpus} {to}");
        }
        // Of all cores: two, of which one is alone.
        let read = |threads| {
            let params = Params::one("op", "read").and("level", "dram").and("page", "huge");
            params.and("threads", threads)
        };
        assert_eq!(of("memory.bandwidth", 2, read(2)), [true]);
        assert_eq!(of("memory.bandwidth", 2, read(1)), [false]);
        assert_eq!(of("memory.bandwidth", 4, read(4)), [false]);
        assert_eq!(of("cpu.call", 2, Params::one("args", 0)), [false]);
        let remote = |server| Params::one("to", LOOPBACK).and("server", server);
        assert_eq!(of("file.read.remote", 2, remote("warm")), [true]);
        assert_eq!(of("file.read.remote", 2, remote("cold")), [false], "a device decides");
    }

    /// In each part of the run each probe has one of its visits.
    #[test]
    fn visits_of_a_probe_are_spread_over_the_run() {
        let (registry, host) = (&fathom_probes::REGISTRY, Host::default());
        let plan = Plan::new(registry, Vec::new(), Effort::Quick, Protocol::Median, 7, &host);
        let plan = plan.expect("a plan");
        let mut visited = ProbeVisits::of_plan(&plan, &host);
        for (at, unit) in visited.iter_mut().enumerate() {
            unit.planned = if at % 3 == 0 { 12 } else { 5 };
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut of = || order(&visited, &mut random);
        let (one, other) = (of(), of());
        assert_ne!(one, other, "the order is random");
        // A fifth of the visits has no more than neighbouring visits of a probe.
        let mut fifths = vec![[0_u32; 5]; visited.len()];
        for (place, at) in one.iter().enumerate() {
            fifths[*at][5 * place / one.len()] += 1;
        }
        // Not all have a case on this host.
        for (unit, fifths) in visited.iter().zip(&fifths).filter(|(unit, _)| !unit.is_over()) {
            let fits = if unit.planned == 5 { 0..=2 } else { 1..=4 };
            assert!(fifths.iter().all(|count| fits.contains(count)), "{fifths:?}");
        }
    }
}
