//! What can go wrong with a store. Every message is one line: what, which, why. What to do is for
//! whoever prints it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::{VERSION, place};

/// How often something is tried that fails by the device.
const TRIES: u32 = 3;

/// Why a store could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No variable says where data belongs.
    #[error("find the store: neither XDG_DATA_HOME nor HOME is an absolute path")]
    NoHome,
    /// There is nothing to read.
    #[error("open {}: there is no store", .path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The folder of the file is missing, and not ours to make.
    #[error("create {}: the directory {} does not exist", .path.display(), .folder.display())]
    NoFolder {
        /// The file that was named.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The path names a folder.
    #[error("open {}: is a directory", .path.display())]
    IsDirectory {
        /// The folder.
        path: PathBuf,
    },
    /// The path names a device, a pipe or a socket.
    #[error("open {}: not a regular file", .path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// Something above the file is not a folder.
    #[error("open {}: a part of this path is not a directory", .path.display())]
    ParentNotDirectory {
        /// The file that was named.
        path: PathBuf,
    },
    /// The permissions forbid it.
    #[error("{action} {}: permission denied", .path.display())]
    PermissionDenied {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// The file system, or this way of opening it, allows no writing.
    #[error("{action} {}: it is read-only here", .path.display())]
    ReadOnly {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// The device is full. What was stored before stands.
    #[error("{action} {}: no space left on the device", .path.display())]
    Full {
        /// What was tried.
        action: &'static str,
        /// The store.
        path: PathBuf,
    },
    /// Another process holds the store.
    #[error("{action} {}: another process has kept it locked for 10 s", .path.display())]
    Busy {
        /// What was tried.
        action: &'static str,
        /// The store.
        path: PathBuf,
    },
    /// The file is not a database.
    #[error("open {}: not a SQLite database, left untouched", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of another program.
    #[error(
        "open {}: a SQLite database, but not a store of Fathom \
         (application id {application_id:#x}), left untouched", .path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The application id it carries; 0 where it carries none.
        application_id: i32,
    },
    /// The store was made by another version.
    #[error(
        "open {}: a store of version {found}, and this one reads {VERSION}, left untouched",
        .path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A writer was killed in the middle of a change, and it cannot be undone where the store lies.
    #[error(
        "open {}: a change that was cut off must be undone first, and nothing can be written here",
        .path.display()
    )]
    NeedsRecovery {
        /// The file.
        path: PathBuf,
    },
    /// SQLite finds the file damaged.
    #[error("{action} {}: the database is damaged ({reason})", .path.display())]
    Corrupt {
        /// What was tried.
        action: &'static str,
        /// The store.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// Something stored does not fit its checksum.
    #[error("read run {run}: {part} is damaged: {reason}")]
    Damaged {
        /// The run.
        run: String,
        /// The record, its samples, or the facts of the run.
        part: String,
        /// How it was noticed.
        reason: String,
    },
    /// A record without a fitting checksum was to be stored.
    #[error("store {record} in run {run}: its checksum does not fit it; seal the record first")]
    NotSealed {
        /// The run.
        run: String,
        /// The record.
        record: String,
    },
    /// Something would not read back as it was written.
    #[error(
        "store {what} of run {run}: it would not read back the same; every number must be finite"
    )]
    NotStorable {
        /// The run.
        run: String,
        /// The record, its samples, or the facts of the run.
        what: String,
    },
    /// The run has this record already.
    #[error("store {record} in run {run}: it is there already; a case is stored once a run")]
    Duplicate {
        /// The run.
        run: String,
        /// The record.
        record: String,
    },
    /// A run with this id exists.
    #[error("begin run {run}: the store has a run of this id already")]
    RunExists {
        /// The run.
        run: String,
    },
    /// No run answers to this name.
    #[error("find run {name}: {}", none_of(*runs, *empty))]
    NoSuchRun {
        /// What was asked for.
        name: String,
        /// How many runs the store has.
        runs: u32,
        /// How many of them have no record, and are never `latest`.
        empty: u32,
    },
    /// Several runs have this label, or ids that begin so.
    #[error("find run {name}: it could be {}", listed(candidates))]
    Ambiguous {
        /// The label or the prefix.
        name: String,
        /// The runs it fits, newest first.
        candidates: Vec<String>,
    },
    /// A prefix too short to mean anything.
    #[error("find run {name}: a prefix has at least {min} characters")]
    TooShort {
        /// The prefix.
        name: String,
        /// The fewest characters.
        min: usize,
    },
    /// Not a name of a run.
    #[error("find run {name}: not a name of a run")]
    BadName {
        /// What was asked for.
        name: String,
    },
    /// Any other failure of the operating system.
    #[error("{action} {}: {reason}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The device, or the file system on it, failed.
    #[error("{action} {}: {reason}", .path.display())]
    Device {
        /// What was tried.
        action: &'static str,
        /// The store.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// Any other failure of SQLite.
    #[error("{action} {}: {reason}", .path.display())]
    Sqlite {
        /// What was tried.
        action: &'static str,
        /// The store.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
}

impl StoreError {
    pub(crate) fn damaged(run_id: &str, part: &str, reason: String) -> Self {
        Self::Damaged { run: run_id.to_owned(), part: part.to_owned(), reason }
    }

    /// The system's error with the file it met.
    pub(crate) fn from_io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { action, path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { action, path },
            io::ErrorKind::StorageFull => Self::Full { action, path },
            io::ErrorKind::NotADirectory => Self::ParentNotDirectory { path },
            _ => Self::Io { action, path, reason: lower_first(&error.to_string()) },
        }
    }

    /// SQLite's error with the store it met.
    pub(crate) fn from_sqlite(action: &'static str, path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = lower_first(&error.to_string());
        let Some(cause) = error.sqlite_error() else {
            return Self::Sqlite { action, path, reason };
        };
        // The shared index beside the log is grown by a write, and SQLite does not say what was
        // wrong with it.
        if cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE && place::is_full(&path) {
            return Self::Full { action, path };
        }
        match cause.code {
            ErrorCode::DiskFull => Self::Full { action, path },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { action, path },
            ErrorCode::NotADatabase => Self::NotADatabase { path },
            ErrorCode::ReadOnly => Self::ReadOnly { action, path },
            ErrorCode::DatabaseCorrupt => Self::Corrupt { action, path, reason },
            ErrorCode::CannotOpen => {
                // SQLite names the file once more, and not why.
                let reason = "the file, or one beside it, cannot be opened".to_owned();
                Self::Sqlite { action, path, reason }
            }
            ErrorCode::SystemIoFailure => Self::Device { action, path, reason },
            _ => Self::Sqlite { action, path, reason },
        }
    }
}

/// Does something that can be done again, until it succeeds or has failed three times by a device:
/// what interrupted it may have passed.
pub(crate) fn persevere<T>(
    mut work: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    for _ in 0..TRIES - 1 {
        match work() {
            Err(StoreError::Device { .. }) => {}
            done => return done,
        }
    }
    work()
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn none_of(runs: u32, empty: u32) -> String {
    let none = match runs {
        0 => return "the store has no runs".to_owned(),
        n => format!("no such run among the {n} in the store"),
    };
    match empty {
        0 => none,
        1 => format!("{none}, 1 of which has no result and is never `latest`"),
        n => format!("{none}, {n} of which have no result and are never `latest`"),
    }
}

/// The candidates, but never a screenful of them.
fn listed(candidates: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown = &candidates[..candidates.len().min(SHOWN_MAX)];
    let mut text = shown.join(", ");
    if candidates.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", candidates.len() - SHOWN_MAX));
    }
    text
}
