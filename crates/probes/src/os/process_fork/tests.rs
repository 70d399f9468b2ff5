use super::*;
use crate::smoke;

#[test]
fn one_fork_gives_both_parts() {
    let results = smoke::run(&ProcessFork);
    let parts: Vec<_> = results.iter().filter_map(|(case, _)| case.params.text("part")).collect();
    assert_eq!(parts, PARTS);
    let values = |index: usize| &results[index].1.as_ref().unwrap().values;
    assert!(values(0).iter().zip(values(1)).all(|(fork, total)| 0.0 < *fork && fork < total));
    let checks = &results[0].1.as_ref().unwrap().checks;
    assert!(checks.iter().any(|check| check.name == "resident memory"), "{checks:?}");
}

#[test]
fn too_large_a_size_is_unavailable() {
    let _alone = smoke::alone();
    let pib = 1_u64 << 50;
    let cases = [("total", MIB), ("fork", pib), ("total", pib)]
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
fn cases_are_in_order_of_their_predictions() {
    let cases = ProcessFork.cases(&Host::default(), &Sizes::default());
    assert_eq!(cases.len(), 8);
    assert!(cases.is_sorted_by_key(rss_of), "a prediction needs the smaller sizes first");
}

#[test]
fn large_sizes_are_extrapolated_from_small_ones() {
    let smallest = record(MIB, 110_000.0, 500.0);
    let prediction = predict(16 * MIB, std::slice::from_ref(&smallest)).unwrap();
    assert!(prediction.is_ordinal());
    assert_eq!(prediction.low, Some(110_000.0));
    assert!(predict(1024 * MIB, std::slice::from_ref(&smallest)).is_err());
    // 100 µs plus 10 µs a MiB.
    let records = [smallest, record(16 * MIB, 260_000.0, 500.0)];
    for (mib, expected) in [(256, 2_660_000.0), (1024, 10_340_000.0)] {
        let prediction = predict(mib * MIB, &records).unwrap();
        let value = prediction.value.unwrap();
        assert!((value - expected).abs() < 1.0, "{mib} MiB: {value}");
        assert!(!prediction.if_above.is_empty());
    }
}

fn predict(rss: u64, records: &[Record]) -> Model {
    let case = Case { params: params("fork", rss), cost_ns: 0.0 };
    ProcessFork.predict(&case, &Host::default(), &Inputs::new(records))
}

fn record(rss: u64, median: f64, half_width: f64) -> Record {
    smoke::record(ABOUT.id, &params("fork", rss), median, half_width)
}
