//! Which bytes of a file can be read without waiting for a device.

use std::fs::File;
use std::io::IoSliceMut;

use fathom_fileio::residency::cached_pages;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::param::page_size;

/// Bytes read to find out what is in memory, where cachestat cannot.
const LOOK_BYTES: usize = 128 << 10;
/// cachestat costs a tenth of sending the same pages: for this time after it found all of a range,
/// only the first and the last page are checked again. Pages in use are not reclaimed so fast.
const VALID_NS: u64 = 1_000_000_000;
const KNOWN: usize = 1024;

/// Asks the kernel, by cachestat or by reading without waiting.
#[derive(Debug)]
pub(crate) struct Probe {
    scratch: Vec<u8>,
    has_cachestat: bool,
    /// Ranges that were in memory, by the hash of their inode. Empty if nothing is to be known.
    known: Vec<Known>,
}

/// A range of a file that was in memory at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    inode: u64,
    from: u64,
    to: u64,
    since_ns: u64,
}

impl Probe {
    /// `is_cold`: files are evicted all the time, so that each check must be new.
    pub(crate) fn new(is_cold: bool) -> Self {
        let known = vec![Known::default(); if is_cold { 0 } else { KNOWN }];
        Self { scratch: Vec::new(), has_cachestat: true, known }
    }

    /// As on a kernel before 6.5.
    #[cfg(test)]
    pub(crate) fn without_cachestat() -> Self {
        Self { has_cachestat: false, ..Self::new(true) }
    }

    /// Files were evicted.
    pub(crate) fn forget(&mut self) {
        self.known.fill(Known::default());
    }

    /// The end of the bytes from `at` on that are in memory, at most `end`; `at` if none are or
    /// this cannot be determined.
    pub(crate) fn resident_to(
        &mut self,
        file: &File,
        inode: u64,
        at: u64,
        end: u64,
        now_ns: u64,
    ) -> u64 {
        let slot = (inode % KNOWN as u64) as usize;
        let known = self.known.get(slot).copied().unwrap_or_default();
        let is_fresh = known.inode == inode && now_ns.saturating_sub(known.since_ns) < VALID_NS;
        if is_fresh && known.from <= at && end <= known.to {
            // A memory file system does not know this flag.
            let is_here =
                |at| matches!(read_now(file, &mut [0], at), Ok(1) | Err(Errno::OPNOTSUPP));
            return if is_here(at) && is_here(end - 1) { end } else { at };
        }
        let to = self.look(file, at, end);
        if let Some(slot) = self.known.get_mut(slot).filter(|_| to == end) {
            // The windows of a large file are one range.
            let (from, since_ns) = match is_fresh && known.to == at {
                true => (known.from, known.since_ns),
                false => (at, now_ns),
            };
            *slot = Known { inode, from, to, since_ns };
        }
        to
    }

    fn look(&mut self, file: &File, at: u64, end: u64) -> u64 {
        if self.has_cachestat {
            let page = page_size() as u64;
            let pages = (end - 1) / page - at / page + 1;
            match cached_pages(file, at, end - at) {
                // It counts pages that are still being read, as readahead does: the last one shows
                // that they have arrived.
                Ok(cached) if cached >= pages => {
                    let last = read_now(file, &mut [0], end - 1);
                    return if last == Err(Errno::AGAIN) { at } else { end };
                }
                Ok(_) => return at,
                Err(Errno::NOSYS) => self.has_cachestat = false,
                // Of another user's file it is not allowed.
                Err(_) => {}
            }
        }
        let bytes = (end - at).min(LOOK_BYTES as u64) as usize;
        self.scratch.resize(LOOK_BYTES, 0);
        at + read_now(file, &mut self.scratch[..bytes], at).unwrap_or(0) as u64
    }
}

/// Reads what is in memory, without waiting for a device.
pub(crate) fn read_now(file: &File, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use fathom_fileio::residency::{State, evict};
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    const BYTES: u64 = 3 << 20;

    #[test]
    fn bytes_in_memory_are_resident() {
        // Unlike pages of a file on a disk, these stay.
        let file = File::from(memfd_create("fathom-test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&vec![7; BYTES as usize], 0).unwrap();
        for mut probe in [Probe::new(false), Probe::new(true)] {
            for now_ns in [0, 1] {
                let to = probe.resident_to(&file, 1, 5, BYTES, now_ns);
                // Before Linux 6.5 the answer is unknown.
                assert_eq!(to, if probe.has_cachestat { BYTES } else { 5 });
            }
        }
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    fn evicted_bytes_are_not_resident() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; BYTES as usize]).unwrap();
        let file = File::open(&path).unwrap();
        for mut probe in [Probe::new(false), Probe::new(true), Probe::without_cachestat()] {
            for now_ns in [2, VALID_NS + 1] {
                // Each look starts the readahead of what it misses.
                if evict(&file).unwrap().state != State::Cold {
                    eprintln!("skipped: this file system does not evict");
                    return;
                }
                if let Some(known) = probe.known.get_mut(1) {
                    *known = Known { inode: 1, from: 5, to: BYTES, since_ns: 0 };
                }
                assert_eq!(probe.resident_to(&file, 1, 5, BYTES, now_ns), 5);
            }
        }
    }

    #[test]
    fn forgotten_ranges_are_checked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 9]).unwrap();
        let file = File::open(&path).unwrap();
        let mut probe = Probe::new(false);
        probe.known[3] = Known { inode: 3, from: 0, to: 100, since_ns: 0 };
        assert_eq!(probe.resident_to(&file, 3, 0, 50, 1), 0, "byte 49 does not exist");
        probe.forget();
        assert!(probe.known.iter().all(|known| known.to == 0));
        assert!(Probe::new(true).known.is_empty());
    }
}
