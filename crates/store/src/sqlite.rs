//! The store in a file, by SQLite.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::StoreError;
use crate::database::{Database, DatabaseAccess, DatabaseRow, DatabaseValue, Each};
use crate::error::STEPS_MAX;

#[derive(Debug)]
pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// What a failure interrupts, for its message.
    action: Cell<&'static str>,
    /// Of the handler that bounds a statement, since it began.
    calls: Arc<AtomicU64>,
}

impl Sqlite {
    pub(crate) fn new(connection: Connection, path: &Path) -> Self {
        Self::bounded(connection, path, STEPS_MAX)
    }

    /// A statement takes at most so many steps of SQLite's machine.
    fn bounded(mut connection: Connection, path: &Path, steps_max: u64) -> Self {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let is_over = move || (counted.fetch_add(1, Relaxed) + 1) * STEPS_A_CALL > steps_max;
        // It fails only for a connection of another owner.
        let _ = connection.progress_handler(STEPS_A_CALL as i32, Some(is_over));
        Self { connection, path: path.to_owned(), action: Cell::new(READ), calls }
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(self.action.get(), &self.path, error)
    }

    fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.calls.store(0, Relaxed);
        self.connection.execute_batch(sql).map_err(|error| self.failed(error))
    }
}

const READ: &str = "read";
const STEPS_A_CALL: u64 = 1 << 20;

impl Database for Sqlite {
    fn query(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
        each: Each<'_>,
    ) -> Result<(), StoreError> {
        let failed = |error| self.failed(error);
        self.calls.store(0, Relaxed);
        let mut statement = self.connection.prepare_cached(&dialect(sql)).map_err(failed)?;
        let mut rows = statement.query(params_from_iter(arguments)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            if each(&SqliteRow { row, of: self })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn begin(&self, access: DatabaseAccess) -> Result<(), StoreError> {
        // A writer takes the write lock at once, so that what it reads cannot change before it
        // writes.
        let (action, begin) = match access {
            DatabaseAccess::Read => (READ, "BEGIN"),
            DatabaseAccess::Write => ("write", "BEGIN IMMEDIATE"),
        };
        self.action.set(action);
        self.batch(begin).inspect_err(|_| self.action.set(READ))
    }

    fn commit(&self) -> Result<(), StoreError> {
        let committed = self.batch("COMMIT");
        if committed.is_err() {
            self.rollback();
        }
        self.action.set(READ);
        committed
    }

    fn rollback(&self) {
        // Some errors have ended the transaction already.
        let _ = self.connection.execute_batch("ROLLBACK");
        self.action.set(READ);
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn size(&self) -> Result<u64, StoreError> {
        // What is in the log only has no place in the file yet.
        self.batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(std::fs::metadata(&self.path).map_or(0, |facts| facts.len()))
    }

    fn compact(&self) {
        // The copy is as large as the store: not in memory.
        self.calls.store(0, Relaxed);
        let _ = self.connection.execute_batch("PRAGMA temp_store = file; VACUUM");
        let _ = self.connection.pragma_update(None, "temp_store", "memory");
    }

    fn damage(&self) -> Result<Vec<String>, StoreError> {
        let lines: &dyn Database = self;
        let lines = lines.rows("PRAGMA integrity_check", &[], |row| {
            Ok(String::from_utf8_lossy(row.bytes(0).unwrap_or_default()).into_owned())
        })?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }
}

/// See [`crate::database`].
fn dialect(sql: &str) -> Cow<'_, str> {
    const LIST: &str = "(LIST ";
    match sql.contains(LIST) {
        false => sql.into(),
        true => {
            let mut parts = sql.split(LIST);
            let mut whole = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let (argument, rest) = part.split_once(')').unwrap_or((part, ""));
                whole += &format!("(SELECT value FROM json_each({argument})){rest}");
            }
            whole.into()
        }
    }
}

impl ToSql for DatabaseValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            DatabaseValue::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            DatabaseValue::Flag(flag) => ToSqlOutput::Borrowed(ValueRef::Integer((*flag).into())),
            DatabaseValue::Integer(number) => ToSqlOutput::Borrowed(ValueRef::Integer(*number)),
            DatabaseValue::Real(number) => ToSqlOutput::Borrowed(ValueRef::Real(*number)),
            DatabaseValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            DatabaseValue::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            DatabaseValue::List(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
                ToSqlOutput::from(format!("[{}]", numbers.join(",")))
            }
        })
    }
}

struct SqliteRow<'r> {
    row: &'r rusqlite::Row<'r>,
    of: &'r Sqlite,
}

impl DatabaseRow for SqliteRow<'_> {
    fn integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.row.get(column).map_err(|error| self.of.failed(error))
    }

    fn real(&self, column: usize) -> Result<Option<f64>, StoreError> {
        self.row.get(column).map_err(|error| self.of.failed(error))
    }

    fn bytes(&self, column: usize) -> Option<&[u8]> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_statement_is_ended() {
        const ENDLESS: &str =
            "WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n";
        let connection = Connection::open_in_memory().unwrap();
        let store = Sqlite::bounded(connection, Path::new("x.db"), 3 * STEPS_A_CALL);
        for _ in 0..2 {
            let error = store.query(ENDLESS, &[], &mut |_| unreachable!()).unwrap_err();
            assert!(error.to_string().contains("a statement exceeds"), "{error}");
            store.batch("SELECT 1").expect("the count begins anew");
        }
    }

    #[test]
    fn list_is_read_by_json_each() {
        assert_eq!(dialect("SELECT ?1"), "SELECT ?1");
        let of = "SELECT value FROM json_each(?2)";
        let expected = format!("DELETE FROM a WHERE b IN ({of}) AND c IN ({of})");
        assert_eq!(dialect("DELETE FROM a WHERE b IN (LIST ?2) AND c IN (LIST ?2)"), expected);
    }
}
