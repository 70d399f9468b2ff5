//! Mistakes get one clear line before anything is measured: exit status 2 where the command line is
//! wrong, 1 where a run or a file is missing or unreadable.

use crate::place::ends_with;
use crate::{Place, fails, is_refused, text};

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
fn unknown_runs_and_missing_stores_fail() {
    let place = Place::new();
    fails(&place.run(&["show"]), &["fathom.db"]);
    place.short_run();
    for command in ["show", "compare latest", "export"] {
        place.fails(command, "latest~7 | latest~7\n ffffffff | ffffffff | show --runs");
    }
    ends_with(&place.ask("explain cpu.frequency --run ffffffff"), 1);
    fails(&place.run(&["compare", "latest", "nothing.json"]), &["nothing.json"]);
}

#[test]
fn a_json_file_that_is_no_run_is_refused_and_a_damaged_one_is_named() {
    let place = Place::new();
    place.short_run();
    let file = place.path().join("run.json");
    let name = file.to_str().expect("a path");
    std::fs::write(&file, "{\"schema\": 1}").expect("a file");
    fails(&place.run(&["compare", name, "latest"]), &["run.json", "fathom run --json"]);
    let good = text(&place.run(&["show", "--json"]).stdout);
    std::fs::write(&file, good.replacen("\"median\": ", "\"median\": 1", 1)).expect("a file");
    fails(&place.run(&["compare", name, "latest"]), &["damaged", "export the run again"]);
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let place = Place::new();
    for pair in [["--quick", "--thorough"], ["--json", "--jsonl"]] {
        is_refused(&place.run(&["run", pair[0], pair[1]]), &[pair[0], pair[1], "--help"]);
    }
}
