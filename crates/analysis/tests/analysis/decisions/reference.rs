//! Runs beside published figures.

use fathom_analysis::reference::{
    Beneath, Beside, Missing, Published, StudyFigure, StudyReference, beside,
};
use fathom_record::summary::Trimmed;
use fathom_record::{
    Basis, Cause, Document, Interval, MetricId, Params, Prediction, Protocol, Record, State, Unit,
    Value, Verdict,
};

use super::runs::{bare, record, run, summary};

fn published(metric: &str, measured: f64) -> Published {
    Published {
        operation: None,
        metric: MetricId::new(metric),
        params: Params::none(),
        unit: Unit::Nanoseconds,
        hardware: None,
        software: None,
        predicted: None,
        measured: StudyFigure::Number(measured),
        sd_percent: None,
        protocol: None,
        note: None,
        unlike: None,
    }
}

fn study(record: Vec<Published>) -> StudyReference {
    StudyReference {
        name: "study".to_owned(),
        title: String::new(),
        machine: String::new(),
        protocol: String::new(),
        note: None,
        not_measured: vec![MetricId::new("gone")],
        record,
    }
}

/// A run against a figure of 50 ns for its metric.
fn with(change: impl FnOnce(&mut Document)) -> Beside {
    let mut run = run(1, 100.0, 5);
    change(&mut run);
    beside(&study(vec![published("x", 50.0)]), &[run])
}

fn missing(change: impl FnOnce(&mut Document)) -> Option<Missing> {
    let beside = with(change);
    assert_eq!((beside.rows.len(), &beside.rows[0].here), (1, &None));
    beside.rows[0].missing.clone()
}

#[test]
fn run_has_value_deviation_and_ratio() {
    let change = |run: &mut Document| {
        let summary = summary(run);
        (summary.n, summary.sd, summary.mean) = (60, 3.0, -120.0);
        summary.interval = Some(Interval::new([99.0, 101.0], 0.95, Basis::Processes));
        summary.trimmed = Some(Trimmed { n: 10, trials: 16, mean: 80.0, sd: 2.0, se: 0.1 });
        run.records[0].prediction = Some(Prediction {
            hardware: Some(70.0),
            software: Some(20.0),
            value: Some(90.0),
            ..Prediction::default()
        });
    };
    let row = with(change).rows.remove(0);
    let here = row.here.expect("a figure");
    assert_eq!((here.measured, here.is_bound, row.ratio), (100.0, false, Some(2.0)));
    assert_eq!((here.sd_percent, here.interval), (Some(2.5), Some([99.0, 101.0])));
    assert_eq!((here.hardware, here.from_results), (Some(70.0), None));
    assert_eq!((here.predicted, row.missing), ([Some(90.0); 2], None));
    let row = with(|run| {
        change(run);
        run.run.protocol = Protocol::Trimmed;
        let prediction = run.records[0].prediction.as_mut().expect("set");
        (prediction.low, prediction.high) = (Some(80.0), None);
    });
    let here = row.rows[0].here.as_ref().expect("a figure");
    assert_eq!((here.measured, here.sd_percent), (80.0, Some(2.5)));
    assert_eq!(here.predicted, [Some(80.0), None]);
}

#[test]
fn deviation_needs_two_values_and_a_mean() {
    let sd_percent = |n, mean, protocol, is_bound: bool| {
        let beside = with(|run| {
            run.run.protocol = protocol;
            let summary = summary(run);
            (summary.n, summary.sd, summary.mean) = (n, 1.0, mean);
            summary.bound = is_bound.then_some(3.0);
        });
        beside.rows[0].here.as_ref().and_then(|here| here.sd_percent)
    };
    assert_eq!(sd_percent(2, 100.0, Protocol::Median, false), Some(1.0));
    assert_eq!(sd_percent(1, 100.0, Protocol::Median, false), None);
    assert_eq!(sd_percent(2, 0.0, Protocol::Median, false), None);
    assert_eq!(sd_percent(2, 100.0, Protocol::Trimmed, false), None, "without a trimmed mean");
    assert_eq!(sd_percent(2, 100.0, Protocol::Median, true), None, "of a bound");
}

