//! The file and its folder: their path, existence and permissions.
//!
//! Nothing here opens an existing file. Closing any descriptor of a file drops all POSIX locks
//! that the process holds on it, SQLite's among them, so only SQLite opens a store. A file created
//! here is closed before another thread can see it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fathom_fileio::mount::Mount;
use rustix::fs::Access;

use crate::StoreError;
use crate::error::{NOT_A_DIRECTORY, NOT_SQLITE};
use crate::space::{beside, folder_of};

/// The smallest page of a SQLite database: no smaller file can be one, except an empty one.
const PAGE_BYTES_MIN: u64 = 512;

/// Held while a file is checked and created.
static CREATION: Mutex<()> = Mutex::new(());

/// The default path by the XDG base directory specification, which ignores relative paths in the
/// variables.
pub(crate) fn default_path(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, StoreError> {
    let absolute = |name| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/share")))
        .ok_or(StoreError::NoHome)?;
    Ok(data.join("fathom/fathom.db"))
}

/// Makes sure that `path` is a writable file in a writable folder; whether it was created.
/// `creates_folder`: the folder may be created too.
pub(crate) fn prepare(path: &Path, creates_folder: bool) -> Result<bool, StoreError> {
    let folder = folder_of(path);
    let creation = lock_creation();
    let is_new = !exists(path)?;
    if is_new {
        match creates_folder {
            true => create_folder(path, folder)?,
            false => require_folder(path, folder)?,
        }
        refuse_network("create", path)?;
        access("create files in", folder, Access::WRITE_OK | Access::EXEC_OK)?;
        // Before the file exists: a process that finds the file need not sync again.
        sync_names(folder);
        create_file(path)?;
    }
    drop(creation);
    require_writable("write", path)?;
    Ok(is_new)
}

/// Makes sure that SQLite can write the file, and create its journal beside it.
pub(crate) fn require_writable(action: &'static str, path: &Path) -> Result<(), StoreError> {
    refuse_network(action, path)?;
    access(action, path, Access::READ_OK | Access::WRITE_OK)?;
    access("create files in", folder_of(path), Access::WRITE_OK | Access::EXEC_OK)
}

/// Refuses a network file system: SQLite's log needs shared memory and locks that all machines see.
/// Without them two writers destroy the file, and a reader can see half of a change.
pub(crate) fn refuse_network(action: &'static str, path: &Path) -> Result<(), StoreError> {
    match Mount::holding(folder_of(path)).filter(|mount| mount.is_network) {
        None => Ok(()),
        Some(Mount { kind, .. }) => {
            Err(StoreError::OnNetwork { action, path: path.to_owned(), kind })
        }
    }
}

/// Whether a writer may have the file open, on whatever machine: it has a log or a journal.
pub(crate) fn may_have_writer(path: &Path) -> bool {
    ["-wal", "-journal"].iter().any(|suffix| beside(path, suffix).exists())
}

/// Removes a file without content, such as a new store on a full disk.
pub(crate) fn remove_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0) {
        // A file that stays is harmless: it counts as a new store.
        let _ = std::fs::remove_file(path);
    }
}

/// Whether [`prepare`] would succeed, by permissions; creates nothing. True if the file exists.
pub(crate) fn examine(path: &Path, creates_folder: bool) -> Result<bool, StoreError> {
    if exists(path)? {
        require_writable("write", path)?;
        return Ok(true);
    }
    // The missing folders would be created in the nearest one that exists.
    let mut folder = folder_of(path);
    if !creates_folder {
        require_folder(path, folder)?;
    }
    while folder != Path::new(".") && std::fs::metadata(folder).is_err() {
        folder = folder_of(folder);
    }
    refuse_network("create", &folder.join("fathom.db"))?;
    access("create files in", folder, Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(false)
}

/// Makes sure that `path` is a readable file.
pub(crate) fn require(path: &Path) -> Result<(), StoreError> {
    let exists = {
        let _creation = lock_creation();
        exists(path)?
    };
    match exists {
        true => access("read", path, Access::READ_OK),
        false => Err(StoreError::Missing { path: path.to_owned() }),
    }
}

/// Whether SQLite can write the file and create its journal beside it.
pub(crate) fn is_writable(path: &Path) -> bool {
    access("write", path, Access::WRITE_OK).is_ok()
        && access("write", folder_of(path), Access::WRITE_OK).is_ok()
}

fn lock_creation() -> MutexGuard<'static, ()> {
    CREATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a write-ahead log with content is beside the store.
pub(crate) fn has_log(path: &Path) -> bool {
    has_beside(path, "-wal")
}

/// Whether a rollback journal with content is beside the store.
pub(crate) fn has_journal(path: &Path) -> bool {
    has_beside(path, "-journal")
}

fn has_beside(path: &Path, suffix: &str) -> bool {
    std::fs::metadata(beside(path, suffix)).is_ok_and(|facts| facts.len() > 0)
}

/// Refuses a pipe or a device in the place of what SQLite would open beside the file: it may wait
/// for ever.
pub(crate) fn require_regular_beside(path: &Path) -> Result<(), StoreError> {
    for other in ["-wal", "-journal", "-shm"].map(|suffix| beside(path, suffix)) {
        let Ok(facts) = std::fs::metadata(&other) else { continue };
        if !facts.is_file() {
            return Err(StoreError::other("open", &other, "not a regular file"));
        }
        if facts.nlink() > 1 {
            let text = "a file with another name in the place of a log; remove it";
            return Err(StoreError::other("open", &other, text));
        }
    }
    Ok(())
}

/// Whether there is a file that can be a store; an error for anything else that has this name.
fn exists(path: &Path) -> Result<bool, StoreError> {
    // SQLite would write through it, with the rights of this user.
    let logs = ["-wal", "-shm", "-journal"].map(|suffix| beside(path, suffix));
    if let Some(link) = logs.iter().find(|path| path.is_symlink()) {
        return Err(StoreError::other("open", link, "a symlink in the place of a log; remove it"));
    }
    match std::fs::metadata(path) {
        // SQLite would treat a file of one byte as empty, and overwrite it.
        Ok(facts) if facts.is_file() && (1..PAGE_BYTES_MIN).contains(&facts.len()) => {
            Err(StoreError::not_a_store(path, NOT_SQLITE))
        }
        Ok(facts) if facts.is_file() => Ok(true),
        Ok(facts) if facts.is_dir() => Err(StoreError::IsDirectory { path: path.to_owned() }),
        Ok(_) => Err(StoreError::other("open", path, "not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::from_io("open", path, &error)),
    }
}

fn require_folder(path: &Path, folder: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::other("open", path, NOT_A_DIRECTORY)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::NoFolder { path: path.to_owned(), folder: folder.to_owned() })
        }
        Err(error) => Err(StoreError::from_io("open", path, &error)),
    }
}

