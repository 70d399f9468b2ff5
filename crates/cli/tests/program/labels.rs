//! `--label`: shown with a run, and accepted wherever a run is.

use clap::Parser as _;

use crate::test_env::{
    TestEnv, assert_contains, assert_failure, assert_status, assert_usage_error, stored_run, text,
    unwrapped_stdout,
};

/// Three runs with labels.
fn env_with_labels(labels: [&str; 3]) -> TestEnv {
    let env = TestEnv::new();
    for (number, label) in (1..).zip(labels) {
        let mut document = stored_run(number);
        document.run.label = Some(label.to_owned());
        env.store_run(&document);
    }
    env
}

const LABELS: [&str; 3] = ["before-upgrade", "after-upgrade", "nightly"];

#[test]
fn label_is_shown_by_every_command() {
    let env = env_with_labels(LABELS);
    let shown = |line: &str| text(&env.exec(line).stdout);
    assert_contains(&shown("show before-upgrade"), &["(before-upgrade), quick"]);
    assert_contains(&shown("show --runs"), &["; label before-upgrade\n", "; label nightly\n"]);
    assert_contains(&shown("show --runs --json"), &["\"label\": \"nightly\""]);
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
    let env = env_with_labels(LABELS);
    std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
    env.stdout("run --quick --only cpu.frequency --label measured");
    env.stdout("file read data --block 64K --label warm-read");
    for (label, procedure) in [("measured", None), ("warm-read", Some("file read"))] {
        let run = env.document_of(label).run;
        assert_eq!((run.label.as_deref(), run.procedure.as_deref()), (Some(label), procedure));
    }
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
    let env = env_with_labels(["nightly", "other", "nightly"]);
    let ids = [1, 3].map(|number| stored_run(number).run.id);
    assert_failure(&env.exec("show nightly"), &[&ids[0], &ids[1], "name one by its id"]);
    assert_eq!(env.document_of(&ids[0]).run.label.as_deref(), Some("nightly"));
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
    }
    let longest = ["fathom", "run", "--label", &long[..64]];
    assert!(fathom_cli::arguments::Arguments::try_parse_from(longest).is_ok());
    let mut document = stored_run(1);
    document.run.label = Some("two\nlines".to_owned());
    let invalid = env.write_document("invalid.json", &document);
    assert_failure(&env.run(&["import", &invalid]), &["invalid.json", "control characters"]);
}
