//! Mistakes get one clear line and exit status 2, before anything is measured.

use crate::{Place, is_refused, text};

#[test]
fn an_unknown_metric_is_answered_with_the_nearest() {
    let place = Place::new();
    let output = place.run(&["run", "os.sycall"]);
    is_refused(&output, &["os.sycall", "did you mean `os.syscall`", "fathom list"]);
    assert!(!place.store().exists(), "nothing is made for a mistake");
    let wrong_value = place.run(&["run", "os.syscall{call=stta}"]);
    is_refused(&wrong_value, &["os.syscall{call=stta}", "no such case", "call = getppid"]);
    is_refused(&place.run(&["list", "memry"]), &["memry"]);
    is_refused(&place.run(&["explain", "cpu.cal"]), &["`cpu.call`"]);
}

#[test]
fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
    let place = Place::new();
    is_refused(&place.run(&["run", "--cpu", "9999"]), &["--cpu 9999", "may use CPU"]);
}

#[test]
fn a_store_that_cannot_be_written_is_refused_with_the_remedy() {
    let place = Place::new();
    std::fs::write(place.path().join("file"), "not a folder").expect("a file");
    let below_a_file = place.path().join("file/fathom.db");
    let store = below_a_file.to_str().expect("a path");
    let output = place.run(&["run", "--quick", "--store", store, "cpu.frequency"]);
    is_refused(&output, &[store, "--store"]);
}

#[test]
fn a_store_that_is_something_else_is_refused_and_left_alone() {
    let place = Place::new();
    let precious =
        "this is somebody's text, and long enough to be looked at as a database file ".repeat(20);
    std::fs::write(place.store(), &precious).expect("a file");
    let output = place.run(&["run", "--quick", "cpu.frequency"]);
    is_refused(&output, &[place.store().to_str().expect("a path")]);
    assert_eq!(std::fs::read_to_string(place.store()).expect("a file"), precious);
}

#[test]
fn a_run_that_is_not_kept_is_refused_and_so_is_a_store_that_is_not_there() {
    let place = Place::new();
    is_refused(&place.run(&["show"]), &["fathom.db"]);
    place.short_run();
    is_refused(&place.run(&["show", "latest~7"]), &["latest~7"]);
    is_refused(&place.run(&["show", "ffffffff"]), &["ffffffff"]);
    is_refused(&place.run(&["compare", "latest", "nothing.json"]), &["nothing.json"]);
}

#[test]
fn a_json_file_that_is_no_run_is_refused_and_a_damaged_one_is_named() {
    let place = Place::new();
    place.short_run();
    let file = place.path().join("run.json");
    let name = file.to_str().expect("a path");
    std::fs::write(&file, "{\"schema\": 1}").expect("a file");
    is_refused(&place.run(&["compare", name, "latest"]), &["run.json", "fathom run --json"]);
    let good = text(&place.run(&["show", "--json"]).stdout);
    std::fs::write(&file, good.replacen("\"median\": ", "\"median\": 1", 1)).expect("a file");
    is_refused(&place.run(&["compare", name, "latest"]), &["damaged", "export the run again"]);
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let place = Place::new();
    for pair in [["--quick", "--thorough"], ["--json", "--jsonl"]] {
        is_refused(&place.run(&["run", pair[0], pair[1]]), &[pair[0], pair[1], "--help"]);
    }
}
