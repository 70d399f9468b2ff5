//! Folders for test files, and their free space.

use std::io;
use std::path::{Path, PathBuf};

use fathom_record::{Activity, SystemCause, escaped, system_cause};
use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use rustix::io::Errno;

use crate::backing::Backing;
use crate::filesystem::{FileSystem, FilesystemClass};
use crate::path_info::{FileKind, OpenError, PathInfo, inspect};

/// Used unless a folder is given.
const DEFAULTS: [&str; 2] = ["/var/tmp", "."];

#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    pub path: PathBuf,
    pub file_system: FileSystem,
}

/// Size and free space of a file system in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// 0 if the file system does not report it.
    pub all: u64,
    /// Free for this user.
    pub free: u64,
}

/// Why a folder cannot be used. The caller adds its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// With the name of the file system.
    #[error("{0} keeps files in memory, not on a device")]
    InMemory(&'static str),
    #[error("{0}")]
    Unusable(String),
}

impl FolderError {
    fn unusable(why: impl std::fmt::Display) -> Self {
        Self::Unusable(why.to_string())
    }
}

/// The given folder, else that of FATHOM_FOLDER.
pub fn named(given: Option<&Path>) -> Option<PathBuf> {
    let by_environment = || std::env::var_os("FATHOM_FOLDER").filter(|path| !path.is_empty());
    given.map(Path::to_owned).or_else(|| by_environment().map(PathBuf::from))
}

impl Folder {
    /// The given folder, else that of FATHOM_FOLDER, else a usual one.
    ///
    /// # Errors
    /// Why there is none, with the `option` that names one.
    pub fn chosen(given: Option<&Path>, option: &str) -> Result<Self, String> {
        let by = if given.is_some() { option } else { "FATHOM_FOLDER" };
        match named(given) {
            Some(path) => {
                Self::at(&path).and_then(|folder| folder.keeping_files(true)).map_err(|why| {
                    format!(
                        "{by} {}: {why}; name a folder on a disk",
                        escaped(&path.display().to_string())
                    )
                })
            }
            None => Self::usual().map_err(|why| format!("{why}; name one by {option}")),
        }
    }

    pub fn at(path: &Path) -> Result<Self, FolderError> {
        match inspect(path) {
            Ok(PathInfo { kind: FileKind::Directory, file_system, .. }) => {
                Ok(Self { path: path.to_owned(), file_system })
            }
            Ok(_) => Err(FolderError::unusable("not a directory")),
            Err(OpenError::Failed { error, .. }) => {
                Err(FolderError::unusable(system_cause(&error.into(), Activity::Read)))
            }
            Err(error) => Err(FolderError::unusable(error)),
        }
    }

    /// The first default folder on a device.
    pub fn usual() -> Result<Self, FolderError> {
        let mut reasons = Vec::new();
        for path in DEFAULTS {
            match Self::at(Path::new(path)).and_then(|folder| folder.keeping_files(false)) {
                Ok(folder) => return Ok(folder),
                Err(why) => reasons.push(format!("{path}: {why}")),
            }
        }
        Err(FolderError::Unusable(format!("no folder on a device ({})", reasons.join(", "))))
    }

    /// Fails if files cannot be created there, or if it is in memory and that is not allowed.
    pub fn keeping_files(self, allow_memory: bool) -> Result<Self, FolderError> {
        let name = self.file_system.name;
        match self.file_system.class {
            FilesystemClass::Memory if !allow_memory => return Err(FolderError::InMemory(name)),
            FilesystemClass::Overlay if !allow_memory && is_in_memory(&self.path) => {
                return Err(FolderError::InMemory("this overlay"));
            }
            FilesystemClass::Kernel => {
                return Err(FolderError::Unusable(format!("{name} keeps no files")));
            }
            _ => {}
        }
        let mode = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, &self.path, mode, AtFlags::EACCESS)
            .map_err(|error| FolderError::unusable(write_cause(&self.path, error)))?;
        Ok(self)
    }
}

fn is_in_memory(folder: &Path) -> bool {
    inspect(folder).is_ok_and(|found| matches!(found.backing(), Backing::Memory(_)))
}

/// Why a file of this path could not be created or written, and what to do.
pub fn write_cause(path: &Path, error: impl Into<io::Error>) -> SystemCause {
    // Where the file does not exist, its folder does.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = statvfs(path).or_else(|_| statvfs(folder.unwrap_or(Path::new("."))));
    let lacks_inodes = found.is_ok_and(|it| it.f_files > 0 && it.f_favail == 0 && it.f_bavail > 0);
    system_cause(&error.into(), Activity::Write { lacks_inodes })
}

/// The space of the file system of a path.
pub fn space(path: &Path) -> Result<Space, Errno> {
    let found = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Space { all: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}
