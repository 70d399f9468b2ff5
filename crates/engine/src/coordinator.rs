//! The coordinator's loop: block by block, visit by visit, record by record.

use fathom_analysis::judge;
use fathom_measure::affinity;
use fathom_measure::clock::WholeRun;
use fathom_measure::sampler::Resources;
use fathom_metric::{Entry, Event};
use fathom_record::run::ClockFacts;
use fathom_record::{
    Cause, Document, FarHost, Host, Reason, Record, Run, RunState, State, Tool, Verdict,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::machine::Machine;
use crate::plan::Plan;
use crate::visits::{self, RequestFacts, Visited};
use crate::{blocks, reduce};

/// Who follows a run: the terminal, the store, a test.
pub trait Audience {
    /// Before the first visit, with the plan and how long it will take in nanoseconds; before the
    /// first result of a procedure, which has no plan.
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>);
    /// Before a visit.
    fn progress(&mut self, progress: &Progress);
    /// A block is done: its records, in the order of the table.
    fn block(&mut self, records: &[Record]);
    /// What a procedure says between its passes.
    fn event(&mut self, _: Event<'_>) {}
    /// Whether a person, who is told what a procedure is about to do, lets it go on.
    fn may_go_on(&mut self, _text: &str, _ask: bool) -> bool {
        true
    }
    /// The run is over, or was stopped.
    fn ends(&mut self, document: &Document);
    /// Whether the audience has left: nobody will see another row.
    fn has_left(&self) -> bool;
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The metric that is visited next.
    pub metric: String,
    /// Time since the run began.
    pub elapsed_ns: f64,
    /// Time that is left, by what visits took so far.
    pub left_ns: f64,
}

/// What is known before a run begins.
pub struct RunSetup {
    /// The program.
    pub tool: Tool,
    /// The machine's facts.
    pub host: Host,
    /// The run's identifier.
    pub id: String,
    /// Its name, where one was given.
    pub label: Option<String>,
    /// The CPU for the workers.
    pub cpu: u32,
    /// Why that one.
    pub cpu_reason: String,
    /// The clock's facts.
    pub clock: ClockFacts,
    /// What was tuned.
    pub tuned: Vec<String>,
    /// What the environment imposes on the run.
    pub imposed: Vec<String>,
    /// What is to be said of the run beside its results.
    pub notes: Vec<String>,
    /// Workers run at the highest ordinary priority.
    pub priority: bool,
    /// What its visits may use.
    pub resources: Resources,
    /// The hosts at the far ends, beside this one.
    pub far: Vec<FarHost>,
}

/// Runs a plan on a machine and tells an audience.
pub fn coordinate(
    plan: &Plan,
    setup: RunSetup,
    machine: &mut dyn Machine,
    audience: &mut dyn Audience,
) -> Document {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let resources = setup.resources.clone();
    let facts = RequestFacts {
        seed: 0,
        injected: plan.injected.as_ref(),
        cpu: setup.cpu,
        other_cpu: affinity::partner(&setup.host, setup.cpu),
        priority: setup.priority,
        resources: &resources,
    };
    let mut document = begin(plan, setup, machine);
    audience.begins(&document, Some((plan, estimate_ns(plan))));
    let mut spins = Vec::new();
    let blocks = blocks::cut(&plan.units);
    for (at, block) in blocks.iter().enumerate() {
        let mut visited = Visited::of_block(plan, block);
        let later_ns = later_ns(plan, &blocks[at + 1..]);
        let stopped = visit_all(
            plan,
            &mut visited,
            machine,
            audience,
            (&mut random, facts),
            later_ns,
            &mut spins,
        );
        let clock = machine.clock_check();
        note_clock(&mut document.run, &clock);
        let records = reduce_block(plan, block, visited, &document, clock.failure());
        audience.block(&records);
        document.records.extend(records);
        if stopped || audience.has_left() {
            document.run.state = RunState::Interrupted;
            break;
        }
    }
    if document.run.state == RunState::Running {
        document.run.state = RunState::Complete;
    }
    document.run.ended = Some(machine.timestamp());
    document.run.duration_ns = Some(machine.elapsed_ns() as f64);
    document.run.verdict.reasons.extend(judge::machine_changed(&spins));
    settle(&mut document.run.verdict);
    audience.ends(&document);
    document
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
        clock: setup.clock,
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

/// What the whole plan is expected to take.
fn estimate_ns(plan: &Plan) -> f64 {
    let all: Vec<usize> = (0..plan.units.len()).collect();
    later_ns(plan, &[all])
}

/// What blocks that have not begun are expected to take.
fn later_ns(plan: &Plan, blocks: &[Vec<usize>]) -> f64 {
    let visits = plan.visits();
    let unit_ns = |index: &usize| match plan.units[*index].entry {
        Entry::Derived(_) | Entry::ByHand(_) => 0.0,
        Entry::Probe(_) => {
            f64::from(visits.processes_min)
                * visits::estimated_visit_ns(&plan.units[*index], visits.rounds)
        }
    };
    blocks.iter().flatten().map(unit_ns).sum()
}

/// Takes all visits of a block; true if the person stopped it.
fn visit_all(
    plan: &Plan,
    visited: &mut [Visited<'_>],
    machine: &mut dyn Machine,
    audience: &mut dyn Audience,
    (random, facts): (&mut Xoshiro256PlusPlus, RequestFacts<'_>),
    later_ns: f64,
    spins: &mut Vec<(u64, f64)>,
) -> bool {
    let visits = plan.visits();
    while let Some(index) = visits::next(visited, visits, random) {
        if machine.interrupted() || audience.has_left() {
            return true;
        }
        let left =
            |unit: &Visited<'_>| f64::from(unit.visits_left()) * unit.visit_ns(visits.rounds);
        audience.progress(&Progress {
            metric: visited[index].id().to_owned(),
            elapsed_ns: machine.elapsed_ns() as f64,
            left_ns: later_ns + visited.iter().map(left).sum::<f64>(),
        });
        let facts = RequestFacts { seed: random.next_u64(), ..facts };
        spins.extend(visited[index].visit(machine, visits, facts));
    }
    machine.interrupted()
}

/// The records of a block, in the order of the table. A record may use those before it.
fn reduce_block(
    plan: &Plan,
    block: &[usize],
    visited: Vec<Visited<'_>>,
    document: &Document,
    clock_failure: Option<String>,
) -> Vec<Record> {
    let mut known = document.records.clone();
    let earlier = known.len();
    let mut visited = visited.into_iter();
    for index in block {
        let unit = &plan.units[*index];
        match unit.entry {
            Entry::Probe(_) => {
                let visited = visited.next().into_iter();
                visited.for_each(|one| reduce::measured(one, plan, document, &mut known));
            }
            Entry::Derived(derived) => reduce::derived(*derived, &unit.cases, document, &mut known),
            Entry::ByHand(_) => {}
        }
    }
    let mut records = known.split_off(earlier);
    if let Some(failure) = clock_failure {
        for record in &mut records {
            record.verdict = Verdict::because(State::Invalid, Cause::Clock, failure.clone());
            record.agreement = None;
        }
    }
    records.into_iter().map(|record| record.sealed_by(plan.protocol)).collect()
}

/// Keeps how the clock stands, and whether the wall clock was stepped.
fn note_clock(run: &mut Run, clock: &WholeRun) {
    run.clock.raw_ppm = Some(clock.raw_ppm);
    run.clock.monotonic_ppm = Some(clock.monotonic_ppm);
    if let Some(failure) = clock.failure() {
        run.verdict.reasons.retain(|reason| reason.cause != Cause::Clock);
        run.verdict.reasons.push(Reason::new(Cause::Clock, failure));
    }
    let was_stepped = clock.wall_step_ns != 0 || clock.wall_was_set;
    run.clock.wall_step_ns = was_stepped.then_some(clock.wall_step_ns as f64);
}

/// The run's state from its reasons.
fn settle(verdict: &mut Verdict) {
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
    fn a_clock_that_failed_makes_the_run_invalid_and_a_stepped_wall_clock_does_not() {
        let reason = |cause| Reason::new(cause, "");
        let mut verdict =
            Verdict { reasons: vec![reason(Cause::MachineDrift)], ..Verdict::default() };
        settle(&mut verdict);
        assert_eq!(verdict.state, State::Noisy);
        verdict.reasons.push(reason(Cause::Clock));
        settle(&mut verdict);
        assert_eq!(verdict.state, State::Invalid);
    }
}
