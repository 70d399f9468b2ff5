//! The extents of a file: data, unwritten (preallocated) space and holes. Reading the last two
//! touches no device, so their read rate does not measure one.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::path_info::{FileKind, size_of};
use crate::syscall;

/// `FIEMAP_EXTENT_UNWRITTEN`: preallocated, reads as zeroes.
const UNWRITTEN: u32 = 0x800;
/// How the extents were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentMethod {
    /// The FIEMAP ioctl, the only one that distinguishes unwritten space from holes.
    Fiemap,
    /// `SEEK_DATA` and `SEEK_HOLE`: unwritten space counts as holes.
    Seek,
    /// Neither works: all counts as data.
    None,
}

/// Bytes of a file by kind of extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    pub bytes: u64,
    pub data: u64,
    pub unwritten: u64,
    pub holes: u64,
    pub method: ExtentMethod,
}

impl Extents {
    /// The share of data; 1 for an empty file.
    pub fn share(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.data as f64 / self.bytes as f64 }
    }

    fn all_data(bytes: u64) -> Self {
        Self { bytes, data: bytes, unwritten: 0, holes: 0, method: ExtentMethod::None }
    }
}

/// The extents of a file; a block device is all data.
pub fn extents_of(file: &File) -> Result<Extents, Errno> {
    let (kind, size) = size_of(file)?;
    let bytes = size.unwrap_or(0);
    if kind != FileKind::Regular || bytes == 0 {
        return Ok(Extents::all_data(bytes));
    }
    let fallback = |_| Ok(Extents::all_data(bytes));
    by_fiemap(file, bytes).or_else(|_| by_seek(file, bytes)).or_else(fallback)
}

fn by_fiemap(file: &File, bytes: u64) -> Result<Extents, Errno> {
    let mut found = Extents { data: 0, method: ExtentMethod::Fiemap, ..Extents::all_data(bytes) };
    let mut at = 0;
    while at < bytes {
        let extents = syscall::extents(file.as_fd(), at)?;
        let Some(last) = extents.last() else { break };
        for extent in &extents {
            // The first extent may begin before `at`, and the last end after the end of the file.
            let from = extent.at.max(at);
            let length = extent.at.saturating_add(extent.length).min(bytes).saturating_sub(from);
            if extent.flags & UNWRITTEN != 0 {
                found.unwritten += length;
            } else {
                found.data += length;
            }
        }
        // Bounds the loop for a file that grows concurrently.
        let next = last.at.saturating_add(last.length);
        at = if next > at { next } else { bytes };
    }
    found.holes = bytes.saturating_sub(found.data + found.unwritten);
    Ok(found)
}

fn by_seek(file: &File, bytes: u64) -> Result<Extents, Errno> {
    let mut found = Extents { data: 0, method: ExtentMethod::Seek, ..Extents::all_data(bytes) };
    // The caller's file offset must not change.
    let before = seek(file, SeekFrom::Current(0))?;
    let result = (|| {
        let mut at = 0;
        while at < bytes {
            let from = match seek(file, SeekFrom::Data(at)) {
                Ok(from) => from,
                // The rest of the file is a hole.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let to = seek(file, SeekFrom::Hole(from))?.min(bytes);
            if to <= from {
                break;
            }
            found.data += to - from;
            at = to;
        }
        Ok(())
    })();
    seek(file, SeekFrom::Start(before))?;
    result?;
    found.holes = bytes - found.data;
    Ok(found)
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn share_is_that_of_data() {
        let extents = Extents { data: 25, ..Extents::all_data(100) };
        assert_eq!((extents.share(), Extents::all_data(0).share()), (0.25, 1.0));
        let pipe = File::open("/dev/null").unwrap();
        assert_eq!(extents_of(&pipe), Ok(Extents::all_data(0)));
        let empty = tempfile::tempfile().unwrap();
        assert_eq!(extents_of(&empty), Ok(Extents::all_data(0)));
    }

    #[test]
    fn fiemap_and_seek_agree_on_data() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        for at in [0, 1 << 20, 2 << 20] {
            file.write_all_at(&[1; 65536], at).unwrap();
        }
        file.set_len((2 << 20) + 65536 + 100).unwrap();
        file.sync_all().unwrap();
        let bytes = (2 << 20) + 65536 + 100;
        let Ok(by_map) = by_fiemap(&file, bytes) else {
            println!("skipped: no FIEMAP in /var/tmp");
            return;
        };
        let by_seek = by_seek(&file, bytes).unwrap();
        assert_eq!((by_map.data, by_map.holes), (by_seek.data, by_seek.holes));
        assert_eq!(by_map.data + by_map.unwritten + by_map.holes, bytes);
        assert_eq!((by_map.method, by_seek.method), (ExtentMethod::Fiemap, ExtentMethod::Seek));
    }

    #[test]
    fn seek_finds_holes_and_restores_the_offset() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 65536], 0).unwrap();
        file.write_all_at(&[1; 65536], 1 << 20).unwrap();
        file.set_len(3 << 20).unwrap();
        seek(&file, SeekFrom::Start(77)).unwrap();
        let found = by_seek(&file, 3 << 20).unwrap();
        assert_eq!(found.data, 2 * 65536);
        assert_eq!(found.holes, (3 << 20) - 2 * 65536);
        assert_eq!(seek(&file, SeekFrom::Current(0)), Ok(77));
    }
}
