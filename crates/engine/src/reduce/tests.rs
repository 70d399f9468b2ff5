//! Reduction of samples, predictions and verdicts.

use fathom_analysis::core_state::Loop;

use super::*;
use fathom_record::{Basis, Check, Interval, Params};

fn measured(metric: &str, median: f64, half: f64) -> Record {
    let mut record = Record::fixture(metric, Unit::Nanoseconds);
    let interval = Some(Interval::of_processes([median - half, median + half]));
    let estimate = Estimate { median, interval, visits: 5, of: 9, ..Estimate::default() };
    let found = Estimate { median: 2.0 * median, ..estimate.clone() };
    record.summary = Some(Summary {
        median,
        interval,
        stratum: Stratum::ToItself,
        in_state: Some(estimate),
        as_found: Some(found),
        ..Summary::default()
    });
    record
}

/// The model 10 (a + b).
fn sum(records: &[Record]) -> Result<Prediction, NoModel> {
    let known = Inputs::new(records);
    let inputs = ["a", "b"].map(|name| known.quantity(name, &Params::none()).unwrap());
    let sum = Prediction::sum(10.0 * inputs[0], 10.0 * inputs[1], 0.1, "10 (a + b)", "");
    let [a, b] = inputs;
    let sum = sum.with_result("a", a, Unit::Nanoseconds);
    Ok(sum.with_result("b", b, Unit::Nanoseconds))
}

#[test]
fn noisy_input_gives_no_expectation() {
    let mut records = [measured("a", 30.0, 3.0), measured("b", 10.0, 4.0)];
    assert!(from_undisturbed(sum(&records).unwrap(), &records).is_ok());
    records[1].verdict = Verdict::because(State::Noisy, Cause::Contention, "why");
    let none = from_undisturbed(sum(&records).unwrap(), &records);
    assert_eq!(none, Err(NoModel::NoisyInput { metric: "b".to_owned() }));
}

#[test]
fn limits_carry_the_intervals_of_their_inputs() {
    let mut records = [measured("a", 30.0, 3.0), measured("b", 10.0, 4.0)];
    let prediction = sum(&records).unwrap();
    let prediction = with_uncertainty(prediction, Stratum::ToItself, &mut records, &sum);
    // ± 30 and ± 40 of 400, in quadrature.
    assert!((prediction.uncertainty - 0.125).abs() < 1e-9, "{prediction:?}");
    assert_eq!(records[0].summary.as_ref().unwrap().median, 30.0, "restored");
    // Limits of 360 and 440 ± 12.5 %.
    let agreement = |low, high| prediction.agreement(Some([low, high]));
    assert_eq!(agreement(500.0, 510.0), Agreement::Outside);
    assert_eq!(agreement(450.0, 460.0), Agreement::Inconclusive);
}

#[test]
fn prediction_and_measurement_have_one_stratum() {
    let mut results = Results::default();
    [measured("a", 30.0, 1.0), measured("b", 10.0, 1.0)]
        .into_iter()
        .for_each(|it| results.push(it));
    let of = |record: &Record, results: &mut Results| {
        let prediction = predicted(record, results, &sum).unwrap();
        (prediction.stratum, prediction.value)
    };
    let record = measured("c", 400.0, 1.0);
    assert_eq!(of(&record, &mut results), (Stratum::ToItself, Some(400.0)));
    assert_eq!(of(&record.clone().as_found(), &mut results), (Stratum::AsFound, Some(800.0)));
    results.records[1] = results.records[1].clone().as_found();
    assert_eq!(of(&record, &mut results), (Stratum::AsFound, Some(800.0)), "an input is");
}

#[test]
fn wrong_work_in_an_unselected_visit_is_invalid() {
    let mut record = measured("a", 30.0, 1.0);
    let (summary, clean) = (record.summary.take(), [Sample::default()]);
    let wrong = Check { name: "bytes".to_owned(), passed: false, detail: "9 of 10".to_owned() };
    let samples = [Sample::default(), Sample { checks: vec![wrong], ..Sample::default() }];
    let headline = HeadlineSamples { summary, samples: &clean, states: None, drift: 0.0 };
    let about = fathom_probes::REGISTRY.entries()[0].about();
    fill(&mut record, about, &samples, headline, (false, 0.0));
    assert_eq!(record.verdict.state, State::Invalid);
}

