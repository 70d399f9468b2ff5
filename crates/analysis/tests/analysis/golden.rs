//! Comparison of the statistics with SciPy, NumPy, diptest and statsmodels, whose results
//! `../golden/make_golden.py` wrote.

use fathom_analysis::statistics::{
    autocorrelation, benjamini_hochberg, block_means, dip, line, mann_whitney, mean, median,
    order_interval, quantile, rank_autocorrelation, ratio_of_medians, standard_deviation,
    theil_sen, trimmed, trimmed_over, tukey_outliers,
};
use serde_json::Value;

/// Relative rounding error of a sum.
const EXACT: f64 = 1e-12;

/// A case of a section, with the results of the reference.
struct GoldenRow<'g> {
    whole: &'g Value,
    row: &'g Value,
}

/// Checks each case of a section.
fn for_rows(section: &str, check: impl Fn(&GoldenRow<'_>)) {
    let whole: Value = serde_json::from_str(include_str!("../golden/golden.json")).expect("JSON");
    let rows = whole[section].as_array().expect("a list of cases");
    assert!(!rows.is_empty(), "{section} has no cases: nothing was tested");
    rows.iter().for_each(|row| check(&GoldenRow { whole: &whole, row }));
}

fn floats(list: &Value) -> Vec<f64> {
    let list = list.as_array().expect("a list of numbers");
    list.iter().map(|value| value.as_f64().expect("a number")).collect()
}

impl GoldenRow<'_> {
    fn float(&self, key: &str) -> f64 {
        self.row[key].as_f64().expect("a number")
    }

    fn floats(&self, key: &str) -> Vec<f64> {
        floats(&self.row[key])
    }

    fn count(&self, key: &str) -> u64 {
        self.row[key].as_u64().expect("a count")
    }

    /// The sample that is named by this key.
    fn sample(&self, key: &str) -> Vec<f64> {
        floats(&self.whole["samples"][self.row[key].as_str().expect("the name of a sample")])
    }

    /// Asserts a result within rounding, relative to it or to `scale`, if that is greater.
    #[track_caller]
    fn assert_near(&self, key: &str, got: f64, scale: f64) {
        let expected = self.float(key);
        let is_near = (got - expected).abs() <= EXACT * expected.abs().max(scale);
        assert!(is_near, "{got}, but the reference has {expected}: {key} of {}", self.row);
    }

    #[track_caller]
    fn assert_results(&self, results: &[(&str, f64)]) {
        results.iter().for_each(|(key, got)| self.assert_near(key, *got, 0.0));
    }

    #[track_caller]
    fn assert_all_near(&self, key: &str, got: &[f64]) {
        let expected = self.floats(key);
        assert_eq!(got.len(), expected.len(), "{}", self.row);
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() <= EXACT * expected.abs(), "{got}: {}", self.row);
        }
    }
}

#[test]
fn medians_means_and_deviations_match_numpy() {
    for_rows("moments", |row| {
        let values = row.sample("sample");
        let got = [median(&values), mean(&values), standard_deviation(&values)];
        let [middle, mean, sd] = got.map(Option::unwrap);
        row.assert_results(&[("median", middle), ("mean", mean), ("sd", sd)]);
    });
}

#[test]
fn quantiles_match_numpy() {
    for_rows("quantile", |row| {
        let mut values = row.sample("sample");
        values.sort_by(f64::total_cmp);
        row.assert_results(&[("value", quantile(&values, row.float("q")).unwrap())]);
    });
}

#[test]
fn order_intervals_match_scipy_binom() {
    for_rows("order_interval", |row| {
        let got = order_interval(row.count("n") as usize).unwrap();
        assert_eq!([got.low, got.high], ["low", "high"].map(|end| row.count(end) as usize));
        row.assert_results(&[("level", got.level)]);
    });
}

#[test]
fn trimmed_means_match_scipy() {
    for_rows("trimmed", |row| {
        let values = row.sample("sample");
        let got = trimmed(&values).unwrap();
        assert_eq!((got.n, got.trials), (row.count("n"), values.len() as u64), "{}", row.row);
        row.assert_results(&[("mean", got.mean), ("sd", got.sd), ("se", got.se)]);
    });
}

