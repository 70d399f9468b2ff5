//! What the store needs of a database, at the level of statements, so that each statement is
//! written once.
//!
//! Statements are in the SQL that all databases here have in common, with `?1` for an argument.
//! Each database translates three things: `?1`; `(LIST ?1)`, the rows of a list of integers; and
//! `CROSS JOIN … ON`, by which SQLite keeps the order of tables as it is written.

use std::fmt;
use std::ops::ControlFlow;

use crate::StoreError;

/// What is done with each row; a break ends the reading.
pub(crate) type Each<'e> =
    &'e mut dyn FnMut(&dyn DatabaseRow) -> Result<ControlFlow<()>, StoreError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseAccess {
    /// One snapshot of all tables.
    Read,
    Write,
}

pub(crate) trait Database: fmt::Debug + Send {
    fn query(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
        each: Each<'_>,
    ) -> Result<(), StoreError>;

    fn begin(&self, access: DatabaseAccess) -> Result<(), StoreError>;

    fn commit(&self) -> Result<(), StoreError>;

    /// Ends a transaction without its changes. If that fails, the database does so by itself.
    fn rollback(&self);

    /// Whether statements that read are noted from now on, and have no rows, until they are
    /// [asked](Self::ask): those of a far database, so that they take one round trip together.
    fn collects(&self) -> bool {
        false
    }

    /// Asks what was noted, in one snapshot; the same statements then have these rows.
    fn ask(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Frees the rows of a statement that was noted.
    fn forget(&self, _sql: &str, _arguments: &[DatabaseValue<'_>]) {}

    /// Whether runs of other machines are stored here while they run.
    fn is_shared(&self) -> bool;

    /// What locks the selected rows, at the end of a statement. SQLite has one writer at a time.
    fn for_update(&self) -> &'static str {
        ""
    }

    /// The bytes that the store occupies.
    fn size(&self) -> Result<u64, StoreError>;

    /// Returns free space to the file system, where that is possible.
    fn compact(&self);

    /// Damage that the database itself finds.
    fn damage(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

impl dyn Database + '_ {
    pub(crate) fn execute(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
    ) -> Result<(), StoreError> {
        self.query(sql, arguments, &mut |_| Ok(ControlFlow::Continue(())))
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
        mut read: impl FnMut(&dyn DatabaseRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.query(sql, arguments, &mut |row| {
            rows.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
        read: impl FnMut(&dyn DatabaseRow) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.rows(sql, arguments, read)?.into_iter().next())
    }

    /// The integer in the only row and column.
    pub(crate) fn integer(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
    ) -> Result<i64, StoreError> {
        let found = self.first(sql, arguments, |row| row.integer(0))?;
        Ok(found.flatten().unwrap_or_default())
    }

    /// Has what this work reads at hand. A file has it anyway.
    pub(crate) fn foresee(&self, work: impl FnOnce()) -> Result<(), StoreError> {
        if self.collects() {
            work();
            self.ask()?;
        }
        Ok(())
    }

    /// One transaction. A failed one is rolled back, so it can be retried.
    pub(crate) fn transaction<T>(
        &self,
        access: DatabaseAccess,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin(access)?;
        match work() {
            Ok(done) => self.commit().map(|()| done),
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }
}

/// Columns are counted from 0. A null is `None`.
pub(crate) trait DatabaseRow {
    /// Also of a condition, as 0 or 1.
    fn integer(&self, column: usize) -> Result<Option<i64>, StoreError>;

    fn real(&self, column: usize) -> Result<Option<f64>, StoreError>;

    /// Text, which may not be UTF-8 if the column is damaged, or bytes; `None` for anything else.
    fn bytes(&self, column: usize) -> Option<&[u8]>;
}

/// An argument of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DatabaseValue<'v> {
    Null,
    Flag(bool),
    Integer(i64),
    Real(f64),
    Text(&'v str),
    Bytes(&'v [u8]),
    List(&'v [i64]),
}

impl<'v, T: Into<DatabaseValue<'v>>> From<Option<T>> for DatabaseValue<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

/// Conversions that cannot fail.
macro_rules! values_of {
    ($($type:ty => $variant:ident by $convert:expr;)*) => {$(
        impl<'v> From<$type> for DatabaseValue<'v> {
            fn from(value: $type) -> Self {
                Self::$variant(($convert)(value))
            }
        }
    )*};
}

values_of! {
    i64 => Integer by |it| it;
    u32 => Integer by i64::from;
    bool => Flag by |it| it;
    f64 => Real by |it| it;
    &'v str => Text by |it| it;
    &'v String => Text by String::as_str;
    &'v [u8] => Bytes by |it| it;
    &'v Vec<i64> => List by Vec::as_slice;
}

/// The arguments of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::database::DatabaseValue::from($value)),*][..]
    };
}
pub(crate) use values;
