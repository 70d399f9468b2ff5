//! Time is a budget, and every visit counts: on machines whose core is to itself always, never or
//! now and then, and on slow ones (METHOD 13, 23b).

use fathom_analysis::core_state::{CoreStateConditions, Loop};
use fathom_engine::{Plan, coordinate};
use fathom_record::{Document, Reference, ReferenceBasis, RunState, Sample, State, Stratum};

use super::script::{EngineScript, setup};
use super::{Screen, plan, run_quietly};

const IDLE: f64 = 9_000.0;

/// A number from 0 to 999 that looks random.
fn random(visit: usize) -> usize {
    (visit + 1).wrapping_mul(2_654_435_761) / 65_536 % 1000
}

/// A loop on a shared core, which differs from visit to visit.
fn shared(visit: usize) -> f64 {
    1.6 * IDLE + 8.0 * random(visit * 7 + 3) as f64
}

/// A run of 18 s on a machine of which these are the loops.
fn battery(loop_ns: fn(usize) -> f64) -> Document {
    let mut script = EngineScript { loop_ns, slow_times: 1.5, ..EngineScript::new() };
    run_quietly(&mut script, &Plan { budget_ns: 18e9, ..plan(&["cpu", "os.syscall"]) })
}

fn reference(document: &Document) -> Reference {
    document.run.reference.expect("loops")
}

/// The samples in the reported state of the core.
fn in_state(samples: &[Sample], reference: &Reference) -> usize {
    let idle = Loop::from(*reference);
    let is_idle = |sample: &&Sample| {
        CoreStateConditions::from_sample(sample)
            .typical()
            .is_some_and(|typical| typical.is_as_fast_as(&idle))
    };
    let idle = samples.iter().filter(is_idle).count();
    match reference.state {
        Some(Stratum::ToItself) => idle,
        Some(Stratum::Shared) => samples.len() - idle,
        _ => samples.len(),
    }
}

/// Whatever the machine does, each number rests on all visits in its state, at least five.
fn assert_every_visit_counts(document: &Document) {
    let reference = reference(document);
    for record in document.records.iter().filter(|record| record.samples.is_some()) {
        let summary = record.summary.as_ref().expect("a summary");
        let samples = record.samples.as_ref().expect("samples");
        let of_state = in_state(samples, &reference);
        let name = record.name();
        assert!(samples.len() >= 5 && summary.processes >= 5, "{name}: {}", samples.len());
        match &summary.in_state {
            Some(estimate) => {
                assert_eq!(Some(summary.stratum), reference.state, "{name}");
                assert_eq!(estimate.visits as usize, of_state, "{name}");
            }
            None => assert!(summary.not_selected.is_some(), "{name}"),
        }
        let found = summary.as_found.as_ref().expect("all visits");
        assert!(found.visits as usize <= samples.len(), "{name}");
    }
}

/// Its loops by visit, the state that is reported, and between which shares its visits are.
type BudgetWorld = (fn(usize) -> f64, Stratum, std::ops::Range<f64>);

#[test]
fn core_is_reported_in_its_fastest_frequent_state() {
    let worlds: [BudgetWorld; 6] = [
        (|_| IDLE, Stratum::ToItself, 1.0..1.01),
        (
            |visit| if random(visit) < 50 { shared(visit) } else { IDLE },
            Stratum::ToItself,
            0.9..1.0,
        ),
        (
            |visit| if random(visit) < 500 { shared(visit) } else { IDLE },
            Stratum::ToItself,
            0.4..0.6,
        ),
        (|visit| if random(visit) < 950 { shared(visit) } else { IDLE }, Stratum::Shared, 0.9..1.0),
        (shared, Stratum::Shared, 1.0..1.01),
        // The sibling is busy from the middle on.
        (|visit| if visit < 220 { IDLE } else { shared(visit) }, Stratum::ToItself, 0.3..0.7),
    ];
    for (loop_ns, state, share) in worlds {
        let document = battery(loop_ns);
        let of_run = reference(&document);
        assert_eq!(of_run.state, Some(state));
        let count = if state == Stratum::ToItself { of_run.clean } else { of_run.shared };
        let found = f64::from(count) / f64::from(of_run.visits);
        assert!(share.contains(&found), "{state:?}: {found}");
        assert!((of_run.loop_ns / IDLE - 1.0).abs() < 0.01, "{}", of_run.loop_ns);
        assert_every_visit_counts(&document);
    }
}