#[test]
fn clustered_errors_match_statsmodels() {
    for_rows("trimmed_over", |row| {
        let processes = row.row["processes"].as_array().unwrap();
        let processes: Vec<Vec<f64>> = processes.iter().map(floats).collect();
        let processes: Vec<&[f64]> = processes.iter().map(Vec::as_slice).collect();
        let got = trimmed_over(&processes).unwrap();
        assert_eq!(got.n, row.count("n"), "{}", row.row);
        row.assert_results(&[("mean", got.mean), ("se", got.se)]);
    });
}

#[test]
fn theil_sen_matches_scipy() {
    for_rows("theil_sen", |row| {
        let got = theil_sen(&row.floats("x"), &row.sample("sample")).unwrap();
        row.assert_results(&[("slope", got.slope), ("low", got.low), ("high", got.high)]);
    });
}

#[test]
fn linear_regression_matches_scipy() {
    for_rows("line", |row| {
        let (x, y) = (row.floats("x"), row.floats("y"));
        let got = line(&x, &y).unwrap();
        row.assert_results(&[("slope", got.slope), ("r_squared", got.r_squared)]);
        // A difference of larger numbers: exact relative to those.
        row.assert_near("intercept", got.intercept, mean(&y).unwrap());
        // Residuals are differences of numbers as large as y.
        let rounding = 2.0 * f64::EPSILON * y[y.len() - 1] / (x[1] - x[0]);
        row.assert_near("slope_standard_error", got.slope_standard_error, rounding / EXACT);
    });
}

#[test]
fn autocorrelations_match_numpy() {
    for_rows("autocorrelation", |row| {
        let (values, lag) = (row.sample("sample"), row.count("lag") as usize);
        // Exact relative to 1, the largest correlation.
        row.assert_near("value", autocorrelation(&values, lag).unwrap(), 1.0);
        row.assert_near("rank", rank_autocorrelation(&values, lag).unwrap(), 1.0);
    });
}

#[test]
fn block_means_match_numpy() {
    for_rows("blocks", |row| {
        row.assert_all_near(
            "means",
            &block_means(&row.sample("sample"), row.count("blocks") as usize),
        );
    });
}

#[test]
fn tukey_outliers_match_numpy() {
    for_rows("outliers", |row| {
        let got = tukey_outliers(&row.sample("sample"));
        let counts = [got.low_severe, got.low_mild, got.high_mild, got.high_severe];
        let expected = ["low_severe", "low_mild", "high_mild", "high_severe"];
        assert_eq!(counts, expected.map(|kind| row.count(kind)), "{}", row.row);
    });
}

#[test]
fn mann_whitney_matches_scipy() {
    for_rows("mann_whitney", |row| {
        let got = mann_whitney(&row.floats("a"), &row.floats("b")).unwrap();
        assert_eq!(got.u, row.float("u"), "{}", row.row);
        row.assert_results(&[("p", got.p)]);
    });
}

#[test]
fn ratio_intervals_match_scipy_bootstrap() {
    for_rows("ratio", |row| {
        let got = ratio_of_medians(&row.sample("a"), &row.sample("b"), 1).unwrap();
        row.assert_results(&[("ratio", got.ratio)]);
        // Another random generator and fewer resamples: limits differ by some per cent of the
        // width.
        let ends = ["low", "high"].map(|end| row.float(end));
        for (limit, expected) in [got.low, got.high].into_iter().zip(ends) {
            let is_near = (limit - expected).abs() < 0.08 * (ends[1] - ends[0]);
            assert!(is_near, "{limit} is not as in {}", row.row);
        }
    });
}

#[test]
fn dips_match_diptest() {
    for_rows("dip", |row| {
        let mut values = row.sample("sample");
        values.sort_by(f64::total_cmp);
        row.assert_results(&[("value", dip(&values))]);
    });
}

#[test]
fn adjusted_p_values_match_scipy() {
    for_rows("discovery", |row| {
        row.assert_all_near("adjusted", &benjamini_hochberg(&row.floats("p")))
    });
}
