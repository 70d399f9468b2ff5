//! Opening the file: as a writer, as a reader, and as a reader where nothing may be written.
//!
//! Journal: a write-ahead log, `synchronous = FULL`, so that a commit is on the disk when it
//! returns. Where the file system has no shared memory for the log's index, a rollback journal
//! with `synchronous = EXTRA` gives the same promise, more slowly. Each writing transaction
//! begins with the lock that writing needs, so that it waits for another writer at its begin and
//! never has to give up half-way.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::{StoreError, place, schema};

/// How long a lock is waited for: longer than any transaction here lasts on a slow disk.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Changing the journal mode does not wait for locks; it is tried again this often, which is as
/// long as [`BUSY_TIMEOUT`].
const JOURNAL_TRIES: u32 = 500;
const JOURNAL_PAUSE: Duration = Duration::from_millis(20);

/// SQLite's file layer without locks; see [`private`].
const WITHOUT_LOCKS: &str = "unix-none";

/// The log's index cannot be opened or mapped.
const NO_INDEX: [i32; 2] = [ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMMAP];

/// Opens for writing a file that exists, which may be empty. `layer` names another file layer of
/// SQLite than its own choice, for tests.
pub(crate) fn writer(path: &Path, layer: Option<&str>) -> Result<Connection, StoreError> {
    check_identity(path)?;
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, layer)?;
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::ReadOnly { action: "write", path: path.to_owned() });
    }
    if schema::version(&connection).is_err_and(|error| lacks_index(&error)) {
        connection = without_log(connection, path, layer)?;
    }
    // Before there is a log, so that the id of a store is always in the file itself, where
    // `check_identity` and programs such as file(1) look for it.
    schema::create(&mut connection, path)?;
    choose_journal(&connection, "wal").map_err(failed)?;
    // Some file systems refuse the log's index only when it is used.
    if schema::version(&connection).is_err_and(|error| lacks_index(&error)) {
        connection = without_log(connection, path, layer)?;
        choose_journal(&connection, "delete").map_err(failed)?;
    }
    Ok(connection)
}

/// Opens for reading a file that exists.
pub(crate) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = look(path)?;
    connection.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(connection)
}

/// Opens for reading a file that exists, and looks at the version of its tables. Changes nothing.
pub(crate) fn look(path: &Path) -> Result<Connection, StoreError> {
    check_identity(path)?;
    // A reader that may write puts a killed writer's log in order, and leaves nothing beside it.
    let flags = if place::is_writable(path) {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let mut connection = connect(path, flags, None)?;
    let mut look = schema::look(&connection);
    if look.as_ref().is_err_and(needs_to_write) {
        connection = private(path)?;
        look = schema::look(&connection);
    }
    let look = look.map_err(|error| StoreError::from_sqlite("open", path, error))?;
    match look.is_store(path)? {
        true => Ok(connection),
        false => Err(StoreError::Missing { path: path.to_owned() }),
    }
}

/// Reads where nothing can be written beside the file: on a read-only medium, on one without room,
/// and where the log's index cannot be mapped. Only for a place where nobody writes: a writer
/// would have left the log's index, and then this is not reached.
///
/// Without a log, the file is read as one that never changes. With one, which a killed writer
/// left, its index is built in this process's own memory, as SQLite does for an exclusive
/// connection; the lock which that takes is asked for only where the file can be written, because
/// it needs that.
fn private(path: &Path) -> Result<Connection, StoreError> {
    if place::has_journal(path) {
        return Err(StoreError::NeedsRecovery { path: path.to_owned() });
    }
    if !place::has_log(path) {
        return unchanging(path);
    }
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = match place::is_writable(path) {
        true => connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, None),
        false => connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, Some(WITHOUT_LOCKS)),
    }?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    Ok(connection)
}

/// Refuses a file of another program before SQLite may do anything to it, not even tidy up after
/// that program: the header alone is read, as of a file that never changes. If it does change
/// meanwhile it can look torn; then [`schema`] decides, with locks.
fn check_identity(path: &Path) -> Result<(), StoreError> {
    match schema::application_id(&unchanging(path)?) {
        Ok(id) if id != 0 && id != schema::APPLICATION_ID => Err(schema::not_ours(path, id)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(StoreError::from_sqlite("open", path, error))
        }
        // Ours; or new; or killed while it was made.
        _ => Ok(()),
    }
}

