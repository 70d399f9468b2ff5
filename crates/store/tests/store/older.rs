//! Stores of other versions are refused and left unchanged. The document of this version, a golden
//! file with a value in every field, must not change.

use std::path::Path;

use fathom_record::Document;
use fathom_store::{Store, StoreError, VERSION};

use crate::example;

fn document() -> (String, Document) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/document.json");
    let text = std::fs::read_to_string(path).unwrap();
    let document = serde_json::from_str(&text).expect("a document of this version");
    (text, document)
}

#[test]
fn golden_document_reads_and_writes_unchanged() {
    let (text, document) = document();
    assert!(document.records.len() > 1);
    for record in &document.records {
        assert!(record.is_intact(), "checksum mismatch in {}", record.name());
    }
    assert_eq!(serde_json::to_string_pretty(&document).unwrap(), text.trim_end());
}

#[test]
fn golden_document_survives_the_store() {
    let (_folder, path) = example::new_path();
    let (_, expected) = document();
    Store::open(&path).unwrap().import(&expected).unwrap();
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.document(&expected.run.id, true).unwrap(), expected);
}

#[test]
fn store_of_another_version_is_refused_unchanged() {
    for found in (1..=VERSION + 1).filter(|version| *version != VERSION) {
        let (_folder, path) = example::new_path();
        drop(Store::open(&path).unwrap());
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", found).unwrap();
        drop(connection);
        let before = std::fs::read(&path).unwrap();
        let opened = [Store::open(&path), Store::open_existing(&path)].map(|it| it.map(drop));
        for refused in opened.into_iter().chain([Store::examine(&path)]) {
            let error = refused.unwrap_err();
            let is_named =
                matches!(error, StoreError::OtherVersion { found: it, .. } if it == found);
            assert!(is_named, "version {found}: {error}");
            assert!(error.to_string().contains(&format!("of version {found},")), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "version {found}");
    }
}
