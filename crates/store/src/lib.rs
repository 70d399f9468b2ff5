//! The store: runs and their records in one SQLite file.
//!
//! A run writes as it goes: [`Store::begin`] once, [`Store::add`] after every case, each in a
//! transaction of its own that is on the disk when the call returns, [`Store::update_run`] at the
//! end. A killed run keeps every acknowledged record.
//!
//! - Samples and headlines have tables of their own: listing and showing read no samples, and a
//!   history reads only headlines.
//! - Everything read is checked: a record against its own checksum; the facts of a run, each set
//!   of samples and each headline against a CRC-32. This detects accidents, not manipulation.
//! - Runs are in the order in which they were stored: the wall clock, by which ids sort, can step
//!   back.
//! - A run in state [`fathom_record::RunState::Running`] is reported as interrupted once the
//!   process that began it has ended. The file is not changed for that, so a writer that is alive
//!   after all can still end its run. The process is identified by pid, start time and boot id,
//!   and is seen in its own pid namespace only: in another the state is unknown. A reader on
//!   another machine reports the run as interrupted until it ends.
//!
//! Out of scope by design: the meaning of metrics.
#![forbid(unsafe_code)]

mod cases;
mod column;
mod connect;
mod error;
mod file;
mod headline;
mod listing;
mod liveness;
mod migrate;
mod prune;
mod raw_record;
mod read;
mod run_name;
mod schema;
mod space;
mod tables;
mod write;

use std::path::{Path, PathBuf};

use connect::Open;
use rusqlite::Connection;

pub use cases::{Search, StoredCase};
pub use error::StoreError;
pub use listing::Filter;
pub use prune::{Keep, OldRun};
pub use read::RunRow;
pub use run_name::Found;
pub use tables::{OLDEST, VERSION};

#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    copy: Option<PathBuf>,
}

impl Store {
    /// The default file: `$XDG_DATA_HOME/fathom/fathom.db`, else
    /// `$HOME/.local/share/fathom/fathom.db`.
    pub fn default_path() -> Result<PathBuf, StoreError> {
        file::default_path(|name| std::env::var_os(name))
    }

    /// Opens the store at `path` for writing and reading. Migrates one of an older version, of
    /// which it keeps a [copy](Store::copy). Creates the file (mode 0600) and the
    /// tables if they are missing. Creates the folder (mode 0700) only at
    /// [`Store::default_path`]: elsewhere a missing folder is most often a typing error. A file
    /// that is not such a store is left unchanged, and a new one is removed where its
    /// tables cannot be written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let is_new = file::prepare(path, is_default(path))?;
        let copy = migrate::migrate(path)?;
        let opened = error::retry_device_errors(|| connect::writer(path, Open::default()));
        if is_new && opened.is_err() {
            file::remove_empty(path);
        }
        Ok(Self { connection: opened?, path: path.to_owned(), copy })
    }

    /// Whether [`Store::open`] would find a writable place or store at `path`. Changes nothing.
    pub fn examine(path: &Path) -> Result<(), StoreError> {
        match file::examine(path, is_default(path))? {
            true if migrate::older_version(path).is_some() => Ok(()),
            true => connect::open_checked(path, Open::default()).map(drop),
            false => Ok(()),
        }
    }

    /// Opens an existing store for reading. Creates nothing, and works on a read-only file system,
    /// unless the store is of an older version: it is migrated as by [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        file::require(path)?;
        let copy = migrate::migrate(path)?;
        let connection = connect::reader(path, Open::default())?;
        Ok(Self { connection, path: path.to_owned(), copy })
    }

    /// Refuses a store of an older version, which opening would migrate.
    pub fn refuse_older(path: &Path) -> Result<(), StoreError> {
        let refuse = |found| Err(StoreError::OtherVersion { path: path.to_owned(), found });
        migrate::older_version(path).map_or(Ok(()), refuse)
    }

    /// The copy of the store as it was before, if opening it has migrated it.
    pub fn copy(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, action: &'static str, error: rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(action, &self.path, error)
    }
}

fn is_default(path: &Path) -> bool {
    Store::default_path().is_ok_and(|default| default == path)
}
