//! A procedure in a session: its records, states and shows.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::core_state::{CoreStates, Loop};
use fathom_engine::{Audience, CoordinatorProgress, Plan, Session, SessionSetup};
use fathom_measure::affinity;
use fathom_measure::clock::{self, CalibrationWatch};
use fathom_metric::{
    Ending, Event, Measured, OwnMetric, Procedure, ProcedureError, Processes, Recorder, Stop,
};
use fathom_probes::REGISTRY;
use fathom_record::{
    Basis, Better, Cause, Counters, Disturbance, Document, Host, Interval, NotSelected, Params,
    Prediction, Reason, Record, RunState, Sample, State, Stratum, Summary, Tool, Unit, Verdict,
};

const METRIC: &str = "file.write.throughput";

#[derive(Default)]
struct Heard {
    begun: usize,
    blocks: Vec<usize>,
    /// The numbers of finished records, and whether they are drafts.
    finished: Vec<(usize, bool)>,
    document: Option<Document>,
    has_left: bool,
}

impl Audience for Heard {
    fn begins(&mut self, _: &Document, plan: Option<(&Plan, f64)>) {
        assert!(plan.is_none());
        self.begun += 1;
    }
    fn progress(&mut self, _: &CoordinatorProgress) {}
    fn measured(&mut self, records: &[Record]) {
        self.blocks.push(records.len());
    }
    fn finished(&mut self, document: &Document, records: &[Record], are_drafts: bool) {
        assert!(document.records.is_empty() && document.run.state == RunState::Running);
        self.finished.push((records.len(), are_drafts));
    }
    fn ends(&mut self, document: &Document) {
        self.document = Some(document.clone());
    }
    fn event(&mut self, _: Event<'_>) {
        self.has_left = true;
    }
    fn has_left(&self) -> bool {
        self.has_left
    }
}

struct SessionScript<F>(F, Ending);

impl<F: Fn(&mut dyn Recorder)> Procedure for SessionScript<F> {
    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        self.0(recorder);
        Ok(self.1)
    }
}

fn stop(by_person: bool) -> Stop {
    let flag = |on| Arc::new(AtomicBool::new(on));
    Stop::new(flag(by_person), flag(by_person), || std::process::exit(1))
}

fn run(
    earlier: Vec<Record>,
    by_person: bool,
    ending: Ending,
    procedure: impl Fn(&mut dyn Recorder),
) -> (Ending, Heard) {
    run_on(Host::default(), earlier, by_person, ending, procedure)
}

fn run_on(
    host: Host,
    earlier: Vec<Record>,
    by_person: bool,
    ending: Ending,
    procedure: impl Fn(&mut dyn Recorder),
) -> (Ending, Heard) {
    // On CPU 0 a wrong CPU would look right.
    let last = affinity::allowed().last().copied();
    last.map(affinity::pin).transpose().expect("an allowed CPU");
    let mut heard = Heard::default();
    let setup = SessionSetup {
        tool: Tool::fixture(),
        host,
        id: "0123456789abcdef".to_owned(),
        label: None,
        started: String::new(),
        // Begun five seconds ago.
        begun_ns: clock::monotonic_raw_ns() - 5_000_000_000,
        start_ns: None,
        path: "file write",
        asked: String::new(),
        watch: CalibrationWatch::of_kernel().expect("a clock"),
        stop: stop(by_person),
        earlier,
        imposed: Vec::new(),
    };
    let session = Session::new(&REGISTRY, setup, &mut heard);
    let ended = session.run(&SessionScript(procedure, ending), || "later".to_owned());
    (ended.expect("an ending"), heard)
}

fn measured(bytes: i64, values: &[f64]) -> Measured {
    let params = Params::one("bytes", bytes);
    Measured { metric: METRIC, params, values: values.to_vec(), ..Measured::default() }
}

