//! A store that cannot be used costs the record and not the measurement, in every command that
//! measures; and where a store is made.

use std::path::Path;
use std::process::Command;

use crate::place::{Place, ends_with, fails, left, says, text, text_of};

/// Commands that measure, each with what it prints.
fn commands(place: &Place) -> [(String, &'static str); 3] {
    let file = place.name("data");
    std::fs::write(&file, vec![1; 1 << 20]).expect("a file");
    [
        ("run --quick cpu.frequency".to_owned(), "cpu.frequency"),
        (format!("file read {file} --block 64K"), "XOR-32"),
        (format!("file fast {file} --json"), "file.fast"),
    ]
}

/// Asserts the results, and a warning with these words before and after them.
fn is_measured(command: &mut Command, status: i32, printed: &str, words: &[&str]) {
    let output = command.output().expect("the program starts");
    ends_with(&output, status);
    assert!(text(&output.stdout).contains(printed), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    let warnings = said.lines().filter(|line| line.contains("this run is not kept: "));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 2, "{said}");
    for word in words {
        assert!(warnings.iter().all(|line| line.contains(word)), "`{word}` is missing: {said}");
    }
}

#[test]
fn unusable_named_store_measures_and_fails() {
    let place = Place::new();
    let commands = commands(&place);
    let other = "another program's text, long enough to be looked at as a database ".repeat(20);
    std::fs::write(place.file("other.db"), &other).expect("a file");
    let before = left(place.path()).len();
    for (store, why) in [
        ("no/where/x.db", "does not exist; create it (mkdir -p)"),
        ("data/x.db", "not a directory"),
        (".", "is a directory"),
        ("other.db", "not a SQLite database"),
    ] {
        let store = place.name(store);
        for (line, printed) in &commands {
            let mut named = place.asked(&format!("{line} --store {store}"));
            is_measured(&mut named, 1, printed, &[&store, why, "--store"]);
            let mut by_environment = place.asked(line);
            let by_environment = by_environment.env("FATHOM_STORE", &store);
            is_measured(by_environment, 1, printed, &[&store, why]);
        }
    }
    assert_eq!(left(place.path()).len(), before, "a folder or a store was made");
    assert_eq!(std::fs::read_to_string(place.file("other.db")).expect("a file"), other);
    let import = format!("import {}", place.name("no/run.json"));
    fails(&place.ask(&import), &["run.json", "No such file"]);
}

#[test]
fn unusable_default_store_measures_and_succeeds() {
    let place = Place::new();
    for (line, printed) in commands(&place) {
        let mut command = place.asked(&line);
        let command = command.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", place.file("data"));
        is_measured(command, 0, printed, &["not a directory", "FATHOM_STORE"]);
        let mut homeless = place.asked(&line);
        homeless.env_remove("FATHOM_STORE").env_remove("XDG_DATA_HOME").env_remove("HOME");
        is_measured(&mut homeless, 0, printed, &["HOME"]);
    }
}

#[test]
fn only_the_default_folder_is_made() {
    let place = Place::new();
    let data = place.file("share/data");
    let with_default = |line: &str| {
        let mut command = place.asked(line);
        command.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", &data);
        command.output().expect("the program starts")
    };
    ends_with(&with_default("run --quick cpu.frequency"), 0);
    let store = data.join("fathom/fathom.db");
    assert!(store.is_file());
    ends_with(&with_default("show"), 0);
    std::fs::remove_dir_all(&data).expect("a folder");
    // Naming it changes nothing but the status of a failure.
    let named = format!("run --quick cpu.frequency --store {}", text_of(&store));
    ends_with(&with_default(&named), 0);
    let elsewhere = place.name("elsewhere/fathom.db");
    let doctor = text(&place.ask(&format!("doctor --json --store {elsewhere}")).stdout);
    says(&doctor, &["elsewhere does not exist", "keep_elsewhere"]);
    assert!(!Path::new(&place.name("elsewhere")).exists());
}
