//! os.process.fork in smoke size, its ladder where memory is short, and its line.

use fathom_record::Record;

use super::*;
use crate::smoke;

#[test]
fn a_fork_gives_both_parts_and_its_child_is_reaped() {
    let taken = smoke::run(&ProcessFork);
    let parts: Vec<_> = taken.iter().filter_map(|(case, _)| case.params.text("part")).collect();
    assert_eq!(parts, PARTS);
    let values = |index: usize| &taken[index].1.as_ref().unwrap().values;
    assert!(values(0).iter().zip(values(1)).all(|(fork, total)| 0.0 < *fork && fork < total));
    let checks = &taken[0].1.as_ref().unwrap().checks;
    assert!(checks.iter().any(|check| check.name == "resident memory"), "{checks:?}");
}

#[test]
fn one_part_can_be_taken_alone() {
    let _alone = smoke::alone();
    let case = Case { params: params("total", MIB), cost_ns: 0.0 };
    let samples = smoke::visit(&ProcessFork, &[case]);
    assert!(samples[0].as_ref().unwrap().values.iter().all(|ns| *ns > 0.0));
}

#[test]
fn a_step_beyond_a_quarter_of_memory_is_unavailable_and_says_how_much_it_needs() {
    let _alone = smoke::alone();
    let pib = 1_u64 << 50;
    let cases = [("fork", MIB), ("fork", pib), ("total", pib)]
        .map(|(part, rss)| Case { params: params(part, rss), cost_ns: 0.0 });
    let samples = smoke::visit(&ProcessFork, &cases);
    assert!(samples[0].is_ok());
    for sample in &samples[1..] {
        let fault = sample.as_ref().unwrap_err();
        let Fault::Unavailable(reason, _) = fault else { panic!("{fault}") };
        assert!(reason.contains("needs 1073741824 MiB"), "{reason}");
    }
}

#[test]
fn all_steps_are_cases_even_where_they_will_not_fit() {
    let cases = ProcessFork.cases(&Host::default(), &Sizes::default());
    assert_eq!(cases.len(), 8);
    assert!(cases.is_sorted_by_key(rss_of), "each step's prediction needs the one before");
}

#[test]
fn a_larger_step_costs_at_least_what_the_one_before_did() {
    let prediction = predict(16 * MIB, &[record(MIB, 105_120.0, 500.0)]).unwrap();
    assert!(prediction.is_ordinal());
    assert_eq!(prediction.low, Some(105_120.0));
}

#[test]
fn large_steps_lie_on_the_line_through_the_small_ones() {
    // 100 µs and 10 µs a MiB.
    let records = [record(MIB, 110_000.0, 500.0), record(16 * MIB, 260_000.0, 500.0)];
    for (mib, expected) in [(256, 2_660_000.0), (1024, 10_340_000.0)] {
        let prediction = predict(mib * MIB, &records).unwrap();
        let value = prediction.value.unwrap();
        assert!((value - expected).abs() < 1.0, "{mib} MiB: {value}");
        assert!(!prediction.if_above.is_empty());
    }
}

#[test]
fn a_step_without_the_one_before_has_no_model() {
    assert!(predict(1024 * MIB, &[record(MIB, 105_120.0, 500.0)]).is_err());
    assert!(predict(MIB, &[]).is_err());
}

fn predict(rss: u64, records: &[Record]) -> Result<Prediction, NoModel> {
    let case = Case { params: params("fork", rss), cost_ns: 0.0 };
    ProcessFork.predict(&case, &Host::default(), &Inputs::new(records))
}

fn record(rss: u64, median: f64, half_width: f64) -> Record {
    smoke::record(ABOUT.id, &params("fork", rss), median, half_width)
}
