//! The tables, their version, and the way from any older version to this one.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{StoreError, headline};

/// `Fath`: what tells a store from any other SQLite database, in its header.
pub(crate) const APPLICATION_ID: i32 = 0x4661_7468;

/// Makes a version of the tables out of the one before.
type Step = fn(&Connection) -> rusqlite::Result<()>;

/// Step 0 makes version 1 out of nothing. A step that was released is never changed: a change is a
/// new step.
const STEPS: &[Step] = &[
    // `body` is JSON. The columns before it repeat what a list needs, so that listing reads no
    // JSON. `crc` is over `tool`, `body` and `host`.
    |store| {
        store.execute_batch(
            "CREATE TABLE run (
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
    ) STRICT;",
        )
    },
    headline::create,
];

/// The version of the tables that this program reads and writes.
pub const VERSION: u32 = STEPS.len() as u32;

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
    /// The version of the store; 0 where there is nothing yet, an error where there is something
    /// else, or a store newer than `known`.
    pub(crate) fn version(&self, path: &Path, known: u32) -> Result<u32, StoreError> {
        let path = path.to_owned();
        match self.application_id {
            APPLICATION_ID if self.version > known => {
                Err(StoreError::Newer { path, found: self.version, known })
            }
            APPLICATION_ID => Ok(self.version),
            0 if self.is_empty && self.version == 0 => Ok(0),
            application_id => Err(StoreError::NotOurs { path, application_id }),
        }
    }
}

/// Brings the file to [`VERSION`], in one transaction: another process sees the old tables or the
/// new ones, and a kill leaves the old.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_by(STEPS, connection, path)
}

fn migrate_by(steps: &[Step], connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlite("open", path, error);
    let known = steps.len() as u32;
    let found = |connection: &Connection| look(connection).map_err(failed)?.version(path, known);
    if found(connection)? == known {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Again, because another process may have done it while this one waited.
    if found(&transaction)? == known {
        return Ok(());
    }
    apply(steps, &transaction).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn apply(steps: &[Step], transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let found = version(transaction)? as usize;
    for step in steps.iter().skip(found) {
        step(transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", steps.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[Step] = &[
        |store| store.execute_batch("CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7)"),
        |store| store.execute_batch("ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1"),
    ];

    fn y(connection: &Connection) -> rusqlite::Result<i64> {
        connection.query_row("SELECT y FROM a", [], |row| row.get(0))
    }

    #[test]
    fn an_older_store_is_brought_up_to_date_with_its_content() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_by(&TWO[..1], &mut connection, Path::new("x")).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);
        migrate_by(TWO, &mut connection, Path::new("x")).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
        assert_eq!(y(&connection).unwrap(), 8);
        migrate_by(TWO, &mut connection, Path::new("x")).unwrap();
        assert_eq!(y(&connection).unwrap(), 8, "a step is done once");
    }

    #[test]
    fn a_step_that_fails_leaves_the_older_store_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_by(&TWO[..1], &mut connection, Path::new("x")).unwrap();
        let again: Step = |store| store.execute_batch("CREATE TABLE a (x INTEGER)");
        let broken = [TWO[0], TWO[1], again];
        migrate_by(&broken, &mut connection, Path::new("x")).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 1);
        y(&connection).unwrap_err();
    }
}
