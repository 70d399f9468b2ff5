//! Files that are not a store are refused in one line, and left unchanged.

use std::path::{Path, PathBuf};

use fathom_store::{Store, StoreError, VERSION};
use rusqlite::Connection;

use crate::example;

/// Both ways of opening refuse `path` with the same message and leave the file unchanged.
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
fn file_that_is_not_a_database_is_refused() {
    let (_folder, path) = example::new_path();
    for content in ["x", "an old shopping list\n".repeat(500).as_str()] {
        std::fs::write(&path, content).unwrap();
        let message = refusal(&path);
        assert!(message.contains("not a SQLite database, left unchanged"), "{message}");
    }
}

#[test]
fn database_of_another_program_is_refused() {
    for (id, version) in [(0, 0), (0, VERSION), (7, 0), (7, VERSION)] {
        let (_folder, path) = example::new_path();
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "application_id", id).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        connection.execute_batch("CREATE TABLE contacts (name TEXT)").unwrap();
        drop(connection);
        for opened in [Store::open(&path), Store::open_existing(&path)] {
            let error = opened.unwrap_err();
            let reason = format!("of another program (id {id:#x})");
            let is_expected = matches!(&error, StoreError::NotAStore { reason: found, .. }
                if found.contains(&reason));
            assert!(is_expected, "{error}");
            is_one_clear_line(&error.to_string());
        }
        let tables: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1, "the file of the other program was changed");
    }
}

/// SQLite's recovery would merge the log into the file: a change of another program's database.
#[test]
fn database_of_another_program_keeps_its_log() {
    let (folder, path) = example::new_path();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA application_id = 7; CREATE TABLE contacts (name TEXT);
             PRAGMA journal_mode = WAL; INSERT INTO contacts VALUES ('Ada');",
        )
        .unwrap();
    let left = folder.path().join("left");
    std::fs::create_dir(&left).unwrap();
    for name in ["fathom.db", "fathom.db-wal"] {
        std::fs::copy(folder.path().join(name), left.join(name)).unwrap();
    }
    let log = std::fs::read(left.join("fathom.db-wal")).unwrap();
    assert!(!log.is_empty());
    refusal(&left.join("fathom.db"));
    assert_eq!(std::fs::read(left.join("fathom.db-wal")).unwrap(), log);
    assert_eq!(std::fs::read_dir(&left).unwrap().count(), 2, "a file was left beside it");
}

#[test]
fn writer_alone_turns_an_empty_file_into_a_store() {
    let (_folder, path) = example::new_path();
    std::fs::write(&path, "").unwrap();
    let error = Store::open_existing(&path).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert_eq!(path.metadata().unwrap().len(), 0);
    Store::open(&path).unwrap();
    Store::open_existing(&path).unwrap();
}

#[test]
fn reader_creates_no_store() {
    let (folder, path) = example::new_path();
    let deeper = folder.path().join("no/such/fathom.db");
    for path in [path, deeper] {
        let error = Store::open_existing(&path).unwrap_err();
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
        is_one_clear_line(&error.to_string());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn path_that_is_not_a_file_is_refused() {
    let (folder, path) = example::new_path();
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