#[test]
fn states_without_a_gap_are_one() {
    let document = battery(|visit| IDLE * (1.0 + 0.000_12 * random(visit) as f64));
    assert_eq!(reference(&document).state, Some(Stratum::AsFound));
    assert_every_visit_counts(&document);
}

/// The fastest loops of a run are those of a shared core if earlier runs knew it faster.
#[test]
fn always_shared_core_is_known_by_earlier_runs() {
    let mut setup = setup();
    let basis = ReferenceBasis::EarlierRuns;
    setup.earlier =
        Some(Reference { loop_ns: IDLE, frequency_ns: IDLE, basis, ..Reference::default() });
    let mut script = EngineScript { loop_ns: |_| 2.0 * IDLE, ..EngineScript::new() };
    script.calibration_ns = 2.0 * IDLE;
    let mut screen = Screen::new(80, usize::MAX);
    let document = coordinate(&plan(&["cpu"]), setup, &mut script, &mut screen);
    assert_eq!(reference(&document).state, Some(Stratum::Shared));
    assert_eq!(reference(&document).loop_ns, IDLE);
}

/// Milliseconds of a visit: most are short, some take long.
fn visit_ms(metric: &str) -> u64 {
    let hash = metric.bytes().fold(7, |hash: u64, byte| hash * 31 % 10_007 + u64::from(byte));
    8 + hash % 60 + if hash.is_multiple_of(11) { 400 } else { 0 }
}

/// The duration of a visit by metric, and whether not all fit.
type Speed = (fn(&str) -> u64, bool);

#[test]
fn time_is_kept_on_slow_machines_and_what_does_not_fit_is_named() {
    let times: [Speed; 3] = [
        (|metric| 1_000_000 * visit_ms(metric), false),
        (|metric| 3_000_000 * visit_ms(metric), false),
        (|metric| 20_000_000 * visit_ms(metric), true),
    ];
    for (visit_ns, is_short_of_time) in times {
        let mut script = EngineScript { visit_ns, ..EngineScript::new() };
        let budget_ns = 15e9;
        let document =
            run_quietly(&mut script, &Plan { budget_ns, ..plan(&["cpu", "os", "network"]) });
        let took_ns = script.elapsed_ns as f64;
        // Five visits of a dear metric may not fit into what is left.
        let least = if is_short_of_time { 0.6 } else { 0.85 };
        assert!(took_ns <= 1.15 * budget_ns && took_ns >= least * budget_ns, "{took_ns}");
        assert_eq!(document.run.state, RunState::Complete);
        assert_eq!(document.run.planned as usize, document.records.len());
        let left_out = &document.run.left_out;
        assert!(!is_short_of_time || !left_out.is_empty());
        let has_records = |metric: &String| {
            document.records.iter().any(|record| record.metric.as_str() == metric)
        };
        // Some cases of a metric may fit.
        assert!(left_out.iter().filter(|metric| has_records(metric)).count() <= left_out.len() / 2);
        assert_every_visit_counts(&document);
    }
}

#[test]
fn short_selection_ends_before_its_time() {
    let mut script = EngineScript::new();
    let document = run_quietly(&mut script, &plan(&["cpu.clock.read"]));
    let visits = script.visits.iter().filter(|metric| *metric == "cpu.clock.read");
    assert_eq!((visits.count(), document.run.left_out.len()), (40, 0));
    assert_eq!(document.records[0].verdict.state, State::Valid);
    let plan = Plan { processes: Some(7), ..plan(&["cpu.clock.read"]) };
    let mut script = EngineScript::new();
    run_quietly(&mut script, &plan);
    assert_eq!(script.visits.iter().filter(|metric| *metric == "cpu.clock.read").count(), 7);
}
