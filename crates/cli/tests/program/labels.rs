//! `--label`: a run has a name, which is shown with it and by which it is found.

use crate::place::{Place, document, ends_with, fails, is_refused, json, says, text, unwrapped};

/// Two runs and a file read, each with a label; what the first printed.
fn labelled() -> (Place, String) {
    let place = Place::new();
    std::fs::write(place.file("data"), vec![1; 1 << 20]).expect("a file");
    let run = "run --quick cpu.frequency --label";
    let first = place.said(&format!("{run} before-upgrade"));
    place.said(&format!("{run} after-upgrade"));
    place.said(&format!("file read {} --block 64K --label warm-read", place.name("data")));
    (place, first)
}

#[test]
fn label_is_shown_wherever_its_run_is() {
    let (place, printed) = labelled();
    says(&printed, &["(before-upgrade), quick"]);
    let shown = |line: &str| text(&place.ask(line).stdout);
    says(&shown("show before-upgrade"), &["(before-upgrade), quick"]);
    says(&shown("show --runs"), &["  before-upgrade\n", "  warm-read\n"]);
    says(&shown("show --runs --json"), &["\"label\": \"warm-read\""]);
    let compared = unwrapped(&place.ask("compare before-upgrade after-upgrade"));
    says(&compared, &["(before-upgrade) on", "(after-upgrade) on"]);
    let history = shown("history cpu.frequency --json");
    says(&history, &["\"label\": \"before-upgrade\"", "\"label\": \"after-upgrade\""]);
    says(&shown("export before-upgrade --format csv"), &[",label,", ",before-upgrade,"]);
    let metrics = shown("export after-upgrade --format openmetrics");
    says(&metrics, &["label=\"after-upgrade\""]);
}

#[test]
fn label_finds_its_run_in_every_command() {
    let (place, _) = labelled();
    let document = document(&place.ask("show warm-read --json"));
    assert_eq!(document.run.label.as_deref(), Some("warm-read"));
    assert_eq!(document.run.procedure.as_deref(), Some("file read"));
    for line in ["export before-upgrade", "explain cpu.frequency --run after-upgrade"] {
        ends_with(&place.ask(line), 0);
    }
    fails(&place.ask("show later"), &["later", "label", "show --runs"]);
    let other = Place::new();
    let exported = place.ask("export before-upgrade");
    std::fs::write(other.file("runs"), exported.stdout).expect("a file");
    other.said(&format!("import {}", other.name("runs")));
    ends_with(&other.ask("show before-upgrade"), 0);
}

#[test]
fn label_of_two_runs_is_ambiguous() {
    let place = Place::new();
    let ids = [0, 1].map(|_| {
        let run = place.ask("run --quick cpu.frequency --label nightly --json");
        document(&run).run.id
    });
    fails(&place.ask("show nightly"), &[&ids[0], &ids[1], "name one by its id"]);
    let first: fathom_record::Document = json(&place.run(&["show", &ids[0], "--json"]));
    assert_eq!(first.run.label.as_deref(), Some("nightly"));
}

#[test]
fn unusable_labels_are_refused() {
    let place = Place::new();
    let long = "x".repeat(65);
    for (label, part) in [
        (long.as_str(), "64 characters, this one has 65"),
        ("two\nlines", "control characters"),
        ("", "must not be empty"),
        (" x", "spaces"),
        ("latest", "latest"),
        ("a/b", "contain `/`"),
    ] {
        let run = place.run(&["run", "--quick", "cpu.frequency", "--label", label]);
        is_refused(&run, &["--label", part]);
        is_refused(&place.run(&["file", "fast", "/dev/null", "--label", label]), &[part]);
    }
    ends_with(&place.run(&["run", "--quick", "cpu.frequency", "--label", &long[..64]]), 0);
    let mut document = place.latest();
    document.run.label = Some("two\nlines".to_owned());
    let spoilt = place.keep("spoilt.json", &document);
    fails(&place.run(&["import", &spoilt]), &["spoilt.json", "control characters"]);
}
