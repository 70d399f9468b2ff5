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

struct Golden(Value);

impl Golden {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../golden/golden.json")).expect("golden.json"))
    }

    fn rows(&self, section: &str) -> &[Value] {
        let rows = self.0[section].as_array().expect("a list of cases");
        assert!(!rows.is_empty(), "{section} has no cases: nothing was tested");
        rows
    }

    fn sample(&self, row: &Value) -> Vec<f64> {
        self.named(row["sample"].as_str().expect("the name of a sample"))
    }

    fn named(&self, name: &str) -> Vec<f64> {
        floats(&self.0["samples"][name])
    }
}

fn floats(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list of numbers").iter().map(float).collect()
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// Asserts `expected` within `tolerance`, relative to it or to `scale`, if that is greater.
#[track_caller]
fn assert_close(got: f64, expected: f64, tolerance: f64, scale: f64, what: &Value) {
    let allowed = tolerance * expected.abs().max(scale);
    assert!((got - expected).abs() <= allowed, "{got}, but the reference has {expected}: {what}");
}

#[track_caller]
fn assert_all_close(got: &[f64], expected: &Value, row: &Value) {
    let expected = floats(expected);
    assert_eq!(got.len(), expected.len(), "{row}");
    got.iter().zip(expected).for_each(|(got, expected)| {
        assert_close(*got, expected, EXACT, 0.0, row);
    });
}

#[test]
fn medians_means_and_deviations_match_numpy() {
    let golden = Golden::read();
    for row in golden.rows("moments") {
        let values = golden.sample(row);
        assert_close(median(&values).unwrap(), float(&row["median"]), EXACT, 0.0, row);
        assert_close(mean(&values).unwrap(), float(&row["mean"]), EXACT, 0.0, row);
        assert_close(standard_deviation(&values).unwrap(), float(&row["sd"]), EXACT, 0.0, row);
    }
}

#[test]
fn quantiles_match_numpy() {
    let golden = Golden::read();
    for row in golden.rows("quantile") {
        let mut values = golden.sample(row);
        values.sort_by(f64::total_cmp);
        let got = quantile(&values, float(&row["q"])).unwrap();
        assert_close(got, float(&row["value"]), EXACT, 0.0, row);
    }
}

#[test]
fn order_intervals_match_scipy_binom() {
    let golden = Golden::read();
    for row in golden.rows("order_interval") {
        let got = order_interval(count(&row["n"]) as usize).unwrap();
        assert_eq!(got.low as u64, count(&row["low"]), "{row}");
        assert_eq!(got.high as u64, count(&row["high"]), "{row}");
        assert_close(got.level, float(&row["level"]), EXACT, 0.0, row);
    }
}

#[test]
fn trimmed_means_match_scipy() {
    let golden = Golden::read();
    for row in golden.rows("trimmed") {
        let values = golden.sample(row);
        let got = trimmed(&values).unwrap();
        assert_eq!((got.n, got.trials), (count(&row["n"]), values.len() as u64), "{row}");
        assert_close(got.mean, float(&row["mean"]), EXACT, 0.0, row);
        assert_close(got.sd, float(&row["sd"]), EXACT, 0.0, row);
        assert_close(got.se, float(&row["se"]), EXACT, 0.0, row);
    }
}

#[test]
fn clustered_errors_match_statsmodels() {
    let golden = Golden::read();
    for row in golden.rows("trimmed_over") {
        let processes: Vec<Vec<f64>> =
            row["processes"].as_array().unwrap().iter().map(floats).collect();
        let processes: Vec<&[f64]> = processes.iter().map(Vec::as_slice).collect();
        let got = trimmed_over(&processes).unwrap();
        assert_eq!(got.n, count(&row["n"]), "{row}");
        assert_close(got.mean, float(&row["mean"]), EXACT, 0.0, row);
        assert_close(got.se, float(&row["se"]), EXACT, 0.0, row);
    }
}

#[test]
fn theil_sen_matches_scipy() {
    let golden = Golden::read();
    for row in golden.rows("theil_sen") {
        let got = theil_sen(&floats(&row["x"]), &golden.sample(row)).unwrap();
        assert_close(got.slope, float(&row["slope"]), EXACT, 0.0, row);
        assert_close(got.low, float(&row["low"]), EXACT, 0.0, row);
        assert_close(got.high, float(&row["high"]), EXACT, 0.0, row);
    }
}

#[test]
fn linear_regression_matches_scipy() {
    let golden = Golden::read();
    for row in golden.rows("line") {
        let (x, y) = (floats(&row["x"]), floats(&row["y"]));
        let got = line(&x, &y).unwrap();
        assert_close(got.slope, float(&row["slope"]), EXACT, 0.0, row);
        // A difference of larger numbers: exact relative to those.
        assert_close(got.intercept, float(&row["intercept"]), EXACT, mean(&y).unwrap(), row);
        assert_close(got.r_squared, float(&row["r_squared"]), EXACT, 0.0, row);
        // Residuals are differences of numbers as large as y.
        let rounding = 2.0 * f64::EPSILON * y[y.len() - 1] / (x[1] - x[0]);
        let error = float(&row["slope_standard_error"]);
        assert_close(got.slope_standard_error, error, EXACT, rounding / EXACT, row);
    }
}

#[test]
fn autocorrelations_match_numpy() {
    let golden = Golden::read();
    for row in golden.rows("autocorrelation") {
        let (values, lag) = (golden.sample(row), count(&row["lag"]) as usize);
        // Exact relative to 1, the largest correlation.
        let got = autocorrelation(&values, lag).unwrap();
        assert_close(got, float(&row["value"]), EXACT, 1.0, row);
        let got = rank_autocorrelation(&values, lag).unwrap();
        assert_close(got, float(&row["rank"]), EXACT, 1.0, row);
    }
}

#[test]
fn block_means_match_numpy() {
    let golden = Golden::read();
    for row in golden.rows("blocks") {
        let got = block_means(&golden.sample(row), count(&row["blocks"]) as usize);
        assert_all_close(&got, &row["means"], row);
    }
}

#[test]
fn tukey_outliers_match_numpy() {
    let golden = Golden::read();
    for row in golden.rows("outliers") {
        let got = tukey_outliers(&golden.sample(row));
        let counts = [got.low_severe, got.low_mild, got.high_mild, got.high_severe];
        let expected = ["low_severe", "low_mild", "high_mild", "high_severe"];
        assert_eq!(counts, expected.map(|kind| count(&row[kind])), "{row}");
    }
}

#[test]
fn mann_whitney_matches_scipy() {
    let golden = Golden::read();
    for row in golden.rows("mann_whitney") {
        let got = mann_whitney(&floats(&row["a"]), &floats(&row["b"])).unwrap();
        assert_eq!(got.u, float(&row["u"]), "{row}");
        assert_close(got.p, float(&row["p"]), EXACT, 0.0, row);
    }
}

#[test]
fn ratio_intervals_match_scipy_bootstrap() {
    let golden = Golden::read();
    for row in golden.rows("ratio") {
        let named = |key: &str| golden.named(row[key].as_str().unwrap());
        let got = ratio_of_medians(&named("a"), &named("b"), 1).unwrap();
        assert_close(got.ratio, float(&row["ratio"]), EXACT, 0.0, row);
        // Another random generator and fewer resamples: limits differ by some per cent of the
        // width.
        let width = float(&row["high"]) - float(&row["low"]);
        for (limit, expected) in [(got.low, &row["low"]), (got.high, &row["high"])] {
            assert!((limit - float(expected)).abs() < 0.08 * width, "{limit} is not as in {row}");
        }
    }
}

#[test]
fn dips_match_diptest() {
    let golden = Golden::read();
    for row in golden.rows("dip") {
        let mut values = golden.sample(row);
        values.sort_by(f64::total_cmp);
        assert_close(dip(&values), float(&row["value"]), EXACT, 0.0, row);
    }
}

#[test]
fn adjusted_p_values_match_scipy() {
    let golden = Golden::read();
    for row in golden.rows("discovery") {
        assert_all_close(&benjamini_hochberg(&floats(&row["p"])), &row["adjusted"], row);
    }
}
