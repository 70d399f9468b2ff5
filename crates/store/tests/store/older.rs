//! Stores of older versions are migrated, and those of others refused and left unchanged. The
//! document of this version, a golden
//! file with a value in every field, must not change.

use std::path::Path;

use fathom_record::Document;
use fathom_store::{CaseSearch, OLDEST, Store, StoreError, VERSION};

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
pub(crate) fn golden_document_survives_the_store() {
    let (_folder, path) = example::new_place();
    let (_, expected) = document();
    Store::open(&path).unwrap().import(&expected).unwrap();
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.document(&expected.run.id, true).unwrap(), expected);
}

/// A store of the first version that is migrated, with the golden document: as a dump of SQL.
fn store_of_version_4() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = example::new_path();
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-4.sql");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(&std::fs::read_to_string(sql).unwrap()).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    (folder, path)
}

/// Tables, indices and columns.
fn shape(path: &Path) -> Vec<String> {
    let query =
        "SELECT s.type || ' ' || s.name || ' ' || coalesce(c.name || c.type || c.\"notnull\", '')
        FROM sqlite_schema AS s LEFT JOIN pragma_table_info(s.name) AS c ORDER BY 1";
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(query).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn older_store_is_migrated_and_kept() {
    let (_, expected) = document();
    for is_writer in [true, false] {
        let open = |path: &Path| match is_writer {
            true => Store::open(path),
            false => Store::open_existing(path),
        };
        let (folder, path) = store_of_version_4();
        let refused = Store::refuse_older(&path).unwrap_err();
        assert!(matches!(refused, StoreError::OtherVersion { found: 4, .. }), "{refused}");
        Store::examine(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing changed");
        let store = open(&path).unwrap();
        assert_eq!(store.document(&expected.run.id, true).unwrap(), expected);
        let cases = store.newest_cases(["cpu.call"], CaseSearch::on_host("bench-3")).unwrap();
        assert_eq!(cases.len(), 1);
        let copy = store.copy().unwrap().to_owned();
        assert_eq!(copy, folder.path().join("fathom.db.version-4"));
        drop(store);
        Store::refuse_older(&path).unwrap();
        assert!(open(&path).unwrap().copy().is_none(), "migrated once");
        example::is_whole(&path);
        example::is_whole(&copy);
        let (_new, fresh) = example::new_path();
        drop(Store::open(&fresh).unwrap());
        assert_eq!(shape(&path), shape(&fresh), "a migrated store is as a new one");
        // The copy is the old store: it can take the place of the new one.
        assert_eq!(Store::open(&copy).unwrap().document(&expected.run.id, true).unwrap(), expected);
    }
}

#[test]
fn older_store_that_cannot_be_copied_stays() {
    let (folder, path) = store_of_version_4();
    let before = std::fs::read(&path).unwrap();
    std::fs::create_dir_all(folder.path().join("fathom.db.version-4/in the way")).unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.starts_with("copy to ") && error.contains("fathom.db.version-4: "), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!folder.path().join("fathom.db.version-4.partial").exists());
}

#[test]
fn store_of_another_version_is_refused_unchanged() {
    for found in (1..OLDEST).chain([VERSION + 1]) {
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
