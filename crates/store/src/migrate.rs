//! Migration of a store of an older version. A copy of it is kept beside it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OpenFlags, TransactionBehavior};

use crate::connect::{ConnectOpen, connect, immutable};
use crate::schema::{self, Header};
use crate::{StoreError, file};

/// The version of an older store that [`migrate`] would change.
pub(crate) fn older_version(path: &Path) -> Option<u32> {
    // A log that is ahead of the file can only hold a newer version.
    Header::read(&immutable(path).ok()?).ok()?.older()
}

/// Migrates a store of an older version in one transaction; the path of the copy. `None` if there
/// is nothing to migrate.
pub(crate) fn migrate(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    if older_version(path).is_none() {
        return Ok(None);
    }
    file::require_writable("migrate", path)?;
    let failed = |error| StoreError::from_sqlite("migrate", path, error);
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, ConnectOpen::default())?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have migrated it while this one waited for the lock.
    let Some(from) = Header::read(&transaction).map_err(failed)?.older() else { return Ok(None) };
    let copy = copy(path, from)?;
    schema::upgrade(&transaction, from).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(Some(copy))
}

/// Copies the store, whole with its log, to `PATH.version-N`. The caller holds the write lock, and
/// only another connection can copy meanwhile.
fn copy(path: &Path, version: u32) -> Result<PathBuf, StoreError> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".version-{version}{end}"));
        PathBuf::from(name)
    };
    let (partial, copy) = (beside(".partial"), beside(""));
    // Left by a killed process.
    let _ = std::fs::remove_file(&partial);
    file::create_file(&partial)?;
    let name = ValueRef::Text(partial.as_os_str().as_bytes());
    let copied = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, ConnectOpen::default())?
        .execute("VACUUM INTO ?1", [ToSqlOutput::Borrowed(name)])
        .map_err(|error| StoreError::from_sqlite("copy to", &copy, error));
    let kept = copied.and_then(|_| {
        std::fs::File::open(&partial)
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&partial, &copy))
            .map_err(|error| StoreError::from_io("copy to", &copy, &error))
    });
    if kept.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    kept.map(|()| copy)
}
