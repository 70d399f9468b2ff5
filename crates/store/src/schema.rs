//! The header of a store, and how its tables are made and changed.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;
use crate::tables::{APPLICATION_ID, CHANGES, OLDEST, TABLES, VERSION};

/// The version of the tables in the file; 0 for a new file.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    // A number below 0 is of no version that is known, as one above all of them.
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

pub(crate) fn not_ours(path: &Path, application_id: i32) -> StoreError {
    let reason = format!("a SQLite database of another program (id {application_id:#x})");
    StoreError::not_a_store(path, reason)
}

/// What the header and the list of tables say of a file.
pub(crate) struct Header {
    application_id: i32,
    version: u32,
    is_empty: bool,
    has_views: bool,
}

impl Header {
    /// Reads in one transaction, because another process may be creating the tables.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let _snapshot = match connection.is_autocommit() {
            true => Some(connection.unchecked_transaction()?),
            false => None,
        };
        let count = "SELECT count(*), count(*) FILTER (WHERE type NOT IN ('table', 'index'))
            FROM sqlite_schema";
        let (tables, others): (u32, u32) =
            connection.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self {
            application_id: application_id(connection)?,
            version: version(connection)?,
            is_empty: tables == 0,
            has_views: others > 0,
        })
    }

    /// The version, if it is older than [`VERSION`] and can be migrated.
    pub(crate) fn older(&self) -> Option<u32> {
        let is_ours = self.application_id == APPLICATION_ID;
        (is_ours && (OLDEST..VERSION).contains(&self.version)).then_some(self.version)
    }

    /// True for a store of this version, false for an empty file, an error for anything else.
    pub(crate) fn is_store(&self, path: &Path) -> Result<bool, StoreError> {
        match (self.application_id, self.version) {
            (APPLICATION_ID, _) if self.has_views => {
                Err(StoreError::not_a_store(path, "it has a view or a trigger"))
            }
            (APPLICATION_ID, VERSION) => Ok(true),
            (APPLICATION_ID, found) => {
                Err(StoreError::OtherVersion { path: path.to_owned(), found })
            }
            (0, 0) if self.is_empty => Ok(false),
            (application_id, _) => Err(not_ours(path, application_id)),
        }
    }
}

/// Takes the steps from an older version to this one.
pub(crate) fn upgrade(connection: &Connection, from: u32) -> rusqlite::Result<()> {
    let done = from.saturating_sub(OLDEST) as usize;
    CHANGES[done..].iter().try_for_each(|change| connection.execute_batch(change))?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Creates the tables if the file is empty, in one transaction: another process, or one after a
/// kill, sees all of them or none.
pub(crate) fn create(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let exists = |connection: &Connection| Header::read(connection).map_err(failed)?.is_store(path);
    if exists(connection)? {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Again: another process may have created them while this one waited for the lock.
    if exists(&transaction)? {
        return Ok(());
    }
    let fill = || {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        upgrade(&transaction, OLDEST)
    };
    fill().map_err(failed)?;
    transaction.commit().map_err(failed)
}
