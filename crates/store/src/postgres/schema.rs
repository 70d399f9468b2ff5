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
    require_rights(database)?;
    if let SchemaFound::Store(VERSION) = read(database)? {
        return Ok(());
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
    require_rights(database)?;
    // A version that is not migrated is refused.
    read(database).map(drop)
}

/// The statements that give this role what it lacks to store runs; null if it lacks nothing. The
/// catalogue says it of a schema that the role may not use, too.
const LACKING: &str = "SELECT CASE
    WHEN s IS NULL THEN CASE WHEN NOT has_database_privilege(current_database(), 'CREATE')
        THEN format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user) END
    WHEN NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = s)
        THEN CASE WHEN NOT (has_schema_privilege(s, 'USAGE') AND has_schema_privilege(s, 'CREATE'))
        THEN format('GRANT USAGE, CREATE ON SCHEMA fathom TO %I', current_user) END
    WHEN NOT has_schema_privilege(s, 'USAGE') OR EXISTS (SELECT FROM pg_class,
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS verb
        WHERE relnamespace = s AND relkind = 'r' AND NOT has_table_privilege(oid, verb)
            AND (verb = 'SELECT' OR relname <> 'store') AND (verb <> 'UPDATE' OR relname = 'run'))
        THEN format('GRANT USAGE ON SCHEMA fathom TO %1$I; GRANT SELECT, INSERT, UPDATE, DELETE '
            'ON ALL TABLES IN SCHEMA fathom TO %1$I', current_user)
    END FROM (SELECT to_regnamespace('fathom') AS s) AS at";

fn require_rights(database: &Postgres) -> Result<(), StoreError> {
    let any: &dyn Database = database;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match any.first(LACKING, &[], |row| Ok(row.bytes(0).map(text)))?.flatten() {
        Some(grant) => Err(StoreError::Rights { path: database.path.clone(), grant }),
        None => Ok(()),
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
