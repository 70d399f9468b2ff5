//! `fathom compare`: the gate of `--fail-on`, and run-to-run noise.

use fathom_record::{Document, Stratum, Verdict};

use crate::test_env::{canned, json, stored_run};
use crate::{TestEnv, text};

/// A run of a metric of which a smaller value is better: ten process medians around a headline.
fn run(number: usize, headline: f64) -> Document {
    let mut document = stored_run(number);
    document.records = canned().records.drain(2..3).collect();
    let record = &mut document.records[0];
    record.samples = None;
    record.verdict = Verdict::default();
    let summary = record.summary.as_mut().expect("a summary");
    summary.median = headline;
    // Without the disturbances of the real run.
    (summary.stratum, summary.full_speed, summary.as_found) = (Stratum::AsFound, None, None);
    summary.process_medians =
        (0..10).map(|at| headline * (1.0 + 0.001 * (f64::from(at) - 4.5))).collect();
    document
}

fn write(env: &TestEnv, document: &Document) -> String {
    env.write_document(&format!("{}.json", document.run.id), document)
}

#[test]
fn regression_above_limit_fails() {
    let env = TestEnv::new();
    let before = write(&env, &run(1, 100.0));
    for (headline, limit, status) in
        [(110.0, "5%", 3), (110.0, "15%", 0), (90.0, "5%", 0), (100.2, "0%", 0), (103.0, "5%", 0)]
    {
        let after = write(&env, &run(2, headline));
        let output = env.run(&["compare", &before, &after, "--fail-on", limit]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{headline} {limit}: {message}");
        assert_eq!(message.contains("worse by more than"), status == 3, "{message}");
    }
}

/// A conclusive case does not hide another that looks worse and is inconclusive.
#[test]
fn inconclusive_suspect_fails_the_gate() {
    let env = TestEnv::new();
    let with = |number, doubtful: f64| {
        let mut document = run(number, 100.0);
        let mut other = run(number, doubtful).records.remove(0);
        other.params = fathom_record::Params::one("case", 2);
        other.summary.as_mut().expect("a summary").process_medians.truncate(5);
        document.records.push(other.sealed());
        write(&env, &document)
    };
    let before = with(1, 100.0);
    for (doubtful, status, undecided) in [(150.0, 3, true), (100.1, 0, false), (70.0, 0, true)] {
        let output = env.run(&["compare", &before, &with(2, doubtful), "--fail-on", "5%"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{doubtful}: {message}");
        assert_eq!(message.contains("1 of 2 cases are inconclusive, "), undecided, "{message}");
    }
}

#[test]
fn change_within_run_to_run_noise_is_unchanged() {
    let (env, other) = (TestEnv::new(), TestEnv::new());
    let (before, after) = (run(1, 100.0), run(2, 104.0));
    let names = [write(&env, &before), write(&env, &after)];
    let compared = || {
        let output = other.run(&["compare", &names[0], &names[1], "--fail-on", "1%", "--json"]);
        let comparison: serde_json::Value = json(&output);
        (output.status.code(), comparison["rows"][0].clone())
    };
    let (status, row) = compared();
    assert_eq!((status, row["word"].as_str()), (Some(3), Some("slower")), "{row}");
    // Stored runs of this host that alternate by 6 % teach the noise.
    for number in 0..8 {
        let like = run(10 + number, if number % 2 == 0 { 100.0 } else { 106.0 });
        other.store_run(&like);
    }
    let (status, row) = compared();
    assert_eq!((status, row["word"].as_str()), (Some(0), Some("unchanged")), "{row}");
    let noise = row["noise"].as_f64().expect("a noise");
    assert!((noise - 0.06).abs() < 1e-6, "{noise}");
    assert_eq!(row["unchanged_within"].as_f64(), Some(noise), "{row}");
}
