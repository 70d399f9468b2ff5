//! All regular files below the folder.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use serde::Serialize;

use crate::lane::IsOver;
use crate::root::Root;
use crate::target::encode;

const FILES_MAX: usize = 100_000;
const FOLDERS_MAX: usize = 100_000;

/// Symlinks are not followed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Listing {
    pub(crate) files: Vec<Listed>,
    /// Whether there are more than 100,000 files or folders.
    pub(crate) truncated: bool,
    #[serde(skip)]
    folders: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    /// Percent-encoded, relative to the folder.
    path: String,
    pub(crate) bytes: u64,
    #[serde(skip)]
    pub(crate) raw: Vec<u8>,
}

impl Listing {
    /// Lists what can be read, sorted by path.
    pub(crate) fn read(root: &Root, is_over: IsOver<'_>) -> Self {
        let mut listing = Self::default();
        let mut folders = vec![Vec::new()];
        while let Some(folder) = folders.pop() {
            listing.folders += 1;
            let is_full = listing.files.len() >= FILES_MAX || listing.folders > FOLDERS_MAX;
            if is_full || is_over() {
                listing.truncated = true;
                break;
            }
            listing.add(root, &folder, &mut folders);
        }
        listing.files.sort_by(|a, b| a.raw.cmp(&b.raw));
        listing
    }

    fn add(&mut self, root: &Root, folder: &[u8], folders: &mut Vec<Vec<u8>>) {
        let Some(opened) = open(root, folder) else { return };
        let Ok(entries) = Dir::read_from(&opened) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || (folder.is_empty() && name == b".fathom") {
                continue;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(stat) = statat(&opened, entry.file_name(), flags) else { continue };
            let raw = if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() };
            match FileType::from_raw_mode(stat.st_mode) {
                // A mount point cannot be opened.
                FileType::Directory if stat.st_dev == root.stat.st_dev => folders.push(raw),
                FileType::RegularFile if self.files.len() < FILES_MAX => {
                    let path = encode(&raw);
                    self.files.push(Listed { path, bytes: stat.st_size as u64, raw });
                }
                FileType::RegularFile => self.truncated = true,
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
