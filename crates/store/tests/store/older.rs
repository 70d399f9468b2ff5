//! Stores and documents of every version so far are read by this one.
//!
//! The golden files hold a run in which every field of that time has a value. A record's
//! checksum is over its JSON: a field that is added later must be left out of that JSON where
//! it has no value (`skip_serializing_if`), or no record of before fits its checksum any more.
//! That is what these tests are for. The files of a version that was released are never
//! changed.

use std::path::{Path, PathBuf};

use fathom_record::{Document, Outline, RunState, SCHEMA_VERSION};
use fathom_store::{Store, StoreError, VERSION};
use rusqlite::Connection;

use crate::example;

const RUNS: [&str; 2] = ["0000019514ab3c5d", "0000019514ab3c5e"];

fn golden(version: u32, kind: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    here.join(format!("v{version}.{kind}"))
}

/// The document of a version, as it was printed then. That of version 1 is in every golden store.
fn document(version: u32) -> Document {
    let text = std::fs::read_to_string(golden(version, "json"));
    let text = text.expect("a golden document of every version: print one with every field");
    serde_json::from_str(&text).expect("a document of an older version is read")
}

/// The store of a version that has none yet.
fn make(version: u32) {
    let path = golden(version, "db");
    Store::open(&path).unwrap().import(&document(1)).unwrap();
    panic!("{} was made; look at it and commit it", path.display());
}

/// A store of version 1 with two runs.
fn older() -> (tempfile::TempDir, PathBuf) {
    let (folder, path, mut store) = example::store_with(RUNS[0], 7);
    store.begin(&example::tool(), &example::run(RUNS[1]), &example::host()).unwrap();
    store.add(RUNS[1], &example::record(1)).unwrap();
    drop(store);
    example::make_older(&path);
    (folder, path)
}

#[test]
fn document_of_every_version_is_read_and_intact() {
    for version in 1..=SCHEMA_VERSION {
        let document = document(version);
        assert!(document.records.len() > 1);
        for record in &document.records {
            assert!(record.is_intact(), "version {version}: {} does not fit", record.name());
        }
    }
}

#[test]
fn store_of_every_version_is_read_and_written() {
    for version in 1..=VERSION {
        if !golden(version, "db").exists() {
            make(version);
        }
        let (_folder, path) = example::new_place();
        std::fs::copy(golden(version, "db"), &path).unwrap();
        assert_eq!(example::version(&path), version);
        let expected = document(1);
        let id = expected.run.id.clone();
        let store = Store::open_existing(&path).unwrap();
        assert_eq!(example::version(&path), VERSION);
        assert_eq!(store.document(&id, true).unwrap(), expected, "version {version}");
        let in_short = store.newest_of(&expected.host.name, expected.run.effort, 9).unwrap();
        assert_eq!(in_short.0, [Outline::from(&expected)], "version {version}");
        let mut store = Store::open(&path).unwrap();
        let another = "f".repeat(16);
        store.begin(&example::tool(), &example::run(&another), &example::host()).unwrap();
        store.add(&another, &example::record(0)).unwrap();
        assert_eq!(store.document(&id, true).unwrap(), expected, "version {version}");
        let row = store.runs().unwrap().into_iter().find(|row| row.id == id).unwrap();
        assert_eq!(row.state, RunState::Complete);
        assert_eq!(row.counts.total() as usize, expected.records.len());
    }
}

#[test]
fn migrated_store_reads_no_json_of_records() {
    let (_folder, path) = older();
    let store = Store::open(&path).unwrap();
    let whole = RUNS.map(|id| Outline::from(&store.document(id, false).unwrap()));
    Connection::open(&path).unwrap().execute("UPDATE record SET body = ''", []).unwrap();
    assert_eq!(example::history(&store), whole);
}

#[test]
fn record_damaged_before_migration_is_named() {
    let (_folder, path) = older();
    let damage =
        "UPDATE record SET body = replace(body, '\"n\":600', '\"n\":601') WHERE number = 2";
    assert_eq!(Connection::open(&path).unwrap().execute(damage, []).unwrap(), 1);
    let (kept, damaged) = Store::open(&path).unwrap().history("file.read.throughput").unwrap();
    assert_eq!(kept.iter().map(|one| one.document.run.id.as_str()).collect::<Vec<_>>(), [RUNS[1]]);
    let named = format!("read run {}: file.read.throughput{{block=1,mode=cold}} is", RUNS[0]);
    assert!(damaged.len() == 1 && damaged[0].to_string().starts_with(&named), "{damaged:?}");
}

#[test]
fn older_store_with_a_torn_page_can_be_read() {
    let (_folder, path) = older();
    let mut bytes = std::fs::read(&path).unwrap();
    // The last place: where a page was split a copy is left that nobody reads.
    let at = bytes.windows(9).rposition(|part| part == b"\"visit-0\"").unwrap() / 4096 * 4096;
    bytes[at..at + 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.document(RUNS[1], true).unwrap().records, [example::record(1)]);
    for error in [store.document(RUNS[0], true).map(drop), Store::open(&path).map(drop)] {
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
    assert_eq!(example::version(&path), 1);
}

#[test]
fn older_store_is_migrated_once_by_many() {
    let (_folder, path) = older();
    let expected = example::history(&Store::open_existing(&path).unwrap());
    assert_eq!(expected.len(), RUNS.len());
    example::make_older(&path);
    let (path, expected) = (&path, &expected);
    std::thread::scope(|scope| {
        for open in [Store::open, Store::open_existing].repeat(3) {
            scope.spawn(move || assert_eq!(example::history(&open(path).unwrap()), *expected));
        }
    });
}

#[test]
fn examining_an_older_store_changes_nothing() {
    let (_folder, path) = older();
    let before = std::fs::read(&path).unwrap();
    Store::examine(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
