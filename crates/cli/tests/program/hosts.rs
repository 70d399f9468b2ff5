//! Hosts are identified by id: two may share a name, and one may have been renamed.

use serde_json::Value;

use crate::test_env::{json, stored_run};
use crate::{TestEnv, assert_failure, text};

const FIRST: &str = "aaaaaaaa000000000000000000000000";
const SECOND: &str = "bbbbbbbb000000000000000000000000";

/// With runs of hosts with these ids and names, and a run of this host.
fn env_with_hosts(hosts: &[(&str, &str)]) -> TestEnv {
    let env = TestEnv::with_run();
    for (number, (id, name)) in (2..).zip(hosts) {
        let mut document = stored_run(number);
        (document.host.id, document.host.name) = (Some((*id).to_owned()), (*name).to_owned());
        env.store_run(&document);
    }
    env
}

/// Hosts and points of the histories that `--host` shows.
fn histories(env: &TestEnv, host: &str) -> Vec<(String, usize)> {
    let words = ["history", "cpu.frequency", "--host", host, "--json"];
    let histories: Value = json(&env.run(&words));
    let points = |one: &Value| one["series"][0]["points"].as_array().map_or(0, Vec::len);
    let of = |one: &Value| (one["host"].as_str().expect("a host").to_owned(), points(one));
    histories.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn hosts_of_one_name_are_distinguished() {
    let env = env_with_hosts(&[(FIRST, "db"), (SECOND, "db"), (FIRST, "db")]);
    let both = [("db (aaaaaaaa)".to_owned(), 2), ("db (bbbbbbbb)".to_owned(), 1)];
    assert_eq!(histories(&env, "db"), both);
    assert_eq!(histories(&env, "bbbb"), both[1..]);
    let printed = text(&env.run(&["history", "cpu.frequency", "--host", "db"]).stdout);
    assert!(
        printed.contains("on db (aaaaaaaa)") && printed.contains("on db (bbbbbbbb)"),
        "{printed}"
    );
    let list = env.stdout("show --runs");
    assert!(list.contains("db (aaaaaaaa)") && list.contains("db (bbbbbbbb)"), "{list}");
    assert_failure(&env.run(&["compare", "db", "latest"]), &["several hosts", "db (bbbbbbbb)"]);
    let compared = text(&env.run(&["compare", "aaaaaaaa", "bbbbbbbb"]).stdout);
    assert!(compared.contains("host: db (aaaaaaaa) → db (bbbbbbbb)"), "{compared}");
}

#[test]
fn renamed_host_is_one_host() {
    let env = env_with_hosts(&[(FIRST, "old"), (FIRST, "new")]);
    for name in ["old", "new", "aaaaaaaa"] {
        assert_eq!(histories(&env, name), [("new".to_owned(), 2)], "{name}");
    }
    let list = env.stdout("show --runs");
    assert!(!list.contains("aaaaaaaa"), "{list}");
}

#[test]
fn this_host_is_found_by_its_id() {
    let env = env_with_hosts(&[(FIRST, "other")]);
    let own = stored_run(1).host;
    // Another host with the same name.
    let mut namesake = stored_run(9);
    namesake.host.id = Some(SECOND.to_owned());
    env.store_run(&namesake);
    let histories: Value = json(&env.run(&["history", "cpu.frequency", "--json"]));
    assert_eq!(histories[0]["host_id"].as_str(), own.id.as_deref());
    assert_eq!(histories[0]["series"][0]["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn unknown_host_lists_known_hosts() {
    let env = env_with_hosts(&[(FIRST, "db"), (SECOND, "db")]);
    let asked = env.run(&["history", "cpu.frequency", "--host", "aaa"]);
    assert_failure(
        &asked,
        &["no run of host aaa", "db (aaaaaaaa), db (bbbbbbbb)", "at least 4 digits"],
    );
}
