//! All regular files below the folder.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use serde::{Serialize, Serializer};

use crate::root::Root;
use crate::target::encode;
use crate::ticket::IsOver;

const FILES_MAX: usize = 100_000;
const FOLDERS_MAX: usize = 100_000;
/// Percent-encoded they are at most three times as long.
const PATH_BYTES_MAX: usize = 10 << 20;

/// Symlinks are not followed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Listing {
    pub(crate) files: Vec<Listed>,
    /// Whether there are more than 100,000 files or folders, or than 10 MiB of paths.
    pub(crate) truncated: bool,
    #[serde(skip)]
    folders: usize,
    #[serde(skip)]
    path_bytes: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    /// Relative to the folder; in JSON percent-encoded.
    #[serde(rename = "path", serialize_with = "encoded")]
    pub(crate) raw: Vec<u8>,
    pub(crate) bytes: u64,
}

fn encoded<S: Serializer>(raw: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&encode(raw))
}

impl Listing {
    /// Lists what can be read, sorted by path.
    pub(crate) fn read(root: &Root, is_over: IsOver<'_>) -> Self {
        let mut listing = Self::default();
        let mut folders = vec![Vec::new()];
        while let Some(folder) = folders.pop() {
            listing.folders += 1;
            if listing.is_full() || listing.folders > FOLDERS_MAX || is_over() {
                listing.truncated = true;
                break;
            }
            listing.add(root, &folder, &mut folders, is_over);
        }
        listing.files.sort_by(|a, b| a.raw.cmp(&b.raw));
        listing
    }

    fn is_full(&self) -> bool {
        self.files.len() >= FILES_MAX || self.path_bytes >= PATH_BYTES_MAX
    }

    fn add(&mut self, root: &Root, folder: &[u8], folders: &mut Vec<Vec<u8>>, is_over: IsOver<'_>) {
        let Some(opened) = open(root, folder) else { return };
        let Ok(entries) = Dir::read_from(&opened) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || (folder.is_empty() && name == b".fathom") {
                continue;
            }
            // One folder may have all files, and any number of them.
            if self.is_full() || is_over() {
                self.truncated = true;
                return;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(stat) = statat(&opened, entry.file_name(), flags) else { continue };
            let raw = if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() };
            match FileType::from_raw_mode(stat.st_mode) {
                // A mount point cannot be opened.
                FileType::Directory if stat.st_dev == root.stat.st_dev => folders.push(raw),
                FileType::RegularFile => {
                    self.path_bytes += raw.len();
                    self.files.push(Listed { raw, bytes: stat.st_size as u64 });
                }
                _ => {}
            }
        }
    }
}

fn open(root: &Root, folder: &[u8]) -> Option<OwnedFd> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if folder.is_empty() { b"." } else { folder };
    openat2(root.fd(), path, flags, Mode::empty(), inside).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn list_that_nobody_waits_for_ends_within_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        (0..100).for_each(|at| std::fs::write(folder.path().join(at.to_string()), "").unwrap());
        let root = Root::open(folder.path()).unwrap();
        assert!(!Listing::read(&root, &|| false).truncated);
        let asked = AtomicUsize::new(0);
        let listing = Listing::read(&root, &|| asked.fetch_add(1, Relaxed) >= 10);
        assert!(listing.truncated && listing.files.len() <= 10, "{}", listing.files.len());
    }
}
