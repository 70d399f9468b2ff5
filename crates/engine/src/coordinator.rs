//! The coordinator of a run: visits, spread over its whole time, and their records.

use fathom_analysis::choice::Distances;
use fathom_analysis::core_state::{CoreStateConditions, CoreStates, Loop};
use fathom_analysis::schedule::{self, PILOT_MAX, VISITS_MIN};
use fathom_analysis::{judge, statistics};
use fathom_measure::affinity;
use fathom_measure::clock::WholeRun;
use fathom_measure::sampler::{LoopTime, REFERENCE_ITERATIONS, Resources};
use fathom_metric::{Entry, Event};
use fathom_record::run::ClockFacts;
use fathom_record::{
    Cause, Document, Effort, FarHost, Host, NotSelected, Reason, Record, Reference, ReferenceBasis,
    Run, RunState, State, Stratum, Tool, Verdict,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::machine::Machine;
use crate::plan::{Plan, VisitGroup};
use crate::reduce::{self, MeasuredCore, Results};
use crate::remedies;
use crate::visits::{self, CaseOfVisit, ProbeVisits, VisitContext};

/// Receiver of the events of a run: the terminal, the store, a test.
pub trait Audience {
    /// Before the first visit, with the plan and the time it takes, in nanoseconds. Before the
    /// first result of a procedure, which has no plan.
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>);
    /// Before each visit.
    fn progress(&mut self, progress: &CoordinatorProgress);
    /// A case of the visit that has just ended.
    fn visited(&mut self, _: &CaseOfVisit<'_>) {}
    /// After all visits, or a step of a procedure, with the records in the order of the table.
    fn measured(&mut self, records: &[Record]);
    /// Records of a finished step of a procedure, between its passes, or of the visits so far, with
    /// the run so far. Drafts are of what is measured again, and are not among the records at the
    /// end.
    fn finished(&mut self, _: &Document, _records: &[Record], _are_drafts: bool) {}
    /// An event of a procedure, between its passes.
    fn event(&mut self, _: Event<'_>) {}
    /// Asks the user to confirm what a procedure is about to do.
    fn confirm(&mut self, _text: &str, _ask: bool) -> bool {
        true
    }
    /// The run is complete or interrupted.
    fn ends(&mut self, document: &Document);
    /// Whether output is no longer possible, such as after a closed pipe.
    fn has_left(&self) -> bool;
}

#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorProgress {
    /// The metric of the next visit.
    pub metric: String,
    pub elapsed_ns: f64,
    pub left_ns: f64,
}

/// Facts known before a run begins.
pub struct RunSetup {
    pub tool: Tool,
    pub host: Host,
    pub id: String,
    pub label: Option<String>,
    /// The CPU of the workers.
    pub cpu: u32,
    pub cpu_reason: String,
    pub clock: ClockFacts,
    /// Where test files are, with the file system.
    pub folder: Option<String>,
    pub tuned: Vec<String>,
    /// Test settings of the environment that change the measurement.
    pub imposed: Vec<String>,
    pub notes: Vec<String>,
    /// Whether workers run at nice −20.
    pub priority: bool,
    /// Disks and far ends that visits may use.
    pub resources: Resources,
    /// Far hosts other than this one.
    pub far: Vec<FarHost>,
    /// The fastest reference loop of this CPU in earlier runs on this host.
    pub earlier: Option<Reference>,
}

/// Executes a plan.
pub fn coordinate(
    plan: &Plan,
    setup: RunSetup,
    machine: &mut dyn Machine,
    audience: &mut dyn Audience,
) -> Document {
    let resources = setup.resources.clone();
    let speed = CoreSpeed::new(machine.calibrate(setup.cpu), setup.earlier);
    let facts = VisitContext {
        seed: 0,
        injected: plan.injected.as_ref(),
        cpu: setup.cpu,
        other_cpu: affinity::partner(&setup.host, setup.cpu),
        priority: setup.priority,
        resources: &resources,
    };
    let mut document = begin(plan, setup, machine);
    let mut visited = ProbeVisits::of_plan(plan, &document.host);
    audience.begins(&document, Some((plan, announced_ns(plan, &visited, machine))));
    let random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let due_ns = DRAFTS_NS;
    let document_so_far = &document;
    let mut visiting = Visiting {
        plan,
        machine,
        audience,
        document: document_so_far,
        random,
        facts,
        speed,
        due_ns,
    };
    let is_stopped = visiting.all(&mut visited);
    let speed = visiting.speed;
    let clock = machine.clock_check();
    note_clock(&mut document.run, &clock);
    let states = speed.states();
    note_states(&mut document, &visited, &speed, states.as_ref());
    let clock = clock.failure();
    document.records = reduced(plan, &visited, &document, &speed, clock.as_deref());
    audience.measured(&document.records);
    document.run.state = match is_stopped || audience.has_left() {
        true => RunState::Interrupted,
        false => RunState::Complete,
    };
    let left_out = visited.iter().filter(|unit| unit.is_left_out);
    document.run.left_out = left_out.map(|unit| unit.id().to_owned()).collect();
    document.run.left_out.dedup();
    if !document.run.left_out.is_empty() && document.run.state == RunState::Complete {
        document.run.planned = document.records.len() as u64;
    }
    document.run.ended = Some(machine.timestamp());
    document.run.duration_ns = Some(machine.elapsed_ns() as f64);
    let mut verdict = std::mem::take(&mut document.run.verdict);
    remedies::set(&mut verdict, &document.run, &document.host);
    document.run.verdict = verdict;
    set_run_state(&mut document.run.verdict);
    audience.ends(&document);
    document
}

/// Records the states of the core over the whole run, and whether its speed drifted.
fn note_states(
    document: &mut Document,
    visited: &[ProbeVisits<'_>],
    speed: &CoreSpeed,
    states: Option<&CoreStates>,
) {
    let Some(states) = states else { return };
    let loops = speed.in_reported(states);
    let [clean, slower_clock, shared] = states.visits.map(|visits| visits as u32);
    document.run.reference = Some(Reference {
        loop_ns: states.idle.sibling_ns,
        frequency_ns: states.idle.frequency_ns,
        basis: speed.basis(&states.idle, &document.host),
        visits: clean + slower_clock + shared,
        clean,
        shared,
        slower_clock,
        state: Some(states.reported),
        deviation: judge::core_deviation(&loops).unwrap_or(0.0),
        drift: judge::core_drift(&loops),
    });
    let made: Vec<f64> = visited.iter().map(|unit| f64::from(unit.made)).collect();
    let of_a_case = statistics::median(&made).unwrap_or(1.0).max(1.0);
    let apart = (made.iter().sum::<f64>() / of_a_case) as usize;
    document.run.verdict.reasons.extend(judge::machine_changed(&loops, apart));
}

/// The speed of the measured core.
struct CoreSpeed {
    /// All reference loops of the run.
    loops: Vec<Loop>,
    /// The loops of each visit, and when it began.
    visits: Vec<CoreStateConditions>,
    begun_ns: Vec<u64>,
    /// The reference of earlier runs on this host and CPU.
    earlier: Option<Loop>,
}

impl CoreSpeed {
    fn new(calibration: Vec<LoopTime>, earlier: Option<Reference>) -> Self {
        let loops = calibration.iter().map(LoopTime::parts).collect();
        let (visits, begun_ns) = (Vec::new(), Vec::new());
        Self { loops, visits, begun_ns, earlier: earlier.map(Loop::from) }
    }

    fn add_visit(&mut self, loops: &[LoopTime]) {
        let Some(first) = loops.first() else { return };
        let loops: Vec<Loop> = loops.iter().map(LoopTime::parts).collect();
        self.loops.extend(&loops);
        self.visits.push(CoreStateConditions::with_loops(loops));
        self.begun_ns.push(first.at_ns);
    }

    /// By all loops so far.
    fn states(&self) -> Option<CoreStates> {
        CoreStates::new(&self.loops, &self.visits, self.earlier)
    }

    /// Start and median loop of each visit in the reported state, in nanoseconds.
    fn in_reported(&self, states: &CoreStates) -> Vec<(u64, f64)> {
        let is_one = states.reported == Stratum::AsFound;
        let visits = self.begun_ns.iter().zip(&self.visits);
        let of_state =
            visits.filter(|(_, it)| is_one || states.stratum_of(it) == Some(states.reported));
        of_state.filter_map(|(at, it)| Some((*at, it.typical()?.sibling_ns))).collect()
    }

    /// The evidence that a core to itself is so fast.
    fn basis(&self, reference: &Loop, host: &Host) -> ReferenceBasis {
        let boost_ns = host.cpu.boost_hz.map(|hz| REFERENCE_ITERATIONS as f64 / hz * 1e9);
        let of_boost = boost_ns.map(|ns| Loop { sibling_ns: ns, frequency_ns: ns });
        let is_as_fast_as =
            |known: Option<Loop>| known.is_some_and(|it| reference.is_as_fast_as(&it));
        match () {
            () if is_as_fast_as(of_boost) => ReferenceBasis::HighestFrequency,
            () if is_as_fast_as(self.earlier) => ReferenceBasis::EarlierRuns,
            () => ReferenceBasis::ThisRun,
        }
    }
}

fn begin(plan: &Plan, setup: RunSetup, machine: &dyn Machine) -> Document {
    let run = Run {
        id: setup.id,
        label: setup.label,
        started: machine.timestamp(),
        ended: None,
        duration_ns: None,
        effort: plan.effort,
        protocol: plan.protocol,
        seed: plan.seed,
        asked: plan.asked.clone(),
        procedure: None,
        planned: plan.records() as u64,
        state: RunState::Running,
        cpu: setup.cpu,
        cpu_reason: setup.cpu_reason,
        reference: None,
        left_out: Vec::new(),
        clock: setup.clock,
        folder: setup.folder,
        tuned: setup.tuned,
        verdict: Verdict::default(),
        imposed: setup.imposed,
        notes: setup.notes,
    };
    Document {
        schema: fathom_record::SCHEMA_VERSION,
        tool: setup.tool,
        run,
        host: setup.host,
        far: if plan.has_far_ends() { setup.far } else { Vec::new() },
        records: Vec::new(),
    }
}

/// The visits of a case at most, those in another state of the core apart.
fn visits_max(effort: Effort) -> u32 {
    if effort == Effort::Thorough { 100 } else { 40 }
}

/// The time of a run: its budget, or less where all visits take less.
fn announced_ns(plan: &Plan, units: &[ProbeVisits<'_>], machine: &dyn Machine) -> f64 {
    let fixed = plan.visits().processes;
    let visits = f64::from(fixed.unwrap_or(visits_max(plan.effort)));
    let all_ns = units.iter().map(|unit| visits * unit.visit_ns()).sum::<f64>();
    let all_ns = machine.elapsed_ns() as f64 + all_ns;
    if fixed.is_some() { all_ns } else { all_ns.min(plan.budget_ns) }
}

/// Records of the visits so far are made this often, in at most one of so many parts of the time: a
/// killed run keeps them.
const DRAFTS_NS: u64 = 1_000_000_000;
const DRAFTS_TIMES: u64 = 50;

/// A run while its visits are made.
struct Visiting<'v> {
    plan: &'v Plan,
    machine: &'v mut dyn Machine,
    audience: &'v mut dyn Audience,
    document: &'v Document,
    random: Xoshiro256PlusPlus,
    facts: VisitContext<'v>,
    speed: CoreSpeed,
    /// When records are made next.
    due_ns: u64,
}

impl Visiting<'_> {
    /// Makes all visits: the pilot, then those it leaves time for. True if the run was interrupted.
    fn all(&mut self, visited: &mut [ProbeVisits<'_>]) -> bool {
        if self.plan.visits().processes.is_none() {
            if self.pilot(visited) {
                return true;
            }
            self.decide(visited);
        }
        for _ in 0..PLANS_MAX {
            if self.planned(visited) {
                return true;
            }
            let (is_fixed, left_ns) = (self.plan.visits().processes.is_some(), self.left_ns());
            if is_fixed || left_ns < UNUSED_MAX * self.plan.budget_ns {
                break;
            }
            // Visits were shorter than those of the pilot.
            self.decide(visited);
        }
        self.machine.interrupted()
    }

    /// Makes the visits that are planned, as far as there is time. True if the run was interrupted.
    fn planned(&mut self, visited: &mut [ProbeVisits<'_>]) -> bool {
        let order = visits::order(visited, &mut self.random);
        for (done, index) in order.iter().enumerate() {
            self.leave_out(visited);
            let unit = &visited[*index];
            if unit.is_over() || unit.is_left_out || !self.has_time(visited, *index) {
                continue;
            }
            let left = order[done..].iter().map(|index| visited[*index].visit_ns());
            let left_ns = left.sum::<f64>().min(self.left_ns());
            if self.visit(&mut visited[*index], left_ns) {
                return true;
            }
            self.draft(visited);
        }
        false
    }

    /// One visit of each unit, in the order in which they keep their place, in a part of the time.
    fn pilot(&mut self, visited: &mut [ProbeVisits<'_>]) -> bool {
        let mut order: Vec<usize> = (0..visited.len()).collect();
        let none = Distances::default();
        let known: Vec<_> = visited.iter().map(|unit| unit.piloted(None, &none, 1.0)).collect();
        order.sort_by(|a, b| schedule::by_place(&known[*a], &known[*b]));
        let announced_ns = announced_ns(self.plan, visited, self.machine);
        for index in order {
            let elapsed_ns = self.machine.elapsed_ns() as f64;
            let next_ns = slower(visited) * visited[index].visit_ns();
            if elapsed_ns + next_ns > PILOT_MAX * self.plan.budget_ns {
                continue;
            }
            if self.visit(&mut visited[index], announced_ns - elapsed_ns) {
                return true;
            }
            self.draft(visited);
        }
        false
    }

    /// Plans the visits of each unit, once.
    fn decide(&mut self, visited: &mut [ProbeVisits<'_>]) {
        let (states, slower) = (self.speed.states(), slower(visited));
        let distances = distances(visited);
        let mut left: Vec<&mut ProbeVisits<'_>> =
            visited.iter_mut().filter(|unit| !unit.is_over()).collect();
        let units: Vec<_> =
            left.iter().map(|unit| unit.piloted(states.as_ref(), &distances, slower)).collect();
        let counts = schedule::visits(&units, self.left_ns(), visits_max(self.plan.effort));
        for ((visits, unit), count) in left.iter_mut().zip(&units).zip(counts) {
            visits.planned = count;
            visits.least = unit.visits_for(VISITS_MIN).min(count);
            visits.is_left_out = count == 0;
        }
    }

    /// Until the visits must end.
    fn left_ns(&self) -> f64 {
        match self.plan.visits().processes {
            Some(_) => f64::INFINITY,
            None => schedule::deadline_ns(self.plan.budget_ns) - self.machine.elapsed_ns() as f64,
        }
    }

    /// Whether there is time for a visit: it must leave enough for those without which cases have
    /// no interval.
    fn has_time(&self, visited: &[ProbeVisits<'_>], next: usize) -> bool {
        let unit = &visited[next];
        unit.made < unit.least || unit.visit_ns() + needed_ns(visited) <= self.left_ns()
    }

    /// Leaves out units whose cases would have no interval in time, because visits took longer than
    /// those of the pilot. They may go beyond the end by a little.
    fn leave_out(&self, visited: &mut [ProbeVisits<'_>]) {
        let late_ns = LATE_MAX * self.plan.budget_ns;
        while needed_ns(visited) > self.left_ns() + late_ns {
            let none = Distances::default();
            let lacking = visited.iter_mut().filter(|unit| missing_ns(unit) > 0.0);
            let place = |unit: &&mut ProbeVisits<'_>| unit.piloted(None, &none, 1.0);
            let last = lacking.max_by(|a, b| schedule::by_place(&place(a), &place(b)));
            let Some(last) = last else { return };
            last.is_left_out = true;
        }
    }

    /// Makes one visit. True if the run ends.
    fn visit(&mut self, unit: &mut ProbeVisits<'_>, left_ns: f64) -> bool {
        if self.machine.interrupted() || self.audience.has_left() {
            return true;
        }
        self.audience.progress(&CoordinatorProgress {
            metric: unit.id().to_owned(),
            elapsed_ns: self.machine.elapsed_ns() as f64,
            left_ns: left_ns.max(0.0),
        });
        let facts = VisitContext { seed: self.random.next_u64(), ..self.facts };
        let loops = unit.visit(self.machine, facts);
        // Threads of a probe on the sibling slow the loop: such loops are no reference.
        if !unit.selection.contains(&Err(NotSelected::SecondCpu)) {
            self.speed.add_visit(&loops);
        }
        unit.of_last_visit().for_each(|case| self.audience.visited(&case));
        false
    }

    /// Makes the records of the visits so far, now and then.
    fn draft(&mut self, visited: &[ProbeVisits<'_>]) {
        let begun_ns = self.machine.elapsed_ns();
        if begun_ns < self.due_ns {
            return;
        }
        let drafts = reduced(self.plan, visited, self.document, &self.speed, None);
        self.audience.finished(self.document, &drafts, true);
        let took_ns = self.machine.elapsed_ns() - begun_ns;
        self.due_ns = self.machine.elapsed_ns() + DRAFTS_NS.max(took_ns * DRAFTS_TIMES);
    }
}

/// With more unused time than this share, visits are planned again, from their costs alone: so many
/// times at most.
const UNUSED_MAX: f64 = 0.1;
const PLANS_MAX: usize = 3;
/// The share of the time by which visits that cases need may go beyond its end.
const LATE_MAX: f64 = 0.1;

/// The time of the visits without which the cases of a unit have no interval.
fn missing_ns(unit: &ProbeVisits<'_>) -> f64 {
    match unit.is_over() || unit.is_left_out {
        true => 0.0,
        false => f64::from(unit.least.saturating_sub(unit.made)) * unit.visit_ns(),
    }
}

fn needed_ns(visited: &[ProbeVisits<'_>]) -> f64 {
    visited.iter().map(missing_ns).sum()
}

/// How many times longer the visits so far took than estimated.
fn slower(visited: &[ProbeVisits<'_>]) -> f64 {
    let (took, estimated) =
        visited.iter().filter(|unit| unit.made > 0).fold((0.0, 0.0), |(took, estimated), unit| {
            let each_ns = unit.unit.visit_ns(unit.visits.rounds);
            (took + unit.visit_ns(), estimated + each_ns)
        });
    if estimated > 0.0 { took / estimated } else { 1.0 }
}

/// How far apart the CPUs were, by all visits so far.
fn distances(visited: &[ProbeVisits<'_>]) -> Distances {
    Distances::from_samples(visited.iter().flat_map(|unit| unit.samples.iter().flatten()))
}

/// The records of all visits, in the order of the table.
fn reduced(
    plan: &Plan,
    visited: &[ProbeVisits<'_>],
    document: &Document,
    speed: &CoreSpeed,
    clock_failure: Option<&str>,
) -> Vec<Record> {
    let mut results = Results::default();
    let (states, distances) = (speed.states(), &distances(visited));
    let states = states.as_ref();
    let drift = states.map_or(0.0, |states| judge::core_drift(&speed.in_reported(states)));
    let core = MeasuredCore { states, distances, drift };
    let mut visited = visited;
    // The run was interrupted before the first visit of a metric that another is derived from, or
    // that metric did not fit into its time.
    let is_missing = |need: &str, results: &Results| {
        let mut planned = plan.units.iter().filter(|unit| !unit.cases.is_empty());
        planned.any(|unit| unit.entry.about().id == need)
            && results.records.iter().all(|record| record.metric.as_str() != need)
    };
    let is_one = |a: &VisitGroup, b: &VisitGroup| a.entry.about().id == b.entry.about().id;
    for group in plan.units.chunk_by(is_one) {
        let unit = &group[0];
        match unit.entry {
            Entry::Probe(_) => {
                let units;
                (units, visited) = visited.split_at(group.len());
                reduce::measured(units, document, core, &mut results);
            }
            Entry::Derived(derived) => {
                if derived.inputs().iter().any(|need| is_missing(need, &results)) {
                    continue;
                }
                reduce::derived(*derived, &unit.cases, document, core, &mut results);
            }
            Entry::ByHand(_) => {}
        }
    }
    for record in &mut results.records {
        if let Some(failure) = clock_failure {
            record.verdict = Verdict::because(State::Invalid, Cause::Clock, failure);
            record.agreement = None;
        }
        reduce::note_emulation(record, document);
        remedies::set(&mut record.verdict, &document.run, &document.host);
        *record = record.clone().sealed_by(plan.protocol);
    }
    results.records
}

/// Records the clock's drift and steps of the wall clock.
fn note_clock(run: &mut Run, clock: &WholeRun) {
    run.clock.raw_ppm = Some(clock.raw_ppm);
    run.clock.monotonic_ppm = Some(clock.monotonic_ppm);
    if let Some(failure) = clock.failure() {
        run.verdict.reasons.retain(|reason| reason.cause != Cause::Clock);
        run.verdict.reasons.push(Reason::new(Cause::Clock, failure));
    }
    run.clock.wall_step_ns = clock.wall_step();
}

/// Sets the state of a run from its reasons.
fn set_run_state(verdict: &mut Verdict) {
    verdict.state = match verdict.reasons.as_slice() {
        [] => State::Valid,
        reasons if reasons.iter().any(|reason| reason.cause == Cause::Clock) => State::Invalid,
        _ => State::Noisy,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_full_speed_by_boost_or_earlier_runs() {
        let even = |ns| Loop { sibling_ns: ns, frequency_ns: ns };
        let mut host = Host::default();
        // One iteration per cycle: the loop takes 10 µs.
        host.cpu.boost_hz = Some(REFERENCE_ITERATIONS as f64 / 10e-6);
        let basis = |earlier: Option<Loop>, ns| {
            let speed = CoreSpeed { earlier, ..CoreSpeed::new(Vec::new(), None) };
            speed.basis(&even(ns), &host)
        };
        assert_eq!(basis(None, 10_400.0), ReferenceBasis::HighestFrequency);
        assert_eq!(basis(None, 10_600.0), ReferenceBasis::ThisRun);
        assert_eq!(basis(Some(even(10_500.0)), 10_600.0), ReferenceBasis::EarlierRuns);
        assert_eq!(basis(Some(even(10_000.0)), 10_600.0), ReferenceBasis::ThisRun);
    }

    #[test]
    fn steps_of_the_wall_clock_are_noted() {
        let run = &mut Document::fixture().run;
        let clock = WholeRun {
            raw_ppm: 0.5,
            monotonic_ppm: 0.25,
            wall_step_ns: 0,
            wall_was_set: false,
            backwards: 0,
        };
        note_clock(run, &clock);
        assert_eq!((run.clock.raw_ppm, run.clock.monotonic_ppm), (Some(0.5), Some(0.25)));
        assert_eq!((run.clock.wall_step_ns, run.verdict.reasons.len()), (None, 0));
        note_clock(run, &WholeRun { wall_was_set: true, ..clock.clone() });
        assert_eq!(run.clock.wall_step_ns, Some(0.0));
        note_clock(run, &WholeRun { wall_step_ns: -3, ..clock.clone() });
        assert_eq!(run.clock.wall_step_ns, Some(-3.0));
        let wrong = WholeRun { raw_ppm: 80.0, ..clock };
        note_clock(run, &wrong);
        note_clock(run, &wrong);
        let causes: Vec<Cause> = run.verdict.reasons.iter().map(|reason| reason.cause).collect();
        assert_eq!(causes, [Cause::Clock], "named once");
    }

    #[test]
    fn clock_failure_makes_the_run_invalid() {
        let reason = |cause| Reason::new(cause, "");
        let mut verdict =
            Verdict { reasons: vec![reason(Cause::MachineDrift)], ..Verdict::default() };
        set_run_state(&mut verdict);
        assert_eq!(verdict.state, State::Noisy);
        verdict.reasons.push(reason(Cause::Clock));
        set_run_state(&mut verdict);
        assert_eq!(verdict.state, State::Invalid);
    }
}
