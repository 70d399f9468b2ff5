//! Histories of a metric.

use fathom_analysis::history::{History, HistorySeries, history};
use fathom_record::{
    Cause, Document, Effort, Estimate, FarHost, Host, Outline, Params, Record, Reference,
    ReferenceBasis, State, Stratum, Unit, Verdict,
};

use super::runs::{bare, record, summary};

/// A run with two cases.
fn document(number: usize, host: &str, kernel: &str, value: f64) -> Document {
    let mut document = bare(number);
    (document.host.name, document.host.kernel) = (host.to_owned(), kernel.to_owned());
    let call = |name: &str, times: f64| Record {
        params: Params::one("call", name),
        ..record("os.syscall", Unit::Nanoseconds, value * times, 5)
    };
    document.records = vec![call("getppid", 1.0), call("stat", 4.0)];
    document
}

/// Ten runs with one kernel, and ten with another, 10 % slower.
fn stepped() -> Vec<Document> {
    let wobble = |number: usize| ((number * 7) % 5) as f64 * 0.2;
    let one = |number: usize| match number {
        0..10 => document(number, "here", "6.1", 100.0 + wobble(number)),
        _ => document(number, "here", "6.18", 110.0 + wobble(number)),
    };
    (0..20).map(one).collect()
}

fn history_of(host: &str, documents: &[Document]) -> History {
    let runs: Vec<Outline> = documents.iter().map(Outline::from).collect();
    history("os.syscall", host, &runs, &|_| true)
}

#[test]
fn change_has_run_size_and_differences() {
    let history = history_of("here", &stepped());
    assert_eq!(history.series.len(), 2);
    for series in &history.series {
        let [change] = series.changes.as_slice() else { panic!("{:?}", series.changes) };
        assert_eq!(change.run, format!("{:016x}", 10));
        assert!((change.ratio - 1.1).abs() < 0.01 && change.worse == Some(true));
        let [kernel] = change.differences.as_slice() else { panic!("{:?}", change.differences) };
        assert_eq!((kernel.what.as_str(), kernel.b.as_str()), ("kernel", "6.18"));
    }
}

#[test]
fn hosts_are_never_pooled_and_the_others_are_named() {
    let mut documents = stepped();
    documents.extend((20..26).map(|number| document(number, "elsewhere", "6.1", 500.0)));
    let here = history_of("here", &documents);
    assert_eq!(here.series[0].points.len(), 20);
    assert_eq!(here.other_hosts, ["elsewhere"]);
    let there = history_of("elsewhere", &documents);
    assert!(there.series[0].changes.is_empty() && there.series[0].points.len() == 6);
}

#[test]
fn hosts_with_one_name_have_two_histories() {
    let mut documents = stepped();
    for (number, document) in documents.iter_mut().enumerate() {
        document.host.id = Some(if number % 2 == 0 { "aaaaaaaa00" } else { "bbbbbbbb00" }.into());
    }
    let one = history_of("aaaaaaaa00", &documents);
    assert_eq!((one.host.as_str(), one.host_id.as_str()), ("here (aaaaaaaa)", "aaaaaaaa00"));
    assert_eq!(one.series[0].points.len(), 10);
    assert_eq!(one.other_hosts, ["here (bbbbbbbb)"]);
}

#[test]
fn renamed_host_has_one_history() {
    let mut documents = stepped();
    for (number, document) in documents.iter_mut().enumerate() {
        document.host.id = Some("aaaaaaaa00".to_owned());
        document.host.name = if number < 10 { "old" } else { "new" }.to_owned();
    }
    let history = history_of("aaaaaaaa00", &documents);
    assert_eq!((history.host.as_str(), history.series[0].points.len()), ("new", 20));
    let named: Vec<&str> =
        history.series[0].changes[0].differences.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(named, ["host name", "kernel"]);
    assert_eq!(history.other_hosts, [""; 0]);
}

