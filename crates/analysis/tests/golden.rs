//! Statistics against SciPy, NumPy, diptest or statsmodels: `golden/make_golden.py` wrote what
//! they say.

use fathom_analysis::statistics::{
    autocorrelation, benjamini_hochberg, block_means, dip, line, mann_whitney, mean, median,
    order_interval, quantile, rank_autocorrelation, ratio_of_medians, standard_deviation,
    theil_sen, trimmed, trimmed_over, tukey_outliers,
};
use serde_json::Value;

/// What two ways of rounding the same sum may differ by.
const EXACT: f64 = 1e-12;

struct Golden(Value);

impl Golden {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("golden/golden.json")).expect("golden.json"))
    }

    fn rows(&self, section: &str) -> &[Value] {
        let rows = self.0[section].as_array().expect("a list of cases");
        assert!(!rows.is_empty(), "{section} has no cases: nothing was tested");
        rows
    }

    /// The sample a case names.
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

/// Fails unless `got` is `expected` to within `tolerance` of it, or of `scale` if that is greater.
#[track_caller]
fn assert_close(got: f64, expected: f64, tolerance: f64, scale: f64, what: &Value) {
    let allowed = tolerance * expected.abs().max(scale);
    assert!((got - expected).abs() <= allowed, "{got}, but the reference has {expected}: {what}");
}

#[test]
fn medians_means_and_deviations_are_numpys() {
    let golden = Golden::read();
    for row in golden.rows("moments") {
        let values = golden.sample(row);
        assert_close(median(&values).unwrap(), float(&row["median"]), EXACT, 0.0, row);
        assert_close(mean(&values).unwrap(), float(&row["mean"]), EXACT, 0.0, row);
        assert_close(standard_deviation(&values).unwrap(), float(&row["sd"]), EXACT, 0.0, row);
    }
}

#[test]
fn quantiles_are_numpys() {
    let golden = Golden::read();
    for row in golden.rows("quantile") {
        let mut values = golden.sample(row);
        values.sort_by(f64::total_cmp);
        let got = quantile(&values, float(&row["q"])).unwrap();
        assert_close(got, float(&row["value"]), EXACT, 0.0, row);
    }
}

#[test]
fn order_intervals_have_scipys_binomial_levels() {
    let golden = Golden::read();
    for row in golden.rows("order_interval") {
        let got = order_interval(count(&row["n"]) as usize).unwrap();
        assert_eq!(got.low as u64, count(&row["low"]), "{row}");
        assert_eq!(got.high as u64, count(&row["high"]), "{row}");
        assert_close(got.level, float(&row["level"]), EXACT, 0.0, row);
    }
}

#[test]
fn trimmed_means_and_winsorised_errors_are_scipys() {
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
fn theil_sen_slopes_and_limits_are_scipys() {
    let golden = Golden::read();
    for row in golden.rows("theil_sen") {
        let got = theil_sen(&floats(&row["x"]), &golden.sample(row)).unwrap();
        assert_close(got.slope, float(&row["slope"]), EXACT, 0.0, row);
        assert_close(got.low, float(&row["low"]), EXACT, 0.0, row);
        assert_close(got.high, float(&row["high"]), EXACT, 0.0, row);
    }
}

#[test]
fn least_squares_lines_are_scipys() {
    let golden = Golden::read();
    for row in golden.rows("line") {
        let (x, y) = (floats(&row["x"]), floats(&row["y"]));
        let got = line(&x, &y).unwrap();
        assert_close(got.slope, float(&row["slope"]), EXACT, 0.0, row);
        // A difference of two larger numbers: exact to the size of those.
        assert_close(got.intercept, float(&row["intercept"]), EXACT, mean(&y).unwrap(), row);
        assert_close(got.r_squared, float(&row["r_squared"]), EXACT, 0.0, row);
        // The residuals are differences of numbers as large as y: exact to the rounding of those.
        let rounding = 2.0 * f64::EPSILON * y[y.len() - 1] / (x[1] - x[0]);
        let error = float(&row["slope_standard_error"]);
        assert_close(got.slope_standard_error, error, EXACT, rounding / EXACT, row);
    }
}

#[test]
fn autocorrelations_are_numpys() {
    let golden = Golden::read();
    for row in golden.rows("autocorrelation") {
        let (values, lag) = (golden.sample(row), count(&row["lag"]) as usize);
        // To a part of 1, the largest there is, however small this one happens to be.
        let got = autocorrelation(&values, lag).unwrap();
        assert_close(got, float(&row["value"]), EXACT, 1.0, row);
        let got = rank_autocorrelation(&values, lag).unwrap();
        assert_close(got, float(&row["rank"]), EXACT, 1.0, row);
    }
}

#[test]
fn means_of_blocks_are_numpys() {
    let golden = Golden::read();
    for row in golden.rows("blocks") {
        let got = block_means(&golden.sample(row), count(&row["blocks"]) as usize);
        let expected = floats(&row["means"]);
        assert_eq!(got.len(), expected.len(), "{row}");
        for (got, expected) in got.iter().zip(expected) {
            assert_close(*got, expected, EXACT, 0.0, row);
        }
    }
}

#[test]
fn tukeys_fences_count_what_numpy_counts() {
    let golden = Golden::read();
    for row in golden.rows("outliers") {
        let got = tukey_outliers(&golden.sample(row));
        let counts = [got.low_severe, got.low_mild, got.high_mild, got.high_severe];
        let expected = ["low_severe", "low_mild", "high_mild", "high_severe"];
        assert_eq!(counts, expected.map(|kind| count(&row[kind])), "{row}");
    }
}

#[test]
fn rank_tests_are_scipys_exact_and_asymptotic() {
    let golden = Golden::read();
    for row in golden.rows("mann_whitney") {
        let got = mann_whitney(&floats(&row["a"]), &floats(&row["b"])).unwrap();
        assert_eq!(got.u, float(&row["u"]), "{row}");
        assert_close(got.p, float(&row["p"]), EXACT, 0.0, row);
    }
}

#[test]
fn ratios_have_the_interval_of_scipys_bootstrap() {
    let golden = Golden::read();
    for row in golden.rows("ratio") {
        let named = |key: &str| golden.named(row[key].as_str().unwrap());
        let got = ratio_of_medians(&named("a"), &named("b"), 1).unwrap();
        assert_close(got.ratio, float(&row["ratio"]), EXACT, 0.0, row);
        // Another generator and fewer resamples: limits differ by their sampling error, some per
        // cent of the width.
        let width = float(&row["high"]) - float(&row["low"]);
        for (limit, expected) in [(got.low, &row["low"]), (got.high, &row["high"])] {
            assert!((limit - float(expected)).abs() < 0.08 * width, "{limit} is not as in {row}");
        }
    }
}

#[test]
fn dips_are_those_of_diptest() {
    let golden = Golden::read();
    for row in golden.rows("dip") {
        let mut values = golden.sample(row);
        values.sort_by(f64::total_cmp);
        assert_close(dip(&values), float(&row["value"]), EXACT, 0.0, row);
    }
}

#[test]
fn false_discoveries_are_controlled_as_by_scipy() {
    let golden = Golden::read();
    for row in golden.rows("discovery") {
        let adjusted = benjamini_hochberg(&floats(&row["p"]));
        let expected = floats(&row["adjusted"]);
        assert_eq!(adjusted.len(), expected.len(), "{row}");
        for (got, expected) in adjusted.iter().zip(expected) {
            assert_close(*got, expected, EXACT, 0.0, row);
        }
    }
}
