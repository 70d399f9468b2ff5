//! The tables and their version.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;

/// `Fath`: what tells a store from any other SQLite database, in its header.
pub(crate) const APPLICATION_ID: i32 = 0x4661_7468;

/// The version of the tables that this program reads and writes: any change of them, or of the JSON
/// they hold, makes a new one. A store of another version is refused and left as it is.
pub const VERSION: u32 = 4;

/// `body`, `host` and the like are JSON. The columns before them repeat what a list needs, so that
/// listing reads no JSON. `crc` is over `tool`, `body`, `host` and `far`.
const TABLES: &str = "
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started TEXT NOT NULL,
    ended TEXT,
    state TEXT NOT NULL,
    effort TEXT NOT NULL,
    host_name TEXT NOT NULL,
    host_id TEXT,
    kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start_ticks INTEGER,
    boot_id TEXT,
    tool TEXT NOT NULL,
    body TEXT NOT NULL,
    host TEXT NOT NULL,
    far TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (number),
    metric TEXT NOT NULL,
    params TEXT NOT NULL,
    verdict TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (run, metric, params)
) STRICT;
CREATE INDEX record_by_verdict ON record (run, verdict);
CREATE TABLE samples (
    record INTEGER PRIMARY KEY REFERENCES record (number),
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE headline (
    record INTEGER PRIMARY KEY REFERENCES record (number) ON DELETE CASCADE,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    state TEXT NOT NULL,
    value REAL,
    low REAL,
    high REAL,
    bound REAL,
    cut_short INTEGER NOT NULL,
    stratum TEXT NOT NULL,
    found REAL,
    found_low REAL,
    found_high REAL,
    crc INTEGER NOT NULL
) STRICT;";

/// The version of the tables in the file; 0 where there are none yet.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

pub(crate) fn not_ours(path: &Path, application_id: i32) -> StoreError {
    StoreError::NotOurs { path: path.to_owned(), application_id }
}

/// What a file shows of itself.
pub(crate) struct Look {
    application_id: i32,
    version: u32,
    is_empty: bool,
}

/// Looks at the file, in one view of it: it may be in the making.
pub(crate) fn look(connection: &Connection) -> rusqlite::Result<Look> {
    let view = match connection.is_autocommit() {
        true => Some(connection.unchecked_transaction()?),
        false => None,
    };
    let things: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let look = Look {
        application_id: application_id(connection)?,
        version: version(connection)?,
        is_empty: things == 0,
    };
    drop(view);
    Ok(look)
}

impl Look {
    /// Whether there is a store of this version; an error where there is something else.
    pub(crate) fn is_store(&self, path: &Path) -> Result<bool, StoreError> {
        let path = path.to_owned();
        match (self.application_id, self.version) {
            (APPLICATION_ID, VERSION) => Ok(true),
            (APPLICATION_ID, found) => Err(StoreError::OtherVersion { path, found }),
            (0, 0) if self.is_empty => Ok(false),
            (application_id, _) => Err(StoreError::NotOurs { path, application_id }),
        }
    }
}

/// Makes the tables where there are none yet, in one transaction: another process sees all of them
/// or none, and so does who comes after a kill.
pub(crate) fn create(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let is_made = |connection: &Connection| look(connection).map_err(failed)?.is_store(path);
    if is_made(connection)? {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Again, because another process may have done it while this one waited.
    if is_made(&transaction)? {
        return Ok(());
    }
    let made = || {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)
    };
    made().map_err(failed)?;
    transaction.commit().map_err(failed)
}