#[test]
fn missing_figures_have_a_reason() {
    let no_number = |why: &str| Some(Missing::NoNumber(why.to_owned()));
    let state = |state| {
        move |run: &mut Document| {
            run.records[0].verdict = Verdict::because(state, Cause::WrongWork, "");
        }
    };
    assert_eq!(missing(state(State::Invalid)), no_number("invalid"));
    let unavailable = Missing::Unavailable("unavailable".to_owned());
    assert_eq!(missing(state(State::Unavailable)), Some(unavailable));
    let emulate = |run: &mut Document| {
        run.records[0].verdict = Verdict::because(State::Noisy, Cause::Emulated, "");
    };
    assert_eq!(missing(emulate), no_number("emulated"));
    assert_eq!(
        missing(|run| run.records[0].value = Some(Value::Text("7".into()))),
        no_number("no number")
    );
    let unit = Missing::OtherUnit("ns published, bytes here".to_owned());
    assert_eq!(missing(|run| run.records[0].unit = Unit::Bytes), Some(unit.clone()));
    assert_eq!(missing(|run| run.records.clear()), Some(Missing::NotInRun));
    let unlike = Published { unlike: Some("a loop".to_owned()), ..published("x", 1.0) };
    let study =
        study(vec![unlike, published("gone", 1.0), published("x", 1.0), published("y", 1.0)]);
    let mut run = run(1, 100.0, 5);
    run.records[0].unit = Unit::Bytes;
    let beside = beside(&study, std::slice::from_ref(&run));
    let reasons: Vec<_> = beside.rows.iter().filter_map(|row| row.missing.clone()).collect();
    let unlike = Missing::Unlike("a loop".to_owned());
    assert_eq!(reasons, [unlike, Missing::NotMeasured, unit, Missing::NotInRun]);
}

#[test]
fn upper_bound_has_no_ratio() {
    let beside = with(|run| summary(run).bound = Some(3.0));
    let here = beside.rows[0].here.as_ref().expect("a bound");
    assert_eq!((here.measured, here.is_bound, beside.rows[0].ratio), (3.0, true, None));
}

#[test]
fn first_run_with_a_number_gives_the_rows() {
    let case = |bytes: i64, median| Record {
        params: Params::one("bytes", bytes),
        ..record("x", Unit::Nanoseconds, median, 5)
    };
    let mut failed = case(1, 100.0);
    failed.verdict = Verdict::because(State::Failed, Cause::WrongWork, "");
    let runs = [
        bare(1),
        Document { records: vec![failed], ..bare(2) },
        Document { records: vec![case(1, 100.0), case(2, 200.0)], ..bare(3) },
        Document { records: vec![case(4, 400.0)], ..bare(4) },
    ];
    let figures = || vec![published("x", 50.0)];
    let values = |runs: &[Document]| {
        let rows = beside(&study(figures()), runs).rows;
        rows.iter().map(|row| row.here.as_ref().map(|it| it.measured)).collect::<Vec<_>>()
    };
    assert_eq!(values(&runs), [Some(100.0), Some(200.0)]);
    assert_eq!(values(&runs[..2]), [None], "without a number the first run with the case");
    let study = StudyReference {
        record: [
            figures(),
            vec![
                published("gone", 1.0),
                Published { unlike: Some(String::new()), ..published("x", 1.0) },
            ],
        ]
        .concat(),
        ..study(Vec::new())
    };
    let beneath = Beneath::from_reference(&study, &runs);
    let json = serde_json::to_value(&beneath).expect("JSON");
    let figures = json["figures"].as_array().expect("a list");
    assert_eq!(figures.len(), 1, "neither other work nor a metric that is gone");
    assert_eq!(figures[0]["like"], serde_json::json!([[], [0], [0, 1], [0]]));
    assert!(beneath.touches(&runs) && !beneath.touches(&runs[..1]));
    let other_unit = Document { records: vec![record("x", Unit::Bytes, 1.0, 5)], ..bare(5) };
    let json = serde_json::to_value(Beneath::from_reference(&study, &[other_unit])).expect("JSON");
    assert_eq!(json["figures"][0]["like"], serde_json::json!([[]]));
    let other_metric = [Document { records: vec![record("y", Unit::Bytes, 1.0, 5)], ..bare(6) }];
    assert!(!beneath.touches(&other_metric));
}
