//! The coordinator of a run: visits, spread over its whole time, and their records.

use fathom_analysis::choice::Distances;
use fathom_analysis::clean::{self, Loop};
use fathom_analysis::{judge, statistics};
use fathom_measure::affinity;
use fathom_measure::clock::WholeRun;
use fathom_measure::sampler::{LoopTime, REFERENCE_ITERATIONS, Resources};
use fathom_metric::{Entry, Event};
use fathom_record::run::ClockFacts;
use fathom_record::{
    Cause, Document, FarHost, Host, NotSelected, Reason, Record, Reference, ReferenceBasis, Run,
    RunState, State, Tool, Verdict,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::machine::Machine;
use crate::plan::Plan;
use crate::reduce::{self, Results};
use crate::remedies;
use crate::visits::{self, CaseOfVisit, ProbeVisits, VisitContext};

/// Receiver of the events of a run: the terminal, the store, a test.
pub trait Audience {
    /// Before the first visit, with the plan and its estimated duration in nanoseconds. Before the
    /// first result of a procedure, which has no plan.
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>);
    /// Before each visit.
    fn progress(&mut self, progress: &Progress);
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
pub struct Progress {
    /// The metric of the next visit.
    pub metric: String,
    pub elapsed_ns: f64,
    /// Estimated from the duration of visits so far.
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
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let resources = setup.resources.clone();
    let mut speed = CoreSpeed::new(machine.calibrate(setup.cpu), setup.earlier);
    let facts = VisitContext {
        seed: 0,
        reference: None,
        injected: plan.injected.as_ref(),
        cpu: setup.cpu,
        other_cpu: affinity::partner(&setup.host, setup.cpu),
        priority: setup.priority,
        resources: &resources,
    };
    let mut document = begin(plan, setup, machine);
    let clean_share = speed.clean_share();
    audience.begins(&document, Some((plan, estimate_ns(plan, &document.host, clean_share))));
    let mut visited = ProbeVisits::of_plan(plan, &document.host);
    let is_stopped = visit_all(
        plan,
        &mut visited,
        machine,
        (audience, &document),
        (&mut random, facts),
        &mut speed,
    );
    let clock = machine.clock_check();
    note_clock(&mut document.run, &clock);
    let reference = speed.of_this_run();
    note_reference(&mut document, &visited, reference, &speed);
    let clock = clock.failure();
    document.records = reduced(plan, &visited, &document, reference.as_ref(), clock.as_deref());
    audience.measured(&document.records);
    document.run.state = match is_stopped || audience.has_left() {
        true => RunState::Interrupted,
        false => RunState::Complete,
    };
    document.run.ended = Some(machine.timestamp());
    document.run.duration_ns = Some(machine.elapsed_ns() as f64);
    document.run.verdict.reasons.extend(judge::machine_changed(&speed.by_visit));
    let mut verdict = std::mem::take(&mut document.run.verdict);
    remedies::set(&mut verdict, &document.run, &document.host);
    document.run.verdict = verdict;
    set_run_state(&mut document.run.verdict);
    audience.ends(&document);
    document
}

/// Records the reference of the whole run, and how many visits were clean by it.
fn note_reference(
    document: &mut Document,
    visited: &[ProbeVisits<'_>],
    reference: Option<Loop>,
    speed: &CoreSpeed,
) {
    let Some(reference) = reference else { return };
    let (clean, visits) = visited.iter().fold((0, 0), |(clean, visits), unit| {
        let (its_clean, its_visits) = unit.clean_as_found(&reference);
        (clean + its_clean, visits + its_visits)
    });
    document.run.reference = Some(Reference {
        loop_ns: reference.sibling_ns,
        frequency_ns: reference.frequency_ns,
        basis: speed.basis(&reference, &document.host),
        visits,
        clean,
    });
}

/// The speed of the measured core.
struct CoreSpeed {
    /// All reference loops of the run.
    loops: Vec<Loop>,
    /// Start and median loop of each visit, in nanoseconds.
    by_visit: Vec<(u64, f64)>,
    /// The reference of earlier runs on this host and CPU.
    earlier: Option<Loop>,
}

impl CoreSpeed {
    fn new(calibration: Vec<LoopTime>, earlier: Option<Reference>) -> Self {
        let loops = calibration.iter().map(LoopTime::parts).collect();
        Self { loops, by_visit: Vec::new(), earlier: earlier.map(Loop::from) }
    }

    fn add_visit(&mut self, loops: &[LoopTime]) {
        let times: Vec<f64> = loops.iter().map(|one| one.sibling_ns).collect();
        let visit = loops.first().zip(statistics::median(&times));
        self.by_visit.extend(visit.map(|(first, ns)| (first.at_ns, ns)));
        self.loops.extend(loops.iter().map(LoopTime::parts));
    }

    fn of_this_run(&self) -> Option<Loop> {
        clean::reference(&self.loops)
    }

    /// The reference so far. If the sibling has been busy since the start, that of earlier runs at
    /// the same frequency.
    fn reference(&self) -> Option<Loop> {
        let own = self.of_this_run()?;
        let is_busy = |known: &Loop| {
            own.is_at_frequency_of(known)
                && !own.has_idle_sibling(known)
                && own.sibling_ns > known.sibling_ns
        };
        Some(self.earlier.filter(is_busy).unwrap_or(own))
    }

    /// The share of loops at the reference so far.
    fn clean_share(&self) -> f64 {
        let Some(reference) = self.reference() else { return 1.0 };
        let clean = self.loops.iter().filter(|one| one.is_at(&reference)).count();
        clean as f64 / self.loops.len() as f64
    }

    /// The evidence that this reference is full speed.
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

/// The estimated duration of a plan with this share of undisturbed visits.
fn estimate_ns(plan: &Plan, host: &Host, clean_share: f64) -> f64 {
    let units = ProbeVisits::of_plan(plan, host);
    units.iter().map(|unit| unit.estimate_ns(clean_share)).sum()
}

/// Records of the visits so far are made this often, in at most one of so many parts of the time: a
/// killed run keeps them.
const DRAFTS_NS: u64 = 1_000_000_000;
const DRAFTS_TIMES: u64 = 50;

/// Makes all visits: those that are planned, then again and again those that are missing. True if
/// the run was interrupted.
fn visit_all(
    plan: &Plan,
    visited: &mut [ProbeVisits<'_>],
    machine: &mut dyn Machine,
    (audience, document): (&mut dyn Audience, &Document),
    (random, facts): (&mut Xoshiro256PlusPlus, VisitContext<'_>),
    speed: &mut CoreSpeed,
) -> bool {
    let mut due_ns = DRAFTS_NS;
    loop {
        let reference = speed.reference();
        let order = visits::order(visited, reference.as_ref(), random);
        if order.is_empty() {
            return machine.interrupted();
        }
        for (done, index) in order.iter().enumerate() {
            if visited[*index].is_over() {
                continue;
            }
            if machine.interrupted() || audience.has_left() {
                return true;
            }
            let left = order[done..].iter().map(|index| visited[*index].visit_ns());
            audience.progress(&Progress {
                metric: visited[*index].id().to_owned(),
                elapsed_ns: machine.elapsed_ns() as f64,
                left_ns: left.sum::<f64>(),
            });
            let reference = reference.as_ref();
            let facts = VisitContext { seed: random.next_u64(), reference, ..facts };
            let loops = visited[*index].visit(machine, facts);
            // Threads of a probe on the sibling slow the loop: such loops are no reference.
            if !visited[*index].selection.contains(&Err(NotSelected::SecondCpu)) {
                speed.add_visit(&loops);
            }
            visited[*index].of_last_visit().for_each(|case| audience.visited(&case));
            let begun_ns = machine.elapsed_ns();
            if begun_ns >= due_ns {
                let drafts = reduced(plan, visited, document, reference, None);
                audience.finished(document, &drafts, true);
                let took_ns = machine.elapsed_ns() - begun_ns;
                due_ns = machine.elapsed_ns() + DRAFTS_NS.max(took_ns * DRAFTS_TIMES);
            }
        }
    }
}

/// The records of all visits, in the order of the table.
fn reduced(
    plan: &Plan,
    visited: &[ProbeVisits<'_>],
    document: &Document,
    reference: Option<&Loop>,
    clock_failure: Option<&str>,
) -> Vec<Record> {
    let mut results = Results::default();
    let samples = visited.iter().flat_map(|unit| unit.samples.iter().flatten());
    let distances = Distances::of(samples);
    let mut visited = visited.iter();
    // The run was interrupted before the first visit of a metric that another is derived from.
    let is_missing = |need: &str, results: &Results| {
        let mut planned = plan.units.iter().filter(|unit| !unit.cases.is_empty());
        planned.any(|unit| unit.entry.about().id == need)
            && results.records.iter().all(|record| record.metric.as_str() != need)
    };
    for unit in &plan.units {
        match unit.entry {
            Entry::Probe(_) => {
                if let Some(one) = visited.next() {
                    reduce::measured(one, document, (reference, &distances), &mut results);
                }
            }
            Entry::Derived(derived) => {
                if derived.inputs().iter().any(|need| is_missing(need, &results)) {
                    continue;
                }
                reduce::derived(*derived, &unit.cases, document, reference, &mut results);
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

    /// A loop of this many nanoseconds in both parts.
    fn even(ns: f64) -> Loop {
        Loop { sibling_ns: ns, frequency_ns: ns }
    }

    #[test]
    fn reference_is_full_speed_by_boost_or_earlier_runs() {
        let mut host = Host::default();
        // One iteration per cycle: the loop takes 10 µs.
        host.cpu.boost_hz = Some(REFERENCE_ITERATIONS as f64 / 10e-6);
        let with = |earlier| CoreSpeed { loops: Vec::new(), by_visit: Vec::new(), earlier };
        let basis = |earlier, ns| with(earlier).basis(&even(ns), &host);
        assert_eq!(basis(None, 10_400.0), ReferenceBasis::HighestFrequency);
        assert_eq!(basis(None, 10_600.0), ReferenceBasis::ThisRun);
        assert_eq!(basis(Some(even(10_500.0)), 10_600.0), ReferenceBasis::EarlierRuns);
        assert_eq!(basis(Some(even(10_000.0)), 10_600.0), ReferenceBasis::ThisRun);
    }

    #[test]
    fn busy_sibling_keeps_the_earlier_reference() {
        let loops = |sibling_ns| vec![Loop { sibling_ns, frequency_ns: 9_000.0 }; 50];
        let reference = |sibling_ns, earlier: Loop| {
            let speed =
                CoreSpeed { loops: loops(sibling_ns), by_visit: vec![], earlier: Some(earlier) };
            (speed.reference().expect("50 loops").sibling_ns.round(), speed.clean_share())
        };
        let idle = even(9_000.0);
        assert_eq!(reference(14_000.0, idle), (9_000.0, 0.0));
        assert_eq!(reference(9_000.0, idle), (9_000.0, 1.0));
        assert_eq!(reference(7_000.0, idle), (7_000.0, 1.0), "faster than before");
        assert_eq!(reference(14_000.0, even(8_000.0)), (14_000.0, 1.0), "another frequency");
        let empty = CoreSpeed { loops: Vec::new(), by_visit: Vec::new(), earlier: Some(idle) };
        assert_eq!((empty.reference(), empty.clean_share()), (None, 1.0));
    }

    #[test]
    fn steps_of_the_wall_clock_are_noted() {
        let mut run: Document =
            serde_json::from_str(include_str!("../../store/tests/golden/document.json"))
                .expect("a document");
        let run = &mut run.run;
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
