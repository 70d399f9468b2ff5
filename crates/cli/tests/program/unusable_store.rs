//! With an unusable store every measuring command measures and prints, and warns once.

use std::path::Path;
use std::process::Command;

use rustix::process::Resource;

use crate::limits::{at_most, under};
use crate::test_env::{
    TestEnv, assert_contains, assert_failure, assert_status, entries, path_text, text,
};

/// Measuring commands, each with a part of its output.
fn commands(env: &TestEnv) -> [(String, &'static str); 3] {
    let file = env.path_text("data");
    std::fs::write(&file, vec![1; 1 << 20]).expect("a file");
    [
        ("run --quick --only cpu.frequency".to_owned(), "cpu.frequency"),
        (format!("file read {file} --block 64K"), "XOR-32"),
        (format!("file fast {file} --json"), "file.fast"),
    ]
}

/// Asserts an exit status, a part of the output, and one warning with these parts.
fn assert_measured(command: &mut Command, status: i32, printed: &str, parts: &[&str]) {
    let output = command.output().expect("the program starts");
    assert_status(&output, status);
    assert_contains(&text(&output.stdout), &[printed]);
    let message = text(&output.stderr);
    let warnings = message.lines().filter(|line| line.contains("this run is not stored: "));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 1, "{message}");
    assert_contains(warnings[0], parts);
}

#[test]
fn unusable_named_store_measures_and_fails() {
    let env = TestEnv::new();
    let commands = commands(&env);
    let other = "text of another program, as long as the header of a database ".repeat(20);
    std::fs::write(env.file("other.db"), &other).expect("a file");
    drop(fathom_store::Store::open(&env.file("newer.db")).expect("a store"));
    let newer = rusqlite::Connection::open(env.file("newer.db")).expect("a store");
    let version = fathom_store::VERSION + 1;
    newer.pragma_update(None, "user_version", version).expect("a newer store");
    drop(newer);
    let newer = std::fs::read(env.file("newer.db")).expect("a file");
    let before = entries(env.path()).len();
    for (store, why) in [
        ("no/where/x.db", "does not exist; create it (mkdir -p)"),
        ("data/x.db", "not a directory"),
        (".", "is a directory"),
        ("other.db", "not a SQLite database"),
        ("newer.db", "upgrade fathom"),
    ] {
        let store = env.path_text(store);
        let mut named = env.command(&format!("{} --store {store}", commands[1].0));
        assert_measured(&mut named, 1, commands[1].1, &[&store, why, "--store"]);
        let mut by_environment = env.command(&commands[2].0);
        let by_environment = by_environment.env("FATHOM_STORE", &store);
        assert_measured(by_environment, 1, commands[2].1, &[&store, why]);
    }
    let (line, printed) = &commands[0];
    let mut run = env.command(&format!("{line} --store {}", env.path_text("newer.db")));
    assert_measured(&mut run, 1, printed, &["newer.db", "upgrade fathom", "--store"]);
    assert_eq!(entries(env.path()).len(), before, "a folder or a store was created");
    assert_eq!(std::fs::read_to_string(env.file("other.db")).expect("a file"), other);
    assert_eq!(std::fs::read(env.file("newer.db")).expect("a file"), newer);
    for line in ["show", "show --runs", "compare latest latest", "explain cpu.call --run latest"] {
        let output = env.exec(&format!("{line} --store {}", env.path_text("newer.db")));
        assert_failure(&output, &[&format!("a store of version {version}"), "upgrade fathom"]);
    }
    let import = format!("import {}", env.path_text("no/run.json"));
    assert_failure(&env.exec(&import), &["run.json", "No such file"]);
}

#[test]
fn file_size_limit_of_a_store_is_named() {
    let env = TestEnv::new();
    drop(fathom_store::Store::open(&env.store()).expect("a store"));
    let (line, _) = &commands(&env)[1];
    for limit in [0, 1024] {
        let output = under(env.command(line), at_most(Resource::Fsize, limit));
        assert_status(&output, 1);
        assert_contains(&text(&output.stderr), &["not stored", "File too large", "ulimit -f"]);
    }
}

#[test]
fn unusable_default_store_measures_and_succeeds() {
    let env = TestEnv::new();
    for (line, printed) in commands(&env) {
        let mut command = env.command(&line);
        let command = command.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", env.file("data"));
        assert_measured(command, 0, printed, &["not a directory", "FATHOM_STORE"]);
        if line.starts_with("run") {
            continue;
        }
        let mut homeless = env.command(&line);
        homeless.env_remove("FATHOM_STORE").env_remove("XDG_DATA_HOME").env_remove("HOME");
        assert_measured(&mut homeless, 0, printed, &["HOME"]);
    }
}

#[test]
fn only_default_folder_is_created() {
    let env = TestEnv::new();
    let data = env.file("share/data");
    std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
    let with_default = |line: &str| {
        let mut command = env.command(line);
        command.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", &data);
        command.output().expect("the program starts")
    };
    assert_status(&with_default("file read data --block 64K"), 0);
    let store = data.join("fathom/fathom.db");
    assert!(store.is_file());
    assert_status(&with_default("show"), 0);
    std::fs::remove_dir_all(&data).expect("a folder");
    // Also if it is named.
    let named = format!("file read data --block 64K --store {}", path_text(&store));
    assert_status(&with_default(&named), 0);
    let elsewhere = env.path_text("elsewhere/fathom.db");
    let doctor = text(&env.exec(&format!("doctor --json --store {elsewhere}")).stdout);
    assert_contains(&doctor, &["elsewhere does not exist", "keep_elsewhere"]);
    assert!(!Path::new(&env.path_text("elsewhere")).exists());
}
