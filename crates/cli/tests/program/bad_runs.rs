//! Incomplete, foreign and damaged runs and stores: a one-line error, or as much as can be shown.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Cause, Document, RunState, State, Verdict};

use crate::test_env::{assert_error, assert_status, canned, json, unwrapped_stdout};
use crate::{TestEnv, assert_failure, assert_usage_error, text};

fn document_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/document.json")
}

/// Writes the document with another id, a change, and valid checksums.
fn write_changed(env: &TestEnv, name: &str, change: impl FnOnce(&mut Document)) -> String {
    let mut document = canned();
    document.run.id = format!("{name:0<16}");
    change(&mut document);
    env.write_document(&format!("{name}.json"), &document)
}

/// With the document in the store.
fn env_with_document() -> TestEnv {
    let env = TestEnv::new();
    env.store_run(&canned());
    env
}

#[test]
fn document_works_with_every_command() {
    let env = TestEnv::new();
    env.run(&["import", document_path().to_str().expect("a name")]);
    assert_eq!(env.latest(), canned());
    let by_file = env.run(&["show", document_path().to_str().expect("a name")]);
    assert_eq!(by_file.stdout, env.run(&["show"]).stdout, "{}", text(&by_file.stderr));
    let other = write_changed(&env, "b", |_| ());
    let compared = env.run(&["compare", "latest", &other]);
    assert!(text(&compared.stdout).contains("5 cases compared"), "{}", text(&compared.stderr));
    assert!(env.run(&["export", "--format", "csv"]).status.success());
}

#[test]
fn empty_store_fails() {
    let env = TestEnv::new();
    let connection = rusqlite::Connection::open(env.store()).expect("a file");
    drop(connection);
    drop(fathom_store::Store::open(&env.store()).expect("an empty store"));
    for words in [&["compare", "latest~1", "latest"][..], &["export"], &["show"]] {
        assert_failure(&env.run(words), &["the store has no runs", "show --runs"]);
    }
    assert_failure(&env.run(&["history", "cpu.call"]), &["the store has no runs", "fathom run"]);
}

#[test]
fn runs_without_common_case_are_not_compared() {
    let env = env_with_document();
    let other = write_changed(&env, "b", |document| {
        document.records.iter_mut().for_each(|one| one.metric = fathom_record::MetricId::new("x"));
    });
    assert_error(
        &env.run(&["compare", &canned().run.id, &other]),
        3,
        &["nothing to compare: no common"],
    );
    let output = env.run(&["compare", "--json", &canned().run.id, &other]);
    assert_status(&output, 3);
    let comparison: serde_json::Value = json(&output);
    assert_eq!(comparison["rows"].as_array().map(Vec::len), Some(0), "{comparison}");
    let invalid = write_changed(&env, "c", |document| {
        let verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
        document.records.iter_mut().for_each(|one| one.verdict = verdict.clone());
    });
    let output = env.run(&["compare", &canned().run.id, &invalid]);
    assert_error(&output, 3, &["nothing to compare", "invalid in B", "fathom run"]);
    // It can still be imported and exported.
    assert!(env.run(&["import", &invalid]).status.success());
    assert!(env.run(&["export", "--all", "--format", "csv"]).status.success());
}

#[test]
fn interrupted_run_is_compared_as_far_as_it_goes() {
    let env = env_with_document();
    let cut_off = write_changed(&env, "b", |document| {
        document.run.state = RunState::Interrupted;
        document.records.truncate(1);
    });
    let output = env.run(&["compare", "latest", &cut_off]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let one_line = unwrapped_stdout(&output);
    let words = "interrupted after 1 of 7 cases";
    assert!(one_line.contains(words) && one_line.contains("Only in A"), "{printed}");
}

#[test]
fn several_runs_of_one_host_are_one_side() {
    let env = env_with_document();
    let like = ["b", "c"].map(|name| write_changed(&env, name, |_| ()));
    let words = ["compare", "latest", &like[0], &like[1], "--json"];
    let comparison: serde_json::Value = json(&env.run(&words));
    assert_eq!(comparison["rows"][0]["runs_a"], 2, "{comparison}");
    assert_eq!(comparison["b"]["id"], format!("{:0<16}", "c"));
    let elsewhere = write_changed(&env, "d", |document| {
        (document.host.name, document.host.id) = ("elsewhere".to_owned(), None);
    });
    let output = env.run(&["compare", &canned().run.id, &elsewhere, &like[0]]);
    assert_usage_error(&output, &["elsewhere", "hosts are never pooled", "runs of one host"]);
    let output = env.run(&["compare", &like[0], &like[0], &canned().run.id]);
    assert_usage_error(&output, &["named twice"]);
}

#[test]
#[ignore = "lab: waits ten seconds for a lock"]
fn locked_store_fails_after_ten_seconds() {
    let env = env_with_document();
    let lock = rusqlite::Connection::open(env.store()).expect("the store");
    lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("a lock");
    let name = document_path().to_str().expect("a name").to_owned();
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
    let env = TestEnv::new();
    let fathom = env.fathom(&["import", "-"]);
    let mut command = Command::new("sh");
    let long = "ulimit -v 250000 && (printf '{\"schema\":3,\"tool\":\"' && cat /dev/zero) \
                | tr '\\0' 0 | \"$@\"";
    command.args(["-c", long, "sh"]).arg(fathom.get_program()).args(fathom.get_args());
    command.env("FATHOM_STORE", env.store());
    assert_failure(&command.output().expect("a shell"), &["64 MiB"]);
}
