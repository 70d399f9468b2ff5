//! The visits of a run, in seeded random order.

use fathom_analysis::choice::{Distances, choose};
use fathom_analysis::clean::{Conditions, Loop, clean_visits};
use fathom_analysis::strata::Strata;
use fathom_analysis::{judge, statistics};
use fathom_measure::sampler::{
    BATCH_FLOOR_NS, Dose, Fault, LOOPBACK, LoopTime, Resources, Settings,
};
use fathom_metric::{About, Case, Entry, Probe};
use fathom_record::{Host, NotSelected, Params, Reason, Sample, Stratum};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::InjectedSpin;
use crate::machine::{Machine, Outcome, VisitRequest};
use crate::plan::{Plan, VisitGroup, Visits, WORKER_NS};

/// Duration of a visit that does not reach full speed.
const UNMET_NS: f64 = 35e6;
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
    pub(crate) faults: Vec<Option<Fault>>,
    /// For each case, the stratum of selected visits.
    pub(crate) selection: Vec<Result<Stratum, NotSelected>>,
    /// The failure of a whole visit.
    pub(crate) failure: Option<Reason>,
    /// For each case, whether its work is on the two CPUs of the visit.
    on_two_cpus: Vec<bool>,
    waiting_for_memory: Vec<bool>,
    /// Why the files of the visits may be on no device.
    pub(crate) doubt: Option<String>,
    /// The number of unfiltered visits.
    found: u32,
    /// How many of them are left out of a case, and made again.
    left_out: u32,
    /// For each case, the number of all visits, including those that did not reach full speed.
    pub(crate) tried: Vec<u32>,
    spent_ns: u64,
    /// When the last visit began.
    begun_ns: u64,
    pub(crate) visits: Visits,
    /// The number of processes of each estimate.
    pub(crate) processes: u32,
}

