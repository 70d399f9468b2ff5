//! What is not a store of ours is refused in one line, and left as it was.

use std::path::{Path, PathBuf};

use fathom_store::{Store, StoreError, VERSION};
use rusqlite::Connection;

use crate::example;

/// Both ways of opening refuse `path` with the same words and leave the file as it was.
fn refusal(path: &Path) -> String {
    let before = std::fs::read(path).ok();
    let open = Store::open(path).unwrap_err().to_string();
    let existing = Store::open_existing(path).unwrap_err().to_string();
    assert_eq!(open, existing);
    assert_eq!(std::fs::read(path).ok(), before, "{} was changed", path.display());
    is_one_clear_line(&open);
    open
}

fn is_one_clear_line(message: &str) {
    assert!(!message.contains('\n'), "{message}");
    assert!(message.starts_with(|c: char| c.is_lowercase()), "{message}");
    assert!(!message.ends_with('.'), "{message}");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let (_folder, path) = example::new_place();
    for content in ["x", "an old list of shopping\n".repeat(500).as_str()] {
        std::fs::write(&path, content).unwrap();
        let message = refusal(&path);
        assert!(message.contains("not a SQLite database, left untouched"), "{message}");
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    for (id, version) in [(0, 0), (0, VERSION), (7, 0), (7, VERSION)] {
        let (_folder, path) = example::new_place();
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "application_id", id).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        let made = connection.execute_batch("CREATE TABLE contacts (name TEXT)");
        made.unwrap();
        drop(connection);
        for opened in [Store::open(&path), Store::open_existing(&path)] {
            let error = opened.unwrap_err();
            let same_id = matches!(error, StoreError::NotOurs { application_id, .. }
                if application_id == id);
            assert!(same_id, "{error}");
            is_one_clear_line(&error.to_string());
        }
        let tables: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1, "the other program's file was changed");
    }
}

/// Opening a database takes over what its last user left in the log. Not ours to do.
#[test]
fn a_database_of_another_program_keeps_its_log() {
    let (folder, path) = example::new_place();
    let connection = Connection::open(&path).unwrap();
    let made = connection.execute_batch(
        "PRAGMA application_id = 7; CREATE TABLE contacts (name TEXT); PRAGMA journal_mode = WAL;
         INSERT INTO contacts VALUES ('Ada');",
    );
    made.unwrap();
    let left = folder.path().join("left");
    std::fs::create_dir(&left).unwrap();
    for name in ["fathom.db", "fathom.db-wal"] {
        std::fs::copy(folder.path().join(name), left.join(name)).unwrap();
    }
    let log = std::fs::read(left.join("fathom.db-wal")).unwrap();
    assert!(!log.is_empty());
    refusal(&left.join("fathom.db"));
    assert_eq!(std::fs::read(left.join("fathom.db-wal")).unwrap(), log);
    assert_eq!(std::fs::read_dir(&left).unwrap().count(), 2, "something was left beside it");
}

#[test]
fn an_empty_file_becomes_a_store_but_only_for_a_writer() {
    let (_folder, path) = example::new_place();
    std::fs::write(&path, "").unwrap();
    let error = Store::open_existing(&path).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert_eq!(path.metadata().unwrap().len(), 0);
    Store::open(&path).unwrap();
    Store::open_existing(&path).unwrap();
}

#[test]
fn a_reader_does_not_make_a_store() {
    let (folder, path) = example::new_place();
    let deeper = folder.path().join("no/such/fathom.db");
    for path in [path, deeper] {
        let error = Store::open_existing(&path).unwrap_err();
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
        is_one_clear_line(&error.to_string());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_cannot_be_a_file_is_refused() {
    let (folder, path) = example::new_place();
    let message = refusal(folder.path());
    assert!(message.contains("is a directory"), "{message}");
    assert!(refusal(Path::new("/dev/null")).contains("not a regular file"));
    std::fs::write(&path, "a file").unwrap();
    let below: [PathBuf; 2] = [path.join("fathom.db"), path.join("deeper/fathom.db")];
    for below in below {
        let message = refusal(&below);
        assert!(message.contains("a part of this path is not a directory"), "{message}");
        assert!(message.contains(below.to_str().unwrap()), "{message}");
    }
}
