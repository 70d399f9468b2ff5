//! Finding a run by the name a user types.

use fathom_store::{Store, StoreError};

use crate::example;

const IDS: [&str; 3] = ["0195aa0000000001", "0195aa0000000002", "0195bb0000000003"];

fn three_runs() -> (tempfile::TempDir, Store) {
    let (folder, path) = example::new_path();
    let mut store = Store::open(&path).unwrap();
    for id in IDS {
        store.begin(&example::head(id)).unwrap();
        store.add(id, &example::record(0)).unwrap();
    }
    (folder, store)
}

#[test]
fn run_is_found_by_id_prefix_and_latest() {
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
fn run_without_records_is_not_the_latest() {
    let (_folder, mut store) = three_runs();
    let empty = "0195cc0000000004";
    store.begin(&example::head(empty)).unwrap();
    assert_eq!(store.resolve("latest").unwrap(), IDS[2]);
    assert_eq!(store.resolve("0195cc").unwrap(), empty, "found by its id");
}

#[test]
fn ambiguous_prefix_lists_the_runs() {
    let (_folder, store) = three_runs();
    assert_eq!(
        store.resolve("0195a").unwrap_err().to_string(),
        "find run 0195a: ambiguous: 0195aa0000000002, 0195aa0000000001"
    );
}

#[test]
fn unknown_run_message_counts_the_runs() {
    let (_folder, store) = three_runs();
    for name in ["0195c", "latest~3", "ffffffffffffffff"] {
        let message = store.resolve(name).unwrap_err().to_string();
        let expected = format!("find run {name}: no such run among the 3 in the store");
        assert_eq!(message, expected);
    }
    let (_folder, mut store) = three_runs();
    store.begin(&example::head("0195cc0000000000")).unwrap();
    let message = store.resolve("latest~3").unwrap_err().to_string();
    assert!(message.contains("among the 4 in the store; 1 without results"), "{message}");
    let (_folder, path) = example::new_path();
    let message = Store::open(&path).unwrap().resolve("latest").unwrap_err().to_string();
    assert!(message.contains("the store has no runs"), "{message}");
}

#[test]
fn malformed_name_differs_from_unknown_run() {
    let (_folder, store) = three_runs();
    for name in ["", "latest~", "latest~-1", "latest~x", "latests", "0195%", "0195*", "a b"] {
        let error = store.resolve(name).unwrap_err();
        assert!(matches!(error, StoreError::BadName { .. }), "{name:?}: {error}");
    }
    let error = store.resolve("019").unwrap_err();
    assert!(matches!(error, StoreError::TooShort { .. }), "{error}");
}

#[test]
fn label_names_its_run_unless_ambiguous() {
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
