//! Folders for files that are measured: which will do, and how much room there is in them.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use rustix::io::Errno;

use crate::filesystem::{Class, FileSystem};
use crate::subject::{Kind, OpenError, look};

/// Where files lie unless a folder is named.
const USUAL: [&str; 2] = ["/var/tmp", "."];

/// A folder, and the file system that it lies on.
#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    pub path: PathBuf,
    pub file_system: FileSystem,
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of them; 0 where it does not count them.
    pub all: u64,
    /// Those that this user may write.
    pub free: u64,
}

/// Why a folder does not do. Its path is not named, but where there are several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// It cannot be looked at, or not be written to.
    #[error("{0}")]
    Failed(#[from] Errno),
    #[error("not a directory")]
    NotADirectory,
    /// It keeps files in memory, by the name of its file system.
    #[error("{0} keeps files in memory and on no device")]
    InMemory(&'static str),
    /// It shows what the kernel does, by the name of its file system.
    #[error("{0} keeps no files")]
    NoFiles(&'static str),
    /// None of the usual ones does.
    #[error("no folder on a device ({})", listed(.0))]
    NoUsual(Vec<(&'static str, FolderError)>),
}

fn listed(folders: &[(&str, FolderError)]) -> String {
    folders.iter().map(|(path, why)| format!("{path}: {why}")).collect::<Vec<_>>().join(", ")
}

impl Folder {
    /// The folder of a path.
    pub fn at(path: &Path) -> Result<Self, FolderError> {
        let found = look(path).map_err(|error| match error {
            OpenError::Failed { error, .. } => FolderError::Failed(error),
            OpenError::Unreadable { .. } => FolderError::NotADirectory,
        })?;
        match found.kind {
            Kind::Directory => Ok(Self { path: path.to_owned(), file_system: found.file_system }),
            _ => Err(FolderError::NotADirectory),
        }
    }

    /// The first usual folder that keeps files on a device.
    pub fn usual() -> Result<Self, FolderError> {
        let mut reasons = Vec::new();
        for path in USUAL {
            match Self::at(Path::new(path)).and_then(|folder| folder.keeping_files(false)) {
                Ok(folder) => return Ok(folder),
                Err(why) => reasons.push((path, why)),
            }
        }
        Err(FolderError::NoUsual(reasons))
    }

    /// The same, if files can be made there, on a device or in memory where that is allowed.
    pub fn keeping_files(self, allow_memory: bool) -> Result<Self, FolderError> {
        let name = self.file_system.name;
        match self.file_system.class {
            Class::Memory if !allow_memory => return Err(FolderError::InMemory(name)),
            Class::Kernel => return Err(FolderError::NoFiles(name)),
            _ => {}
        }
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, &self.path, wanted, AtFlags::EACCESS)?;
        Ok(self)
    }
}

/// How much room there is where a path lies.
pub fn space(path: &Path) -> Result<Space, Errno> {
    let found = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Space { all: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}
