//! Opening the file as a writer, as a reader, and as a reader on a read-only file system.
//!
//! Journal: a write-ahead log with `synchronous = FULL`, so that a commit is on the disk when it
//! returns. On a file system without shared memory for the log's index, a rollback journal with
//! `synchronous = EXTRA` gives the same guarantee, more slowly. Each writing transaction takes the
//! write lock when it begins, so it waits for another writer there and never fails half-way.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::error::{BUSY_TIMEOUT, READ_ONLY};
use crate::schema::Header;
use crate::tables::APPLICATION_ID;
use crate::{StoreError, file, schema};

/// Changing the journal mode does not wait for locks, so it is retried for as long as
/// [`Open::busy_timeout`].
const JOURNAL_PAUSE: Duration = Duration::from_millis(20);

/// SQLite's VFS without locks; see [`private_index`].
const WITHOUT_LOCKS: &str = "unix-none";

/// SQLite cannot open or map the log's index.
const NO_INDEX: [i32; 2] = [ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMMAP];

/// How SQLite opens a file.
#[derive(Clone, Copy)]
pub(crate) struct ConnectOpen {
    /// Instead of SQLite's default VFS.
    vfs: Option<&'static str>,
    busy_timeout: Duration,
}

impl Default for ConnectOpen {
    fn default() -> Self {
        Self { vfs: None, busy_timeout: BUSY_TIMEOUT }
    }
}

/// Opens an existing file for writing; it may be empty.
pub(crate) fn writer(path: &Path, open: ConnectOpen) -> Result<Connection, StoreError> {
    check_identity(path)?;
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, open)?;
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::other("write", path, READ_ONLY));
    }
    match schema::version(&connection) {
        Err(error) if lacks_index(&error) => connection = without_log(connection, path, open)?,
        // Whatever follows would wait for the lock once more.
        Err(error) if is_busy(&error) => return Err(failed(error)),
        _ => {}
    }
    // Before there is a log: the application id must be in the file itself, where
    // `check_identity` and file(1) look for it.
    schema::create(&mut connection, path)?;
    choose_journal(&connection, "wal", open).map_err(failed)?;
    // Some file systems refuse the log's index only on first use.
    if schema::version(&connection).is_err_and(|error| lacks_index(&error)) {
        connection = without_log(connection, path, open)?;
        choose_journal(&connection, "delete", open).map_err(failed)?;
    }
    Ok(connection)
}

/// Opens an existing store for reading.
pub(crate) fn reader(path: &Path, open: ConnectOpen) -> Result<Connection, StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = open_checked(path, open)?;
    connection.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(connection)
}

/// Opens an existing store for reading and checks the version of its tables. Changes nothing.
pub(crate) fn open_checked(path: &Path, open: ConnectOpen) -> Result<Connection, StoreError> {
    check_identity(path)?;
    if let Err(error) = file::refuse_network("read", path) {
        // Nobody writes: then nothing needs a lock.
        let connection = if file::may_have_writer(path) { Err(error) } else { immutable(path) }?;
        let header = Header::read(&connection);
        let header = header.map_err(|error| StoreError::from_sqlite("open", path, error))?;
        return match header.is_store(path)? {
            true => Ok(connection),
            false => Err(StoreError::Missing { path: path.to_owned() }),
        };
    }
    // A reader with write permission recovers a killed writer's log and leaves no files behind.
    let flags = if file::is_writable(path) {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let mut connection = connect(path, flags, open)?;
    let mut header = Header::read(&connection);
    if header.as_ref().is_err_and(needs_to_write) {
        connection = private_index(path, open)?;
        header = Header::read(&connection);
    }
    let header = header.map_err(|error| StoreError::from_sqlite("open", path, error))?;
    match header.is_store(path)? {
        true => Ok(connection),
        false => Err(StoreError::Missing { path: path.to_owned() }),
    }
}

/// Opens a store for reading where SQLite cannot write beside the file: on a read-only or full
/// file system, and where the log's index cannot be mapped. There is no writer: it would have
/// left the log's index, and then the ordinary way works.
///
/// Without a log, the file is read as immutable. With a log left by a killed writer, its index is
/// built in this process's memory, as SQLite does for an exclusive connection. The exclusive lock
/// needs write permission, so it is taken only with that permission.
fn private_index(path: &Path, open: ConnectOpen) -> Result<Connection, StoreError> {
    if file::has_journal(path) {
        return Err(StoreError::NeedsRecovery { path: path.to_owned() });
    }
    if !file::has_log(path) {
        return immutable(path);
    }
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = match file::is_writable(path) {
        true => connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, open),
        false => {
            let open = ConnectOpen { vfs: Some(WITHOUT_LOCKS), ..open };
            connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, open)
        }
    }?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    Ok(connection)
}