/// The file without its log, without locks: as of a file that never changes.
fn unchanging(path: &Path) -> Result<Connection, StoreError> {
    let mut address = "file:".to_owned();
    for byte in absolute(path)?.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            byte => address.push_str(&format!("%{byte:02x}")),
        }
    }
    address.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(address, flags)
        .map_err(|error| StoreError::from_sqlite("open", path, error))
}

fn connect(path: &Path, flags: OpenFlags, layer: Option<&str>) -> Result<Connection, StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    // Absolute, because SQLite takes `file:…` for an address.
    let absolute = absolute(path)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match layer {
        Some(layer) => Connection::open_with_flags_and_vfs(absolute, flags, layer),
        None => Connection::open_with_flags(absolute, flags),
    }
    .map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    Ok(connection)
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| StoreError::from_io("open", path, &error))
}

/// Turns a store with a log into one with a rollback journal, where the log's index cannot be, and
/// opens it again.
fn without_log(
    useless: Connection,
    path: &Path,
    layer: Option<&str>,
) -> Result<Connection, StoreError> {
    drop(useless);
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, layer)?;
    connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    set_journal(&connection, "delete").map_err(failed)?;
    drop(connection);
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, layer)
}

fn choose_journal(connection: &Connection, wanted: &str) -> rusqlite::Result<()> {
    let mode = set_journal(connection, wanted)?;
    // Without a log, a commit is the removal of the journal, and EXTRA is what waits for it.
    let synchronous = if mode == "wal" { "FULL" } else { "EXTRA" };
    connection.pragma_update(None, "synchronous", synchronous)
}

fn set_journal(connection: &Connection, mode: &str) -> rusqlite::Result<String> {
    // What it does first would wait, and that as often as it is tried.
    connection.busy_timeout(Duration::ZERO)?;
    let set = || {
        connection
            .pragma_update_and_check(None, "journal_mode", mode, |row| row.get::<_, String>(0))
    };
    let mut outcome = set();
    for _ in 1..JOURNAL_TRIES {
        if !outcome.as_ref().is_err_and(is_busy) {
            break;
        }
        sleep(JOURNAL_PAUSE);
        outcome = set();
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    outcome
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn is_cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the place has no shared memory for the log's index.
fn lacks_index(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_extended_error_code();
    is_cannot_open(error) || code.is_some_and(|code| NO_INDEX.contains(&code))
}

/// Whether reading failed because nothing could be written beside the file.
fn needs_to_write(error: &rusqlite::Error) -> bool {
    let no_room = error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE);
    let refused = [ErrorCode::ReadOnly, ErrorCode::DiskFull];
    let refused = error.sqlite_error_code().is_some_and(|code| refused.contains(&code));
    no_room || refused || lacks_index(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file layer of SQLite that has no shared memory, as some network file systems have none.
    const NO_SHARED_MEMORY: &str = "unix-dotfile";

    fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> T {
        connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_commit_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        place::prepare(&path, false).unwrap();
        let connection = writer(&path, None).unwrap();
        assert_eq!(pragma::<String>(&connection, "journal_mode"), "wal");
        assert_eq!(pragma::<i64>(&connection, "synchronous"), 2, "FULL");
        assert_eq!(pragma::<i64>(&connection, "busy_timeout"), 10_000);
    }

    #[test]
    fn without_shared_memory_a_rollback_journal_gives_the_same_promise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        place::prepare(&path, false).unwrap();
        let connection = writer(&path, Some(NO_SHARED_MEMORY)).unwrap();
        assert_eq!(pragma::<String>(&connection, "journal_mode"), "delete");
        assert_eq!(pragma::<i64>(&connection, "synchronous"), 3, "EXTRA");
    }

    #[test]
    fn a_store_with_a_log_can_be_carried_to_a_place_without_shared_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        place::prepare(&path, false).unwrap();
        drop(writer(&path, None).unwrap());
        let connection = writer(&path, Some(NO_SHARED_MEMORY)).unwrap();
        assert_eq!(pragma::<String>(&connection, "journal_mode"), "delete");
        assert_eq!(schema::version(&connection).unwrap(), schema::VERSION);
    }
}