impl<'p> ProbeVisits<'p> {
    /// The probes of a plan, in its order. Derived metrics have no visits.
    pub(crate) fn of_plan(plan: &'p Plan, host: &Host) -> Vec<Self> {
        let measured = |unit: &'p VisitGroup| match unit.entry {
            Entry::Probe(probe) => Some(Self::new(unit, *probe, plan.visits(unit), host)),
            Entry::Derived(_) | Entry::ByHand(_) => None,
        };
        plan.units.iter().filter_map(measured).collect()
    }

    fn new(unit: &'p VisitGroup, probe: &'static dyn Probe, visits: Visits, host: &Host) -> Self {
        let cases = unit.cases.len();
        let selection = |case| match visits.trials {
            true => Err(NotSelected::EveryTrial),
            false => probe.selection(case, host),
        };
        let selection: Vec<_> = unit.cases.iter().map(selection).collect();
        // Work on all CPUs, or on named ones, is on those two if there are no others.
        let all_are_two = probe.about().on_two_cpus || host.cpu.allowed.len() == 2;
        let is_on_two = |(case, selection): (&Case, &Result<Stratum, NotSelected>)| {
            all_are_two && *selection == Err(NotSelected::SecondCpu) && is_on_second_cpu(case)
        };
        let memory = [host.memory.available_bytes, host.cgroup.memory_limit_bytes];
        let has_room = memory.into_iter().flatten().min() >= Some(SENSED_MEMORY_MIN);
        let waits = |case: &Case| has_room && probe.waits_for_memory(case, host);
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
            found: 0,
            left_out: 0,
            tried: vec![0; cases],
            spent_ns: 0,
            begun_ns: 0,
            visits,
            processes: visits.processes_min,
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        self.probe.about().id
    }

    /// The duration of a visit, measured so far or else estimated.
    pub(crate) fn visit_ns(&self) -> f64 {
        match self.tried.iter().max() {
            None | Some(0) => self.unit.visit_ns(self.visits.rounds),
            Some(tried) => self.spent_ns as f64 / f64::from(*tried),
        }
    }

    /// The number of remaining visits: those unfiltered, then one for each missing undisturbed
    /// visit.
    pub(crate) fn visits_left(&self, reference: Option<&Loop>) -> u32 {
        if self.is_over() {
            return 0;
        }
        let extra = (0..self.samples.len()).map(|case| self.missing(case, reference));
        self.unfiltered().saturating_sub(self.found).max(extra.max().unwrap_or(0))
    }

    /// The number of unfiltered visits to make.
    fn unfiltered(&self) -> u32 {
        (self.processes + self.left_out).min(self.visits.tries_max * self.processes)
    }

    /// The samples from which a case is reported.
    fn chosen(&self, case: usize, distances: &Distances) -> Vec<Sample> {
        choose(&self.samples[case], distances, self.probe.about().unit).samples
    }

    /// Counts the visits to make again, by all readings so far.
    fn count_left_out(&mut self, distances: &Distances) {
        let of =
            |case: usize| (self.samples[case].len() - self.chosen(case, distances).len()) as u32;
        // The trimmed protocol keeps every trial.
        let cases = if self.visits.trials { 0..0 } else { 0..self.samples.len() };
        self.left_out = cases.map(of).max().unwrap_or(0);
    }

    /// The number of missing undisturbed visits of a case, up to the limit.
    fn missing(&self, case: usize, reference: Option<&Loop>) -> u32 {
        let may = self.selection[case].is_ok() && self.faults[case].is_none();
        let Some(reference) = reference.filter(|_| may) else { return 0 };
        let of_case = self.samples[case].iter().filter(|sample| sample.missed.is_none());
        let conditions: Vec<Conditions> = of_case.map(Conditions::of).collect();
        let clean = clean_visits(&conditions, reference).len() as u32;
        let most = (self.visits.tries_max * self.processes).saturating_sub(self.tried[case]);
        self.processes.saturating_sub(clean).min(most)
    }

    /// The estimated duration of all visits with this share of clean ones.
    pub(crate) fn estimate_ns(&self, clean_share: f64) -> f64 {
        let cost_ns = self.unit.visit_ns(self.visits.rounds);
        let processes = f64::from(self.processes);
        if self.selection.iter().all(Result::is_err) {
            return processes * cost_ns;
        }
        // Each missing undisturbed visit is retried at full speed only, up to the limit.
        let tries = f64::from(self.visits.tries_max - 1) * processes;
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
        let is_extra = self.found >= self.unfiltered();
        let only_at = request.reference.copied().filter(|_| is_extra);
        let is_wanted = |case: &usize| !is_extra || self.missing(*case, request.reference) > 0;
        let wanted: Vec<usize> = (0..self.samples.len()).filter(is_wanted).collect();
        // A process without rounds has a number, too.
        let process = self.tried.iter().copied().max().unwrap_or(0);
        let (visits, cost_ns) = (self.visits, self.unit.visit_ns(self.visits.rounds));
        let waits_for_memory = wanted.iter().any(|case| self.waiting_for_memory[*case]);
        let sensed_memory = waits_for_memory.then(|| machine.sensed_memory()).flatten();
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
            is_on_two_cpus: wanted.iter().any(|case| self.on_two_cpus[*case]),
            sensed_memory,
        });
        self.spent_ns += machine.elapsed_ns() - begun;
        match outcome {
            Outcome::Answered(answer) => {
                self.found += u32::from(!is_extra);
                wanted.iter().for_each(|case| self.tried[*case] += 1);
                for (case, result) in wanted.into_iter().zip(answer.samples) {
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
            Outcome::Failed(reason) => self.failure = Some(reason),
            Outcome::Interrupted => {}
        }
        Vec::new()
    }

    /// Doubles the processes once if all visits are done and the interval of a case is wide.
    fn extend(&mut self, reference: Option<&Loop>, distances: &Distances) {
        if self.processes >= self.visits.processes_max || self.visits_left(reference) > 0 {
            return;
        }
        let is_wide = |case: usize| {
            let (samples, may) = (self.chosen(case, distances), self.selection[case]);
            let tried = self.tried[case];
            let strata =
                Strata::of(&samples, may, (self.processes, self.processes), tried, reference);
            let values = strata.headline().iter().map(|sample| &sample.values);
            let medians: Vec<f64> =
                values.filter_map(|values| statistics::median(values)).collect();
            self.faults[case].is_none() && !judge::is_precise(&medians)
        };
        if self.failure.is_none() && (0..self.samples.len()).any(is_wide) {
            self.processes = self.visits.processes_max;
        }
    }
}

