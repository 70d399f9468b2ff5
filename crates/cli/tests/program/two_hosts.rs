//! A run with two hosts, histograms and series: through every command that keeps or shows it.

use std::path::PathBuf;

use fathom_record::Document;
use serde_json::Value;

use crate::place::{document, json, says, unwrapped};
use crate::{Place, text};

/// A run in which every field of a document has a value.
fn golden() -> (PathBuf, Document) {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = here.join("../store/tests/golden/document.json");
    let whole = std::fs::read(&path).expect("the golden document");
    (path, serde_json::from_slice(&whole).expect("a document"))
}

#[test]
fn run_with_two_hosts_comes_back_equal() {
    let (path, expected) = golden();
    let (here, there) = (Place::new(), Place::new());
    here.said(&format!("import {}", path.display()));
    assert_eq!(here.latest(), expected);
    assert_eq!(document(&here.run(&["show", "--json"])).far, expected.far);
    let exported = here.run(&["export", "--samples"]);
    let line = there.file("run.json");
    std::fs::write(&line, &exported.stdout).expect("a file");
    there.said(&format!("import {}", line.display()));
    assert_eq!(there.latest(), expected);
    assert_eq!(there.run(&["show"]).stdout, here.run(&["show"]).stdout);
    assert_eq!(there.run(&["export", "--samples"]).stdout, exported.stdout);
}

#[test]
fn run_with_two_hosts_is_shown_and_compared() {
    let (_, mut run) = golden();
    // A bound is not compared, and without any case in common `compare` fails.
    for summary in run.records.iter_mut().filter_map(|record| record.summary.as_mut()) {
        summary.bound = None;
    }
    let place = Place::new();
    place.said(&format!("import {}", place.keep("run.json", &run)));
    let mut other = run;
    let shown = unwrapped(&place.run(&["show"]));
    says(&shown, &["far end bench-4: Example 9", "its clock is known to ± 40.00 µs"]);
    // One case that can be compared: without any there is no document of it.
    other.records[0].summary.as_mut().expect("a summary").bound = None;
    let this = place.keep("this.json", &other);
    other.run.id = "000001951faaaaaa".to_owned();
    other.far[0].host.id = Some("cccccccc000000000000000000000000".to_owned());
    let other = place.keep("other.json", &other);
    let compared: Value = json(&place.run(&["compare", &this, &other, "--json"]));
    let apart = compared["not_comparable"].to_string();
    says(&apart, &["network.tcp.rtt", "load.throughput", "its far end is another host in B"]);
    let differences = compared["differences"].to_string();
    says(&differences, &["far end bench-4: host"]);
    let csv = text(&place.run(&["export", "--format", "csv"]).stdout);
    says(&csv, &["network.tcp.rtt,bytes=56;cpus=1;mode=block;to=bench-4,ns", "load.throughput"]);
    let metrics = text(&place.run(&["export", "--format", "openmetrics"]).stdout);
    says(&metrics, &["to=\"bench-4\""]);
    let history: Value = json(&place.run(&["history", "cpu.call", "--host", "bench-3", "--json"]));
    assert_eq!(history[0]["series"][0]["points"].as_array().map(Vec::len), Some(1), "{history}");
}