/// Refuses a file of another program before SQLite changes it: recovery would already be a
/// change. Reads the header alone, as an immutable file. A file that changes meanwhile can look
/// torn; then [`schema`] decides under locks.
fn check_identity(path: &Path) -> Result<(), StoreError> {
    file::require_regular_beside(path)?;
    match schema::application_id(&immutable(path)?) {
        Ok(id) if id != 0 && id != APPLICATION_ID => Err(schema::not_ours(path, id)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(StoreError::from_sqlite("open", path, error))
        }
        // A store, a new file, or one whose creation was interrupted.
        _ => Ok(()),
    }
}

/// Opens the file without its log and without locks, as a file that never changes.
pub(crate) fn immutable(path: &Path) -> Result<Connection, StoreError> {
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
    let connection = Connection::open_with_flags(address, flags);
    let failed = |error| StoreError::from_sqlite("open", path, error);
    connection.and_then(|it| tables_only(&it).map(|()| it)).map_err(failed)
}

/// What others wrote into the file is data: no view, trigger or function of its schema runs.
fn tables_only(connection: &Connection) -> rusqlite::Result<()> {
    use DbConfig::{
        SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_TRUSTED_SCHEMA,
    };
    for code in [
        SQLITE_DBCONFIG_ENABLE_TRIGGER,
        SQLITE_DBCONFIG_ENABLE_VIEW,
        SQLITE_DBCONFIG_TRUSTED_SCHEMA,
    ] {
        connection.set_db_config(code, false)?;
    }
    Ok(())
}

pub(crate) fn connect(
    path: &Path,
    flags: OpenFlags,
    open: ConnectOpen,
) -> Result<Connection, StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    // Absolute, because SQLite would parse a relative `file:…` as a URI.
    let absolute = absolute(path)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match open.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(absolute, flags, vfs),
        None => Connection::open_with_flags(absolute, flags),
    }
    .map_err(failed)?;
    tables_only(&connection).map_err(failed)?;
    connection.busy_timeout(open.busy_timeout).map_err(failed)?;
    // SQLite spills into /var/tmp or /tmp, which a service or a container may be unable to write:
    // the record of a large case then failed with "disk I/O error".
    connection.pragma_update(None, "temp_store", "memory").map_err(failed)?;
    Ok(connection)
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| StoreError::from_io("open", path, &error))
}

/// Converts a store from a write-ahead log to a rollback journal and reopens it, where the log's
/// index cannot exist.
fn without_log(
    unusable: Connection,
    path: &Path,
    open: ConnectOpen,
) -> Result<Connection, StoreError> {
    drop(unusable);
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, open)?;
    connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    set_journal(&connection, "delete", open).map_err(failed)?;
    drop(connection);
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, open)
}

fn choose_journal(
    connection: &Connection,
    wanted: &str,
    open: ConnectOpen,
) -> rusqlite::Result<()> {
    let mode = set_journal(connection, wanted, open)?;
    // Without a log, a commit is the deletion of the journal, and only EXTRA syncs that.
    let synchronous = if mode == "wal" { "FULL" } else { "EXTRA" };
    connection.pragma_update(None, "synchronous", synchronous)
}

