//! The whole pipeline with a fake clock and a scripted machine: plan, visits, sampler, summary,
//! prediction, verdict, table and JSON are reproducible byte for byte.

mod budget;
mod script;
mod session;
mod two_ends;

use std::path::PathBuf;

use fathom_engine::{Audience, CaseOfVisit, CoordinatorProgress, Plan, coordinate};
use fathom_measure::sampler::Files;
use fathom_probes::REGISTRY;
use fathom_record::host::Cache;
use fathom_record::{Cause, Document, Effort, NoModel, Protocol, Reason, Record, RunState, State};
use fathom_report::{Layout, Table};
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use script::{EngineScript, host, setup};

/// Keeps the output for the terminal.
struct Screen {
    table: Table,
    text: String,
    leaves_after: usize,
    /// The records as they were printed.
    printed: Vec<Record>,
    progress: Vec<CoordinatorProgress>,
    /// Cases of visits, as they ended.
    visited: usize,
}

impl Screen {
    fn new(width: usize, leaves_after: usize) -> Self {
        let layout = Layout { width, ..Layout::default() };
        let text = String::new();
        Self {
            table: Table::new(layout),
            text,
            leaves_after,
            printed: Vec::new(),
            progress: Vec::new(),
            visited: 0,
        }
    }
}

impl Audience for Screen {
    fn begins(&mut self, document: &Document, _: Option<(&Plan, f64)>) {
        self.text += &fathom_report::opening(document, 80);
        self.text += &self.table.header();
    }
    fn progress(&mut self, progress: &CoordinatorProgress) {
        self.progress.push(progress.clone());
    }
    fn visited(&mut self, case: &CaseOfVisit<'_>) {
        assert!(!case.sample.values.is_empty(), "{}", case.params);
        self.visited += 1;
    }
    fn measured(&mut self, records: &[Record]) {
        self.printed.extend_from_slice(records);
        self.text += &self.table.rows(records);
    }
    fn ends(&mut self, document: &Document) {
        self.text += &self.table.foot();
        self.text += &fathom_report::closing(document, 80);
    }
    fn has_left(&self) -> bool {
        self.progress.len() >= self.leaves_after
    }
}

fn plan(selectors: &[&str]) -> Plan {
    plan_with(selectors, Effort::Quick, 7)
}

fn plan_with(selectors: &[&str], effort: Effort, seed: u64) -> Plan {
    let selectors = selectors.iter().map(|name| (*name).to_owned()).collect();
    Plan::new(&REGISTRY, selectors, effort, Protocol::Median, seed, &host()).expect("a plan")
}

/// Runs a plan without output.
fn run_quietly(script: &mut EngineScript, plan: &Plan) -> Document {
    coordinate(plan, setup(), script, &mut Screen::new(80, usize::MAX))
}

fn run(script: &mut EngineScript, asked: &[&str], width: usize) -> (Document, String) {
    let mut screen = Screen::new(width, usize::MAX);
    let plan = Plan { budget_ns: 8e9, ..plan(asked) };
    let document = coordinate(&plan, setup(), script, &mut screen);
    (document, plain(&screen.text))
}