#[test]
fn invalid_values_and_imposed_runs_make_no_change() {
    let mut documents = stepped();
    for document in &mut documents[3..5] {
        document.records[0].verdict.state = State::Invalid;
        summary(document).median = 9000.0;
    }
    documents[7].run.imposed.push("FATHOM_SPIN=os.syscall=40%".to_owned());
    let history = history_of("here", &documents);
    assert_eq!(history.imposed, [documents[7].run.id.clone()]);
    let series = &history.series[0];
    assert_eq!(series.points.iter().filter(|point| point.value.is_none()).count(), 2);
    assert_eq!(series.changes.len(), 1);
    assert_eq!(series.changes[0].run, format!("{:016x}", 10));
}

#[test]
fn runs_with_an_emulated_end_are_left_out() {
    let mut documents = stepped();
    documents[6].host.emulation = Some("tcg".to_owned());
    let mut far = FarHost { name: "there".to_owned(), host: Host::default(), clock: None };
    far.host.emulation = Some("tcg".to_owned());
    documents[8].far.push(far);
    let count = documents.len();
    let points = |history: &History| history.series[0].points.len();
    let history = history_of("here", &documents);
    assert_eq!(history.emulated, [documents[6].run.id.clone()]);
    assert_eq!(points(&history), count - 1, "the far end of another case");
    documents[8].records[0].params = Params::one("to", "there");
    let history = history_of("here", &documents);
    assert_eq!(history.emulated.len(), 2);
    assert_eq!(points(&history), count - 2);
    assert!(history.series.iter().all(|series| series.params.text("to").is_none()));
}

#[test]
fn bounds_make_no_change() {
    let mut documents = stepped();
    for (number, document) in documents.iter_mut().enumerate() {
        let median = if number < 10 { -0.5 } else { 2600.0 };
        (summary(document).median, summary(document).bound) = (median, Some(2600.0));
    }
    let series = &history_of("here", &documents).series[0];
    assert!(series.changes.is_empty());
    assert!(series.points.iter().all(|it| (it.value, it.bound) == (None, Some(2600.0))));
}

#[test]
fn value_of_an_interrupted_case_is_left_out() {
    let mut documents = stepped();
    documents[6].records[0].verdict = Verdict::because(State::Noisy, Cause::Interrupted, "2 of 5");
    let points = &history_of("here", &documents).series[0].points;
    assert!(points[6].cut_short && points[6].value.is_none() && points[5].value.is_some());
}

#[test]
fn far_ends_of_one_name_are_two_series() {
    let mut documents = stepped();
    for (number, document) in documents.iter_mut().enumerate() {
        document.records[0].params = Params::one("to", "bench-4");
        let id = if number < 10 { "aaaaaaaa0000" } else { "bbbbbbbb0000" };
        document.far[0].host.id = Some(id.to_owned());
    }
    let history = history_of("here", &documents);
    let of_far = |it: &HistorySeries| Some((it.far.clone()?, it.points.len(), it.changes.len()));
    let series: Vec<_> = history.series.iter().filter_map(of_far).collect();
    let of_host = |id: &str| (format!("bench-4 ({id})"), 10, 0);
    assert_eq!(series, [of_host("aaaaaaaa"), of_host("bbbbbbbb")], "another host is no change");
}

/// Too few undisturbed visits in one run must not look like a change of the metric.
#[test]
fn series_never_mixes_strata() {
    let mut documents = stepped();
    for document in &mut documents {
        let summary = summary(document);
        let as_found = Estimate { median: 2.0 * summary.median, ..Estimate::default() };
        (summary.stratum, summary.as_found) = (Stratum::ToItself, Some(as_found));
    }
    let first = |documents: &[Document]| {
        let series = history_of("here", documents).series.remove(0);
        (series.stratum, series.points[0].value, series.points[15].value, series.changes.len())
    };
    assert_eq!(first(&documents), (Stratum::ToItself, Some(100.0), Some(110.0), 1));
    let one = summary(&mut documents[15]);
    (one.stratum, one.median) = (Stratum::AsFound, 220.0);
    assert_eq!(first(&documents), (Stratum::ToItself, Some(100.0), Some(220.0), 1));
    assert!(history_of("here", &documents).series[0].points[15].slow, "left out");
    // Invalid runs do not affect the stratum.
    documents[15].records[0].verdict.state = State::Invalid;
    assert_eq!(first(&documents), (Stratum::ToItself, Some(100.0), None, 1));
}