#[test]
fn slow_core_makes_an_outside_inconclusive() {
    let prediction = Prediction::sum(100.0, 0.0, 0.1, "", "");
    let mut record = measured("a", 220.0, 1.0).as_found();
    let mut agreement = |loops: f64| {
        let summary = record.summary.as_mut().unwrap();
        let found = Estimate { process_loops: vec![loops; 5], ..Estimate::default() };
        let interval = Some(Interval::new([219.0, 221.0], 0.9375, Basis::Processes));
        summary.as_found = Some(Estimate { median: 220.0, interval, ..found });
        let idle = Loop { sibling_ns: 9_000.0, frequency_ns: 9_000.0 };
        let states = CoreStates { idle, reported: Stratum::Shared, visits: [0, 0, 5] };
        let prediction = Ok(prediction.clone());
        set_prediction(&mut record, prediction, Counters::NONE, Some(&states));
        record.agreement
    };
    assert_eq!(agreement(9_000.0), Some(Agreement::Outside), "the core was fast");
    assert_eq!(agreement(17_000.0), Some(Agreement::Outside), "1.9 times is too little");
    assert_eq!(agreement(18_500.0), Some(Agreement::Inconclusive));
}

/// A record of five samples of 1999 ns, each changed, with loops in both estimates.
fn filled(about: &About, change: impl Fn(&mut Sample), kind: (bool, f64)) -> Record {
    let mut samples = vec![Sample { batch: 1, values: vec![1_999.0], ..Sample::default() }; 5];
    samples.iter_mut().for_each(change);
    let estimate = Estimate { process_loops: vec![1.0; 5], ..Estimate::default() };
    let summary = statistics::summarise(&samples).map(|summary| Summary {
        in_state: Some(estimate.clone()),
        as_found: Some(estimate),
        quantiles: vec![fathom_record::summary::Quantile { q: 0.9, value: 1.0 }],
        ..summary
    });
    let headline = HeadlineSamples { summary, samples: &samples, states: None, drift: 0.0 };
    let mut record = measured("a", 1.0, 1.0);
    fill(&mut record, about, &samples, headline, kind);
    record
}

#[test]
fn short_single_operations_show_the_clock() {
    let about = About { unit: Unit::Nanoseconds, expects: Counters::NONE, ..About::BASE };
    let floor = |change: fn(&mut Sample), read_ns| {
        filled(&about, change, (false, read_ns)).summary.unwrap().clock_floor
    };
    assert_eq!(floor(|_| {}, 20.0), Some(20.0));
    assert_eq!(floor(|_| {}, 19.99), None, "100 clock reads");
    assert_eq!(floor(|sample| sample.batch = 2, 20.0), None);
}

#[test]
fn subtracted_overheads_are_noted() {
    let about = About { unit: Unit::Nanoseconds, expects: Counters::NONE, ..About::BASE };
    let notes = |change: fn(&mut Sample)| filled(&about, change, (false, 0.0)).notes;
    assert_eq!(notes(|sample| sample.overhead_ns = 7.0), [""; 0], "single operations have none");
    let text = "overhead of 7 ns per batch subtracted (clock, call)";
    assert_eq!(notes(|it| (it.batch, it.overhead_ns) = (2, 7.0)), [text]);
    assert_eq!(notes(|it| (it.batch, it.overhead_ns) = (2, 0.5)).len(), 1);
    assert_eq!(notes(|it| (it.batch, it.overhead_ns) = (2, 0.4)), [""; 0]);
    let text = "twin loop of 1.5 ns per operation subtracted";
    assert_eq!(notes(|sample| sample.twin_ns = Some(1.5)), [text]);
}

