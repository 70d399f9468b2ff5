//! `fathom ui`: its data are those of `report` and `history`, whatever happens to the store.

use std::fs;
use std::io::Read as _;
use std::process::Child;

use fathom_record::{Document, RunState};
use fathom_store::Store;
use rustix::process::Signal;
use serde_json::Value;

use crate::children::{next_line, signal_and_wait, spawn_piped};
use crate::serve::request;
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_usage_error, canned, stored_run, text,
};

/// A running server of the page, and its address.
fn start(env: &ProgramTestEnv, options: &str) -> (Child, String) {
    let mut child = spawn_piped(env.command(&format!("ui --listen 0 {options}")));
    assert!(next_line(&mut child).starts_with("Showing "));
    let line = next_line(&mut child);
    let address = line.trim().trim_end_matches('/').rsplit('/').next().expect("an address");
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    (child, address.to_owned())
}

/// Status and body.
fn get(address: &str, target: &str) -> (u16, String) {
    let mut answer = String::new();
    request(address, target).read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

fn data(address: &str, target: &str) -> String {
    let (status, body) = get(address, &format!("/api/{target}"));
    assert_eq!(status, 200, "{target}: {body}");
    body
}

fn json(address: &str, target: &str) -> Value {
    serde_json::from_str(&data(address, target)).expect("JSON")
}

/// The line of a refusal.
fn refusal(address: &str, target: &str, expected: u16) -> String {
    let (status, body) = get(address, &format!("/api/{target}"));
    assert_eq!(status, expected, "{target}: {body}");
    let line: Value = serde_json::from_str(&body).expect("JSON");
    line["error"].as_str().expect("a line").to_owned()
}

/// The data in a page of `fathom report`.
fn reported(env: &ProgramTestEnv, line: &str) -> String {
    let page = env.stdout(&format!("report {line} -o -"));
    let (_, after) = page.split_once("id=\"runs\">").expect("the data");
    after.split_once("</script>").expect("their end").0.to_owned()
}

/// Runs of six hosts with one label.
fn store_fleet(env: &ProgramTestEnv) {
    for host in 1..=6 {
        let mut run = canned();
        run.run.id = format!("{host:012}f1ee");
        run.run.label = Some("rack 1".to_owned());
        (run.host.name, run.host.id) = (format!("node{host}"), None);
        env.store_run(&run);
    }
}

#[test]
fn views_have_the_data_of_report_and_history() {
    let env = ProgramTestEnv::with_run();
    env.store_run(&stored_run(2));
    store_fleet(&env);
    let (child, address) = start(&env, "");
    let (status, page) = get(&address, "/run/latest");
    assert_eq!(status, 200);
    assert!(page.contains("id=\"runs\">null</script>") && page.contains("connect-src 'self'"));
    let (a, b) = ("000000000001abcd", "000000000002abcd");
    assert_eq!(data(&address, &format!("run/{a}")), reported(&env, &format!("--run {a}")));
    let both = data(&address, &format!("compare?a={a}&b={b}"));
    assert_eq!(both, reported(&env, &format!("{a} {b}")));
    assert_ne!(json(&address, &format!("compare?a={a}&b={b}"))["comparison"], Value::Null);
    let output = env.run(&["report", "--fleet", "rack 1", "-o", "-"]);
    let page = text(&output.stdout);
    let fleet = data(&address, "hosts?label=rack%201");
    assert!(page.contains(&format!("id=\"runs\">{fleet}</script>")));
    let history = json(&address, "history?metric=cpu.frequency");
    let shown: Value =
        serde_json::from_str(&env.stdout("history cpu.frequency --json")).expect("JSON");
    assert_eq!(history["history"]["all"], shown["histories"]);
    assert_eq!(shown["histories"][0]["series"][0]["points"].as_array().expect("points").len(), 2);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn list_is_filtered_and_paged() {
    let env = ProgramTestEnv::with_run();
    store_fleet(&env);
    for number in 3..=99 {
        env.store_run(&stored_run(number));
    }
    let (child, address) = start(&env, "");
    let list = |query: &str| {
        let runs = json(&address, &format!("runs{query}"))["runs"].clone();
        let rows = runs["rows"].as_array().expect("rows").len();
        (rows, runs["total"].as_u64().expect("a count"), runs["passed"].as_u64().expect("a count"))
    };
    assert_eq!(list(""), (100, 104, 0));
    assert_eq!(list("?page=2"), (4, 104, 100));
    assert_eq!(list("?page=3"), (0, 104, 200));
    assert_eq!(list("?label=rack+1&host="), (6, 6, 0));
    assert_eq!(list("?host=node3&kind=run&metric=cpu"), (1, 1, 0));
    assert_eq!(list("?since=2026-11-03&until=2026-11-04"), (2, 2, 0));
    let runs = &json(&address, "runs")["runs"];
    assert!(runs["metrics"].as_array().expect("metrics").contains(&"cpu.frequency".into()));
    assert_eq!(runs["hosts"].as_array().expect("hosts").len(), 7);
    signal_and_wait(child, Signal::INT);
}

#[test]
fn unknown_names_are_refused_with_their_remedy() {
    let env = ProgramTestEnv::with_run();
    fs::write(env.file("a.json"), "{}").expect("a file");
    let (child, address) = start(&env, "");
    let line = refusal(&address, "run/ffffffffffffffff", 404);
    assert_contains(&line, &["no such run among the 1", "; `fathom show --runs` lists them"]);
    assert_contains(&refusal(&address, "run/0", 400), &["at least 4 characters"]);
    // No name of a request is that of a file.
    for file in ["a.json", "./a.json", "/etc/passwd"] {
        let encoded = file.replace('/', "%2F");
        let line = refusal(&address, &format!("run/{encoded}"), 400);
        assert_contains(&line, &["not a run name"]);
    }
    let line = refusal(&address, "compare?a=latest&b=000000000001abcd", 400);
    assert_contains(&line, &["both are run 000000000001abcd; name two runs"]);
    assert_contains(&refusal(&address, "history?metric=cpu.frequncy", 400), &["did you mean"]);
    assert_contains(&refusal(&address, "history?metric=cpu%7B", 400), &["cpu{"]);
    let line = refusal(&address, "history?metric=cpu.frequency&host=db9", 404);
    assert_contains(&line, &["no run of host db9"]);
    assert_contains(&refusal(&address, "hosts?label=rack9", 404), &["rack9"]);
    signal_and_wait(child, Signal::INT);
}

#[test]
fn running_run_is_shown_until_it_ends() {
    let env = ProgramTestEnv::with_run();
    let mut run: Document = stored_run(2);
    run.run.state = RunState::Running;
    run.run.label = Some("now".to_owned());
    let records = std::mem::take(&mut run.records);
    let mut store = Store::open(&env.store()).expect("a store");
    // It belongs to this process.
    store.begin(&run).expect("stored");
    let (child, address) = start(&env, "");
    let state = || json(&address, "run/now")["documents"][0]["run"]["state"].clone();
    let records_shown = || {
        let run = &json(&address, "run/now")["documents"][0];
        run["records"].as_array().expect("records").len()
    };
    assert_eq!((state(), records_shown()), ("running".into(), 0));
    assert_eq!(json(&address, "runs")["runs"]["rows"][0]["state"], "running");
    store.put(&run.run.id, &records[..1]).expect("stored");
    assert_eq!((state(), records_shown()), ("running".into(), 1));
    run.run.state = RunState::Complete;
    store.update_run(&run.run).expect("stored");
    assert_eq!(state(), "complete");
    signal_and_wait(child, Signal::INT);
}

#[test]
fn store_is_found_again_after_each_loss() {
    let env = ProgramTestEnv::with_run();
    let (child, address) = start(&env, "");
    let store = env.store();
    let away = env.file("away.db");
    fs::rename(&store, &away).expect("renamed");
    let line = refusal(&address, "runs", 503);
    assert_contains(&line, &["there is no store; create one with `fathom run`"]);
    fs::write(&store, "no database at all, but a text that is long enough").expect("a file");
    assert_contains(&refusal(&address, "runs", 503), &["not a SQLite database", "--store"]);
    fs::rename(&away, &store).expect("renamed");
    data(&address, "runs");
    let set = |version: u32| {
        let connection = rusqlite::Connection::open(&store).expect("a database");
        connection.pragma_update(None, "user_version", version).expect("set");
    };
    set(fathom_store::VERSION + 1);
    assert_contains(&refusal(&address, "run/latest", 503), &["upgrade fathom"]);
    set(fathom_store::VERSION - 1);
    let line = refusal(&address, "run/latest", 503);
    assert_contains(&line, &["start `fathom ui` again, which migrates it"]);
    let version: u32 = rusqlite::Connection::open(&store)
        .and_then(|it| it.pragma_query_value(None, "user_version", |row| row.get(0)))
        .expect("a version");
    assert_eq!(version, fathom_store::VERSION - 1, "no request changes the store");
    set(fathom_store::VERSION);
    data(&address, "run/latest");
    signal_and_wait(child, Signal::INT);
}

#[test]
fn locked_store_is_reported_and_found_again() {
    let env = ProgramTestEnv::with_run();
    let (child, address) = start(&env, "");
    let lock = rusqlite::Connection::open(env.store()).expect("a database");
    lock.pragma_update(None, "locking_mode", "exclusive").expect("set");
    lock.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE other (it)").expect("locked");
    let line = refusal(&address, "runs", 503);
    assert_contains(&line, &["locked for 10 s by another process; wait for that process"]);
    lock.execute_batch("ROLLBACK").expect("unlocked");
    drop(lock);
    data(&address, "runs");
    signal_and_wait(child, Signal::INT);
}

#[test]
fn nothing_is_written() {
    let env = ProgramTestEnv::with_run();
    env.store_run(&stored_run(2));
    let before = fs::read(env.store()).expect("a store");
    let (child, address) = start(&env, "");
    for target in ["runs", "run/latest", "compare?a=latest~1&b=latest", "history?metric=cpu"] {
        data(&address, target);
    }
    signal_and_wait(child, Signal::TERM);
    assert_eq!(fs::read(env.store()).expect("a store"), before);
}

#[test]
fn address_beyond_loopback_needs_a_token_file() {
    let env = ProgramTestEnv::with_run();
    let output = env.exec("ui --listen 0.0.0.0:0");
    assert_usage_error(&output, &["needs a token; add --token-file FILE"]);
    let (mut child, address) = start(&env, "--token-file token");
    let token = fs::read_to_string(env.file("token")).expect("it was made");
    // Standard output may be the log of a service.
    let line = next_line(&mut child);
    assert!(line.contains("#token=") && !line.contains(token.trim()), "{line}");
    assert_eq!(get(&address, "/run/latest").0, 200);
    assert_contains(&refusal(&address, "runs", 401), &["the token is missing"]);
    signal_and_wait(child, Signal::INT);
}

#[test]
fn missing_store_is_refused_at_once() {
    let env = ProgramTestEnv::new();
    let output = env.exec("ui --listen 0");
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&text(&output.stderr), &["there is no store", "fathom run"]);
    assert!(!env.store().exists());
}
