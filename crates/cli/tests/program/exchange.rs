//! Runs that leave the store and come back: `fathom export` and `fathom import`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

use fathom_record::{Document, Record};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::group::skipped;
use crate::{Place, fails, is_refused, text};

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
            Some(summary) if summary.bound.is_none() => {
                assert_eq!(row[at("median")].parse(), Ok(summary.median));
            }
            _ => assert_eq!(&row[at("median")], ""),
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
        assert!(line.contains("host=\""), "{line}");
        let (_, value) = line.rsplit_once("} ").expect("a value alone");
        assert!(value.parse::<f64>().is_ok(), "{line}");
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
    let second = [&good[..], b"{\"schema\":3}\n"].concat();
    let large = format!("{{\"data\":[{}0]}}", "0,".repeat(10_000_000)).into_bytes();
    let cases: [(&[u8], &[&str]); 9] = [
        (b"", &["empty"]),
        (b"hello", &["line 1"]),
        (half, &["EOF"]),
        (&version, &["line 1", "tool.version"]),
        (&schema, &["schema 99", "reads 3"]),
        (&id, &["../x", "no id"]),
        (&median, &["damaged", "checksum"]),
        (&second, &["line 2", "missing field"]),
        (&large, &["missing field"]),
    ];
    for (input, parts) in cases {
        fails(&fed(&place, &["import", "-"], input), parts);
    }
    assert!(!place.store().exists(), "nothing was to be kept");
}

#[test]
fn mistakes_about_places_are_one_line() {
    let place = Place::new();
    fails(&place.run(&["export"]), &["no store"]);
    place.short_run();
    let folder = place.path().to_str().expect("a name").to_owned();
    let nowhere = format!("{folder}/no/where");
    fails(&place.run(&["export", "-o", &nowhere]), &["write", "No such file"]);
    fails(&place.run(&["export", "nonsense"]), &["nonsense"]);
    is_refused(&place.run(&["export", "--format", "xml"]), &["jsonl", "csv", "openmetrics"]);
    fails(&place.run(&["import", &folder]), &["directory"]);
    fails(&place.run(&["import", "missing"]), &["missing", "No such file"]);
}

/// A file of this kind under this name, as root alone may make a device; what the place was not
/// allowed is said.
fn node(path: &Path, kind: FileType, device: u64) -> bool {
    match mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device) {
        Ok(()) => true,
        Err(error) => {
            skipped(&format!("{}: {error}", path.display()));
            false
        }
    }
}

#[test]
fn an_export_replaces_nothing_that_it_was_not_told_to() {
    let place = Place::new();
    place.short_run();
    let file = |name: &str| place.path().join(name);
    let export = |name: &str, more: &[&str]| {
        let arguments = [&["export", "-o", name], more].concat();
        place.fathom(&arguments).current_dir(place.path()).output().expect("it starts")
    };
    fs::write(file("text"), "precious").expect("a file");
    fails(&export("text", &[]), &["write text", "--force"]);
    fails(&export(".", &["--force"]), &["directory"]);
    assert_eq!(fs::read_to_string(file("text")).expect("it"), "precious");
    let full = makedev(1, 7);
    for (name, kind, device) in
        [("pipe", FileType::Fifo, 0), ("full", FileType::CharacterDevice, full)]
    {
        if node(&file(name), kind, device) {
            for more in [&[][..], &["--force"]] {
                fails(&export(name, more), &["no regular file", "-o -"]);
            }
            let left = fs::symlink_metadata(file(name)).expect("it is there").file_type();
            assert!(left.is_fifo() || left.is_char_device(), "{name} became {left:?}");
        }
    }
    fs::write(file("empty"), "").expect("a file");
    for (name, more) in [("new", &[][..]), ("empty", &[]), ("text", &["--force"])] {
        assert!(export(name, more).status.success(), "{name}");
        assert_eq!(fs::read(file(name)).expect("it"), place.run(&["export"]).stdout, "{name}");
    }
}

#[test]
fn an_export_goes_through_a_link_and_by_a_dash_to_standard_output() {
    let place = Place::new();
    place.short_run();
    let file = |name: &str| place.path().join(name);
    let export = |arguments: &[&str]| {
        let all = [&["export"], arguments].concat();
        place.fathom(&all).current_dir(place.path()).output().expect("it starts")
    };
    fs::create_dir(file("within")).expect("a folder");
    fs::write(file("within/target"), "old").expect("a file");
    symlink("within/target", file("link")).expect("a link");
    symlink("nothing", file("broken")).expect("a link");
    fails(&export(&["-o", "link"]), &["write link", "--force"]);
    fails(&export(&["-o", "broken", "--force"]), &["broken", "not there"]);
    assert!(export(&["-o", "link", "--force"]).status.success());
    assert!(fs::symlink_metadata(file("link")).expect("it").is_symlink());
    let whole = export(&[]).stdout;
    assert_eq!(fs::read(file("within/target")).expect("it"), whole);
    let dash = export(&["-o", "-"]);
    assert!(dash.status.success() && !file("-").exists());
    assert_eq!(dash.stdout, whole);
    for format in ["csv", "openmetrics"] {
        is_refused(&export(&["--format", format, "--samples"]), &["--samples", "jsonl"]);
    }
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
