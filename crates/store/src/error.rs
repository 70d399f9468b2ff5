//! Errors of the store. Every message is one line: action, file or run, reason. The caller adds
//! what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_record::{Activity, SystemCause, system_cause};
use rusqlite::ErrorCode;
use rusqlite::ffi;
use rustix::io::Errno;

use crate::space;
use crate::tables::VERSION;

/// Wait for a lock: longer than any transaction here takes on a slow disk.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of SQLite's machine for a statement, about a minute: one here takes some tens a row.
pub(crate) const STEPS_MAX: u64 = 1 << 33;
/// Attempts at an operation that fails with a device error.
const DEVICE_ATTEMPTS: u32 = 3;

/// Why a store could not be opened, written or read. Variants that share a remedy share a variant.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What is wrong with the address of a database; without its password.
    #[error("open the store: {reason}")]
    BadAddress { reason: String },
    #[error("find the store: neither XDG_DATA_HOME nor HOME is an absolute path")]
    NoHome,
    #[error("open {}: there is no store", .path.display())]
    Missing { path: PathBuf },
    #[error("create {}: the directory {} does not exist", .path.display(), .folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    #[error("open {}: is a directory", .path.display())]
    IsDirectory { path: PathBuf },
    #[error("{action} {}: permission denied", .path.display())]
    PermissionDenied { action: &'static str, path: PathBuf },
    /// Records stored before remain.
    #[error("{action} {}: {}", .path.display(), .cause.text)]
    Full { action: &'static str, path: PathBuf, cause: SystemCause },
    #[error(
        "{action} {}: locked for {} s by another process",
        .path.display(), BUSY_TIMEOUT.as_secs()
    )]
    Busy { action: &'static str, path: PathBuf },
    #[error("open {}: {reason}, left unchanged", .path.display())]
    NotAStore { path: PathBuf, reason: String },
    #[error(
        "open {}: a store of version {found}, this program reads version {VERSION}; left unchanged",
        .path.display()
    )]
    OtherVersion { path: PathBuf, found: u32 },
    /// A writer was killed during a transaction, and the place does not allow the rollback.
    #[error("open {}: needs recovery of an interrupted write, and is read-only", .path.display())]
    NeedsRecovery { path: PathBuf },
    /// SQLite finds the file damaged.
    #[error("{action} {}: the database is damaged ({reason})", .path.display())]
    Corrupt { action: &'static str, path: PathBuf, reason: String },
    /// A row does not match its checksum. `part` is the record, its samples, or the run itself.
    #[error("read run {run}: {part} is damaged: {reason}")]
    Damaged { run: String, part: String, reason: String },
    #[error("store {what} in run {run}: {reason}")]
    NotStorable { run: String, what: String, reason: &'static str },
    #[error("begin run {run}: a run with this id exists")]
    RunExists { run: String },
    /// `empty` of the `runs` have no record, and are never `latest`.
    #[error("find run {name}: {}", not_found(*runs, *empty))]
    NoSuchRun { name: String, runs: u32, empty: u32 },
    /// `kind`: `complete battery run`, and of which host.
    #[error("find run {name}: the store has {}", shortage(*found, kind))]
    NoSuchLatest { name: String, found: usize, kind: String },
    /// Several runs have this label, or ids with this prefix; the newest first.
    #[error("find run {name}: ambiguous: {}", shortened_list(candidates))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error("find run {name}: an id prefix has at least {min} characters")]
    TooShort { name: String, min: usize },
    #[error("find run {name}: not a run name")]
    BadName { name: String },
    /// The server of the database does not answer, or has closed the connection.
    #[error("{action} {}: {reason}", .path.display())]
    Server { action: &'static str, path: PathBuf, reason: String },
    /// The server refuses the login, or the role lacks a right.
    #[error("{action} {}: {reason}", .path.display())]
    Denied { action: &'static str, path: PathBuf, reason: String },
    /// The role can log in, but may not store runs. `grant`: the statements that let it.
    #[error("write {}: the role lacks rights to the schema fathom", .path.display())]
    Rights { path: PathBuf, grant: String },
    /// The database cannot hold all texts.
    #[error("open {}: {reason}", .path.display())]
    Encoding { path: PathBuf, reason: String },
    /// SQLite's locks and its shared index do not work between machines.
    #[error(
        "{action} {}: on {kind}, a network file system, where SQLite can destroy the store",
        .path.display()
    )]
    OnNetwork { action: &'static str, path: PathBuf, kind: String },
    /// The device, or the file system on it, failed.
    #[error("{action} {}: {reason}", .path.display())]
    Device { action: &'static str, path: PathBuf, reason: String },
    #[error("{action} {}: {reason}", .path.display())]
    Other { action: &'static str, path: PathBuf, reason: String },
}

impl StoreError {
    pub(crate) fn damaged(run_id: &str, part: &str, reason: String) -> Self {
        Self::Damaged { run: run_id.to_owned(), part: part.to_owned(), reason }
    }

    pub(crate) fn not_a_store(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotAStore { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn other(action: &'static str, path: &Path, reason: impl Into<String>) -> Self {
        Self::Other { action, path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn from_io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Self::PermissionDenied { action, path: path.to_owned() }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => {
                Self::full(action, path, error)
            }
            _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                Self::full(action, path, error)
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::other(action, path, READ_ONLY),
            io::ErrorKind::NotADirectory => Self::other("open", path, NOT_A_DIRECTORY),
            _ => Self::other(action, path, lower_first(&error.to_string())),
        }
    }

    fn full(action: &'static str, path: &Path, error: &io::Error) -> Self {
        let lacks_inodes = space::lacks_inodes(path);
        let cause = system_cause(error, Activity::Write { lacks_inodes });
        Self::Full { action, path: path.to_owned(), cause }
    }

    pub(crate) fn from_sqlite(action: &'static str, path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = lower_first(&error.to_string());
        let Some(cause) = error.sqlite_error() else {
            return Self::Other { action, path, reason };
        };
        // A write grows the log's shared index; SQLite does not report why that failed.
        if cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE && space::is_full(&path) {
            return Self::full(action, &path, &Errno::NOSPC.into());
        }
        let fails_by_limit =
            [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_TRUNCATE, ffi::SQLITE_IOERR_SHMSIZE];
        if fails_by_limit.contains(&cause.extended_code) && space::reaches_size_limit(&path) {
            return Self::full(action, &path, &Errno::FBIG.into());
        }
        match cause.code {
            ErrorCode::DiskFull => Self::full(action, &path, &Errno::NOSPC.into()),
            ErrorCode::CannotOpen if space::lacks_inodes(&path) => {
                Self::full(action, &path, &Errno::NOSPC.into())
            }
            ErrorCode::CannotOpen if space::lacks_descriptors() => {
                Self::full(action, &path, &Errno::MFILE.into())
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { action, path },
            ErrorCode::NotADatabase => Self::not_a_store(&path, NOT_SQLITE),
            ErrorCode::OperationInterrupted => {
                let limit = format!("a statement exceeds {} steps", STEPS_MAX);
                Self::Corrupt { action, path, reason: limit }
            }
            ErrorCode::ReadOnly => Self::other(action, &path, READ_ONLY),
            ErrorCode::DatabaseCorrupt => Self::Corrupt { action, path, reason },
            // SQLite's message repeats the path and omits the reason.
            ErrorCode::CannotOpen => {
                Self::other(action, &path, "cannot open the file or its journal")
            }
            ErrorCode::SystemIoFailure => Self::Device { action, path, reason },
            _ => Self::Other { action, path, reason },
        }
    }
}

pub(crate) const NOT_SQLITE: &str = "not a SQLite database";
pub(crate) const NOT_A_DIRECTORY: &str = "a part of this path is not a directory";
pub(crate) const READ_ONLY: &str = "read-only file system or file";

/// Repeats an idempotent operation that fails with a device error, which may be transient.
pub(crate) fn retry_device_errors<T>(
    mut work: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    for _ in 0..DEVICE_ATTEMPTS - 1 {
        match work() {
            Err(StoreError::Device { .. }) => {}
            done => return done,
        }
    }
    work()
}

pub(crate) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn not_found(runs: u32, empty: u32) -> String {
    match (runs, empty) {
        (0, _) => "the store has no runs".to_owned(),
        (_, 0) => format!("no such run among the {runs} in the store"),
        _ => format!(
            "no such run among the {runs} in the store; {empty} without results, never `latest`"
        ),
    }
}

fn shortage(found: usize, kind: &str) -> String {
    match found {
        0 => format!("no {kind}"),
        1 => format!("only 1 {kind}"),
        _ => format!("only {found} {}", kind.replacen("run", "runs", 1)),
    }
}

fn shortened_list(candidates: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown = candidates.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
    match candidates.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_errors_are_retried_twice() {
        let tries = |fails: u32, other: bool| {
            let mut count = 0;
            let outcome = retry_device_errors(|| {
                count += 1;
                let (action, path, reason) = ("read", PathBuf::new(), String::new());
                match count <= fails {
                    true if other => Err(StoreError::Other { action, path, reason }),
                    true => Err(StoreError::Device { action, path, reason }),
                    false => Ok(()),
                }
            });
            (count, outcome.is_ok())
        };
        assert_eq!(tries(0, false), (1, true));
        assert_eq!(tries(2, false), (3, true));
        assert_eq!(tries(3, false), (3, false));
        assert_eq!(tries(1, true), (1, false), "only errors of the device");
    }

    #[test]
    fn missing_and_ambiguous_runs_are_described() {
        let name = || "ab".to_owned();
        let missing = |runs, empty| StoreError::NoSuchRun { name: name(), runs, empty }.to_string();
        assert_eq!(missing(0, 0), "find run ab: the store has no runs");
        assert_eq!(missing(3, 0), "find run ab: no such run among the 3 in the store");
        let empty = "find run ab: no such run among the 3 in the store; 1 without results, \
                     never `latest`";
        assert_eq!(missing(3, 1), empty);
        let latest = |found| {
            let (name, kind) = ("latest:load~1".to_owned(), "load run of the same host".to_owned());
            StoreError::NoSuchLatest { name, found, kind }.to_string()
        };
        let lead = "find run latest:load~1: the store has";
        assert_eq!(latest(0), format!("{lead} no load run of the same host"));
        assert_eq!(latest(1), format!("{lead} only 1 load run of the same host"));
        assert_eq!(latest(2), format!("{lead} only 2 load runs of the same host"));
        let of = |count: u32| {
            let candidates = (1..=count).map(|at| at.to_string()).collect();
            StoreError::Ambiguous { name: name(), candidates }.to_string()
        };
        assert_eq!(of(8), "find run ab: ambiguous: 1, 2, 3, 4, 5, 6, 7, 8");
        assert_eq!(of(10), "find run ab: ambiguous: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
    }

    #[test]
    fn system_errors_have_their_variant() {
        let of = |kind| {
            let error =
                StoreError::from_io("write", Path::new("x.db"), &io::Error::new(kind, "Why"));
            error.to_string()
        };
        assert_eq!(of(io::ErrorKind::PermissionDenied), "write x.db: permission denied");
        assert_eq!(of(io::ErrorKind::StorageFull), "write x.db: no space left on the device");
        let text = "write x.db: read-only file system or file";
        assert_eq!(of(io::ErrorKind::ReadOnlyFilesystem), text);
        let text = "open x.db: a part of this path is not a directory";
        assert_eq!(of(io::ErrorKind::NotADirectory), text);
        assert_eq!(of(io::ErrorKind::TimedOut), "write x.db: why");
        assert_eq!(lower_first(""), "");
    }

    #[test]
    fn sqlite_errors_have_their_variant() {
        let of = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("Why".into()));
            StoreError::from_sqlite("read", Path::new("x.db"), error)
        };
        let full = matches!(of(ffi::SQLITE_FULL), StoreError::Full { .. });
        let busy = [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED]
            .map(|code| matches!(of(code), StoreError::Busy { .. }));
        assert_eq!((full, busy), (true, [true; 2]));
        assert!(matches!(of(ffi::SQLITE_NOTADB), StoreError::NotAStore { .. }));
        assert!(matches!(of(ffi::SQLITE_CORRUPT), StoreError::Corrupt { .. }));
        assert!(matches!(of(ffi::SQLITE_IOERR), StoreError::Device { .. }));
        assert_eq!(of(ffi::SQLITE_READONLY).to_string(), format!("read x.db: {READ_ONLY}"));
        let text = "read x.db: cannot open the file or its journal";
        assert_eq!(of(ffi::SQLITE_CANTOPEN).to_string(), text);
        assert_eq!(of(ffi::SQLITE_MISUSE).to_string(), "read x.db: why");
        // There is space on the device, so that is not the reason.
        let index = of(ffi::SQLITE_IOERR_SHMSIZE);
        assert!(matches!(index, StoreError::Device { .. }), "{index}");
    }
}
