//! Where a file has bytes: data, space that is reserved but not written, and holes. Reading the
//! last two touches no device, so a speed over them says nothing of one.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::kernel;
use crate::subject::{Kind, size_of};

/// `FIEMAP_EXTENT_UNWRITTEN`: reserved, read as zeroes.
const UNWRITTEN: u32 = 0x800;
const ENCODED: u32 = 0x8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The FIEMAP request: the only one that tells unwritten space from holes.
    Fiemap,
    /// `SEEK_DATA` and `SEEK_HOLE`: unwritten space counts as holes.
    Seek,
    /// Nobody: all is taken for data.
    Nobody,
}

/// How the bytes of a file are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    pub bytes: u64,
    pub data: u64,
    /// Of these, kept compressed or encrypted: a device transfers another number of bytes.
    pub encoded: u64,
    pub unwritten: u64,
    pub holes: u64,
    /// Pieces that the data is in.
    pub pieces: u64,
    pub by: By,
}

impl Extents {
    /// The share of data; 1 for an empty file, of which nothing is missing.
    pub fn share(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.data as f64 / self.bytes as f64 }
    }

    fn whole(bytes: u64) -> Self {
        let pieces = u64::from(bytes > 0);
        let by = By::Nobody;
        Self { bytes, data: bytes, encoded: 0, unwritten: 0, holes: 0, pieces, by }
    }
}

/// How the bytes of a file or block device are kept.
pub fn of(file: &File) -> Result<Extents, Errno> {
    let (kind, size) = size_of(file)?;
    let bytes = size.unwrap_or(0);
    if kind != Kind::Regular || bytes == 0 {
        return Ok(Extents::whole(bytes));
    }
    by_fiemap(file, bytes).or_else(|_| by_seek(file, bytes)).or_else(|_| Ok(Extents::whole(bytes)))
}

fn by_fiemap(file: &File, bytes: u64) -> Result<Extents, Errno> {
    let mut found = Extents { data: 0, pieces: 0, by: By::Fiemap, ..Extents::whole(bytes) };
    let mut at = 0;
    while at < bytes {
        let extents = kernel::extents(file.as_fd(), at)?;
        let Some(last) = extents.last() else { break };
        for extent in &extents {
            // The first may begin before where we ask, and the last end behind the file.
            let from = extent.at.max(at);
            let length = extent.at.saturating_add(extent.length).min(bytes).saturating_sub(from);
            if extent.flags & UNWRITTEN != 0 {
                found.unwritten += length;
            } else if length > 0 {
                found.data += length;
                found.encoded += if extent.flags & ENCODED != 0 { length } else { 0 };
                found.pieces += 1;
            }
        }
        // A file that grows meanwhile must not keep us here.
        let next = last.at.saturating_add(last.length);
        at = if next > at { next } else { bytes };
    }
    found.holes = bytes.saturating_sub(found.data + found.unwritten);
    Ok(found)
}

fn by_seek(file: &File, bytes: u64) -> Result<Extents, Errno> {
    let mut found = Extents { data: 0, pieces: 0, by: By::Seek, ..Extents::whole(bytes) };
    // The position is put back: whoever reads on from it must not notice.
    let before = seek(file, SeekFrom::Current(0))?;
    let told = (|| {
        let mut at = 0;
        while at < bytes {
            let from = match seek(file, SeekFrom::Data(at)) {
                Ok(from) => from,
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let to = seek(file, SeekFrom::Hole(from))?.min(bytes);
            if to <= from {
                break;
            }
            found.data += to - from;
            found.pieces += 1;
            at = to;
        }
        Ok(())
    })();
    seek(file, SeekFrom::Start(before))?;
    told?;
    found.holes = bytes - found.data;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn seeking_tells_holes_and_leaves_the_position_alone() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[1; 65536], 0).expect("written");
        file.write_all_at(&[1; 65536], 1 << 20).expect("written");
        file.set_len(3 << 20).expect("longer");
        seek(&file, SeekFrom::Start(77)).expect("set");
        let found = by_seek(&file, 3 << 20).expect("told");
        assert_eq!(found.data, 2 * 65536);
        assert_eq!(found.holes, (3 << 20) - 2 * 65536);
        assert_eq!(found.pieces, 2);
        assert_eq!(seek(&file, SeekFrom::Current(0)), Ok(77));
    }
}
