//! The served folder: every path is opened beneath it by openat2.
//!
//! There is no fallback. Checking a path first and opening it then would race with renames.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2, statat,
};
use rustix::io::Errno;

use crate::error::ServiceError;
use crate::refusal::Refusal;
use crate::target::CONTROL;

const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

#[derive(Debug)]
pub(crate) struct Root {
    folder: OwnedFd,
    /// `RESOLVE_CACHED`, Linux 5.12: opens only what needs no read of a directory or an inode.
    has_cached: bool,
    pub(crate) stat: Stat,
}

/// What a path refers to.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    pub(crate) is_folder: bool,
}

impl Root {
    pub(crate) fn open(folder: &Path) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Folder { path: folder.to_owned(), error };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = open(folder, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&opened).map_err(failed)?;
        let mut root = Self { folder: opened, has_cached: true, stat };
        match root.open_at(b".", ResolveFlags::empty()) {
            Ok(_) => {}
            Err(error) => return Err(ServiceError::Openat2 { error }),
        }
        let cached = root.open_at(b".", ResolveFlags::CACHED);
        root.has_cached = !matches!(cached, Err(Errno::INVAL));
        Ok(root)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.folder
    }

    /// Opens a path without waiting for a device: `None` if that is not possible.
    pub(crate) fn open_cached(&self, path: &[u8]) -> Option<Result<Opened, Refusal>> {
        match self.has_cached.then(|| self.open_at(path, ResolveFlags::CACHED)) {
            None | Some(Err(Errno::AGAIN)) => None,
            Some(opened) => Some(opened.and_then(classify).map_err(refusal)),
        }
    }

    pub(crate) fn open_waiting(&self, path: &[u8]) -> Result<Opened, Refusal> {
        self.open_at(path, ResolveFlags::empty()).and_then(classify).map_err(refusal)
    }

    /// What a path in the folder refers to, unless that is the name of the service's own resources.
    pub(crate) fn stat(&self, path: &[u8]) -> Option<Stat> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = fstat(openat2(&self.folder, path, flags, Mode::empty(), INSIDE).ok()?).ok()?;
        let control = statat(&self.folder, CONTROL, AtFlags::SYMLINK_NOFOLLOW);
        let is_control =
            |control: Stat| (control.st_dev, control.st_ino) == (found.st_dev, found.st_ino);
        (!control.is_ok_and(is_control)).then_some(found)
    }

    /// Opens what can be served. A look at it comes first: whoever waits to write into a FIFO would
    /// be let go by a mere open, and die at its close.
    fn open_at(&self, path: &[u8], more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        is_folder(&fstat(self.walk(path, OFlags::PATH, more)?)?)?;
        // Without O_NONBLOCK a FIFO that has taken the place since would wait for its writer.
        self.walk(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, more)
    }

    fn walk(&self, path: &[u8], flags: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let mut tries = 0;
        loop {
            let flags = flags | OFlags::CLOEXEC;
            match openat2(&self.folder, path, flags, Mode::empty(), INSIDE | more) {
                // The tree was renamed during the walk of a path with `..` in a symlink.
                Err(Errno::AGAIN) if more.is_empty() && tries < 100 => tries += 1,
                Err(Errno::INTR) => {}
                opened => return opened,
            }
        }
    }
}

fn classify(opened: OwnedFd) -> Result<Opened, Errno> {
    let stat = fstat(&opened)?;
    let is_folder = is_folder(&stat)?;
    Ok(Opened { file: File::from(opened), stat, is_folder })
}

/// Devices, FIFOs and sockets are not served.
fn is_folder(stat: &Stat) -> Result<bool, Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(false),
        FileType::Directory => Ok(true),
        _ => Err(Errno::NOENT),
    }
}

fn refusal(error: Errno) -> Refusal {
    match error {
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::LOOP
        | Errno::XDEV
        | Errno::NXIO
        | Errno::NAMETOOLONG
        | Errno::NODEV => Refusal::NotFound,
        Errno::ACCESS | Errno::PERM => Refusal::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Refusal::Busy,
        _ => Refusal::Unreadable,
    }
}
