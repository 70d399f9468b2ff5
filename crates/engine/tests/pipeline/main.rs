//! The whole pipeline against a fake clock and a scripted machine: plan, visits, sampler, summary,
//! prediction, verdict, table and JSON have one answer, byte for byte.

mod script;
mod two_ends;

use fathom_engine::{Audience, Plan, Progress, coordinate};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Effort, NoModel, Protocol, Record, RunState, State};
use fathom_report::{Layout, Table};

use script::{Script, host, setup};

/// Keeps what it is told, as the terminal prints it.
struct Screen {
    table: Table,
    text: String,
    leaves_after: usize,
    blocks: usize,
    promised_ns: f64,
}

impl Screen {
    fn new(width: usize, leaves_after: usize) -> Self {
        let layout = Layout { width, ..Layout::default() };
        let text = String::new();
        Self { table: Table::new(layout), text, leaves_after, blocks: 0, promised_ns: 0.0 }
    }
}

impl Audience for Screen {
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>) {
        self.promised_ns = plan.map_or(0.0, |(_, estimate_ns)| estimate_ns);
        self.text += &fathom_report::opening(document, 80);
        self.text += &self.table.header();
    }
    fn progress(&mut self, _: &Progress) {}
    fn block(&mut self, records: &[Record]) {
        self.blocks += 1;
        self.text += &self.table.rows(records);
    }
    fn ends(&mut self, document: &Document) {
        self.text += &self.table.foot();
        self.text += &fathom_report::closing(document, 80);
    }
    fn has_left(&self) -> bool {
        self.blocks >= self.leaves_after
    }
}

fn plan(asked: &[&str]) -> Plan {
    let asked = asked.iter().map(|name| (*name).to_owned()).collect();
    Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 7, &host()).expect("a plan")
}

fn run(script: &mut Script, asked: &[&str], width: usize) -> (Document, String) {
    let mut screen = Screen::new(width, usize::MAX);
    let document = coordinate(&plan(asked), setup(), script, &mut screen);
    (document, plain(&screen.text))
}

/// A text without its colours.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

const ASKED: [&str; 4] = ["cpu", "os.syscall", "os.syscall.fresh", "os.thread.create"];

#[test]
fn a_run_on_a_scripted_machine_is_the_same_byte_for_byte() {
    let (document, table) = run(&mut Script::new(), &ASKED, 80);
    insta::assert_snapshot!("table_80", table);
    let without_samples: Vec<Record> =
        document.records.iter().map(|record| Record { samples: None, ..record.clone() }).collect();
    let bare = Document { records: without_samples, ..document.clone() };
    insta::assert_snapshot!("document", fathom_report::document_json(&bare));
    let (again, _) = run(&mut Script::new(), &ASKED, 80);
    assert_eq!(again, document);
}

#[test]
fn a_wide_terminal_shows_the_terms_of_the_prediction() {
    insta::assert_snapshot!("table_140", run(&mut Script::new(), &ASKED, 140).1);
}

#[test]
fn a_worker_that_fails_costs_its_metric_and_nothing_else() {
    let mut script = Script::new();
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
    assert_eq!(visits, 1, "what crashed once is not tried again");
}

#[test]
fn a_stopped_run_keeps_what_is_done_and_marks_what_is_not_whole() {
    let mut script = Script::new();
    script.stops_after = Some(18);
    let (document, text) = run(&mut script, &ASKED, 80);
    assert_eq!(document.run.state, RunState::Interrupted);
    assert!(!document.records.is_empty() && (document.records.len() as u64) < document.run.planned);
    let partial: Vec<&Record> = document
        .records
        .iter()
        .filter(|record| record.samples.as_ref().is_some_and(|samples| samples.len() < 5))
        .collect();
    assert!(!partial.is_empty(), "the script stops in the middle of a block");
    assert!(partial.iter().all(|record| record.verdict.state == State::Noisy), "{partial:?}");
    assert!(text.contains("stopped"), "{text}");
}

#[test]
fn a_run_nobody_reads_any_more_ends() {
    let mut screen = Screen::new(80, 1);
    let mut script = Script::new();
    let document = coordinate(&plan(&ASKED), setup(), &mut script, &mut screen);
    assert_eq!((document.run.state, screen.blocks), (RunState::Interrupted, 1));
}

#[test]
fn a_clock_that_disagrees_makes_every_number_invalid() {
    let mut script = Script::new();
    script.clock_ppm = 80.0;
    let (document, text) = run(&mut script, &["cpu.frequency"], 80);
    assert_eq!(document.run.verdict.state, State::Invalid);
    assert!(document.records.iter().all(|record| record.verdict.state == State::Invalid));
    assert!(document.records.iter().all(|record| record.agreement.is_none()));
    assert!(!text.contains("GHz  "), "no number is shown: {text}");
}

#[test]
fn a_machine_that_drifts_or_comes_and_goes_makes_the_run_noisy() {
    let run_with = |spin_ns: fn(usize) -> f64| {
        let mut script = Script { spin_ns, ..Script::new() };
        let (document, text) = run(&mut script, &ASKED, 80);
        assert!(script.visits.len() >= 30, "{} visits tell too little", script.visits.len());
        (document.run.verdict.state, text)
    };
    let (state, text) = run_with(|visit| 9_000.0 + 20.0 * visit as f64);
    assert!(state == State::Noisy && text.contains("slower"), "{text}");
    let (state, text) = run_with(|visit| if visit / 5 % 2 == 0 { 9_000.0 } else { 9_300.0 });
    assert!(state == State::Noisy && text.contains("came and went"), "{text}");
    assert_eq!(run_with(|visit| 9_000.0 + (visit % 2) as f64).0, State::Valid);
}

#[test]
fn a_prediction_never_uses_a_number_that_must_not_be_believed() {
    let mut script = Script::new();
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
fn another_seed_takes_the_visits_in_another_order_and_the_same_seed_in_the_same() {
    let order = |seed| {
        let asked = vec!["cpu.clock".to_owned()];
        let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, seed, &host())
            .expect("a plan");
        let mut script = Script::new();
        coordinate(&plan, setup(), &mut script, &mut Screen::new(80, usize::MAX));
        script.visits
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn every_record_is_sealed_and_the_document_survives_its_json() {
    let (document, _) = run(&mut Script::new(), &ASKED, 80);
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

#[test]
fn standard_effort_visits_again_while_an_interval_is_wide() {
    let visits = |jitter_permille| {
        let asked = vec!["cpu.frequency".to_owned()];
        let plan = Plan::new(&REGISTRY, asked, Effort::Standard, Protocol::Median, 7, &host())
            .expect("a plan");
        let mut script = Script::new();
        script.jitter_permille = jitter_permille;
        coordinate(&plan, setup(), &mut script, &mut Screen::new(80, usize::MAX));
        script.visits.len()
    };
    assert_eq!(visits(2), 10, "narrow at once");
    assert_eq!(visits(100), 20, "never narrow, and bounded");
}