fn set_journal(connection: &Connection, mode: &str, open: ConnectOpen) -> rusqlite::Result<String> {
    // The busy handler would wait the full timeout on every attempt.
    connection.busy_timeout(Duration::ZERO)?;
    let set = || {
        connection
            .pragma_update_and_check(None, "journal_mode", mode, |row| row.get::<_, String>(0))
    };
    let mut outcome = set();
    for _ in 1..open.busy_timeout.as_millis().div_ceil(JOURNAL_PAUSE.as_millis()) {
        if !outcome.as_ref().is_err_and(is_busy) {
            break;
        }
        sleep(JOURNAL_PAUSE);
        outcome = set();
    }
    connection.busy_timeout(open.busy_timeout)?;
    outcome
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn is_cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the file system has no shared memory for the log's index.
fn lacks_index(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_extended_error_code();
    is_cannot_open(error) || code.is_some_and(|code| NO_INDEX.contains(&code))
}

/// Whether reading failed because SQLite could not write beside the file.
fn needs_to_write(error: &rusqlite::Error) -> bool {
    let no_room = error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE);
    let refused = [ErrorCode::ReadOnly, ErrorCode::DiskFull];
    let refused = error.sqlite_error_code().is_some_and(|code| refused.contains(&code));
    no_room || refused || lacks_index(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::VERSION;

    /// A VFS of SQLite without shared memory, as on some network file systems.
    const NO_SHARED_MEMORY: &str = "unix-dotfile";

    fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> T {
        connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
    }

    #[test]
    fn errors_of_sqlite_are_distinguished() {
        use ffi::{
            SQLITE_BUSY, SQLITE_CANTOPEN, SQLITE_CORRUPT, SQLITE_FULL, SQLITE_IOERR_READ,
            SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE, SQLITE_READONLY,
        };
        let of = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            [is_busy(&error), is_cannot_open(&error), lacks_index(&error), needs_to_write(&error)]
                .map(u8::from)
        };
        for (code, expected) in [
            (SQLITE_BUSY, [1, 0, 0, 0]),
            (SQLITE_CANTOPEN, [0, 1, 1, 1]),
            (SQLITE_IOERR_SHMOPEN, [0, 0, 1, 1]),
            (SQLITE_IOERR_SHMMAP, [0, 0, 1, 1]),
            (SQLITE_IOERR_SHMSIZE, [0, 0, 0, 1]),
            (SQLITE_READONLY, [0, 0, 0, 1]),
            (SQLITE_FULL, [0, 0, 0, 1]),
            (SQLITE_IOERR_READ, [0, 0, 0, 0]),
            (SQLITE_CORRUPT, [0, 0, 0, 0]),
        ] {
            assert_eq!(of(code), expected, "{code}");
        }
    }

    #[test]
    fn any_file_name_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b.db", "file:a?mode=ro#1.db", "100%.db", "é&=+.db"] {
            let path = folder.path().join(name);
            file::prepare(&path, false).unwrap();
            drop(writer(&path, ConnectOpen::default()).unwrap());
            assert_eq!(
                schema::version(&reader(&path, ConnectOpen::default()).unwrap()).unwrap(),
                VERSION
            );
            let id = schema::application_id(&immutable(&path).unwrap());
            assert_eq!(id, Ok(APPLICATION_ID), "{name}");
        }
    }

    #[test]
    fn no_folder_for_temporary_files_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        file::prepare(&path, false).unwrap();
        for opened in [writer(&path, ConnectOpen::default()), reader(&path, ConnectOpen::default())]
        {
            assert_eq!(pragma::<u32>(&opened.unwrap(), "temp_store"), 2, "2 is memory");
        }
    }

    #[test]
    fn locked_store_fails_once_the_wait_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        file::prepare(&path, false).unwrap();
        let lock = writer(&path, ConnectOpen::default()).unwrap();
        lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
        let open = ConnectOpen { busy_timeout: Duration::ZERO, ..ConnectOpen::default() };
        let expected = format!("open {}: locked for 10 s by another process", path.display());
        for opened in [writer(&path, open), reader(&path, open)] {
            assert_eq!(opened.unwrap_err().to_string(), expected);
        }
        drop(lock);
        assert!(writer(&path, open).is_ok() && reader(&path, open).is_ok());
    }

    #[test]
    fn commits_are_synced_to_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fathom.db");
        file::prepare(&path, false).unwrap();
        let connection = writer(&path, ConnectOpen::default()).unwrap();
        assert_eq!(pragma::<String>(&connection, "journal_mode"), "wal");
        assert_eq!(pragma::<i64>(&connection, "synchronous"), 2, "FULL");
        assert_eq!(pragma::<i64>(&connection, "busy_timeout"), 10_000);
    }

    #[test]
    fn without_shared_memory_a_rollback_journal_is_used() {
        let without = ConnectOpen { vfs: Some(NO_SHARED_MEMORY), ..ConnectOpen::default() };
        for has_log in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("fathom.db");
            file::prepare(&path, false).unwrap();
            if has_log {
                // As carried over from a place with shared memory.
                drop(writer(&path, ConnectOpen::default()).unwrap());
            }
            let connection = writer(&path, without).unwrap();
            assert_eq!(pragma::<String>(&connection, "journal_mode"), "delete");
            assert_eq!(pragma::<i64>(&connection, "synchronous"), 3, "EXTRA");
            assert_eq!(schema::version(&connection).unwrap(), VERSION);
        }
    }
}