/// Compares a text with a file in `snapshots/`. To update the files: `SNAPSHOTS=overwrite`.
fn assert_snapshot(name: &str, text: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/snapshots");
    let file = std::path::Path::new(folder).join(name);
    let expected = Data::read_from(&file, Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(Data::text(text).raw(), expected);
}

/// A text without colours.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

const ASKED: [&str; 4] = ["cpu", "os.syscall", "os.syscall.fresh", "os.thread.create"];

#[test]
fn scripted_run_is_reproducible_byte_for_byte() {
    let (document, table) = run(&mut EngineScript::new(), &ASKED, 80);
    assert_snapshot("table_80.txt", &table);
    let without_samples: Vec<Record> =
        document.records.iter().map(|record| Record { samples: None, ..record.clone() }).collect();
    let bare = Document { records: without_samples, ..document.clone() };
    assert_snapshot("document.json", &fathom_report::document_json(&bare));
    let (again, _) = run(&mut EngineScript::new(), &ASKED, 80);
    assert_eq!(again, document);
}

#[test]
fn a_wide_terminal_shows_the_terms_of_the_prediction() {
    assert_snapshot("table_140.txt", &run(&mut EngineScript::new(), &ASKED, 140).1);
}

#[test]
fn failed_worker_fails_its_metric_only() {
    let mut script = EngineScript::new();
    script.crashes = Some("os.syscall.fresh");
    let (document, _) = run(&mut script, &["os.syscall", "os.syscall.fresh"], 80);
    let state = |name: &str| {
        document
            .records
            .iter()
            .find(|record| record.name() == name)
            .map(|record| record.verdict.state)
    };
    assert_eq!(state("os.syscall.fresh"), Some(State::Failed));
    assert_eq!(state("os.syscall{call=getppid}"), Some(State::Valid));
    assert_eq!(document.run.state, RunState::Complete);
    let visits = script.visits.iter().filter(|metric| *metric == "os.syscall.fresh").count();
    assert_eq!(visits, 1, "no second visit after a crash");
}

#[test]
fn stopped_run_keeps_finished_records() {
    let mut script = EngineScript::new();
    script.stops_after = Some(3);
    let (document, text) = run(&mut script, &ASKED, 80);
    assert_eq!(document.run.state, RunState::Interrupted);
    assert!(!document.records.is_empty() && (document.records.len() as u64) < document.run.planned);
    let partial: Vec<&Record> = document
        .records
        .iter()
        .filter(|record| record.samples.as_ref().is_some_and(|samples| samples.len() < 5))
        .collect();
    assert!(!partial.is_empty(), "the script stops in the middle");
    assert!(partial.iter().all(|record| record.verdict.state == State::Noisy), "{partial:?}");
    assert!(text.contains("stopped"), "{text}");
}

#[test]
fn offline_cpu_fails_its_cases_and_keeps_finished_visits() {
    let mut script = EngineScript::new();
    script.offline_after = Some(9);
    let (document, text) = run(&mut script, &ASKED, 80);
    assert_eq!(document.run.state, RunState::Complete);
    let (mut failed, mut partly, mut whole) = (0, 0, 0);
    for record in document.records.iter().filter(|record| record.derived_from.is_empty()) {
        let (state, reason) = (record.verdict.state, record.verdict.reasons.first());
        let cause = reason.map(|reason| (reason.cause, reason.text.as_str()));
        match record.samples.as_ref().map_or(0, Vec::len) {
            // The script has another reason for this one.
            _ if state == State::Unavailable => {}
            0 => {
                failed += 1;
                let expected = Some((Cause::CpuOffline, "CPU 1 went offline"));
                assert_eq!((state, cause), (State::Failed, expected), "{}", record.name());
            }
            visits if state == State::Noisy => {
                partly += 1;
                let start = format!("CPU 1 went offline after {visits} of ");
                assert!(cause.is_some_and(|(_, text)| text.starts_with(&start)), "{cause:?}");
            }
            _ => whole += 1,
        }
    }
    assert!(failed > 0 && partly > 0, "{failed} {partly} {whole}");
    assert!(text.contains("CPU offline") && !text.contains("crash"), "{text}");
}

#[test]
fn run_ends_after_the_output_is_closed() {
    let mut screen = Screen::new(80, 3);
    let mut script = EngineScript::new();
    let document = coordinate(&plan(&ASKED), setup(), &mut script, &mut screen);
    assert_eq!((document.run.state, script.visits.len()), (RunState::Interrupted, 3));
}

#[test]
fn clock_disagreement_makes_all_numbers_invalid() {
    let mut script = EngineScript::new();
    script.clock_ppm = 80.0;
    let (document, text) = run(&mut script, &["cpu.frequency"], 80);
    assert_eq!(document.run.verdict.state, State::Invalid);
    assert!(document.records.iter().all(|record| record.verdict.state == State::Invalid));
    assert!(document.records.iter().all(|record| record.agreement.is_none()));
    assert!(!text.contains("GHz  "), "no number is shown: {text}");
}

#[test]
fn drift_or_autocorrelation_makes_the_run_noisy() {
    let run_with = |loop_ns: fn(usize) -> f64| {
        let mut script = EngineScript { loop_ns, ..EngineScript::new() };
        let (document, text) = run(&mut script, &ASKED, 80);
        assert!(script.visits.len() >= 30, "too few visits: {}", script.visits.len());
        (document.run.verdict.state, text)
    };
    let (state, text) = run_with(|visit| 9_000.0 + 2.4 * visit as f64);
    assert!(state == State::Noisy && text.contains("slower"), "{text}");
    let (state, text) = run_with(|visit| if visit / 50 % 2 == 0 { 9_000.0 } else { 9_150.0 });
    assert!(state == State::Noisy && text.contains("autocorrelated"), "{text}");
    assert_eq!(run_with(|visit| 9_000.0 + (visit % 2) as f64).0, State::Valid);
}

#[test]
fn crashed_input_gives_no_prediction() {
    let mut script = EngineScript::new();
    script.crashes = Some("cpu.frequency");
    let (document, _) = run(&mut script, &["cpu.loop"], 80);
    let of_loop =
        document.records.iter().filter(|record| record.metric.as_str() == "cpu.loop.iteration");
    for record in of_loop {
        assert_eq!(record.prediction, None);
        let metric = "cpu.frequency".to_owned();
        assert_eq!(record.no_model, Some(NoModel::MissingInput { metric }));
    }
}

#[test]
fn visit_order_depends_on_the_seed_only() {
    let order = |seed| {
        let mut script = EngineScript::new();
        run_quietly(&mut script, &plan_with(&["cpu.clock"], Effort::Quick, seed));
        script.visits
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn records_are_sealed_and_survive_json() {
    let (document, _) = run(&mut EngineScript::new(), &ASKED, 80);
    assert!(document.records.iter().all(Record::is_intact));
    let text = fathom_report::document_json(&document);
    let back: Document = serde_json::from_str(&text).expect("a document");
    assert_eq!(back, document);
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/run.schema.json")).expect("a schema");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

const FREQUENCY: &str = "cpu.frequency";

#[test]
fn progress_has_the_visits_left() {
    let mut screen = Screen::new(80, usize::MAX);
    let plan = Plan { processes: Some(5), ..plan(&[FREQUENCY]) };
    coordinate(&plan, setup(), &mut EngineScript::new(), &mut screen);
    let estimate = 6e6 + plan.units[0].cases[0].cost_ns;
    // Each visit takes 40 ms.
    let expected = [5.0 * estimate, 4.0 * 40e6, 3.0 * 40e6, 2.0 * 40e6, 40e6];
    let left: Vec<f64> = screen.progress.iter().map(|it| it.left_ns).collect();
    assert_eq!(left, expected);
    let elapsed: Vec<f64> = screen.progress.iter().map(|it| it.elapsed_ns).collect();
    assert_eq!(elapsed, [0.0, 40e6, 80e6, 120e6, 160e6]);
}

#[test]
fn work_on_two_cpus_is_reported_for_the_usual_distance() {
    let distance_ns = |visit: usize| if visit.is_multiple_of(4) { 10.0 } else { 60.0 };
    let mut script = EngineScript { distance_ns, ..EngineScript::new() };
    let document = run_quietly(&mut script, &plan(&["os.wake.cross_cpu{via=futex}"]));
    let record = document.records.iter().find(|it| it.metric.as_str() == "os.wake.cross_cpu");
    let record = record.expect("a record");
    let summary = record.summary.as_ref().expect("a summary");
    let samples = record.samples.as_ref().expect("samples");
    let near = samples.iter().filter(|it| it.distance_ns == [10.0; 2]).count();
    assert!(near >= 3, "{near} of {}", samples.len());
    let usual = (samples.len() - near) as u32;
    assert_eq!((summary.processes, record.verdict.state), (usual, State::Valid));
    assert!((5_900.0..6_100.0).contains(&summary.median), "{}", summary.median);
    let note = &record.notes[0];
    assert!(note.contains("left out: CPUs 10 ns apart, not 60 (median 1.0"), "{note}");
}

/// The scripted machine has no L2, and sets beyond L2 have a noise limit of 10 %, not 5 %.
#[test]
fn each_case_of_a_visit_is_announced_as_it_ends() {
    let mut screen = Screen::new(80, usize::MAX);
    let document = coordinate(&plan(&["cpu.call"]), setup(), &mut EngineScript::new(), &mut screen);
    let samples = document.records.iter().flat_map(|record| record.samples.iter().flatten());
    assert_eq!(screen.visited, samples.count());
}

#[test]
fn size_of_a_cache_lies_between_two_sets() {
    let mut setup = setup();
    let (kind, shared_by) = ("data".to_owned(), vec![1]);
    let first =
        Cache { level: 1, kind, size_bytes: 32_768, line_bytes: Some(64), ways: None, shared_by };
    setup.host.cpu.caches = vec![first];
    let mut screen = Screen::new(80, usize::MAX);
    let asked = vec!["memory.cache.l1.size".to_owned()];
    let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 7, &setup.host);
    let plan = Plan { processes: Some(5), ..plan.expect("a plan") };
    let document = coordinate(&plan, setup, &mut EngineScript::new(), &mut screen);
    let size = document.records.last().and_then(|record| record.summary.as_ref()).expect("a size");
    let [low, high] = size.interval.and_then(|it| it.edge()).expect("an edge");
    assert!(low == 32_768.0 && high > low && high <= 65_536.0, "{low} to {high}");
}

#[test]
fn noise_limit_is_that_of_the_case() {
    let wide = |jitter_permille| {
        let mut script = EngineScript { jitter_permille, ..EngineScript::new() };
        let plan = Plan { processes: Some(5), ..plan(&["memory.latency"]) };
        let document = run_quietly(&mut script, &plan);
        let records = document.records.iter().filter(|it| it.metric.as_str() == "memory.latency");
        let reasons = records.flat_map(|record| &record.verdict.reasons);
        let is_wide = |it: &&Reason| it.cause.is_of_spread();
        reasons.filter(is_wide).count()
    };
    // Half of the interval over five processes is half of this.
    assert_eq!(wide(140), 0);
    assert!(wide(240) > 0);
}

/// In the battery as by hand. Warm reads need no device.
#[test]
fn reads_of_files_on_no_device_are_noisy() {
    let mut setup = setup();
    let (folder, large, doubt) = (PathBuf::new(), PathBuf::new(), Some("on tmpfs".to_owned()));
    setup.resources.files = Ok(Files { folder, large, seed: 1, doubt });
    let (mut script, mut screen) = (EngineScript::new(), Screen::new(80, usize::MAX));
    let document = coordinate(&plan(&["file.read.throughput"]), setup, &mut script, &mut screen);
    let reads = document.records.iter().filter(|it| it.metric.as_str() == "file.read.throughput");
    let mut states = Vec::new();
    for record in reads {
        let state = record.params.text("state").expect("a state");
        let reasons = &record.verdict.reasons;
        let is_doubted = reasons.iter().any(|reason| reason.text == "on tmpfs");
        assert_eq!(is_doubted, state != "warm", "{}", record.name());
        assert!(!is_doubted || record.verdict.state == State::Noisy, "{}", record.name());
        states.push(state);
    }
    assert!(["cold", "direct", "warm"].iter().all(|state| states.contains(state)), "{states:?}");
}