#[test]
fn drafts_are_finished_but_not_of_the_run() {
    let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
        let mut drafts = |recorder: &mut dyn Recorder| {
            recorder.record(measured(1, &[1.0]));
            recorder.show();
            recorder.record(measured(2, &[1.0]));
        };
        recorder.draft(&mut drafts);
        recorder.draft(&mut |_| ());
        assert!(recorder.known().is_empty());
        recorder.record(measured(1, &[1.0, 2.0]));
        recorder.show();
        recorder.record(measured(2, &[1.0, 2.0]));
    });
    assert_eq!(heard.finished, [(2, true), (1, false), (1, false)]);
    assert_eq!(heard.blocks, [1, 1]);
    let document = heard.document.expect("it ended");
    let passes = document.records.iter().flat_map(|record| &record.summary).map(|it| it.n);
    assert_eq!(passes.collect::<Vec<u64>>(), [2, 2]);
}

#[test]
fn load_whose_seconds_nobody_reads_is_stopped() {
    let state = |event: Event<'static>, is_stopped: bool| {
        let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
            recorder.record(measured(1, &[1.0]));
            recorder.event(event);
            assert_eq!(recorder.stop().now().load(Relaxed), is_stopped);
        });
        heard.document.expect("it ended").run.state
    };
    assert_eq!(state(Event::Plan("plan"), false), RunState::Complete);
    let second = Box::leak(Box::default());
    assert_eq!(state(Event::Second(second), true), RunState::Interrupted);
}

#[test]
fn passes_are_the_values_of_one_process() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 60.0];
    let (ending, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
        let record = recorder.record(measured(1, &values));
        assert_eq!(recorder.known(), [record]);
        recorder.record(measured(2, &values));
        recorder.show();
        recorder.show();
        let fresh = Measured { in_fresh_processes: true, ..measured(3, &values) };
        recorder.record(fresh);
        let interval = Some(Interval::new([6.0, 8.0], 0.95, Basis::WithinRun));
        recorder.record(Measured { headline: Some((7.0, interval)), ..measured(4, &values) });
        recorder.set_seed(9);
    });
    let document = heard.document.expect("it ended");
    assert_eq!((ending, heard.begun, heard.blocks), (Ending::Done, 1, vec![2, 2]));
    let run = &document.run;
    assert_eq!((run.planned, run.seed, run.state), (4, 9, RunState::Complete));
    assert_eq!(
        (run.ended.as_deref(), run.asked.as_slice()),
        (Some("later"), ["file write".to_owned()].as_slice())
    );
    let duration = run.duration_ns.expect("a duration");
    assert!(duration >= 5e9, "since the session began: {duration}");
    assert_eq!(Some(run.cpu), affinity::allowed().first().copied());
    let summary = |at: usize| document.records[at].summary.as_ref().expect("values");
    let samples = |at: usize| document.records[at].samples.as_ref().expect("kept");
    assert_eq!((summary(0).median, summary(0).processes, summary(0).n), (3.5, 1, 6));
    assert_eq!((samples(0)[0].values.as_slice(), samples(0)[0].cpu), (&values[..], run.cpu));
    assert_eq!((summary(2).processes, samples(2).len()), (6, 6));
    let processes: Vec<u32> = samples(2).iter().map(|sample| sample.process).collect();
    assert_eq!((processes, samples(2)[5].values.as_slice()), (vec![0, 1, 2, 3, 4, 5], &[60.0][..]));
    assert_eq!((summary(3).median, summary(3).limits()), (7.0, Some([6.0, 8.0])));
    assert_eq!(summary(3).process_medians, [7.0]);
    let visits: Vec<&str> = document.records.iter().map(|it| it.visit.as_str()).collect();
    let id = "0123456789abcdef";
    assert_eq!(
        visits,
        [format!("{id}/0"), format!("{id}/0"), format!("{id}/2"), format!("{id}/2")]
    );
    assert!(document.records.iter().all(Record::is_intact));
}

