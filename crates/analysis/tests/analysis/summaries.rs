//! Summaries of samples.

use fathom_analysis::statistics::{Ratio, summarise, summarise_estimates, summarise_quotients};
use fathom_record::{Basis, Interval, Sample};

/// One sample for each list of values.
fn processes(values: &[&[f64]]) -> Vec<Sample> {
    (0..)
        .zip(values)
        .map(|(process, values)| Sample { process, values: values.to_vec(), ..Sample::default() })
        .collect()
}

/// `count` processes of 30 deterministic values around `level`.
fn quiet(count: u32, level: f64) -> Vec<Sample> {
    (0..count)
        .map(|process| Sample {
            process,
            values: (0..30_u32)
                .map(|i| level + f64::from(i * 7 % 30) / 30.0 + f64::from(process) / 100.0)
                .collect(),
            ..Sample::default()
        })
        .collect()
}

#[test]
fn headline_is_the_median_of_process_medians() {
    let samples = processes(&[&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], &[10.0], &[20.0, 22.0]]);
    let summary = summarise(&samples).unwrap();
    assert_eq!(summary.median, 10.0);
    assert_eq!(summary.process_medians, [1.0, 10.0, 21.0]);
    assert_eq!((summary.n, summary.processes), (9, 3));
    assert_eq!((summary.min, summary.max), (1.0, 22.0));
    assert!((summary.mean - 58.0 / 9.0).abs() < 1e-14);
    assert_eq!(summary.interval, None);
}

#[test]
fn processes_without_values_do_not_count() {
    assert_eq!(summarise(&[]), None);
    assert_eq!(summarise(&processes(&[&[], &[]])), None);
    assert_eq!(summarise(&processes(&[&[], &[4.0]])).unwrap().processes, 1);
    assert_eq!(summarise_estimates(&[]), None);
    assert_eq!(summarise_estimates(&[f64::NAN]), None);
}

#[test]
fn five_processes_have_an_interval_of_medians() {
    assert_eq!(summarise(&quiet(4, 50.0)).unwrap().interval, None);
    let five = summarise(&quiet(5, 50.0)).unwrap();
    let ends = [five.process_medians[0], five.process_medians[4]];
    assert_eq!(five.interval, Some(Interval::new(ends, 0.9375, Basis::Processes)));
    let ten = summarise(&quiet(10, 50.0)).unwrap();
    assert_eq!(ten.limits(), Some([ten.process_medians[1], ten.process_medians[8]]));
}

#[test]
fn twelve_values_have_a_within_run_interval() {
    let twelve: &[f64] = &[3.0, 1.0, 6.0, 2.0, 5.0, 4.0, 9.0, 7.0, 12.0, 8.0, 11.0, 10.0];
    let twelve: Vec<f64> = (0..12).map(|i| twelve[i * 5 % 12]).collect();
    let summary = summarise(&processes(&[&twelve])).unwrap();
    let interval = summary.interval.unwrap();
    assert_eq!((interval.basis, interval.limits()), (Basis::WithinRun, [3.0, 10.0]));
    assert!((interval.level - 0.961_425_781_25).abs() < 1e-15);
    assert_eq!(summarise(&processes(&[&twelve[1..]])).unwrap().interval, None);
    let one = summarise(&processes(&[&[], &twelve])).unwrap();
    assert_eq!(one.interval.unwrap().basis, Basis::WithinRun, "an empty process does not count");
    assert_eq!(summarise(&processes(&[&twelve, &twelve])).unwrap().interval, None);
}

#[test]
fn disturbed_values_stay_in_the_headline() {
    let mut samples = processes(&[&[10.0, 50.0, 50.0], &[11.0, 11.0, 11.0], &[90.0]]);
    assert_eq!(summarise(&samples).unwrap().median_undisturbed, None);
    // Repeated and out-of-range indices are ignored; a process without undisturbed values does not
    // count.
    samples[0].disturbed = vec![1, 2, 2, 99];
    samples[2].disturbed = vec![0];
    let summary = summarise(&samples).unwrap();
    assert_eq!(summary.disturbed, 3);
    assert_eq!(summary.median, 50.0);
    assert_eq!(summary.median_undisturbed, Some(10.5));
}

#[test]
fn all_disturbed_has_no_undisturbed_median() {
    let mut samples = processes(&[&[1.0, 2.0]]);
    samples[0].disturbed = vec![0, 1];
    let summary = summarise(&samples).unwrap();
    assert_eq!((summary.disturbed, summary.median_undisturbed), (2, None));
}

