//! Properties of the statistics for all samples.

use fathom_analysis::statistics::{
    autocorrelation, benjamini_hochberg, block_means, clusters, dip, mann_whitney, mean, median,
    median_interval, modes, order_interval, qn, quantile, ratio_of_medians, standard_deviation,
    summarise, theil_sen, trials_for, trimmed, tukey_outliers,
};
use fathom_record::Sample;
use proptest::collection::vec;
use proptest::prelude::*;

/// Values of all magnitudes and both signs, some of them tied.
fn values(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<f64>> {
    vec(prop_oneof![3 => -1e9..1e9_f64, 1 => (-5..5_i8).prop_map(f64::from)], count)
}

/// Positive values.
fn times(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<f64>> {
    vec(prop_oneof![3 => 1.0..1e6_f64, 1 => (1..9_u8).prop_map(f64::from)], count)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Equality up to rounding of numbers as large as `scale`.
fn close(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * scale.abs().max(1e-300)
}

proptest! {
    #![proptest_config(crate::seeded(100))]

    #[test]
    fn statistics_ignore_the_order_of_values(v in values(5..60), turn in 0_usize..60) {
        let mut turned = v.clone();
        turned.rotate_left(turn % v.len());
        turned.reverse();
        prop_assert_eq!(median(&v), median(&turned));
        prop_assert_eq!(median_interval(&v), median_interval(&turned));
        prop_assert_eq!(trimmed(&v), trimmed(&turned));
        prop_assert_eq!(tukey_outliers(&v), tukey_outliers(&turned));
        prop_assert_eq!(clusters(&v), clusters(&turned));
    }

    #[test]
    fn qn_is_a_quarter_rank_of_all_distances(v in values(10..60), scale in 0.1..9.0_f64) {
        let n = v.len();
        let pairs = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
        let distances = sorted(pairs.map(|(a, b)| (v[a] - v[b]).abs()).collect());
        let half = n / 2 + 1;
        let correction = n as f64 / (n as f64 + if n % 2 == 1 { 1.4 } else { 3.8 });
        let expected = 2.2219 * correction * distances[half * (half - 1) / 2 - 1];
        prop_assert!(close(qn(&v).unwrap(), expected, 1e9));
        let scaled: Vec<f64> = v.iter().map(|value| 7.0 - scale * value).collect();
        prop_assert!(close(qn(&scaled).unwrap(), scale * expected, 1e10));
    }

    #[test]
    fn interval_contains_the_median(v in values(5..200)) {
        let ([low, high], level) = median_interval(&v).unwrap();
        let middle = median(&v).unwrap();
        prop_assert!(low <= middle && middle <= high);
        prop_assert!(level >= 0.95 || v.len() == 5);
        let interval = order_interval(v.len()).unwrap();
        prop_assert_eq!([low, high], {
            let v = sorted(v);
            [v[interval.low], v[interval.high]]
        });
    }

    #[test]
    fn quantiles_grow_with_q_within_the_range(
        v in values(1..60), q in 0.0..=1.0_f64, r in 0.0..=1.0_f64,
    ) {
        let v = sorted(v);
        let (low, high) = (quantile(&v, q.min(r)).unwrap(), quantile(&v, q.max(r)).unwrap());
        prop_assert!(v[0] <= low && low <= high && high <= v[v.len() - 1]);
        prop_assert!(close(quantile(&v, 0.5).unwrap(), median(&v).unwrap(), 1e9));
    }

    #[test]
    fn statistics_scale_and_shift_with_the_values(
        v in values(8..60), scale in 1e-3..1e3_f64, shift in -1e6..1e6_f64,
    ) {
        let moved: Vec<f64> = v.iter().map(|x| scale * x + shift).collect();
        let size = scale * 1e9 + shift.abs();
        let at = |x: f64| scale * x + shift;
        prop_assert!(close(median(&moved).unwrap(), at(median(&v).unwrap()), size));
        prop_assert!(close(mean(&moved).unwrap(), at(mean(&v).unwrap()), size));
        let deviation = scale * standard_deviation(&v).unwrap();
        prop_assert!(close(standard_deviation(&moved).unwrap(), deviation, size));
        let (a, b) = (trimmed(&moved).unwrap(), trimmed(&v).unwrap());
        prop_assert!(close(a.mean, at(b.mean), size));
        prop_assert!(close(a.sd, scale * b.sd, size) && close(a.se, scale * b.se, size));
        let index: Vec<f64> = (0..v.len()).map(|i| i as f64).collect();
        let (a, b) = (theil_sen(&index, &moved).unwrap(), theil_sen(&index, &v).unwrap());
        prop_assert!(close(a.slope, scale * b.slope, size));
        prop_assert!(a.low <= a.slope && a.slope <= a.high);
    }

    #[test]
    fn trimmed_mean_is_in_the_kept_range(v in values(4..400)) {
        let trimmed = trimmed(&v).unwrap();
        prop_assert!(trials_for(trimmed.n) <= trimmed.trials);
        prop_assert!(trials_for(trimmed.n + 1) > trimmed.trials);
        let low = ((trimmed.trials - trimmed.n) / 2) as usize;
        let v = sorted(v);
        let (lowest, highest) = (v[low], v[low + trimmed.n as usize - 1]);
        prop_assert!(trimmed.mean >= lowest || close(trimmed.mean, lowest, 1e9));
        prop_assert!(trimmed.mean <= highest || close(trimmed.mean, highest, 1e9));
        prop_assert!(trimmed.sd >= 0.0 && trimmed.se >= 0.0);
    }

    #[test]
    fn adjusted_p_values_are_never_smaller(
        p in vec(0.0..=1.0_f64, 0..60), turn in 0_usize..60,
    ) {
        let adjusted = benjamini_hochberg(&p);
        prop_assert_eq!(adjusted.len(), p.len());
        for (at, (p_at, adjusted_at)) in p.iter().zip(&adjusted).enumerate() {
            prop_assert!(*adjusted_at >= p_at * (1.0 - 1e-12) && *adjusted_at <= 1.0);
            for (other, adjusted_other) in p.iter().zip(&adjusted).skip(at) {
                prop_assert!(p_at > other || adjusted_at <= adjusted_other);
            }
        }
        let mut turned = p.clone();
        turned.rotate_left(turn % p.len().max(1));
        let mut back = benjamini_hochberg(&turned);
        back.rotate_right(turn % p.len().max(1));
        prop_assert_eq!(back, adjusted);
    }

    #[test]
    fn block_means_keep_the_total(
        v in values(3..100), blocks in 1_usize..20,
    ) {
        let means = block_means(&v, blocks);
        prop_assert_eq!(means.len(), blocks.min(v.len()));
        if v.len() % blocks == 0 {
            prop_assert!(close(mean(&means).unwrap(), mean(&v).unwrap(), 1e9));
        }
        if let Some(rho) = autocorrelation(&v, 1) {
            prop_assert!((-1.0..=1.0).contains(&rho));
        }
    }

    #[test]
    fn rank_test_is_symmetric_and_order_only(
        a in times(1..40), b in times(1..40),
    ) {
        let test = mann_whitney(&a, &b).unwrap();
        let back = mann_whitney(&b, &a).unwrap();
        prop_assert!((0.0..=1.0).contains(&test.p));
        prop_assert!(close(test.p, back.p, 1.0));
        prop_assert_eq!(test.u + back.u, (a.len() * b.len()) as f64);
        let cubed = |v: &[f64]| -> Vec<f64> { v.iter().map(|x| x * x * x).collect() };
        prop_assert_eq!(mann_whitney(&cubed(&a), &cubed(&b)), Some(test));
    }

    #[test]
    fn dip_statistic_is_in_its_range(v in values(4..150)) {
        let v = sorted(v);
        let dip = dip(&v);
        prop_assert!(dip <= 0.25);
        prop_assert!(dip >= 0.5 / v.len() as f64 - 1e-12 || v[0] == v[v.len() - 1]);
    }

    #[test]
    fn shares_of_modes_and_clusters_add_up(v in values(100..400)) {
        for found in [modes(&v), clusters(&v)] {
            prop_assert!(found.len() != 1);
            prop_assert!(found.is_sorted_by(|a, b| a.at < b.at));
            prop_assert!(found.iter().all(|mode| mode.share >= 0.1));
            let total: f64 = found.iter().map(|mode| mode.share).sum();
            prop_assert!(found.is_empty() || close(total, 1.0, 1.0));
        }
    }
}

proptest! {
    #![proptest_config(crate::seeded(24))]

    #[test]
    fn ratio_is_in_its_interval_and_unit_free(
        a in times(2..20), b in times(2..20), seed: u64,
    ) {
        let ratio = ratio_of_medians(&a, &b, seed).unwrap();
        prop_assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high);
        let halved = |v: &[f64]| -> Vec<f64> { v.iter().map(|x| x / 2.0).collect() };
        prop_assert_eq!(ratio_of_medians(&halved(&a), &halved(&b), seed), Some(ratio));
    }

    #[test]
    fn summary_ignores_process_order(
        processes in vec(values(0..40), 1..12), turn in 0_usize..12,
    ) {
        let mut samples: Vec<Sample> = processes
            .into_iter()
            .zip(0..)
            .map(|(values, process)| Sample { process, values, ..Sample::default() })
            .collect();
        let summary = summarise(&samples);
        let turn = turn % samples.len();
        samples.rotate_left(turn);
        prop_assert_eq!(&summarise(&samples), &summary);
        let Some(summary) = summary else {
            prop_assert!(samples.iter().all(|sample| sample.values.is_empty()));
            return Ok(());
        };
        // JSON has no NaN and no infinity: they would come back as null.
        let json = serde_json::to_value(&summary).unwrap();
        for number in ["median", "min", "max", "mean", "sd", "spread_within", "spread_between"] {
            prop_assert!(json[number].is_number(), "{} is {}", number, json[number]);
        }
        prop_assert!(summary.min <= summary.median && summary.median <= summary.max);
        if let Some([low, high]) = summary.limits() {
            prop_assert!(low <= summary.median && summary.median <= high);
        }
    }
}
