//! `--label`: shown with a run, and accepted wherever a run is.

use crate::test_env::{
    TestEnv, assert_contains, assert_failure, assert_status, assert_usage_error, document, json,
    text, unwrapped_stdout,
};

/// Two runs and a file read with labels; the output of the first.
fn env_with_labels() -> (TestEnv, String) {
    let env = TestEnv::new();
    std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
    let run = "run --quick cpu.frequency --label";
    let first = env.stdout(&format!("{run} before-upgrade"));
    env.stdout(&format!("{run} after-upgrade"));
    env.stdout(&format!("file read {} --block 64K --label warm-read", env.path_text("data")));
    (env, first)
}

#[test]
fn label_is_shown_by_every_command() {
    let (env, printed) = env_with_labels();
    assert_contains(&printed, &["(before-upgrade), quick"]);
    let shown = |line: &str| text(&env.exec(line).stdout);
    assert_contains(&shown("show before-upgrade"), &["(before-upgrade), quick"]);
    assert_contains(&shown("show --runs"), &["; label before-upgrade\n", "; label warm-read\n"]);
    assert_contains(&shown("show --runs --json"), &["\"label\": \"warm-read\""]);
    let compared = unwrapped_stdout(&env.exec("compare before-upgrade after-upgrade"));
    assert_contains(&compared, &["(before-upgrade) on", "(after-upgrade) on"]);
    let history = shown("history cpu.frequency --json");
    assert_contains(&history, &["\"label\": \"before-upgrade\"", "\"label\": \"after-upgrade\""]);
    assert_contains(&shown("export before-upgrade --format csv"), &[",label,", ",before-upgrade,"]);
    let metrics = shown("export after-upgrade --format openmetrics");
    assert_contains(&metrics, &["label=\"after-upgrade\""]);
}

#[test]
fn label_selects_its_run_in_every_command() {
    let (env, _) = env_with_labels();
    let document = document(&env.exec("show warm-read --json"));
    assert_eq!(document.run.label.as_deref(), Some("warm-read"));
    assert_eq!(document.run.procedure.as_deref(), Some("file read"));
    for line in ["export before-upgrade", "explain cpu.frequency --run after-upgrade"] {
        assert_status(&env.exec(line), 0);
    }
    assert_failure(&env.exec("show later"), &["later", "label", "show --runs"]);
    let other = TestEnv::new();
    let exported = env.exec("export before-upgrade");
    std::fs::write(other.file("runs"), exported.stdout).expect("a file");
    other.stdout(&format!("import {}", other.path_text("runs")));
    assert_status(&other.exec("show before-upgrade"), 0);
}

#[test]
fn label_of_two_runs_is_ambiguous() {
    let env = TestEnv::new();
    let ids = [0, 1].map(|_| {
        let run = env.exec("run --quick cpu.frequency --label nightly --json");
        document(&run).run.id
    });
    assert_failure(&env.exec("show nightly"), &[&ids[0], &ids[1], "name one by its id"]);
    let first: fathom_record::Document = json(&env.run(&["show", &ids[0], "--json"]));
    assert_eq!(first.run.label.as_deref(), Some("nightly"));
}

#[test]
fn unusable_labels_are_refused() {
    let env = TestEnv::new();
    let long = "x".repeat(65);
    for (label, part) in [
        (long.as_str(), "64 characters, this one has 65"),
        ("two\nlines", "control characters"),
        ("", "must not be empty"),
        (" x", "spaces"),
        ("latest", "latest"),
        ("a/b", "contain `/`"),
    ] {
        let run = env.run(&["run", "--quick", "cpu.frequency", "--label", label]);
        assert_usage_error(&run, &["--label", part]);
        assert_usage_error(&env.run(&["file", "fast", "/dev/null", "--label", label]), &[part]);
    }
    assert_status(&env.run(&["run", "--quick", "cpu.frequency", "--label", &long[..64]]), 0);
    let mut document = env.latest();
    document.run.label = Some("two\nlines".to_owned());
    let invalid = env.write_document("invalid.json", &document);
    assert_failure(&env.run(&["import", &invalid]), &["invalid.json", "control characters"]);
}
