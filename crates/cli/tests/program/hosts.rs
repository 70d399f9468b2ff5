//! Hosts are known by their ids: two may have one name, and one may have had two.

use fathom_record::Document;
use serde_json::Value;

use crate::place::json;
use crate::{Place, fails, text};

const FIRST: &str = "aaaaaaaa000000000000000000000000";
const SECOND: &str = "bbbbbbbb000000000000000000000000";

/// A store with runs of hosts, by id and name, and a run of this host besides.
fn place(hosts: &[(&str, &str)]) -> Place {
    let place = Place::new();
    place.said("run --quick --only cpu.clock.read");
    let own = place.latest();
    for (number, (id, name)) in hosts.iter().enumerate() {
        let mut document: Document = own.clone();
        document.run.id = format!("{:012x}abcd", number + 1);
        (document.host.id, document.host.name) = (Some((*id).to_owned()), (*name).to_owned());
        let path = place.keep(&format!("{number}.json"), &document);
        place.said(&format!("import {path}"));
    }
    place
}

/// Hosts and points of the histories that `--host` shows.
fn histories(place: &Place, host: &str) -> Vec<(String, usize)> {
    let words = ["history", "cpu.clock.read", "--host", host, "--json"];
    let histories: Value = json(&place.run(&words));
    let points = |one: &Value| one["series"][0]["points"].as_array().map_or(0, Vec::len);
    let of = |one: &Value| (one["host"].as_str().expect("a host").to_owned(), points(one));
    histories.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn two_hosts_of_one_name_are_shown_apart() {
    let place = place(&[(FIRST, "db"), (SECOND, "db"), (FIRST, "db")]);
    let both = [("db (aaaaaaaa)".to_owned(), 2), ("db (bbbbbbbb)".to_owned(), 1)];
    assert_eq!(histories(&place, "db"), both);
    assert_eq!(histories(&place, "bbbb"), both[1..]);
    let said = text(&place.run(&["history", "cpu.clock.read", "--host", "db"]).stdout);
    assert!(said.contains("on db (aaaaaaaa)") && said.contains("on db (bbbbbbbb)"), "{said}");
    let list = place.said("show --runs");
    assert!(list.contains("db (aaaaaaaa)") && list.contains("db (bbbbbbbb)"), "{list}");
    fails(&place.run(&["compare", "db", "latest"]), &["several hosts", "db (bbbbbbbb)"]);
    let compared = text(&place.run(&["compare", "aaaaaaaa", "bbbbbbbb"]).stdout);
    assert!(compared.contains("host: db (aaaaaaaa) → db (bbbbbbbb)"), "{compared}");
}

#[test]
fn renamed_host_is_one_host() {
    let place = place(&[(FIRST, "old"), (FIRST, "new")]);
    for name in ["old", "new", "aaaaaaaa"] {
        assert_eq!(histories(&place, name), [("new".to_owned(), 2)], "{name}");
    }
    let list = place.said("show --runs");
    assert!(!list.contains("aaaaaaaa"), "{list}");
}

#[test]
fn this_host_is_found_by_its_id() {
    let place = place(&[(FIRST, "other")]);
    let own = place.latest().host;
    // A run of another host under this one's name changes nothing.
    let mut namesake = place.latest();
    namesake.run.id = "ffffffffffffabcd".to_owned();
    namesake.host.id = Some(SECOND.to_owned());
    place.said(&format!("import {}", place.keep("namesake.json", &namesake)));
    let histories: Value = json(&place.run(&["history", "cpu.clock.read", "--json"]));
    assert_eq!(histories[0]["host_id"].as_str(), own.id.as_deref());
    assert_eq!(histories[0]["series"][0]["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn unknown_host_lists_hosts_of_one_name_by_id() {
    let place = place(&[(FIRST, "db"), (SECOND, "db")]);
    let asked = place.run(&["history", "cpu.clock.read", "--host", "aaa"]);
    fails(&asked, &["no run of host aaa", "db (aaaaaaaa), db (bbbbbbbb)", "4 digits or more"]);
}
