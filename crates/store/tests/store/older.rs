//! Stores and documents of every version so far are read by this one.
//!
//! The golden files hold a run in which every field of that time has a value. A record's
//! checksum is over its JSON: a field that is added later must be left out of that JSON where
//! it has no value (`skip_serializing_if`), or no record of before fits its checksum any more.
//! That is what these tests are for. The files of a version that was released are never
//! changed.

use std::path::{Path, PathBuf};

use fathom_record::{Document, RunState};
use fathom_store::{Store, VERSION};

use crate::example;

fn golden(version: u32, kind: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    here.join(format!("v{version}.{kind}"))
}

/// The document of a version, as it was printed then.
fn document(version: u32) -> Document {
    let text = std::fs::read_to_string(golden(version, "json"));
    let text = text.expect("a golden document of every version: print one with every field");
    serde_json::from_str(&text).expect("a document of an older version is read")
}

/// The store of a version that has none yet, from its document.
fn make(version: u32) {
    let Document { tool, run, host, records, .. } = document(version);
    let path = golden(version, "db");
    let mut store = Store::open(&path).unwrap();
    store.begin(&tool, &run, &host).unwrap();
    for record in &records {
        store.add(&run.id, record).unwrap();
    }
    drop(store);
    panic!("{} was made; look at it and commit it", path.display());
}

#[test]
fn a_document_of_every_version_is_read_and_its_checksums_still_fit() {
    for version in 1..=VERSION {
        let document = document(version);
        assert!(document.records.len() > 1);
        for record in &document.records {
            assert!(record.is_intact(), "version {version}: {} does not fit", record.name());
        }
    }
}

#[test]
fn a_store_of_every_version_is_read_and_written_with_all_that_is_in_it() {
    for version in 1..=VERSION {
        if !golden(version, "db").exists() {
            make(version);
        }
        let (_folder, path) = example::new_place();
        std::fs::copy(golden(version, "db"), &path).unwrap();
        let expected = document(version);
        let id = expected.run.id.clone();
        let read = Store::open_existing(&path).unwrap().document(&id, true);
        assert_eq!(read.unwrap(), expected, "version {version}");
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
