//! Where temporary files lie, how they are made, and the question whether they may be.
//!
//! They have no name where the file system can do without: whatever ends this program ends them.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::scratch::Scratch;
use fathom_fileio::subject::Kind;
use fathom_fileio::{Generator, look};

use super::session::{refuse, shown, size};

/// Tried in this order where no folder is named.
const USUAL: [&str; 2] = ["/var/tmp", "."];
/// Bytes that are made and written at a time.
const PIECE: usize = 1 << 20;
/// A twentieth of the disk is left free, or so much.
const RESERVE: u64 = 4 << 30;
/// So much may be waiting to be written: a control group counts it as its memory.
const UNWRITTEN: u64 = 16 << 20;

/// A folder for temporary files, which lies on a device.
///
/// # Errors
/// Where the one that was named is none, or lies in memory; where none was and all do.
pub(super) fn folder(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(path) = named else {
        let usable = |path: &&str| usable(Path::new(path)).is_ok();
        let found = USUAL.iter().find(|path| usable(path)).map(PathBuf::from);
        return found.ok_or_else(|| {
            refuse("neither /var/tmp nor the current folder lies on a device; name one by --folder")
        });
    };
    usable(path)?;
    Ok(path.to_owned())
}

fn usable(path: &Path) -> anyhow::Result<()> {
    let subject = look(path).map_err(refuse)?;
    let name = subject.file_system.name;
    let path = shown(path);
    if subject.kind != Kind::Directory {
        return Err(refuse(format!("--folder {path}: it is no folder")));
    }
    match subject.is_on_device() {
        Some(false) => Err(refuse(format!(
            "--folder {path}: {name} keeps files in memory or elsewhere; name one on a disk"
        ))),
        _ => Ok(()),
    }
}

/// Bytes that may be written there: what is free, but for a reserve that is left to others.
///
/// # Errors
/// Where the file system does not say.
pub(super) fn free(folder: &Path) -> anyhow::Result<u64> {
    let told = rustix::fs::statvfs(folder)
        .map_err(|error| anyhow::anyhow!("ask {} for its space: {error}", shown(folder)))?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    let reserve = (bytes(told.f_blocks) / 20).min(RESERVE);
    Ok(bytes(told.f_bavail).saturating_sub(reserve))
}

/// Refuses what there is no space for.
///
/// # Errors
/// With what is needed and what there is.
pub(super) fn check_space(folder: &Path, bytes: u64) -> anyhow::Result<()> {
    let free = free(folder)?;
    if bytes <= free {
        return Ok(());
    }
    Err(refuse(format!(
        "{} are needed in {}, where {} may be taken (a twentieth of the disk, or {}, is left \
         free); give less, or another --folder",
        size(bytes),
        shown(folder),
        size(free),
        size(RESERVE)
    )))
}

/// Whether a person on a terminal agrees; where there is none, nobody is asked.
pub(super) fn may(what: &str) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return true;
    }
    crate::terminal::warn(&format!("{what}; go on? [y/N]"));
    let mut answer = String::new();
    // What cannot be read is no yes.
    let _ = std::io::stdin().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}

/// A temporary file that grows.
pub(super) struct Growing {
    scratch: Scratch,
    folder: PathBuf,
    bytes: u64,
}

impl Growing {
    /// An empty one.
    ///
    /// # Errors
    /// Where none can be made there.
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let scratch = Scratch::new(folder).map_err(|error| {
            refuse(format!("make a file in {}: {error}; name another --folder", shown(folder)))
        })?;
        Ok(Self { scratch, folder: folder.to_owned(), bytes: 0 })
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        self.scratch.file()
    }

    /// Makes it at least so large, all of it on the device; false where it was told to stop.
    ///
    /// # Errors
    /// Where there is no space, or the device fails.
    pub(super) fn grow(&mut self, bytes: u64, stop: &AtomicBool) -> anyhow::Result<bool> {
        let folder = shown(&self.folder);
        let failed = |error: std::io::Error| {
            anyhow::anyhow!("write {} to {folder}: {error}; nothing is left there", size(bytes))
        };
        let mut piece = vec![0; PIECE];
        let generator = Generator::new(0);
        while self.bytes < bytes {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let length = (bytes - self.bytes).min(PIECE as u64);
            let piece = &mut piece[..length as usize];
            generator.fill(self.bytes, piece);
            self.file().write_all_at(piece, self.bytes).map_err(failed)?;
            self.bytes += length;
            if self.bytes.is_multiple_of(UNWRITTEN) || self.bytes == bytes {
                self.file().sync_data().map_err(failed)?;
            }
        }
        Ok(true)
    }
}