#[test]
fn summary_keeps_what_applies_to_the_metric() {
    let has = |unit, expects, is_difference| {
        let about = About { unit, expects, ..About::BASE };
        let summary = filled(&about, |_| {}, (is_difference, 0.0)).summary.unwrap();
        let of = |estimate: Option<Estimate>| !estimate.unwrap().process_loops.is_empty();
        let loops = (of(summary.in_state), of(summary.as_found));
        (loops, !summary.quantiles.is_empty(), summary.bound.is_some())
    };
    let none = Counters::NONE;
    assert_eq!(has(Unit::Nanoseconds, none, false), ((true, true), true, false));
    assert_eq!(has(Unit::BytesPerSecond, none, false), ((true, true), false, false));
    assert_eq!(has(Unit::Hertz, none, false), ((false, false), false, false));
    let device = Counters::DEVICE;
    assert_eq!(has(Unit::Nanoseconds, device, false), ((false, false), true, false));
    let about = About { unit: Unit::Nanoseconds, expects: none, ..About::BASE };
    let scattered = |sample: &mut Sample| sample.values = vec![-1.0];
    let bound =
        |is_difference| filled(&about, scattered, (is_difference, 0.0)).summary.unwrap().bound;
    assert_eq!(bound(false), None);
    assert!(bound(true).is_some_and(|ns| ns < 1e-5), "{:?}", bound(true));
}

#[test]
fn failed_checks_and_far_ends_are_named() {
    let about = About { unit: Unit::Nanoseconds, expects: Counters::NONE, ..About::BASE };
    let check = |passed| Check { name: "echoes".into(), passed, detail: "9 of 9".into() };
    let record = filled(&about, |it| it.checks = vec![check(true)], (false, 0.0));
    assert_eq!(record.checks["echoes"], "9 of 9");
    let record = filled(&about, |it| it.checks = vec![check(false)], (false, 0.0));
    assert_eq!(record.checks["echoes"], "FAILED: 9 of 9");
    assert_eq!(record.verdict.state, State::Invalid);
}

#[test]
fn early_end_is_noted_before_all_processes() {
    let reasons = |processes, state, offline| {
        let mut record = measured("a", 30.0, 1.0);
        record.verdict.state = state;
        note_early_end(&mut record, processes, 5, offline);
        let texts: Vec<String> =
            record.verdict.reasons.into_iter().map(|reason| reason.text).collect();
        (record.verdict.state, texts)
    };
    let text = "run stopped after 4 of 5 processes".to_owned();
    assert_eq!(reasons(4, State::Valid, None), (State::Noisy, vec![text]));
    assert_eq!(reasons(5, State::Valid, None), (State::Valid, vec![]));
    assert_eq!(reasons(4, State::Invalid, None), (State::Invalid, vec![]));
    let offline = Some((3, "CPU 3 went offline"));
    let text = "CPU 3 went offline after 4 of 5 processes".to_owned();
    assert_eq!(reasons(4, State::Valid, offline), (State::Noisy, vec![text]));
    assert_eq!(reasons(5, State::Valid, offline), (State::Valid, vec![]));
}

#[test]
fn slowdown_explains_the_worse_side_only() {
    let prediction = |low, high| Prediction { low, high, ..Prediction::default() };
    let explained = |ends: [f64; 2], prediction: &Prediction, better| {
        let interval = Some(Interval::new(ends, 0.95, Basis::Processes));
        let summary = Summary { interval, ..Summary::default() };
        is_explained(&summary, prediction, better, 2.0)
    };
    let above = prediction(None, Some(100.0));
    for (low, expected) in [(100.0, false), (101.0, true), (200.0, true), (201.0, false)] {
        assert_eq!(explained([low, 300.0], &above, Better::Lower), expected, "{low}");
        assert_eq!(explained([low, 300.0], &above, Better::Neither), expected, "{low}");
        assert!(!explained([low, 300.0], &above, Better::Higher));
    }
    let below = prediction(Some(100.0), None);
    for (high, expected) in [(100.0, false), (99.0, true), (50.0, true), (49.0, false)] {
        assert_eq!(explained([1.0, high], &below, Better::Higher), expected, "{high}");
        assert_eq!(explained([1.0, high], &below, Better::Neither), expected, "{high}");
        assert!(!explained([1.0, high], &below, Better::Lower));
    }
    assert!(!is_explained(&Summary::default(), &above, Better::Lower, 2.0), "no interval");
}

