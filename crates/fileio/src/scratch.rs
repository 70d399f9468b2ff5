//! Files that leave nothing behind: without a name where the file system can (`O_TMPFILE`), so
//! that even a killed program leaves none; elsewhere with a name that a guard takes away.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with, unlink};
use rustix::io::Errno;

/// Names are tried until one is free.
const TRIES: u32 = 100;

/// A new file for reading and writing, in a folder but not yet under a name of its own.
#[derive(Debug)]
pub struct Scratch {
    /// Taken out only when the file is handed over.
    file: Option<File>,
    folder: PathBuf,
    /// The name it has meanwhile, where it must have one.
    name: Option<PathBuf>,
}

impl Scratch {
    /// A new file in a folder.
    pub fn new(folder: &Path) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::open(folder, flags, mode) {
            Ok(file) => {
                let file = Some(File::from(file));
                Ok(Self { file, folder: folder.to_owned(), name: None })
            }
            // A file system or a kernel that has it not says so in many ways.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {
                Self::named(folder)
            }
            Err(error) => Err(error),
        }
    }

    /// A new file under a passing name.
    pub fn named(folder: &Path) -> Result<Self, Errno> {
        let (file, name) = unused(folder, |name| {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(name, flags, Mode::from_raw_mode(0o666))
        })?;
        let file = Some(File::from(file));
        Ok(Self { file, folder: folder.to_owned(), name: Some(name) })
    }

    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it is handed over by value only")
    }

    /// Whether it has a name meanwhile.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Gives the file its name for good, and hands it over. With `replace` a file that is there
    /// goes; without, it is an error, whoever was quicker.
    ///
    /// # Errors
    /// EEXIST, or where the name cannot be given. The file is then gone.
    pub fn publish(mut self, name: &Path, replace: bool) -> Result<File, Errno> {
        match (self.name.clone(), replace) {
            (Some(own), true) => rustix::fs::rename(&own, name)?,
            (Some(own), false) => rename_to_new(&own, name)?,
            (None, false) => self.link(name)?,
            (None, true) => {
                // A link replaces nothing: first a passing name, then over the other.
                let ((), own) = unused(&self.folder, |own| self.link(own))?;
                self.name = Some(own.clone());
                rustix::fs::rename(&own, name)?;
            }
        }
        self.name = None;
        Ok(self.file.take().expect("it is handed over by value only"))
    }

    /// Gives a file without a name one, by /proc; without /proc only root can.
    fn link(&self, name: &Path) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file().as_raw_fd());
        match linkat(CWD, own, CWD, name, AtFlags::SYMLINK_FOLLOW) {
            Err(Errno::NOENT) => linkat(self.file(), "", CWD, name, AtFlags::EMPTY_PATH),
            linked => linked,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlink(name);
        }
    }
}

/// Renames a file, but over no other.
fn rename_to_new(own: &Path, name: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, own, CWD, name, RenameFlags::NOREPLACE) {
        // Not every file system has the flag, but each that has links refuses a second name.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match linkat(CWD, own, CWD, name, AtFlags::empty()) {
                Ok(()) => unlink(own),
                // Nor links: then there is a moment between the look and the deed.
                Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    if rustix::fs::lstat(name).is_ok() {
                        return Err(Errno::EXIST);
                    }
                    rustix::fs::rename(own, name)
                }
                error => error,
            }
        }
        renamed => renamed,
    }
}

/// Tries names in a folder until one is not in use.
fn unused<T>(
    folder: &Path,
    make: impl Fn(&Path) -> Result<T, Errno>,
) -> Result<(T, PathBuf), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = folder.join(format!(".fathom-{}-{number}", std::process::id()));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(Errno::EXIST)
}
