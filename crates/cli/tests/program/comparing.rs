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
fn answer_is_the_first_line_and_the_exit_status() {
    let env = TestEnv::new();
    let before = write(&env, &run(1, 100.0));
    for (headline, limit, answer, status) in [
        (110.0, "5%", "fail at 5.0 %: 1 of 1 cases gateable, 1 lost more", 3),
        (110.0, "15%", "pass at 15 %: 1 of 1 cases gateable, none may have lost more", 0),
        (90.0, "5%", "pass at 5.0 %: 1 of 1 cases gateable, none may have lost more", 0),
        (103.0, "5%", "pass at 5.0 %: 1 of 1 cases gateable, none may have lost more", 0),
        (104.7, "5%", "undecided at 5.0 %: 1 of 1 cases gateable, 1 may have lost more", 5),
        (100.2, "0%", "undecided at 0 %: 0 of 1 cases gateable", 5),
    ] {
        let after = write(&env, &run(2, headline));
        let output = env.run(&["compare", &before, &after, "--fail-on", limit]);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{headline} {limit}: {printed}");
        assert_eq!(printed.lines().next(), Some(answer), "{headline} {limit}");
        // The document has the same.
        let output = env.run(&["compare", &before, &after, "--fail-on", limit, "--json"]);
        let gate = &json::<serde_json::Value>(&output)["gate"];
        assert_eq!(output.status.code(), Some(status), "{gate}");
        assert!(answer.starts_with(gate["answer"].as_str().expect("an answer")), "{gate}");
    }
}

#[test]
fn undecided_can_be_taken_for_pass_or_fail() {
    let env = TestEnv::new();
    let mut few = run(1, 100.0);
    few.records[0].summary.as_mut().expect("a summary").process_medians.truncate(5);
    let (before, after) = (write(&env, &few), write(&env, &run(2, 110.0)));
    for (taken, status) in [(None, 5), (Some("pass"), 0), (Some("fail"), 3)] {
        let mut words = vec!["compare", &before, &after, "--fail-on", "5%"];
        words.extend(taken.iter().flat_map(|answer| ["--undecided", answer]));
        let output = env.run(&words);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{taken:?}: {printed}");
        let line = printed.lines().next().expect("a first line");
        assert!(line.starts_with("undecided at 5.0 %: 1 of 1 cases gateable"), "{line}");
        let said = taken.map_or(!line.contains("taken"), |it| line.contains(&format!("for {it}")));
        assert!(said && printed.contains("decided with more processes"), "{printed}");
    }
    let output = env.run(&["compare", &before, &after, "--undecided", "pass"]);
    assert_eq!(output.status.code(), Some(2), "it needs --fail-on");
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
    // The case is too noisy for 1 %: nothing can be decided.
    assert_eq!((status, row["word"].as_str()), (Some(5), Some("unchanged")), "{row}");
    let noise = row["noise"].as_f64().expect("a noise");
    assert!((noise - 0.06).abs() < 1e-6, "{noise}");
    assert_eq!(row["unchanged_within"].as_f64(), Some(noise), "{row}");
}
