//! Finding a run by the name a user types.

use fathom_record::{Cause, RunState, State, Verdict};
use fathom_store::{Store, StoreError};

use crate::example;

const IDS: [&str; 3] = ["0195aa0000000001", "0195aa0000000002", "0195bb0000000003"];

fn three_runs() -> (Option<tempfile::TempDir>, Store) {
    let (folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    for id in IDS {
        store.begin(&example::head(id)).unwrap();
        example::add(&mut store, id, &example::record(0)).unwrap();
    }
    (folder, store)
}

#[test]
pub(crate) fn run_is_found_by_id_prefix_and_latest() {
    let (_folder, store) = three_runs();
    for (name, expected) in [
        ("0195aa0000000001", IDS[0]),
        ("0195b", IDS[2]),
        ("0195BB", IDS[2]),
        ("latest", IDS[2]),
        ("latest~0", IDS[2]),
        ("latest~2", IDS[0]),
    ] {
        assert_eq!(store.resolve(name).unwrap(), expected, "{name}");
    }
}

#[test]
pub(crate) fn run_without_numbers_is_not_the_latest() {
    let (_folder, mut store) = three_runs();
    let empty = "0195cc0000000004";
    store.begin(&example::head(empty)).unwrap();
    assert_eq!(store.resolve("latest").unwrap(), IDS[2]);
    assert_eq!(store.resolve("0195cc").unwrap(), empty, "found by its id");
    let mut failed = example::record(0);
    failed.verdict = Verdict::because(State::Failed, Cause::Crashed, "crashed");
    example::add(&mut store, empty, &failed.clone().sealed()).unwrap();
    assert_eq!(store.resolve("latest").unwrap(), IDS[2]);
    let (_folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    store.begin(&example::head(empty)).unwrap();
    example::add(&mut store, empty, &failed.sealed()).unwrap();
    assert_eq!(store.resolve("latest").unwrap(), empty, "there is no other");
}

#[test]
pub(crate) fn ambiguous_prefix_lists_the_runs() {
    let (_folder, store) = three_runs();
    assert_eq!(
        store.resolve("0195a").unwrap_err().to_string(),
        "find run 0195a: ambiguous: 0195aa0000000002, 0195aa0000000001"
    );
}

#[test]
pub(crate) fn unknown_run_message_counts_the_runs() {
    let (_folder, store) = three_runs();
    let among = "no such run among the 3 in the store";
    for (name, why) in [
        ("0195c", among),
        ("ffffffffffffffff", among),
        ("latest~3", "the store has only 3 fathom runs"),
        ("latest:load", "the store has no load run"),
    ] {
        let message = store.resolve(name).unwrap_err().to_string();
        assert_eq!(message, format!("find run {name}: {why}"));
    }
    let (_folder, mut store) = three_runs();
    store.begin(&example::head("0195cc0000000000")).unwrap();
    let message = store.resolve("0195d").unwrap_err().to_string();
    assert!(message.contains("among the 4 in the store; 1 without results"), "{message}");
    let (_folder, path) = example::new_place();
    let message = Store::open(&path).unwrap().resolve("latest").unwrap_err().to_string();
    assert!(message.contains("the store has no runs"), "{message}");
}

#[test]
pub(crate) fn malformed_name_differs_from_unknown_run() {
    let (_folder, store) = three_runs();
    for name in [
        "",
        "latest~",
        "latest~-1",
        "latest~x",
        "latests",
        "latest:",
        "latest:benches",
        "latest~1:file",
        "0195%",
        "0195*",
        "a b",
    ] {
        let error = store.resolve(name).unwrap_err();
        assert!(matches!(error, StoreError::BadName { .. }), "{name:?}: {error}");
    }
    let error = store.resolve("019").unwrap_err();
    assert!(matches!(error, StoreError::TooShort { .. }), "{error}");
}

#[test]
pub(crate) fn label_names_its_run_unless_ambiguous() {
    let (_folder, mut store) = three_runs();
    let labelled = |id: &str, label: &str| {
        let run = example::run(id);
        fathom_record::Run { label: Some(label.to_owned()), ..run }
    };
    store.update_run(&labelled(IDS[0], "before upgrade")).unwrap();
    // A label has priority over an id prefix, and a full id over a label.
    store.update_run(&labelled(IDS[1], "0195bb")).unwrap();
    assert_eq!(store.resolve("before upgrade").unwrap(), IDS[0]);
    assert_eq!(store.resolve("0195bb").unwrap(), IDS[1]);
    let labels: Vec<_> = store.runs().unwrap().into_iter().map(|row| row.label).collect();
    assert_eq!(labels, [None, Some("0195bb".to_owned()), Some("before upgrade".to_owned())]);
    store.update_run(&labelled(IDS[2], "before upgrade")).unwrap();
    let message = store.resolve("before upgrade").unwrap_err().to_string();
    let both = format!("ambiguous: {}, {}", IDS[2], IDS[0]);
    assert!(message.contains(&both), "{message}");
    store.update_run(&labelled(IDS[2], IDS[0])).unwrap();
    assert_eq!(store.resolve(IDS[0]).unwrap(), IDS[0]);
}

/// A run with one record, or without one if its id ends with 0; of some metrics if with 2.
fn add(store: &mut Store, id: &str, procedure: Option<&str>, state: RunState, host: &str) {
    let mut document = example::head(id);
    document.host.name = host.to_owned();
    document.run.procedure = procedure.map(str::to_owned);
    document.run.asked = if id.ends_with('2') { vec!["cpu".to_owned()] } else { Vec::new() };
    document.run.state = state;
    document.records = example::records(u64::from(!id.ends_with('0')));
    store.import(&document).unwrap();
}

#[test]
pub(crate) fn latest_is_the_last_complete_run_of_its_kind_and_host() {
    use RunState::{Complete, Interrupted, Unknown};
    let (_folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    // The ids, and with them the clock, go back: the order is that of the store.
    for (id, procedure, state, host) in [
        ("0000000000000091", None, Complete, "here"),
        ("0000000000000081", None, Complete, "here"),
        ("0000000000000071", Some("file sweep"), Complete, "here"),
        ("0000000000000062", None, Complete, "here"),
        ("0000000000000061", None, Interrupted, "here"),
        ("0000000000000051", Some("load"), Unknown, "here"),
        ("0000000000000041", Some("file fast"), Complete, "here"),
        ("0000000000000031", None, Complete, "there"),
        ("0000000000000020", None, Complete, "here"),
    ] {
        add(&mut store, id, procedure, state, host);
    }
    let found = |name: &str| {
        let found = store.find(name, Some("here")).unwrap();
        let over: Vec<String> =
            found.passed_over.iter().map(|(why, count)| format!("{count} {why}")).collect();
        (found.id[14..].to_owned(), over.join(", "))
    };
    let found = |name: &str| {
        let (id, over) = found(name);
        format!("{id}: {over}")
    };
    let over = "1 interrupted, 1 load, 1 of another host, 1 without results";
    assert_eq!(found("latest"), format!("62: 1 file, {over}"));
    assert_eq!(found("latest~1"), format!("81: 2 file, {over}"));
    let over = "1 interrupted, 1 load, 1 of another host, 1 of some metrics, 1 without results";
    assert_eq!(found("latest:battery"), format!("81: 2 file, {over}"));
    assert_eq!(found("latest:file"), "41: 1 of another host, 1 without results");
    let before = "1 load, 1 of another host, 1 of some metrics, 1 run, 1 without results";
    assert_eq!(found("latest:file~1"), format!("71: {before}"));
    // The only one of its kind, although its state is not known.
    assert!(found("latest:load").starts_with("51: "));
    assert!(store.find("latest:transfer", Some("here")).is_err());
    assert_eq!(store.find("latest", None).unwrap().id, "0000000000000031", "of any host");
    let host_or_last = |host| store.host_or_last(host).unwrap().map(|(identity, _)| identity);
    assert_eq!(host_or_last("here"), Some("here".to_owned()));
    assert_eq!(host_or_last("nowhere"), Some("there".to_owned()));
}

#[test]
pub(crate) fn latest_is_of_any_kind_without_a_battery() {
    let (_folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.host_or_last("here").unwrap(), None);
    add(&mut store, "0000000000000041", Some("file fast"), RunState::Complete, "here");
    add(&mut store, "0000000000000051", Some("load"), RunState::Complete, "here");
    assert_eq!(store.resolve("latest").unwrap(), "0000000000000051");
    assert_eq!(store.resolve("latest~1").unwrap(), "0000000000000041");
    assert!(store.resolve("latest:battery").is_err());
}
