//! A run with two hosts, histograms and series, in every command that stores or shows it.

use std::path::PathBuf;

use fathom_record::Document;
use serde_json::Value;

use crate::test_env::{
    assert_contains, assert_status, document, json, path_text, unwrapped_stdout,
};
use crate::{TestEnv, text};

/// A document in which every field has a value.
fn golden() -> (PathBuf, Document) {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = here.join("../store/tests/golden/document.json");
    let whole = std::fs::read(&path).expect("the golden document");
    (path, serde_json::from_slice(&whole).expect("a document"))
}

#[test]
fn run_with_two_hosts_round_trips() {
    let (path, expected) = golden();
    let (here, there) = (TestEnv::new(), TestEnv::new());
    assert_status(&here.run(&["import", path_text(&path)]), 0);
    assert_eq!(here.latest(), expected);
    assert_eq!(document(&here.run(&["show", "--json"])).far, expected.far);
    let exported = here.run(&["export", "--samples"]);
    let line = there.file("run.json");
    std::fs::write(&line, &exported.stdout).expect("a file");
    there.stdout(&format!("import {}", line.display()));
    assert_eq!(there.latest(), expected);
    assert_eq!(there.run(&["show"]).stdout, here.run(&["show"]).stdout);
    assert_eq!(there.run(&["export", "--samples"]).stdout, exported.stdout);
}

#[test]
fn run_with_two_hosts_is_compared() {
    let (_, mut run) = golden();
    // An upper bound cannot be compared.
    for summary in run.records.iter_mut().filter_map(|record| record.summary.as_mut()) {
        summary.bound = None;
    }
    let env = TestEnv::new();
    env.stdout(&format!("import {}", env.write_document("run.json", &run)));
    let mut other = run;
    let shown = unwrapped_stdout(&env.run(&["show"]));
    assert_contains(&shown, &["far end bench-4: Example 9", "its clock is known to ± 40.00 µs"]);
    let this = env.write_document("this.json", &other);
    other.run.id = "000001951faaaaaa".to_owned();
    other.far[0].host.id = Some("cccccccc000000000000000000000000".to_owned());
    let other = env.write_document("other.json", &other);
    let compared: Value = json(&env.run(&["compare", &this, &other, "--json"]));
    let apart = compared["not_comparable"].to_string();
    assert_contains(
        &apart,
        &["network.tcp.rtt", "load.throughput", "its far end is another host in B"],
    );
    let differences = compared["differences"].to_string();
    assert_contains(&differences, &["far end bench-4: host"]);
    let csv = text(&env.run(&["export", "--format", "csv"]).stdout);
    assert_contains(
        &csv,
        &["network.tcp.rtt,\"{bytes=56,cpus=1,mode=block,to=bench-4}\",ns", "load.throughput"],
    );
    let metrics = text(&env.run(&["export", "--format", "openmetrics"]).stdout);
    assert_contains(&metrics, &["to=\"bench-4\""]);
    let history: Value = json(&env.run(&["history", "cpu.call", "--host", "bench-3", "--json"]));
    assert_eq!(history[0]["series"][0]["points"].as_array().map(Vec::len), Some(1), "{history}");
}