fn create_folder(path: &Path, folder: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::other("open", path, NOT_A_DIRECTORY))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(StoreError::from_io("open", path, &error))
        }
        Err(error) => Err(StoreError::from_io("create", folder, &error)),
    }
}

/// Syncs the directory entries of a folder and of all above it, so that they survive a power cut.
/// SQLite syncs the entries in the folder with the first commit. Errors are ignored, as by SQLite:
/// some file systems cannot sync a directory, and some folders cannot be opened.
fn sync_names(folder: &Path) {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    for above in whole.ancestors().skip(1) {
        let _ = File::open(above).and_then(|names| names.sync_all());
    }
}

/// Creates an empty file, which SQLite treats as a new database. Created here for its mode, which
/// SQLite gives to the journal too.
pub(crate) fn create_file(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::from_io("create", path, &error)),
    }
}

fn access(action: &'static str, path: &Path, wanted: Access) -> Result<(), StoreError> {
    rustix::fs::access(path, wanted)
        .map_err(|errno| StoreError::from_io(action, path, &io::Error::from(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::is_full;

    #[test]
    fn default_path_follows_the_xdg_specification() {
        let path = |variables: &[(&str, &str)]| {
            default_path(|name| {
                let value = variables.iter().find(|(key, _)| *key == name)?.1;
                Some(OsString::from(value))
            })
        };
        let of_home = "/users/ada/.local/share/fathom/fathom.db";
        for (data, expected) in [
            ("/data", "/data/fathom/fathom.db"),
            ("", of_home),
            ("data", of_home),
            ("./data", of_home),
        ] {
            let found = path(&[("XDG_DATA_HOME", data), ("HOME", "/users/ada")]).unwrap();
            assert_eq!(found, Path::new(expected), "XDG_DATA_HOME={data:?}");
        }
        for variables in [&[][..], &[("HOME", "")], &[("HOME", "ada")]] {
            assert!(matches!(path(variables), Err(StoreError::NoHome)));
        }
    }

    #[test]
    fn file_smaller_than_a_page_is_no_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        for (bytes, is_store) in [(0, true), (1, false), (511, false), (512, true)] {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            assert_eq!(exists(&path).is_ok(), is_store, "{bytes} bytes");
        }
        assert!(matches!(exists(folder.path()), Err(StoreError::IsDirectory { .. })));
        let special = exists(Path::new("/dev/null")).unwrap_err();
        assert_eq!(special.to_string(), "open /dev/null: not a regular file");
        assert!(!has_log(&path) && !has_journal(&path));
        std::fs::write(folder.path().join("x.db-wal"), "").unwrap();
        assert!(!has_log(&path), "an empty one");
        std::fs::write(folder.path().join("x.db-wal"), "1").unwrap();
        std::fs::write(folder.path().join("x.db-journal"), "1").unwrap();
        assert!(has_log(&path) && has_journal(&path));
        assert!(!is_full(&path) && is_writable(&path));
        assert_eq!(folder_of(Path::new("x.db")), Path::new("."));
    }

    #[test]
    fn log_that_is_a_symlink_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        assert!(prepare(&path, false).unwrap());
        for suffix in ["-wal", "-shm", "-journal"] {
            std::os::unix::fs::symlink(folder.path().join("victim"), beside(&path, suffix))
                .unwrap();
            let refused =
                [prepare(&path, false).map(drop), require(&path), examine(&path, false).map(drop)];
            assert!(refused.iter().all(Result::is_err), "{suffix}: {refused:?}");
            std::fs::remove_file(beside(&path, suffix)).unwrap();
        }
        require(&path).unwrap();
    }

    #[test]
    fn only_the_default_folder_is_created() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("share/fathom/fathom.db");
        for refused in [prepare(&path, false).map(drop), examine(&path, false).map(drop)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::NoFolder { .. }), "{error}");
        }
        assert!(!folder.path().join("share").exists(), "created a folder of a given path");
        assert!(!examine(&path, true).unwrap());
        prepare(&path, true).unwrap();
        let mode = path.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
