//! What the program prints.

use fathom_record::{Document, Record, RunState, SCHEMA_VERSION};

use crate::place::{ends_with, json, says};
use crate::{Place, SHORT, fails, is_refused, text};

#[test]
fn a_run_is_shown_again_as_it_was_printed() {
    let place = Place::new();
    let printed = text(&place.short_run().stdout);
    let shown = text(&place.run(&["show"]).stdout);
    // The reference loops of the whole run may select other visits than those of a block did, so
    // that a number in a row is another; what is said of the whole run comes after that.
    let closing = |text: &str| text.split_once("\n2 cases: ").map(|(_, words)| words.to_owned());
    assert!(closing(&printed).is_some(), "{printed}");
    assert_eq!(closing(&printed), closing(&shown));
    for name in SHORT {
        assert!(printed.contains(name) && shown.contains(name), "{printed}{shown}");
    }
    assert!(printed.contains("2 results of 2 metrics"), "{printed}");
}

#[test]
fn eighty_columns_are_enough_and_no_colour_goes_into_a_pipe() {
    let place = Place::new();
    let printed = text(&place.short_run().stdout);
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    assert!(!printed.contains('\u{1b}'));
}

#[test]
fn json_is_one_document_and_jsonl_a_record_a_line() {
    let place = Place::new();
    let run = |form: &str, more: &[&str]| {
        place.said(&[&["run", "--quick", form], more, &SHORT[..]].concat().join(" "))
    };
    let document: Document = serde_json::from_str(&run("--json", &[])).expect("a document");
    assert_eq!((document.schema, document.run.state), (SCHEMA_VERSION, RunState::Complete));
    assert!(document.records.iter().all(|record| record.is_intact() && record.samples.is_none()));
    let records: Vec<Record> = run("--jsonl", &["--samples"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record.samples.as_ref().is_some_and(|s| s.len() >= 5)));
}

#[test]
fn the_store_keeps_raw_values_and_the_summary_can_be_computed_again() {
    let place = Place::new();
    place.short_run();
    for record in place.latest().records {
        let mut samples = record.samples.expect("samples");
        let kept = record.summary.and_then(|summary| summary.as_found).expect("an estimate");
        samples.sort_by_key(|sample| sample.process);
        samples.truncate(kept.visits as usize);
        let again = fathom_analysis::statistics::summarise(&samples).expect("a summary");
        assert_eq!((again.median, again.interval), (kept.median, kept.interval));
    }
}

#[test]
fn two_runs_are_compared_and_five_processes_cannot_tell() {
    let place = Place::new();
    place.short_run();
    place.short_run();
    let said = place.said("compare latest~1 latest");
    assert!(said.contains("cpu.frequency"), "{said}");
    assert!(!said.contains("worse") && !said.contains("better"), "{said}");
    let output = place.run(&["compare", "latest~1", "latest", "--json"]);
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
    assert_eq!(text(&place.run(&["show", "--runs"]).stdout).matches("complete").count(), 2);
}

#[test]
fn the_same_seed_is_kept_with_the_run() {
    let place = Place::new();
    place.said("run --quick --seed 42 cpu.clock.resolution");
    assert_eq!(place.latest().run.seed, 42);
}

#[test]
fn the_trimmed_protocol_keeps_500_of_800_trials() {
    let place = Place::new();
    place.said("run --quick --protocol trimmed cpu.frequency");
    let document = place.latest();
    let summary = document.records[0].summary.as_ref().expect("a summary");
    let trimmed = summary.trimmed.as_ref().expect("trimmed");
    assert!(trimmed.n >= 490 && trimmed.trials >= 790, "{trimmed:?}");
}

#[test]
fn every_metric_is_listed_explained_and_documented() {
    let place = Place::new();
    let listed = text(&place.run(&["list"]).stdout);
    let json: serde_json::Value = json(&place.ask("list --json"));
    for metric in json.as_array().expect("a list") {
        let id = metric["id"].as_str().expect("an id");
        assert!(listed.contains(id), "{id} is not listed");
        let explained = text(&place.run(&["explain", id]).stdout);
        says(&explained, &["timed", "model", "source", "pitfall", "no result is kept"]);
    }
}

#[test]
fn completions_and_man_pages_come_from_the_same_definition() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&place.run(&["completions", shell]).stdout);
        assert!(script.contains("thorough"), "{shell}");
    }
    let folder = place.path().join("man");
    place.said(&format!("man {}", folder.display()));
    let page = std::fs::read_to_string(folder.join("fathom-run.1")).expect("a page");
    assert!(page.contains("thorough"));
    assert!(!folder.join("fathom-worker.1").exists(), "the worker is nobody's command");
}

#[test]
fn a_history_of_what_there_is_not_is_refused_as_a_run_of_it_is() {
    let place = Place::new();
    place.short_run();
    for (word, parts) in [
        ("os.syscall{call=nope}", &["no such case", "there are: call = "][..]),
        ("os.syscall{nope=1}", &["no parameter `nope`", "call"]),
        ("cpu.frequency{nope=1}", &["no parameter `nope`"]),
    ] {
        is_refused(&place.run(&["history", word]), parts);
    }
    let none = place.run(&["history", "os.syscall{call=stat}"]);
    ends_with(&none, 3);
    assert!(text(&none.stdout).contains("No run of os.syscall"), "{}", text(&none.stderr));
    let one = place.run(&["history", "cpu"]);
    assert_eq!(text(&one.stdout).matches("Too few runs").count(), 1, "{}", text(&one.stdout));
}

#[test]
fn a_run_may_be_a_file_of_any_name_and_what_is_nothing_is_told_in_all_its_readings() {
    let place = Place::new();
    place.short_run();
    let shown = place.run(&["show"]).stdout;
    for name in ["a.jsonl", "plain", "a.json"] {
        std::fs::write(place.path().join(name), place.run(&["export"]).stdout).expect("a file");
        let output = place.fathom(&["show", name]).current_dir(place.path()).output();
        assert_eq!(text(&output.expect("it starts").stdout), text(&shown), "{name}");
    }
    std::fs::write(place.path().join("latest"), "no run").expect("a file");
    let latest = place.fathom(&["show", "latest"]).current_dir(place.path()).output();
    assert_eq!(text(&latest.expect("it starts").stdout), text(&shown));
    for name in ["b.jsonl", "nonsense", "ab"] {
        fails(&place.run(&["show", name]), &[name, "this id", "no host", "no such file"]);
    }
}

#[test]
fn history_of_an_unknown_host_names_the_known() {
    let place = Place::new();
    place.short_run();
    let this = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let asked = place.ask("history cpu.frequency --host nowhere");
    fails(&asked, &["no run of host nowhere", &this, "--host"]);
    ends_with(&place.ask(&format!("history cpu.frequency --host {this}")), 0);
}
