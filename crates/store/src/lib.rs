//! The store: runs and their records in one SQLite file.
//!
//! A run writes as it goes: [`Store::begin`] once, [`Store::add`] after every case, each in a
//! transaction of its own that is on the disk when the call returns, [`Store::update_run`] at the
//! end. A run that is killed keeps every record that was acknowledged.
//!
//! - Samples lie in a table of their own, so that listing and showing never read them. So do
//!   headlines, so that a history reads nothing else of a record.
//! - What is read back is checked: a record against its own checksum, the facts of a run, each set
//!   of samples and each headline against a CRC-32. They detect accidents, not intent.
//! - A run whose state is [`fathom_record::RunState::Running`] is shown as interrupted once the
//!   process that began it is gone. The file is not changed by looking: only what is returned says
//!   so, and a writer that is alive after all may still end its run. The process is known by its
//!   id, its start time and the boot it belongs to; a reader in another process namespace or on
//!   another machine cannot see it, and calls its run interrupted until it ends.
//!
//! Deliberately absent: deleting and changing records, and any knowledge of what a metric means.
#![forbid(unsafe_code)]

mod column;
mod connect;
mod error;
mod headline;
mod liveness;
mod place;
mod raw_record;
mod read;
mod run_name;
mod schema;
mod write;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

pub use error::StoreError;
pub use read::RunRow;
pub use schema::VERSION;

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Where the store lies when nobody says otherwise: `$XDG_DATA_HOME/fathom/fathom.db`, else
    /// `$HOME/.local/share/fathom/fathom.db`.
    ///
    /// # Errors
    /// [`StoreError::NoHome`] where neither variable holds an absolute path.
    pub fn default_path() -> Result<PathBuf, StoreError> {
        place::default_path(|name| std::env::var_os(name))
    }

    /// Opens the store at `path` for writing and reading. Makes the file (mode 0600) and the tables
    /// where they are missing. At [`Store::default_path`] it makes the folder too (mode 0700); any
    /// other folder is the user's to make, since a missing one is most often a typing error.
    ///
    /// # Errors
    /// Where the place cannot be written, or holds anything but a store this version knows. What
    /// lies there is then left as it was.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        place::prepare(path, is_default(path))?;
        let connection = error::persevere(|| connect::writer(path, None))?;
        Ok(Self::over(connection, path))
    }

    /// Whether [`Store::open`] would find a place to write at `path`. Makes and changes nothing.
    ///
    /// # Errors
    /// Where the place cannot be written, or holds anything but a store this version knows.
    pub fn examine(path: &Path) -> Result<(), StoreError> {
        match place::examine(path, is_default(path))? {
            true => connect::look(path).map(drop),
            false => Ok(()),
        }
    }

    /// Opens the store at `path` for reading alone. It creates nothing, and works where neither
    /// the file nor its folder can be written.
    ///
    /// # Errors
    /// [`StoreError::Missing`] where there is no store, and as [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        place::require(path)?;
        let connection = connect::reader(path)?;
        Ok(Self::over(connection, path))
    }

    /// The file this store lies in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn over(connection: Connection, path: &Path) -> Self {
        Self { connection, path: path.to_owned() }
    }

    fn failed(&self, action: &'static str, error: rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(action, &self.path, error)
    }
}

fn is_default(path: &Path) -> bool {
    Store::default_path().is_ok_and(|default| default == path)
}