#[test]
fn spread_within_and_between_processes_differ() {
    let same_inside = summarise(&processes(&[&[100.0; 9], &[110.0; 9], &[90.0; 9]])).unwrap();
    assert_eq!((same_inside.spread_within, same_inside.spread_between), (0.0, 0.1));
    let wide: &[f64] = &[90.0, 100.0, 110.0];
    let same_between = summarise(&processes(&[wide, wide, wide])).unwrap();
    assert_eq!((same_between.spread_within, same_between.spread_between), (0.1, 0.0));
}

#[test]
fn zero_headline_has_no_relative_spread() {
    let negative = summarise(&processes(&[&[-90.0, -100.0, -110.0]])).unwrap();
    assert_eq!(negative.spread_within, 0.1);
    let zero = summarise(&processes(&[&[-1.0, 0.0, 1.0, -1.0, 0.0, 1.0]])).unwrap();
    assert_eq!((zero.spread_within, zero.spread_between, zero.drift), (0.0, 0.0, None));
}

#[test]
fn drift_is_relative_to_the_headline() {
    let rising: Vec<f64> = (0..21).map(|i| 95.0 + f64::from(i) / 2.0).collect();
    let falling: Vec<f64> = rising.iter().rev().copied().collect();
    let (rising, falling) = (rising.as_slice(), falling.as_slice());
    let drift = |of: &[&[f64]]| summarise(&processes(of)).unwrap().drift;
    assert!((drift(&[rising; 5]).unwrap() - 0.1).abs() < 1e-12);
    assert!((drift(&[falling; 6]).unwrap() + 0.1).abs() < 1e-12);
    assert_eq!(drift(&[rising, rising, rising, rising, falling]), Some(0.0), "interval has 0");
    let level = [100.0; 21].as_slice();
    let barely = drift(&[falling, falling, falling, falling, level]);
    assert_eq!(barely, Some(0.0), "interval ends with 0");
    assert_eq!(drift(&[rising; 4]), None, "too few processes");
    assert_eq!(drift(&[&rising[..5]; 5]), None, "too few values");
}

#[test]
fn autocorrelation_needs_a_hundred_values() {
    let wave: Vec<f64> = (0..100).map(|i| 10.0 + (f64::from(i) / 10.0).sin()).collect();
    let rho = summarise(&processes(&[&wave])).unwrap().autocorrelation.unwrap();
    assert!(rho > 0.9, "{rho}");
    let halves = processes(&[&wave[..50], &wave[50..]]);
    assert_eq!(summarise(&halves).unwrap().autocorrelation, None);
}

#[test]
fn trimmed_mean_needs_sixteen_values() {
    let values: Vec<f64> = (0..16).map(f64::from).collect();
    assert_eq!(summarise(&processes(&[&values[1..]])).unwrap().trimmed, None);
    let trimmed = summarise(&processes(&[&values[..8], &values[8..]])).unwrap().trimmed.unwrap();
    assert_eq!((trimmed.n, trimmed.trials, trimmed.mean), (10, 16, 7.5));
}

#[test]
fn outliers_are_counted_and_stay() {
    let mut samples = quiet(5, 50.0);
    samples[2].values[7] = 1e6;
    let summary = summarise(&samples).unwrap();
    assert_eq!(summary.outliers.high_severe, 1);
    assert_eq!((summary.n, summary.max), (150, 1e6));
}

#[test]
fn bimodal_processes_have_two_modes() {
    let mut samples = quiet(10, 50.0);
    for sample in &mut samples {
        for value in sample.values.iter_mut().step_by(3) {
            *value += 20.0;
        }
    }
    let summary = summarise(&samples).unwrap();
    assert_eq!(summary.modes.len(), 2, "{:?}", summary.modes);
    assert!((summary.modes[1].share - 1.0 / 3.0).abs() < 1e-12);
    assert!(summary.clusters.is_empty());
}

#[test]
fn processes_of_two_kinds_are_clusters_and_not_modes() {
    let mut samples = quiet(10, 50.0);
    for sample in &mut samples[6..] {
        for value in &mut sample.values {
            *value += 20.0;
        }
    }
    let summary = summarise(&samples).unwrap();
    assert!(summary.modes.is_empty(), "{:?}", summary.modes);
    assert_eq!(summary.clusters.len(), 2);
    assert_eq!((summary.clusters[0].share, summary.clusters[1].share), (0.6, 0.4));
}

#[test]
fn offsets_of_a_coarse_clock_are_no_modes() {
    let samples: Vec<Sample> = (0..10_u32)
        .map(|process| Sample {
            process,
            values: (0..60_u32)
                .map(|i| 20.0 + f64::from((i * 7 + process) % 3) * 10.0 + f64::from(process) / 50.0)
                .collect(),
            ..Sample::default()
        })
        .collect();
    assert!(summarise(&samples).unwrap().modes.is_empty());
}

