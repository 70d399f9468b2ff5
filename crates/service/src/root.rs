//! The served folder: every path is opened beneath it by openat2.
//!
//! There is no fallback. Checking a path first and opening it then would race with renames.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    seen: RootSeen,
    pub(crate) stat: Stat,
}

/// Hashes of paths that were a file or a folder: the look before an open costs 6 % of a small
/// request. Two paths that share a place only cost each other the look.
#[derive(Debug)]
struct RootSeen {
    hasher: RandomState,
    places: [AtomicU64; 1024],
}

impl Default for RootSeen {
    fn default() -> Self {
        Self { hasher: RandomState::new(), places: [const { AtomicU64::new(0) }; 1024] }
    }
}

impl RootSeen {
    fn counter_of(&self, path: &[u8]) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(path).max(1);
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits matter")]
        let place = &self.places[hash as usize % self.places.len()];
        (place, hash)
    }
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
        let mut root = Self { folder: opened, has_cached: true, seen: RootSeen::default(), stat };
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
            Some(opened) => Some(opened.map_err(refusal)),
        }
    }

    pub(crate) fn open_waiting(&self, path: &[u8]) -> Result<Opened, Refusal> {
        self.open_at(path, ResolveFlags::empty()).map_err(refusal)
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

    /// Opens what can be served. A look at a new name comes first: whoever waits to write into a
    /// FIFO would be let go by a mere open, and die at its close.
    fn open_at(&self, path: &[u8], more: ResolveFlags) -> Result<Opened, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let (slot, hash) = self.seen.counter_of(path);
        if slot.load(Relaxed) != hash {
            is_folder(&fstat(self.walk(path, OFlags::PATH, more)?)?)?;
            slot.store(hash, Relaxed);
        }
        // Without O_NONBLOCK a FIFO that has taken the place since would wait for its writer.
        let opened = self.walk(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, more);
        opened.and_then(classify).inspect_err(|_| slot.store(0, Relaxed))
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
