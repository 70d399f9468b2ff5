//! Temporary files: unnamed (O_TMPFILE) where the file system supports it, so that nothing is left
//! even if the process is killed; otherwise named and removed on drop.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with, unlink};
use rustix::io::Errno;

/// Attempts to find an unused name.
const TRIES: u32 = 100;

/// A temporary file, open for reading and writing.
#[derive(Debug)]
pub struct Scratch {
    /// `None` only while it is being published.
    file: Option<File>,
    folder: PathBuf,
    /// The temporary name, if it has one.
    name: Option<PathBuf>,
}

impl Scratch {
    pub fn new(folder: &Path) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::open(folder, flags, mode) {
            Ok(file) => {
                let file = Some(File::from(file));
                Ok(Self { file, folder: folder.to_owned(), name: None })
            }
            // The errors of file systems and kernels without O_TMPFILE.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {
                Self::named(folder)
            }
            Err(error) => Err(error),
        }
    }

    /// A file with a temporary name.
    pub fn named(folder: &Path) -> Result<Self, Errno> {
        let (file, name) = unused(folder, |name| {
            // EXCL: never opens a file or a symlink that another program has put there.
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(name, flags, Mode::from_raw_mode(0o666))
        })?;
        let file = Some(File::from(file));
        Ok(Self { file, folder: folder.to_owned(), name: Some(name) })
    }

    pub fn file(&self) -> &File {
        self.file.as_ref().expect("only publish takes the file")
    }

    /// Whether it has a temporary name.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Gives the file its final name. Fails with EEXIST if the name exists, unless `replace`; the
    /// check is atomic. On error the file is gone.
    pub fn publish(mut self, name: &Path, replace: bool) -> Result<File, Errno> {
        match (self.name.clone(), replace) {
            (Some(own), true) => rustix::fs::rename(&own, name)?,
            (Some(own), false) => rename_to_new(&own, name)?,
            (None, false) => self.link(name)?,
            (None, true) => {
                // linkat cannot replace a file: link under a temporary name, then rename.
                let ((), own) = unused(&self.folder, |own| self.link(own))?;
                self.name = Some(own.clone());
                rustix::fs::rename(&own, name)?;
            }
        }
        self.name = None;
        Ok(self.file.take().expect("only publish takes the file"))
    }

    /// Links an unnamed file through /proc; without /proc that needs root.
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

/// Renames a file without replacing another.
fn rename_to_new(own: &Path, name: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, own, CWD, name, RenameFlags::NOREPLACE) {
        // Without support for the flag: linkat fails if the name exists.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match linkat(CWD, own, CWD, name, AtFlags::empty()) {
                Ok(()) => unlink(own),
                // Without hard links: not atomic.
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

/// Calls `make` with new names until one does not exist.
fn unused<T>(
    folder: &Path,
    make: impl Fn(&Path) -> Result<T, Errno>,
) -> Result<(T, PathBuf), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..TRIES {
        // Relaxed: only the uniqueness of the number matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = folder.join(format!(".fathom-{}-{number}", std::process::id()));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(Errno::EXIST)
}
