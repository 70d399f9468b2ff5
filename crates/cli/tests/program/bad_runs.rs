//! Incomplete, foreign and damaged runs and stores: a one-line error, or as much as can be shown.

use std::process::Command;
use std::thread;

use fathom_measure::clock::monotonic_raw_ns;

use crate::test_env::{assert_contains, canned};
use crate::{ProgramTestEnv, assert_failure};

#[test]
fn empty_store_fails() {
    let env = ProgramTestEnv::new();
    let connection = rusqlite::Connection::open(env.store()).expect("a file");
    drop(connection);
    drop(fathom_store::Store::open(&env.store()).expect("an empty store"));
    for words in [&["compare", "latest~1", "latest"][..], &["export"], &["show"], &["report"]] {
        assert_failure(&env.run(words), &["the store has no runs", "show --runs"]);
    }
    assert_failure(&env.run(&["history", "cpu.call"]), &["the store has no runs", "fathom run"]);
    assert!(!env.file("report.html").exists());
}

#[test]
fn missing_records_of_a_complete_run_are_counted() {
    let env = ProgramTestEnv::new();
    let mut part = canned();
    part.run.planned += 3;
    let all = part.run.planned;
    let name = env.write_document("run.json", &part);
    let imported = env.stdout(&format!("import {name}"));
    assert_contains(
        &imported,
        &[&format!("Imported 1 run; 3 of {all} planned records are missing")],
    );
    assert_contains(&env.stdout("show"), &[&format!("3 of {all} cases are missing.")]);
}

#[test]
#[ignore = "lab: waits ten seconds for a lock"]
fn locked_store_fails_after_ten_seconds() {
    let env = ProgramTestEnv::new();
    env.store_run(&canned());
    let lock = rusqlite::Connection::open(env.store()).expect("the store");
    lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("a lock");
    let name = env.write_document("run.json", &canned());
    let commands: [&[&str]; 4] = [
        &["compare", "latest~1", "latest"],
        &["history", "cpu.call"],
        &["export"],
        &["import", &name],
    ];
    thread::scope(|scope| {
        for words in commands {
            let env = &env;
            scope.spawn(move || {
                let begin = monotonic_raw_ns();
                assert_failure(&env.run(words), &["locked for 10 s", "wait for that process"]);
                let elapsed_s = (monotonic_raw_ns() - begin) / 1_000_000_000;
                assert!(elapsed_s < 15, "{words:?} waits more than once");
            });
        }
    });
}

#[test]
#[ignore = "lab: a debug build parses 64 MiB in five seconds"]
fn run_over_64_mib_is_refused_in_less_than_256_mb() {
    let env = ProgramTestEnv::new();
    let fathom = env.fathom(&["import", "-"]);
    let mut command = Command::new("sh");
    let long = "ulimit -v 250000 && (printf '{\"schema\":3,\"tool\":\"' && cat /dev/zero) \
                | tr '\\0' 0 | \"$@\"";
    command.args(["-c", long, "sh"]).arg(fathom.get_program()).args(fathom.get_args());
    command.env("FATHOM_STORE", env.store());
    assert_failure(&command.output().expect("a shell"), &["64 MiB"]);
}
