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
    /// Where it is.
    pub path: PathBuf,
    /// What it lies on.
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

impl Folder {
    /// The folder of a path.
    ///
    /// # Errors
    /// In a few words without the path: there is none, or it is something else.
    pub fn at(path: &Path) -> Result<Self, String> {
        let found = look(path).map_err(|error| match error {
            OpenError::Failed { error, .. } => error.to_string(),
            other => other.to_string(),
        })?;
        match found.kind {
            Kind::Directory => Ok(Self { path: path.to_owned(), file_system: found.file_system }),
            _ => Err("it is no folder".to_owned()),
        }
    }

    /// The first usual folder that keeps files on a device.
    ///
    /// # Errors
    /// In a line: why none of them does, and what to do.
    pub fn usual() -> Result<Self, String> {
        let mut reasons = Vec::new();
        for path in USUAL {
            reasons.push(match Self::at(Path::new(path)) {
                Ok(folder) if folder.file_system.class == Class::Memory => {
                    format!("{path} is {}", folder.file_system.name)
                }
                found => match found.and_then(|folder| folder.keeping_files(false)) {
                    Ok(folder) => return Ok(folder),
                    Err(why) => format!("{path}: {why}"),
                },
            });
        }
        let reasons = reasons.join(", ");
        Err(format!("no folder on a device ({reasons}); name one by --folder"))
    }

    /// The same, if files can be made there, on a device or in memory where that is allowed.
    ///
    /// # Errors
    /// In a few words without the path, why not.
    pub fn keeping_files(self, allow_memory: bool) -> Result<Self, String> {
        let name = self.file_system.name;
        match self.file_system.class {
            Class::Memory if !allow_memory => {
                let remedy = "(--allow-memory)";
                return Err(format!("{name} keeps files in memory and on no device {remedy}"));
            }
            Class::Kernel => return Err(format!("{name} keeps no files")),
            _ => {}
        }
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, &self.path, wanted, AtFlags::EACCESS).map_err(|error| error.to_string())?;
        Ok(self)
    }
}

/// How much room there is where a path lies.
///
/// # Errors
/// Where the file system does not say.
pub fn space(path: &Path) -> Result<Space, Errno> {
    let found = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Space { all: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}
