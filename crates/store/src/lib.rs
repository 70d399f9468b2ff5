//! The store: runs and their records in one SQLite file, or in a schema of a PostgreSQL database.
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

mod address;
mod cases;
mod column;
mod connect;
mod database;
mod error;
mod file;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod headline;
mod listing;
mod liveness;
mod migrate;
mod place;
mod postgres;
mod prune;
mod raw_record;
mod read;
mod run_name;
mod schema;
mod space;
mod sqlite;
mod tables;
mod transfer;
mod write;

use std::path::{Path, PathBuf};

use connect::ConnectOpen;
use database::Database;
use postgres::Postgres;
use sqlite::Sqlite;

pub use address::Address;
pub use cases::{CaseSearch, StoredCase};
pub use error::StoreError;
pub use listing::{Filter, HostName, RunTrend};
pub use place::Place;
pub use prune::{Keep, OldRun};
pub use read::RunRow;
pub use run_name::RunNameFound;
pub use tables::{OLDEST, VERSION};
pub use transfer::{Checked, Taken};

#[derive(Debug)]
pub struct Store {
    database: Box<dyn Database>,
    copy: Option<PathBuf>,
}

impl Store {
    /// The default file: `$XDG_DATA_HOME/fathom/fathom.db`, else
    /// `$HOME/.local/share/fathom/fathom.db`.
    pub fn default_path() -> Result<PathBuf, StoreError> {
        file::default_path(|name| std::env::var_os(name))
    }

    /// Opens a store for writing and reading. Migrates one of an older version; of a file, a
    /// [copy](Store::copy) is kept.
    ///
    /// Creates a missing file (mode 0600) or schema and its tables. Creates the folder (mode 0700)
    /// only at [`Store::default_path`]: elsewhere a missing folder is most often a typing error. A
    /// file that is not such a store is left unchanged, and a new one is removed where its tables
    /// cannot be written.
    pub fn open(place: impl Into<Place>) -> Result<Self, StoreError> {
        let path = match place.into() {
            Place::File(path) => path,
            Place::Database(address) => {
                return Self::of_database(&address, postgres::PostgresOpen::Write);
            }
        };
        let is_new = file::prepare(&path, is_default(&path))?;
        let copy = migrate::migrate(&path)?;
        let opened = error::retry_device_errors(|| connect::writer(&path, ConnectOpen::default()));
        if is_new && opened.is_err() {
            file::remove_empty(&path);
        }
        Ok(Self::of_file(opened?, path, copy))
    }

    /// Whether [`Store::open`] would find a writable place or store. Changes nothing.
    pub fn examine(place: impl Into<Place>) -> Result<(), StoreError> {
        let path = match place.into() {
            Place::File(path) => path,
            Place::Database(address) => {
                return Self::of_database(&address, postgres::PostgresOpen::Examine).map(drop);
            }
        };
        match file::examine(&path, is_default(&path))? {
            true if migrate::older_version(&path).is_some() => Ok(()),
            true => connect::open_checked(&path, ConnectOpen::default()).map(drop),
            false => Ok(()),
        }
    }

    /// Opens an existing store for reading. Creates nothing, and works on a read-only file system,
    /// unless the store is of an older version: it is migrated as by [`Store::open`].
    pub fn open_existing(place: impl Into<Place>) -> Result<Self, StoreError> {
        Self::open_foreseeing(place, |_| ())
    }

    /// As [`Store::open_existing`]; of a database, what this work reads is asked as it is opened:
    /// it has no rows then, and the same reading later costs nothing.
    pub fn open_foreseeing(
        place: impl Into<Place>,
        work: impl FnOnce(&Self),
    ) -> Result<Self, StoreError> {
        let path = match place.into() {
            Place::File(path) => path,
            Place::Database(address) => {
                let store = Self::of_database(&address, postgres::PostgresOpen::Read)?;
                work(&store);
                store.database.ask()?;
                return Ok(store);
            }
        };
        file::require(&path)?;
        let copy = migrate::migrate(&path)?;
        let connection = connect::reader(&path, ConnectOpen::default())?;
        Ok(Self::of_file(connection, path, copy))
    }

    /// Has what this work reads at hand, for one round trip to a database; see
    /// [`Store::open_foreseeing`].
    pub fn foresee(&self, work: impl FnOnce(&Self)) -> Result<(), StoreError> {
        self.database.foresee(|| work(self))
    }

    /// Refuses a store of an older version, which opening would migrate.
    pub fn refuse_older(place: impl Into<Place>) -> Result<(), StoreError> {
        let (path, older) = match place.into() {
            Place::File(path) => {
                let older = migrate::older_version(&path);
                (path, older)
            }
            Place::Database(address) => {
                (address.to_string().into(), Postgres::older_version(&address)?)
            }
        };
        older.map_or(Ok(()), |found| Err(StoreError::OtherVersion { path, found }))
    }

    /// The copy of the store as it was before, if opening it has migrated it.
    pub fn copy(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    fn of_file(connection: rusqlite::Connection, path: PathBuf, copy: Option<PathBuf>) -> Self {
        Self { database: Box::new(Sqlite::new(connection, &path)), copy }
    }

    fn of_database(address: &Address, open: postgres::PostgresOpen) -> Result<Self, StoreError> {
        Ok(Self { database: Box::new(Postgres::open(address, open)?), copy: None })
    }
}

fn is_default(path: &Path) -> bool {
    Store::default_path().is_ok_and(|default| default == path)
}
