//! Records are read back from JSON unchanged, whatever their numbers.

use crate::{
    Basis, Disturbance, Estimate, FarEnd, HeatMap, Interval, Params, Quantile, Record, Sample,
    Series, Stratum, Summary, Unit, Value,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn finite() -> impl Strategy<Value = f64> + Clone {
    any::<f64>().prop_map(|value| if value.is_finite() { value } else { 0.5 })
}

fn interval() -> impl Strategy<Value = Interval> + Clone {
    let basis = [Basis::Processes, Basis::WithinRun, Basis::Derived, Basis::Grid];
    let basis = proptest::sample::select(basis.to_vec());
    (finite(), finite(), 0.5..1.0, basis).prop_map(|(low, high, level, basis)| Interval {
        low,
        high,
        level,
        basis,
    })
}

fn summary() -> impl Strategy<Value = Summary> {
    let medians = || proptest::collection::vec(finite(), 0..4);
    let counts = (any::<u32>(), any::<u32>());
    let estimate = (finite(), proptest::option::of(interval()), counts, medians(), medians())
        .prop_map(|(median, interval, (visits, of), process_medians, process_loops)| Estimate {
            median,
            interval,
            visits,
            of,
            process_medians,
            process_loops,
        });
    let quantile = (0.5..1.0, finite()).prop_map(|(q, value)| Quantile { q, value });
    (
        (finite(), proptest::option::of(interval())),
        (proptest::option::of(estimate.clone()), proptest::option::of(estimate)),
        proptest::collection::vec(quantile, 0..4),
        prop_oneof![Just(Stratum::ToItself), Just(Stratum::AsFound)],
    )
        .prop_map(|((median, interval), (in_state, as_found), quantiles, stratum)| Summary {
            median,
            interval,
            in_state,
            as_found,
            quantiles,
            stratum,
            ..Summary::default()
        })
}

fn sample() -> impl Strategy<Value = Sample> {
    let times = proptest::collection::vec(0.0..1e15, 0..200);
    let loops = proptest::collection::vec(finite(), 0..5);
    let far =
        (any::<u32>(), any::<u64>(), loops.clone()).prop_map(|(cpu, wall_ns, reference_ns)| {
            let disturbance = Disturbance { wall_ns, ..Disturbance::default() };
            FarEnd { cpu, disturbance, reference_ns, checks: Vec::new() }
        });
    (proptest::option::of(times), proptest::option::of(far), loops).prop_map(
        |(times, far, reference_ns)| Sample {
            histogram: times.map(|times| times.into_iter().collect()),
            far,
            frequency_ns: reference_ns.clone(),
            reference_ns,
            ..Sample::default()
        },
    )
}

fn heat_map() -> impl Strategy<Value = HeatMap> {
    let slice = (finite(), 0.0..1e12, proptest::collection::vec(any::<u64>(), 3));
    proptest::collection::vec(slice, 0..4).prop_map(|slices| HeatMap {
        starts_ns: slices.iter().map(|slice| slice.0).collect(),
        lengths_ns: slices.iter().map(|slice| slice.1).collect(),
        limits: vec![1.0, 2.0, 4.0, 8.0],
        counts: slices.into_iter().map(|slice| slice.2).collect(),
    })
}

fn record() -> impl Strategy<Value = Record> {
    let points = proptest::collection::vec((finite(), finite()), 0..6);
    let series = ("[a-z ]{1,12}", proptest::option::of("[a-z0-9-]{1,8}"), points).prop_map(
        |(name, at, points)| {
            let (times_ns, values) = points.into_iter().unzip();
            Series { name, unit: Unit::Ratio, at, times_ns, values }
        },
    );
    (
        summary(),
        proptest::collection::vec(sample(), 0..3),
        proptest::collection::vec(series, 0..3),
        proptest::option::of("[a-z-]{1,12}"),
        proptest::option::of(heat_map()),
    )
        .prop_map(|(summary, samples, series, text, heat_map)| {
            let record = Record::fixture("load.bottleneck", Unit::Nanoseconds)
                .of_case(&Params::one("to", "far"));
            let (summary, samples) = (Some(summary), Some(samples));
            let value = text.map(Value::Text);
            Record { summary, samples, series, heat_map, value, ..record }.sealed()
        })
}

#[test]
fn changed_samples_are_damage() {
    let record = Record {
        samples: Some(vec![Sample { values: vec![1.5], ..Sample::default() }]),
        ..Record::default()
    };
    let mut record = record.sealed();
    let without = Record { samples: None, ..record.clone() };
    assert!(record.is_intact() && without.is_intact());
    let of_before = Record { samples_checksum: None, ..record.clone() };
    assert!(of_before.is_intact());
    let text = serde_json::to_string(&of_before).unwrap();
    assert!(!text.contains("samples_checksum"), "{text}");
    record.samples.as_mut().unwrap()[0].values[0] = 1.6;
    assert!(!record.is_intact());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn record_is_read_back_from_json(record in record()) {
        let text = serde_json::to_string(&record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&back, &record);
        prop_assert!(back.is_intact());
    }
}