#[test]
fn derived_estimates_count_as_processes() {
    let estimates = [5.0, 4.0, 7.0, 6.0, 8.0];
    let summary = summarise_estimates(&estimates).unwrap();
    assert_eq!((summary.n, summary.processes, summary.median), (5, 5, 6.0));
    let interval = summary.interval.unwrap();
    assert_eq!((interval.basis, interval.limits()), (Basis::Derived, [4.0, 8.0]));
    assert_eq!((summary.min, summary.max, summary.mean), (4.0, 8.0, 6.0));
    assert_eq!(summary.process_medians, estimates);
    assert!((summary.spread_between - 2.5_f64.sqrt() / 6.0).abs() < 1e-15);
    assert_eq!((summary.trimmed, summary.drift), (None, None));
    let four = summarise_estimates(&estimates[1..]).unwrap();
    assert_eq!(four.interval, None);
}

#[test]
fn derived_median_is_given_separately() {
    let quotients = [5.0, 4.0, 7.0, 6.0, 8.0];
    let quotient = Ratio { ratio: 6.2, low: 4.5, high: 7.5, equivalence: [4.7, 7.3] };
    let summary = summarise_quotients(&quotients, quotient).unwrap();
    let interval = Interval::new([4.5, 7.5], 0.95, Basis::Derived);
    assert_eq!((summary.median, summary.interval), (6.2, Some(interval)));
    assert_eq!(summary.process_medians, quotients);
    let four = summarise_quotients(&quotients[1..], quotient).unwrap();
    assert_eq!((four.median, four.interval), (6.2, None));
}

/// A debug build panics with the number of the process.
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "process 3 has a value"))]
fn values_that_are_not_finite_are_ignored() {
    let values = vec![f64::NAN, 1.0, f64::INFINITY, 3.0, 2.0];
    let sample = Sample { process: 3, values, disturbed: vec![3], ..Sample::default() };
    let summary = summarise(&[sample]).unwrap();
    assert_eq!((summary.n, summary.median, summary.max), (3, 2.0, 3.0));
    assert_eq!((summary.disturbed, summary.median_undisturbed), (1, Some(1.5)));
}

#[test]
fn quantiles_come_from_single_timings_with_ten_beyond() {
    let timings = |count: u32| (1..=count).map(|i| 1_000.0 * f64::from(i)).collect();
    let with = |count: u32, values: Vec<f64>| {
        let of = |process| Sample {
            process,
            values: values.clone(),
            histogram: Some(timings(count)),
            ..Sample::default()
        };
        summarise(&[0, 1, 2, 3, 4].map(of)).unwrap()
    };
    let summary = with(2_000, Vec::new());
    let quantiles: Vec<f64> = summary.quantiles.iter().map(|it| it.q).collect();
    assert_eq!((summary.n, quantiles), (10_000, vec![0.9, 0.99, 0.999]));
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 2e-3;
    assert!(near(summary.median, 1e6) && near(summary.quantiles[1].value, 1.98e6), "{summary:?}");
    assert!(near(summary.mean, 1.0005e6) && near(summary.max, 2e6), "{summary:?}");
    let values = with(2_000, vec![5.0; 12]);
    assert_eq!((values.median, values.n), (5.0, 60), "values take precedence");
    assert_eq!(values.quantiles, summary.quantiles);
    assert!(near(values.max, 2e6), "of the timings, as the quantiles: {values:?}");
}

#[test]
fn only_single_values_have_quantiles() {
    let quantiles = |batch, count: u32| {
        let values = (0..count).map(f64::from).collect();
        summarise(&[Sample { batch, values, ..Sample::default() }]).unwrap().quantiles
    };
    assert!(quantiles(4096, 200).is_empty());
    let single = quantiles(1, 200);
    assert!(single.len() == 1 && (single[0].q, single[0].value) == (0.9, 179.1), "{single:?}");
    for (count, expected) in [(99, 0), (100, 1), (999, 1), (1_000, 2), (9_999, 2), (100_000, 4)] {
        assert_eq!(quantiles(1, count).len(), expected, "{count} values");
    }
}

#[test]
fn interval_over_equal_processes_is_1_ppm_wide_each_way() {
    let of = |value: f64| {
        let one =
            |process| Sample { process, values: vec![value; 5], batch: 100, ..Sample::default() };
        let samples: Vec<Sample> = (0..5).map(one).collect();
        summarise(&samples).and_then(|it| it.interval).map(|it| [it.low, it.high])
    };
    assert_eq!(of(4.0), Some([4.0 - 4e-6, 4.0 + 4e-6]));
    assert_eq!(of(-4.0), Some([-4.0 - 4e-6, -4.0 + 4e-6]));
    assert_eq!(of(0.0), Some([0.0, 0.0]));
}
