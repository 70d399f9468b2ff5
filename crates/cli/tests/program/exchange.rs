//! Runs that leave the store and come back: `fathom export` and `fathom import`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Output, Stdio};

use fathom_record::{Document, Record};

use crate::{Place, is_refused, text};

/// What a command says to this on its standard input.
fn fed(place: &Place, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = place.fathom(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // One that refuses does not read on.
    let _ = pipe.write_all(input);
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// A run's document as a line, with this change made to it and to none of its checksums.
fn changed(line: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(line).expect("JSON");
    change(&mut value);
    serde_json::to_vec(&value).expect("JSON")
}

#[test]
fn what_is_exported_is_imported_as_it_was() {
    let (here, there) = (Place::new(), Place::new());
    here.short_run();
    here.short_run();
    let exported = here.run(&["export", "--all", "--samples"]);
    assert_eq!(text(&exported.stdout).lines().count(), 2);
    let output = fed(&there, &["import", "-"], &exported.stdout);
    assert!(text(&output.stdout).contains("Kept 2 runs"), "{}", text(&output.stderr));
    assert_eq!(there.latest(), here.latest());
    let again = fed(&there, &["import", "-"], &exported.stdout);
    assert!(text(&again.stdout).contains("2 were there already"), "{}", text(&again.stdout));
    assert_eq!(there.run(&["show"]).stdout, here.run(&["show"]).stdout);
}

#[test]
fn a_whole_document_of_run_json_is_imported_from_a_file() {
    let (here, there) = (Place::new(), Place::new());
    here.short_run();
    let path = there.path().join("run.json");
    std::fs::write(&path, here.run(&["show", "--json"]).stdout).expect("a file");
    let output = there.run(&["import", path.to_str().expect("a name")]);
    assert!(text(&output.stdout).contains("Kept 1 run."), "{}", text(&output.stderr));
}

#[test]
fn the_table_has_a_row_for_each_record_and_no_number_that_must_not_be_believed() {
    let place = Place::new();
    place.short_run();
    let document = place.latest();
    let exported = text(&place.run(&["export", "--format", "csv"]).stdout);
    let mut reader = csv::Reader::from_reader(exported.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let at = |name: &str| names.iter().position(|one| one == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), document.records.len());
    for (row, record) in rows.iter().zip(&document.records) {
        assert_eq!(&row[at("metric")], record.metric.as_str());
        let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
        match summary {
            Some(summary) => assert_eq!(row[at("median")].parse(), Ok(summary.median)),
            None => assert_eq!(&row[at("median")], ""),
        }
    }
}

#[test]
fn gauges_are_grouped_labelled_and_ended() {
    let place = Place::new();
    place.short_run();
    place.short_run();
    let exported = text(&place.run(&["export", "--all", "--format", "openmetrics"]).stdout);
    assert!(exported.ends_with("# EOF\n"), "{exported}");
    let types: Vec<&str> = exported.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len(), "each once: {exported}");
    for line in exported.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("host=\"") && line.contains("run=\""), "{line}");
        let mut words = line.rsplit(' ');
        let (when, value) = (words.next().expect("a time"), words.next().expect("a value"));
        assert!(when.parse::<f64>().is_ok() && value.parse::<f64>().is_ok(), "{line}");
        let labels = line.split(['{', '}']).nth(1).expect("labels");
        let names: Vec<&str> =
            labels.split("\",").filter_map(|label| label.split('=').next()).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{line}");
    }
}

#[test]
fn what_is_no_run_is_refused_with_its_line_and_field_and_nothing_is_kept() {
    let (here, place) = (Place::new(), Place::new());
    here.short_run();
    let good = here.run(&["export"]).stdout;
    let version = changed(&good, |run| run["tool"]["version"] = 3.into());
    let schema = changed(&good, |run| run["schema"] = 99.into());
    let id = changed(&good, |run| run["run"]["id"] = "../x".into());
    let median = changed(&good, |run| run["records"][0]["summary"]["median"] = 1.5.into());
    let half = &good[..good.len() / 2];
    let second = [&good[..], b"{\"schema\":1}\n"].concat();
    let large = format!("{{\"data\":[{}0]}}", "0,".repeat(10_000_000)).into_bytes();
    let cases: [(&[u8], &[&str]); 9] = [
        (b"", &["empty"]),
        (b"hello", &["line 1"]),
        (half, &["EOF"]),
        (&version, &["line 1", "tool.version"]),
        (&schema, &["schema 99", "reads 1"]),
        (&id, &["../x", "no id"]),
        (&median, &["damaged", "checksum"]),
        (&second, &["line 2", "missing field"]),
        (&large, &["missing field"]),
    ];
    for (input, parts) in cases {
        is_refused(&fed(&place, &["import", "-"], input), parts);
    }
    assert!(!place.store().exists(), "nothing was to be kept");
}

#[test]
fn mistakes_about_places_are_one_line() {
    let place = Place::new();
    is_refused(&place.run(&["export"]), &["no store"]);
    place.short_run();
    let folder = place.path().to_str().expect("a name").to_owned();
    let nowhere = format!("{folder}/no/where");
    is_refused(&place.run(&["export", "-o", &nowhere]), &["write", "No such file"]);
    is_refused(&place.run(&["export", "nonsense"]), &["nonsense"]);
    is_refused(&place.run(&["export", "--format", "xml"]), &["jsonl", "csv", "openmetrics"]);
    is_refused(&place.run(&["import", &folder]), &["directory"]);
    is_refused(&place.run(&["import", "missing"]), &["missing", "No such file"]);
}

#[test]
fn a_run_that_says_it_goes_on_does_not_go_on_here() {
    let (here, place) = (Place::new(), Place::new());
    here.short_run();
    let good = here.run(&["export"]).stdout;
    let running = changed(&good, |run| {
        run["run"]["state"] = "running".into();
        run["run"]["ended"] = serde_json::Value::Null;
    });
    let output = fed(&place, &["import", "-"], &running);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept: Document = place.latest();
    assert_eq!(kept.run.state, fathom_record::RunState::Interrupted);
    assert!(kept.records.iter().all(Record::is_intact));
}