/// Runs at full speed with these values, all twice as slow unfiltered.
fn at_full_speed(values: impl IntoIterator<Item = f64>) -> Vec<Document> {
    let one = |(number, value)| {
        let mut document = document(number, "here", "6.1", value);
        let summary = summary(&mut document);
        let as_found = Estimate { median: 2.0 * value, ..Estimate::default() };
        (summary.stratum, summary.as_found) = (Stratum::ToItself, Some(as_found));
        document
    };
    values.into_iter().enumerate().map(one).collect()
}

fn wobbling(number: usize) -> f64 {
    100.0 + ((number * 7) % 5) as f64 * 0.2
}

/// Makes a run unfiltered only, this much slower than the others are unfiltered.
fn slow_down(document: &mut Document, times: f64) {
    let summary = summary(document);
    let found = summary.as_found.as_mut().expect("an estimate");
    found.median *= times;
    (summary.stratum, summary.median) = (Stratum::AsFound, found.median);
}

fn changes(documents: &[Document]) -> Vec<(String, bool)> {
    let series = history_of("here", documents).series.remove(0);
    series.changes.into_iter().map(|change| (change.run, change.as_found)).collect()
}

#[test]
fn slow_spell_is_left_out_of_the_detection() {
    let mut documents = at_full_speed((0..20).map(wobbling));
    documents[8..13].iter_mut().for_each(|one| slow_down(one, 1.3));
    assert!(changes(&documents).is_empty());
    let series = history_of("here", &documents).series.remove(0);
    assert_eq!(series.stratum, Stratum::ToItself);
    assert_eq!(series.points.iter().filter(|point| point.slow).count(), 5);
}

#[test]
fn core_that_stays_slow_is_a_change() {
    for slow in [3, 6, 14] {
        let mut documents = at_full_speed((0..20).map(wobbling));
        documents[20 - slow..].iter_mut().for_each(|one| slow_down(one, 1.3));
        let first = format!("{:016x}", 20 - slow);
        // With fewer than half of the runs at full speed, the whole series is unfiltered.
        assert_eq!(changes(&documents), [(first, slow < 10)], "{slow}");
    }
}

#[test]
fn efforts_are_separate_series() {
    let mut documents = stepped();
    documents[10..].iter_mut().for_each(|one| one.run.effort = Effort::Thorough);
    let history = history_of("here", &documents);
    assert_eq!(history.series.len(), 4);
    assert!(history.series.iter().all(|one| one.points.len() == 10 && one.changes.is_empty()));
}

/// The reference loop of each run takes this many times as long.
fn with_core(mut documents: Vec<Document>, times: impl Fn(usize) -> f64) -> Vec<Document> {
    for (number, document) in documents.iter_mut().enumerate() {
        let (frequency_ns, basis) = (8_600.0 * times(number), ReferenceBasis::ThisRun);
        let loop_ns = frequency_ns;
        document.run.reference = Some(Reference {
            loop_ns,
            frequency_ns,
            basis,
            visits: 5,
            clean: 5,
            ..Reference::default()
        });
    }
    documents
}

#[test]
fn wandering_core_frequency_is_no_change() {
    let core = |number: usize| if (6..14).contains(&number) { 1.03 } else { 1.0 };
    let values = |with: f64| {
        at_full_speed((0..20).map(move |at| wobbling(at) * (1.0 + with * (core(at) - 1.0))))
    };
    assert_eq!(changes(&values(1.0)).len(), 2, "without a reference");
    // Of the cycles of the metric, all or half are of the core.
    for share in [1.0, 0.5] {
        let documents = with_core(values(share), core);
        assert!(changes(&documents).is_empty(), "{share}");
        assert_eq!(history_of("here", &documents).series[0].explained, 2);
    }
    // The core explains neither a larger change nor one in the other direction.
    assert_eq!(changes(&with_core(values(2.0), core)).len(), 2);
    assert_eq!(changes(&with_core(values(-1.0), core)).len(), 2);
    // A frequency that is lower by more than it wanders is a change.
    let slow = |number: usize| if number < 10 { 1.0 } else { 1.2 };
    let documents = at_full_speed((0..20).map(|at| wobbling(at) * slow(at)));
    assert_eq!(changes(&with_core(documents, slow)).len(), 1);
}
