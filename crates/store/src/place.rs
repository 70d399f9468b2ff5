//! The file and its folder: where they are, that they are there, and whether they can be written.
//!
//! Nothing here opens a file that exists, but folders. Closing any descriptor of a file drops all
//! the locks the process holds on it, SQLite's among them, so an existing store is opened by SQLite
//! alone. The one that is made here is closed before another thread can see it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::Access;

use crate::StoreError;

/// The smallest page of a SQLite database, and so the smallest database that is not empty.
const PAGE_BYTES_MIN: u64 = 512;

/// Held while a file is looked for and made.
static MAKING: Mutex<()> = Mutex::new(());

/// The store's place by the XDG base directory specification, which says that a relative path in
/// a variable is to be ignored.
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

/// Makes sure that `path` is a file that can be written, in a folder that can; `makes_folder` where
/// the folder is ours to make.
pub(crate) fn prepare(path: &Path, makes_folder: bool) -> Result<(), StoreError> {
    let folder = folder_of(path);
    let making = making();
    if kind_of(path)?.is_none() {
        match makes_folder {
            true => create_folder(path, folder)?,
            false => require_folder(path, folder)?,
        }
        access("create files in", folder, Access::WRITE_OK | Access::EXEC_OK)?;
        // Before there is a file: where there is one, this was done.
        sync_names(folder);
        create_file(path)?;
    }
    drop(making);
    access("write", path, Access::READ_OK | Access::WRITE_OK)?;
    // The journal lies beside the store.
    access("create files in", folder, Access::WRITE_OK | Access::EXEC_OK)
}

/// Whether [`prepare`] would succeed, by permissions: nothing is made. `true` where the file is
/// there.
pub(crate) fn examine(path: &Path, makes_folder: bool) -> Result<bool, StoreError> {
    if kind_of(path)?.is_some() {
        access("write", path, Access::READ_OK | Access::WRITE_OK)?;
        access("create files in", folder_of(path), Access::WRITE_OK | Access::EXEC_OK)?;
        return Ok(true);
    }
    // The nearest folder that is there is where the others would be made.
    let mut folder = folder_of(path);
    if !makes_folder {
        require_folder(path, folder)?;
    }
    while folder != Path::new(".") && std::fs::metadata(folder).is_err() {
        folder = folder_of(folder);
    }
    access("create files in", folder, Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(false)
}

/// Makes sure that `path` is a file that can be read.
pub(crate) fn require(path: &Path) -> Result<(), StoreError> {
    let kind = {
        let _making = making();
        kind_of(path)?
    };
    match kind {
        Some(()) => access("read", path, Access::READ_OK),
        None => Err(StoreError::Missing { path: path.to_owned() }),
    }
}

/// Whether SQLite may write the file and make its journal beside it.
pub(crate) fn is_writable(path: &Path) -> bool {
    access("write", path, Access::WRITE_OK).is_ok()
        && access("write", folder_of(path), Access::WRITE_OK).is_ok()
}

/// Whether the file system has no room for another block.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(folder_of(path)).is_ok_and(|facts| facts.f_bavail == 0)
}

fn making() -> MutexGuard<'static, ()> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a log of commits with something in it lies beside the store.
pub(crate) fn has_log(path: &Path) -> bool {
    has_beside(path, "-wal")
}

/// Whether a journal of what is to be undone lies beside the store.
pub(crate) fn has_journal(path: &Path) -> bool {
    has_beside(path, "-journal")
}

fn has_beside(path: &Path, suffix: &str) -> bool {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    std::fs::metadata(beside).is_ok_and(|facts| facts.len() > 0)
}

/// `Some` where `path` is a file that may be a store, `None` where there is nothing.
fn kind_of(path: &Path) -> Result<Option<()>, StoreError> {
    match std::fs::metadata(path) {
        // SQLite takes a file of one byte for an empty one, and would write over it.
        Ok(facts) if facts.is_file() && (1..PAGE_BYTES_MIN).contains(&facts.len()) => {
            Err(StoreError::NotADatabase { path: path.to_owned() })
        }
        Ok(facts) if facts.is_file() => Ok(Some(())),
        Ok(facts) if facts.is_dir() => Err(StoreError::IsDirectory { path: path.to_owned() }),
        Ok(_) => Err(StoreError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io("open", path, &error)),
    }
}

fn require_folder(path: &Path, folder: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::ParentNotDirectory { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::NoFolder { path: path.to_owned(), folder: folder.to_owned() })
        }
        Err(error) => Err(StoreError::from_io("open", path, &error)),
    }
}

fn create_folder(path: &Path, folder: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    match builder.recursive(true).mode(0o700).create(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::ParentNotDirectory { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(StoreError::from_io("open", path, &error))
        }
        Err(error) => Err(StoreError::from_io("create", folder, &error)),
    }
}

/// Makes the names of a folder and of all above it last through a power cut. The names in it are
/// synced by SQLite, with the first commit, and as there a refusal is no failure: not every file
/// system can, and not every folder may be read.
fn sync_names(folder: &Path) {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    for above in whole.ancestors().skip(1) {
        let _ = File::open(above).and_then(|names| names.sync_all());
    }
}

/// An empty file is what SQLite takes for a new database; made here for its mode, which SQLite
/// gives to the journal beside it too.
fn create_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
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

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<PathBuf, StoreError> {
        default_path(|name| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(OsString::from(found.1))
        })
    }

    #[test]
    fn the_data_folder_of_the_user_is_taken_first() {
        let path = with(&[("XDG_DATA_HOME", "/data"), ("HOME", "/users/ada")]).unwrap();
        assert_eq!(path, Path::new("/data/fathom/fathom.db"));
    }

    #[test]
    fn the_home_folder_is_taken_where_the_data_folder_is_unset_empty_or_relative() {
        let expected = Path::new("/users/ada/.local/share/fathom/fathom.db");
        assert_eq!(with(&[("HOME", "/users/ada")]).unwrap(), expected);
        for useless in ["", "data", "./data"] {
            let path = with(&[("XDG_DATA_HOME", useless), ("HOME", "/users/ada")]).unwrap();
            assert_eq!(path, expected, "XDG_DATA_HOME={useless:?}");
        }
    }

    #[test]
    fn without_home_there_is_no_place() {
        for variables in [&[][..], &[("HOME", "")], &[("HOME", "ada")]] {
            assert!(matches!(with(variables), Err(StoreError::NoHome)));
        }
    }
    #[test]
    fn only_the_default_folder_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("share/fathom/fathom.db");
        for refused in [prepare(&path, false), examine(&path, false).map(drop)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::NoFolder { .. }), "{error}");
        }
        assert!(!folder.path().join("share").exists(), "made a folder that was only named");
        assert!(!examine(&path, true).unwrap());
        prepare(&path, true).unwrap();
        let mode = path.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
