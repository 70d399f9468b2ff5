//! What a path is, before anything is read: its kind, its size if it has one, where its bytes
//! live, and what direct reads would ask of it.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, fstatfs, statx};
use rustix::io::Errno;

use crate::filesystem::{Class, FileSystem};
use crate::kernel::reopened_fd;

const DIOALIGN: u32 = 0x2000;

/// What kind of thing a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Regular,
    Directory,
    /// A FIFO, also called a named pipe.
    Fifo,
    Socket,
    /// A character device, such as `/dev/zero`.
    Character,
    /// A block device, such as a disk.
    Block,
    /// Something that this version does not know.
    Other,
}

impl Kind {
    fn of(mode: rustix::fs::RawMode) -> Self {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::Character,
            FileType::BlockDevice => Self::Block,
            _ => Self::Other,
        }
    }
}

/// What reads past the page cache (`O_DIRECT`) ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// They are possible, with these alignments in bytes.
    Aligned {
        memory: u32,
        /// Of the offset in the file and of the length.
        offset: u32,
    },
    /// The file system says that they are not.
    Refused,
    /// The kernel or the file system does not say.
    Unsaid,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The path as it was named.
    pub path: PathBuf,
    /// What it leads to, behind symbolic links.
    pub kind: Kind,
    /// Whether the path itself is a symbolic link.
    pub is_link: bool,
    /// Bytes; none where that cannot be known beforehand: a FIFO, a character device, or a file
    /// that the kernel writes while it is read and that says 0.
    pub size: Option<u64>,
    /// Where it lies. For a device this is where its name lies.
    pub file_system: FileSystem,
    /// What direct reads ask for.
    pub direct: Direct,
}

impl Subject {
    /// Whether reads that miss the cache go to a device of this machine; none where that cannot be
    /// told.
    pub fn is_on_device(&self) -> Option<bool> {
        match self.kind {
            Kind::Block => Some(true),
            Kind::Regular | Kind::Directory => self.file_system.is_on_device(),
            _ => Some(false),
        }
    }
}

/// Why a path cannot be looked at or opened for reading.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{what} {path}: {error}")]
    Failed {
        what: &'static str,
        path: PathBuf,
        error: Errno,
    },
    /// It is no file in the sense of this crate.
    #[error("read {path}: {what}; name a regular file or a block device")]
    Unreadable {
        path: PathBuf,
        what: &'static str,
    },
}

/// Looks at a path without opening what it leads to: that could wait for ever, or wake a device.
pub fn look(path: &Path) -> Result<Subject, OpenError> {
    looked_at(path).map(|(subject, _)| subject)
}

fn looked_at(path: &Path) -> Result<(Subject, rustix::fd::OwnedFd), OpenError> {
    let failed = |error| OpenError::Failed { what: "look at", path: path.to_owned(), error };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&handle).map_err(failed)?;
    let link = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let is_link = FileType::from_raw_mode(link.st_mode) == FileType::Symlink;
    let kind = Kind::of(stat.st_mode);
    // Most file systems have it. One that has not is of no known kind.
    let file_system = fstatfs(&handle)
        .map_or(FileSystem::of_magic(0), |found| FileSystem::of_magic(found.f_type as u64));
    let size = match kind {
        Kind::Regular if stat.st_size == 0 && file_system.class == Class::Kernel => None,
        Kind::Regular => u64::try_from(stat.st_size).ok(),
        Kind::Block => device_size(stat.st_rdev),
        _ => None,
    };
    let direct = match kind {
        Kind::Regular | Kind::Block => direct(&handle),
        _ => Direct::Refused,
    };
    let path = path.to_owned();
    Ok((Subject { path, kind, is_link, size, file_system, direct }, handle))
}

/// A file opened for reading, with what is known of it.
#[derive(Debug)]
pub struct Source {
    pub(crate) file: File,
    subject: Subject,
}

impl Source {
    /// Opens what a path leads to. A FIFO, a socket or a directory is refused, and never waited
    /// for.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (mut subject, handle) = looked_at(path)?;
        let what = match subject.kind {
            Kind::Directory => Some("a directory has no bytes of its own"),
            Kind::Fifo => Some("a FIFO has no size and cannot be read twice"),
            Kind::Socket => Some("a socket is not a file"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(OpenError::Unreadable { path: path.to_owned(), what });
        }
        let failed = |error| OpenError::Failed { what: "open", path: path.to_owned(), error };
        let file = match reopened_fd(handle.as_fd(), OFlags::RDONLY) {
            // No /proc here: by its name, and without waiting should it be a FIFO by now.
            Err(Errno::NOENT) => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
                rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(failed)?
            }
            file => file.map_err(failed)?,
        };
        if subject.kind == Kind::Block {
            subject.size = size_of(&file).map_err(failed)?.1;
        }
        Ok(Self { file, subject })
    }

    /// A file that is open already, for reading at least. The name is for messages.
    pub fn of(file: File, name: &Path) -> Result<Self, OpenError> {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let mut source = Self::open(Path::new(&path))?;
        source.subject.path = name.to_owned();
        source.subject.is_link = false;
        Ok(source)
    }

    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The open file, for [`crate::residency`] and [`crate::extents`].
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Kind and size of an open file as they are now.
pub(crate) fn size_of(file: &File) -> Result<(Kind, Option<u64>), Errno> {
    let stat = fstat(file)?;
    let kind = Kind::of(stat.st_mode);
    let size = match kind {
        Kind::Regular => u64::try_from(stat.st_size).ok(),
        Kind::Block => device_size(stat.st_rdev),
        _ => None,
    };
    Ok((kind, size))
}

/// Bytes of a block device; /sys counts in 512 whatever its sectors are.
fn device_size(device: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    sectors.trim().parse::<u64>().ok().map(|sectors| sectors * 512)
}

fn direct(handle: &rustix::fd::OwnedFd) -> Direct {
    let wanted = StatxFlags::from_bits_retain(DIOALIGN);
    match statx(handle, "", AtFlags::EMPTY_PATH, wanted) {
        Ok(found) if found.stx_mask & DIOALIGN == 0 => Direct::Unsaid,
        Ok(found) if found.stx_dio_offset_align == 0 => Direct::Refused,
        Ok(found) => {
            Direct::Aligned { memory: found.stx_dio_mem_align, offset: found.stx_dio_offset_align }
        }
        Err(_) => Direct::Unsaid,
    }
}