/// One process of all, or all: what waited for a CPU is not what no counter explains.
#[test]
fn contention_of_each_process_is_judged() {
    let spread = [1.0, 2.0, 3.0, 4.0, 5.0];
    let waited = Disturbance {
        wall_ns: 100_000_000,
        cpu_ns: 9_000_000,
        run_queue_ns: Some(91_000_000),
        ..Disturbance::default()
    };
    let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
        let fresh = |processes: usize| Measured {
            in_fresh_processes: true,
            disturbance: vec![waited.clone(); processes],
            ..measured(1, &spread)
        };
        recorder.record(Measured { disturbance: vec![waited.clone()], ..measured(1, &[1.0; 5]) });
        recorder.record(fresh(spread.len()));
        recorder.record(fresh(1));
    });
    let records = heard.document.expect("it ended").records;
    let first = |at: usize| records[at].verdict.reasons[0].text.as_str();
    assert_eq!((first(0), first(1)), ("CPU contention 91 %", "CPU contention 91 %"));
    assert!(first(2).contains("not explained by CPU contention 91 % in 1 of 5"), "{}", first(2));
    assert!(records.iter().all(|record| record.verdict.state == State::Noisy));
    assert_eq!(records[1].disturbance.run_queue_ns, Some(5 * 91_000_000), "their sum");
}

#[test]
fn earlier_records_are_known_and_not_stored() {
    let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
        recorder.record(measured(1, &[5.0]));
    });
    let earlier = heard.document.expect("it ended").records;
    let (_, heard) = run(earlier.clone(), false, Ending::Done, |recorder| {
        assert_eq!(recorder.known().len(), 1);
        recorder.record(measured(2, &[6.0]));
        assert_eq!(recorder.known().len(), 2);
    });
    let document = heard.document.expect("it ended");
    assert_eq!((document.records.len(), document.run.planned, heard.blocks), (1, 1, vec![1]));
    assert_eq!(document.records[0].visit, "0123456789abcdef/0");
    // Nothing of its own: nothing is stored, unless it is done.
    let (ending, heard) = run(earlier.clone(), false, Ending::Stopped, |_| {});
    assert!(ending == Ending::Stopped && heard.document.is_none() && heard.begun == 0);
    let (ending, heard) = run(earlier, false, Ending::NotFound, |_| {});
    assert!(ending == Ending::NotFound && heard.document.is_some() && heard.blocks.is_empty());
}

#[test]
fn interrupted_procedure_is_marked() {
    let (ending, heard) = run(Vec::new(), true, Ending::Done, |recorder| {
        recorder.record(measured(1, &[5.0, 6.0]));
        recorder.record(measured(2, &[]));
    });
    let document = heard.document.expect("it ended");
    assert_eq!((ending, document.run.state), (Ending::Stopped, RunState::Interrupted));
    let verdict = |at: usize| {
        let verdict = &document.records[at].verdict;
        (verdict.state, verdict.reasons[0].cause, verdict.reasons[0].text.as_str())
    };
    assert_eq!(verdict(0), (State::Noisy, Cause::Interrupted, "stopped before its end"));
    let text = "stopped before its first value";
    assert_eq!(verdict(1), (State::Unavailable, Cause::Interrupted, text));
}

#[test]
fn numbers_of_an_emulated_cpu_are_marked() {
    let host = Host { emulation: Some("tcg".to_owned()), ..Host::default() };
    let (_, heard) = run_on(host, Vec::new(), false, Ending::Done, |recorder| {
        let prediction = Some(Prediction { value: Some(5.0), ..Prediction::default() });
        recorder.record(Measured { prediction, ..measured(1, &[5.0; 3]) });
        let verdict = Some(Verdict::default());
        let text = Some("present, writable".to_owned());
        recorder.record(Measured { text, verdict, ..measured(2, &[]) });
    });
    let records = heard.document.expect("it ended").records;
    let verdict = &records[0].verdict;
    assert_eq!((verdict.state, verdict.is_emulated()), (State::Noisy, true));
    assert!(records[0].prediction.is_some() && records[0].agreement.is_none());
    assert!(records[0].is_intact());
    assert_eq!(records[1].verdict, Verdict::default(), "a text holds");
}

