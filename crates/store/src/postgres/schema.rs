//! The schema `fathom` of a database: its tables, their version, and how they are made.

use crate::StoreError;
use crate::database::{Database, DatabaseAccess};
use crate::tables::{APPLICATION_ID, POSTGRES_CHANGES, POSTGRES_OLDEST, POSTGRES_TABLES, VERSION};

use super::Postgres;

/// What is in the schema.
enum SchemaFound {
    /// No schema, or an empty one.
    Nothing,
    Store(u32),
}

/// Creates the tables if there are none, and migrates older ones, in one transaction: another
/// process sees all or nothing. Only one does it at a time.
pub(super) fn create(database: &Postgres) -> Result<(), StoreError> {
    match read(database)? {
        SchemaFound::Store(VERSION) => return Ok(()),
        SchemaFound::Store(found) => check(database, found)?,
        SchemaFound::Nothing => {}
    }
    let any: &dyn Database = database;
    any.transaction(DatabaseAccess::Write, || {
        database.batch(&format!("SELECT pg_advisory_xact_lock({APPLICATION_ID})"))?;
        // Another process may have done it while this one waited for the lock.
        let from = match read(database)? {
            SchemaFound::Store(found) => found,
            SchemaFound::Nothing => {
                let is_new = any.integer("SELECT to_regnamespace('fathom') IS NULL", &[])? != 0;
                if is_new {
                    database.batch("CREATE SCHEMA fathom")?;
                }
                database.batch(POSTGRES_TABLES)?;
                POSTGRES_OLDEST
            }
        };
        let done = from.saturating_sub(POSTGRES_OLDEST) as usize;
        POSTGRES_CHANGES[done..].iter().try_for_each(|change| database.batch(change))?;
        database.batch(&format!("UPDATE store SET version = {VERSION}"))
    })
}

/// Makes sure that there is a store; migrates an older one.
pub(super) fn require(database: &Postgres) -> Result<(), StoreError> {
    match read(database)? {
        SchemaFound::Nothing => Err(StoreError::Missing { path: database.path.clone() }),
        SchemaFound::Store(VERSION) => Ok(()),
        SchemaFound::Store(_) => create(database),
    }
}

/// Whether [`create`] would succeed, by rights; changes nothing.
pub(super) fn examine(database: &Postgres) -> Result<(), StoreError> {
    let any: &dyn Database = database;
    let (query, reason) = match read(database)? {
        SchemaFound::Store(found) => {
            check(database, found)?;
            let query = "SELECT has_table_privilege('run', 'INSERT')";
            (query, "this role must not write to the tables of the schema fathom")
        }
        SchemaFound::Nothing => {
            let query = "SELECT coalesce(
                has_schema_privilege(to_regnamespace('fathom'), 'CREATE'),
                has_database_privilege(current_database(), 'CREATE'))";
            (query, "this role must not create the schema fathom")
        }
    };
    match any.integer(query, &[])? {
        0 => Err(StoreError::Denied {
            action: "write",
            path: database.path.clone(),
            reason: reason.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The version, if it is older and can be migrated.
pub(super) fn older(database: &Postgres) -> Result<Option<u32>, StoreError> {
    Ok(match read(database)? {
        SchemaFound::Store(found) if (POSTGRES_OLDEST..VERSION).contains(&found) => Some(found),
        _ => None,
    })
}

/// Refuses a version that is not migrated.
fn check(database: &Postgres, found: u32) -> Result<(), StoreError> {
    match (POSTGRES_OLDEST..=VERSION).contains(&found) {
        true => Ok(()),
        false => Err(StoreError::OtherVersion { path: database.path.clone(), found }),
    }
}

fn read(database: &Postgres) -> Result<SchemaFound, StoreError> {
    let any: &dyn Database = database;
    if any.integer("SELECT to_regclass('fathom.store') IS NOT NULL", &[])? != 0 {
        let version = any.integer("SELECT version FROM store", &[])?.try_into();
        let version = version.unwrap_or_default();
        return check(database, version).map(|()| SchemaFound::Store(version));
    }
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('fathom')";
    match any.integer(tables, &[])? {
        0 => Ok(SchemaFound::Nothing),
        _ => {
            let reason = "its schema `fathom` has tables of another program";
            Err(StoreError::not_a_store(&database.path, reason))
        }
    }
}