/// Whether the work of a case that uses a second CPU is here, and not for one CPU or another host.
fn is_on_second_cpu(case: &Case) -> bool {
    case.params.text("to").is_none_or(|to| to == LOOPBACK)
        && case.params.integer("cpus").is_none_or(|cpus| cpus == 2)
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

/// The probes to visit next: each as often as it has visits left, at even distances with a random
/// offset. Visits that follow one another share an episode of the machine; these are apart
/// (METHOD 11).
pub(crate) fn order(
    visited: &mut [ProbeVisits<'_>],
    reference: Option<&Loop>,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<usize> {
    let distances = Distances::of(visited.iter().flat_map(|unit| unit.samples.iter().flatten()));
    let mut places: Vec<(f64, usize)> = Vec::new();
    for (at, unit) in visited.iter_mut().enumerate() {
        unit.count_left_out(&distances);
        unit.extend(reference, &distances);
        let left = unit.visits_left(reference);
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
    fn estimates_count_missing_and_failed_visits() {
        let asked = vec!["cpu.frequency".to_owned()];
        let (registry, host) = (&fathom_probes::REGISTRY, Host::default());
        let mut plan =
            Plan::new(registry, asked, Effort::Quick, Protocol::Median, 7, &host).expect("a plan");
        let case = |cost_ns| Case { cost_ns, ..Case::usual(Params::none()) };
        plan.units[0].cases = vec![case(3e6), case(4e6)];
        let mut visits = ProbeVisits::of_plan(&plan, &host).remove(0);
        assert_eq!((visits.visit_ns(), visits.unit.visit_ns(24)), (17e6, 24e6));
        visits.processes = 5;
        // Five processes of 17 ms each, and visits of 45 ms that do not reach full speed.
        let ms = |visits: &ProbeVisits<'_>, share| (visits.estimate_ns(share) / 1e4).round() / 1e2;
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
        assert_eq!(visits.visit_ns(), 30e6, "as measured");
        assert_eq!(visits.visits_left(None), 5);
        visits.found = 2;
        assert_eq!(visits.visits_left(None), 3);
        visits.failure = Some(Reason::new(fathom_record::Cause::Crashed, ""));
        assert_eq!(visits.visits_left(None), 0);
    }

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
            plan.units[0].cases = vec![Case::usual(params)];
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
    }

    /// In each part of the run each probe has one of its visits.
    #[test]
    fn visits_of_a_probe_are_spread_over_the_run() {
        let (registry, host) = (&fathom_probes::REGISTRY, Host::default());
        let plan = Plan::new(registry, Vec::new(), Effort::Quick, Protocol::Median, 7, &host);
        let plan = plan.expect("a plan");
        let mut visited = ProbeVisits::of_plan(&plan, &host);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let dear: Vec<usize> =
            (0..visited.len()).filter(|at| visited[*at].processes == 5).collect();
        let mut of = || order(&mut visited, None, &mut random);
        let (one, other) = (of(), of());
        assert_ne!(one, other, "the order is random");
        // A fifth of the visits has no more than neighbouring visits of a probe.
        let mut fifths = vec![[0_u32; 5]; visited.len()];
        for (place, at) in one.iter().enumerate() {
            fifths[*at][5 * place / one.len()] += 1;
        }
        assert!(dear.len() > 5);
        assert!(dear.iter().all(|at| fifths[*at].iter().all(|count| *count <= 2)), "{fifths:?}");
        let is_cheap = |one: &&[u32; 5]| one.iter().sum::<u32>() == 12;
        let mut cheap = fifths.iter().filter(is_cheap);
        assert!(cheap.all(|one| one.iter().all(|count| (1..=4).contains(count))), "{fifths:?}");
    }
}