#[test]
fn doubts_make_noisy_and_remarks_do_not() {
    let reason = |text: &str| Reason::new(Cause::MissingInput, text);
    let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
        let values = [5.0; 3];
        recorder.record(Measured { doubts: vec![reason("doubt")], ..measured(1, &values) });
        recorder.record(Measured { remarks: vec![reason("limit")], ..measured(2, &values) });
        let verdict = Some(Verdict::because(State::Failed, Cause::WrongWork, "own"));
        let doubts = vec![reason("doubt")];
        let remarks = vec![reason("limit")];
        recorder.record(Measured { verdict, doubts, remarks, ..measured(3, &values) });
        let prediction = Some(Prediction { value: Some(7.0), ..Prediction::default() });
        recorder.record(Measured { prediction, ..measured(4, &values) });
        recorder.event(Event::Plan("plan"));
    });
    let document = heard.document.expect("it ended");
    let found = |at: usize| {
        let verdict = &document.records[at].verdict;
        let texts: Vec<&str> = verdict.reasons.iter().map(|it| it.text.as_str()).collect();
        (verdict.state, texts)
    };
    assert_eq!(found(0), (State::Noisy, vec!["doubt"]));
    assert_eq!(found(1), (State::Valid, vec!["limit"]));
    assert_eq!(found(2), (State::Failed, vec!["own"]));
    let prediction = document.records[3].prediction.as_ref();
    assert_eq!(prediction.and_then(|it| it.value), Some(7.0));
    assert_eq!(heard.begun, 1, "before the plan");
}

/// Twenty processes of a command, every other one beside a busy sibling.
fn command(selection: Result<(), NotSelected>, subtracted_half_width: f64) -> Measured {
    let sample = |process: u32| {
        let times = f64::from(1 + process % 2);
        Sample {
            process,
            batch: 1,
            values: vec![1e6 * times + f64::from(process)],
            values_per_round: 1,
            reference_ns: vec![10_000.0 * times; 2],
            frequency_ns: vec![10_000.0; 2],
            ..Sample::default()
        }
    };
    let idle = Loop { sibling_ns: 10_000.0, frequency_ns: 10_000.0 };
    let states = Some(CoreStates { idle, reported: Stratum::ToItself, visits: [10, 0, 10] });
    let samples = (0..20).map(sample).collect();
    let own = OwnMetric {
        id: "bench.x".to_owned(),
        title: "x".to_owned(),
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        expects: Counters::NONE,
        noise_limit: 0.05,
    };
    let processes = Processes { samples, selection, states, subtracted_half_width };
    Measured { own: Some(own), processes: Some(processes), ..Measured::default() }
}

#[test]
fn processes_of_an_own_metric_are_selected_where_that_is_allowed() {
    let summary = |selection, half_width| -> Summary {
        let (_, heard) = run(Vec::new(), false, Ending::Done, |recorder| {
            recorder.record(command(selection, half_width));
        });
        let record = heard.document.expect("a document").records.swap_remove(0);
        assert_eq!((record.metric.as_str(), record.title.as_str()), ("bench.x", "x"));
        assert!(record.prediction.is_none() && record.no_model.is_none() && record.is_intact());
        assert_eq!(record.samples.expect("samples").len(), 20);
        record.summary.expect("a summary")
    };
    let selected = summary(Ok(()), 0.0);
    assert_eq!((selected.stratum, selected.median), (Stratum::ToItself, 1e6 + 9.0));
    assert_eq!(selected.in_state.map(|it| (it.visits, it.of)), Some((10, 20)));
    assert_eq!(selected.as_found.map(|it| it.visits), Some(20));
    let found = summary(Err(NotSelected::NotPinned), 0.0);
    assert_eq!((found.n, found.not_selected), (20, Some(NotSelected::NotPinned)));
    // What was subtracted is as uncertain as its interval says.
    let [low, high] = selected.interval.expect("an interval").limits();
    let wide = summary(Ok(()), 40.0).interval.expect("an interval");
    let median = selected.median;
    let expected = [median - (median - low).hypot(40.0), median + (high - median).hypot(40.0)];
    assert_eq!(wide.limits(), expected);
}
