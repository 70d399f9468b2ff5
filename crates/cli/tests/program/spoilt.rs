//! What commands that read kept runs say of runs and places that are not as they should be: one
//! clear line and exit status 2, or the run as far as it goes.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use fathom_record::{Cause, Document, RunState, State, Verdict};

use crate::place::{complains, json, unwrapped};
use crate::{Place, fails, is_refused, text};

/// A run as it was printed.
fn first() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/document.json")
}

fn document() -> Document {
    let text = std::fs::read_to_string(first()).expect("the first document");
    serde_json::from_str(&text).expect("a document")
}

/// The document with this change, its records sealed again, as a file.
fn file(place: &Place, name: &str, change: impl FnOnce(&mut Document)) -> String {
    let mut document = document();
    document.run.id = format!("{name:0<16}");
    change(&mut document);
    place.keep(&format!("{name}.json"), &document)
}

/// A place whose store has that run.
fn with_first() -> Place {
    let place = Place::new();
    place.said(&format!("import {}", first().display()));
    place
}

#[test]
fn document_is_imported_shown_exported_compared() {
    let place = with_first();
    assert_eq!(place.latest(), document());
    let by_file = place.run(&["show", first().to_str().expect("a name")]);
    assert_eq!(by_file.stdout, place.run(&["show"]).stdout, "{}", text(&by_file.stderr));
    let other = file(&place, "b", |_| ());
    let compared = place.run(&["compare", "latest", &other]);
    assert!(text(&compared.stdout).contains("3 cases compared"), "{}", text(&compared.stderr));
    assert!(place.run(&["export", "--format", "csv"]).status.success());
}

#[test]
fn an_empty_store_and_an_unknown_run_are_said() {
    let place = Place::new();
    for words in [&["compare", "latest~1", "latest"][..], &["history", "cpu.call"], &["export"]] {
        fails(&place.run(words), &["there is no store", "fathom run", "--store"]);
    }
    let connection = rusqlite::Connection::open(place.store()).expect("a file");
    drop(connection);
    drop(fathom_store::Store::open(&place.store()).expect("an empty store"));
    for words in [&["compare", "latest~1", "latest"][..], &["export"], &["show"]] {
        fails(&place.run(words), &["the store has no runs", "show --runs"]);
    }
    fails(&place.run(&["history", "cpu.call"]), &["the store has no runs", "fathom run"]);
    let place = with_first();
    for (words, why) in [
        (&["compare", "latest", "ffffffff"][..], "no kept run has this id"),
        (&["compare", "latest~7", "latest"], "no such run among the 1"),
        (&["compare", "ffffffff", "--reference", "2016-i5-5257u"], "no host with kept runs"),
        (&["export", "ffffffff"], "there is no such file"),
    ] {
        fails(&place.run(words), &[why, "show --runs"]);
    }
    is_refused(&place.run(&["history", "cpu.cal"]), &["cpu.cal", "did you mean `cpu.call`"]);
}

#[test]
fn runs_without_a_case_in_common_or_without_a_number_are_no_comparison() {
    let place = with_first();
    let other = file(&place, "b", |document| {
        document.records.iter_mut().for_each(|one| one.metric = fathom_record::MetricId::new("x"));
    });
    for words in [&["compare", "latest", &other][..], &["compare", "--json", "latest", &other]] {
        complains(&place.run(words), 3, &["nothing can be compared", "no case in common"]);
    }
    let invalid = file(&place, "c", |document| {
        let verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
        document.records.iter_mut().for_each(|one| one.verdict = verdict.clone());
    });
    let output = place.run(&["compare", "latest", &invalid]);
    complains(&output, 3, &["nothing can be compared", "invalid in B", "fathom run"]);
    // It can be kept and looked at all the same.
    assert!(place.run(&["import", &invalid]).status.success());
    assert!(place.run(&["export", "--all", "--format", "csv"]).status.success());
}