#[test]
fn edge_reaches_to_the_points_on_both_sides() {
    let near = [[32.0, 40.0]; 5];
    let edge = edge_of(&near, 0.9375).unwrap();
    assert_eq!((edge.edge(), edge.level), (Some([32.0, 40.0]), 0.9375));
    let mut apart = near;
    apart[4] = [40.0, 48.0];
    assert_eq!(edge_of(&apart, 0.9375).unwrap().limits(), [32.0, 48.0]);
    assert_eq!(edge_of(&near[1..], 0.9375), None, "too few processes");
}

#[test]
fn doubts_of_a_computation_make_it_noisy() {
    let about = fathom_probes::REGISTRY.entries()[0].about();
    let summary = statistics::summarise_estimates(&[14.0; 10]).unwrap();
    let verdict = |doubts: &[Reason]| derived_verdict(about, &summary, doubts.to_vec(), &[]);
    assert_eq!(verdict(&[]), Verdict::default());
    let doubts = [Reason::new(Cause::MissingInput, "only 3 of 5 processes")];
    assert_eq!(verdict(&doubts), Verdict { state: State::Noisy, reasons: doubts.into() });
}

#[test]
fn facts_of_samples_are_medians_and_different_texts() {
    let sample = |control: &str, retransmits: f64| Sample {
        facts: vec![
            Fact::text("control", control),
            Fact::quantity("retransmits", retransmits, Unit::Ratio),
        ],
        ..Sample::default()
    };
    let facts = stated(&[sample("bbr", 0.0), sample("cubic", 7.0), sample("bbr", 1.0)]);
    let expected =
        [Fact::text("control", "bbr or cubic"), Fact::quantity("retransmits", 1.0, Unit::Ratio)];
    assert_eq!(facts, expected);
}

/// What is printed is `≤ 12 ns` beside the limits: whatever its hidden interval.
#[test]
fn agreement_of_a_bound_follows_from_what_is_printed() {
    let interval = Some(Interval::new([9.0, 12.0], 0.95, Basis::Processes));
    let summary = Summary { median: 10.5, interval, bound: Some(12.0), ..Summary::default() };
    let of = |prediction: Prediction| agreement(&prediction, &summary);
    assert_eq!(of(Prediction::sum(10.0, 0.0, 0.3, "", "")), Agreement::Inconclusive);
    assert_eq!(of(Prediction::at_least(5.0, "", "")), Agreement::Inconclusive);
    assert_eq!(of(Prediction::at_most(12.0, "", "")), Agreement::Met);
    assert_eq!(of(Prediction::at_least(13.0, "", "")), Agreement::Violated);
}

#[test]
fn drift_of_the_core_is_named_where_it_makes_an_interval_wide() {
    let summary = |half: f64| {
        let interval = Interval::new([100.0 - half, 100.0 + half], 0.95, Basis::Processes);
        Summary { median: 100.0, interval: Some(interval), ..Summary::default() }
    };
    let of = |half, drift| {
        let mut verdict = Verdict::because(State::Noisy, Cause::Spread, "");
        name_drift(&mut verdict, &summary(half), 0.05, drift);
        verdict.reasons[0].cause
    };
    assert_eq!(of(6.0, 0.04), Cause::MachineDrift);
    assert_eq!(of(6.0, 0.03), Cause::Spread, "it is wide without that, too");
    let mut valid = Verdict::default();
    name_drift(&mut valid, &summary(1.0), 0.05, 0.04);
    assert_eq!(valid, Verdict::default());
}