#[test]
fn a_run_that_was_cut_off_is_compared_as_far_as_it_goes_and_it_is_said() {
    let place = with_first();
    let cut_off = file(&place, "b", |document| {
        document.run.state = RunState::Interrupted;
        document.records.truncate(1);
    });
    let output = place.run(&["compare", "latest", &cut_off]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let one_line = unwrapped(&output);
    let words = "interrupted after 1 of 3 cases: compared as far as it goes";
    assert!(one_line.contains(words) && one_line.contains("Only in A"), "{said}");
}

#[test]
fn several_runs_are_one_side_and_those_of_two_hosts_are_not() {
    let place = with_first();
    let like = ["b", "c"].map(|name| file(&place, name, |_| ()));
    let words = ["compare", "latest", &like[0], &like[1], "--json"];
    let comparison: serde_json::Value = json(&place.run(&words));
    assert_eq!(comparison["rows"][0]["runs_a"], 2, "{comparison}");
    assert_eq!(comparison["b"]["id"], format!("{:0<16}", "c"));
    let elsewhere = file(&place, "d", |document| {
        (document.host.name, document.host.id) = ("elsewhere".to_owned(), None);
    });
    let output = place.run(&["compare", "latest", &elsewhere, &like[0]]);
    is_refused(&output, &["elsewhere", "hosts are never pooled", "runs of one host"]);
    let output = place.run(&["compare", &like[0], &like[0], "latest"]);
    is_refused(&output, &["named twice"]);
    is_refused(&place.run(&["compare", "latest"]), &["two runs or more", "1 named"]);
    let output = place.run(&["compare", "latest", "latest", "--reference", "2016-i5-5257u"]);
    is_refused(&output, &["one run", "2 were named"]);
}

#[test]
fn a_store_that_another_program_keeps_locked_is_said_after_a_while() {
    let place = with_first();
    let lock = rusqlite::Connection::open(place.store()).expect("the store");
    lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("a lock");
    let name = first().to_str().expect("a name").to_owned();
    let commands: [&[&str]; 4] = [
        &["compare", "latest~1", "latest"],
        &["history", "cpu.call"],
        &["export"],
        &["import", &name],
    ];
    // Side by side: each waits for ten seconds.
    thread::scope(|scope| {
        for words in commands {
            let place = &place;
            scope.spawn(move || {
                fails(&place.run(words), &["locked for 10 s", "wait for that process"]);
            });
        }
    });
}

#[test]
fn an_output_that_cannot_be_written_is_said_and_nothing_is_left() {
    let place = with_first();
    let folder = place.path().to_str().expect("a name").to_owned();
    let (below_a_file, nowhere) = (format!("{folder}/fathom.db/x"), format!("{folder}/no/where"));
    let before = std::fs::read_dir(place.path()).expect("a folder").count();
    for target in [below_a_file.as_str(), &nowhere, &folder] {
        fails(&place.run(&["export", "-o", target]), &["write", target]);
    }
    assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), before);
}

/// A large file of another program is refused with 100 MiB of memory, where there are that many.
#[test]
fn a_large_file_of_another_program_is_refused_with_little_memory() {
    let place = with_first();
    let path = place.path().join("large.json");
    let name = path.to_str().expect("a name").to_owned();
    let numbers = "0,".repeat(100_000_000);
    let wide = format!("[{numbers}0]");
    let named = format!("{{\"data\":{wide}}}");
    let long = format!("{{\"schema\":3,\"tool\":\"{numbers}\"}}");
    let late = format!("{{\"host\":{wide}}}");
    drop(numbers);
    for (content, part) in
        [(wide, "line 1"), (named, "`data`"), (long, "64 MiB"), (late, "field `host")]
    {
        std::fs::write(&path, content).expect("a file");
        // All read by the same code; a long word is read to its limit, which takes a while.
        let commands: &[&[&str]] = match part {
            "64 MiB" => &[&["import", &name]],
            _ => &[&["import", &name], &["compare", &name, "latest"], &["show", &name]],
        };
        for words in commands {
            let fathom = place.fathom(words);
            // 200 MB more than the program itself maps would be needed to hold it.
            let mut command = Command::new("sh");
            command.args(["-c", "ulimit -v 250000 && exec \"$@\"", "sh"]);
            command.arg(fathom.get_program()).args(fathom.get_args());
            command.env("FATHOM_STORE", place.store());
            fails(&command.output().expect("a shell"), &[part]);
        }
    }
}
