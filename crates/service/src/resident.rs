//! Which bytes of a file can be read without waiting for a device.

use std::fs::File;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fathom_fileio::residency;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::param::page_size;

/// Bytes read to find out what is in memory, where mincore cannot.
const LOOK_BYTES: usize = 128 << 10;
/// mincore costs a tenth of sending the same pages, and cachestat much less: for this time after
/// all of a range was resident, its pages are only counted, as long as no lane reads the file. To
/// cachestat pages count that are still being read.
const VALID_NS: u64 = 10_000_000_000;
const KNOWN: usize = 4096;

/// How often lanes began to read files, by the hash of their inodes.
pub(crate) type Loads = Arc<[AtomicU64]>;

pub(crate) fn loads() -> Loads {
    (0..KNOWN).map(|_| AtomicU64::new(0)).collect()
}

pub(crate) fn loads_of(loads: &Loads, inode: u64) -> &AtomicU64 {
    &loads[(inode % KNOWN as u64) as usize]
}

/// Asks the kernel, by mincore and cachestat or by reading without waiting.
#[derive(Debug)]
pub(crate) struct ResidentProbe {
    scratch: Vec<u8>,
    /// Ranges that were in memory, by the hash of their inode. Empty if nothing is to be known.
    known: Vec<ResidentKnown>,
    loads: Loads,
}

/// A range of a file that was in memory at a time.
#[derive(Clone, Copy, Debug, Default)]
struct ResidentKnown {
    inode: u64,
    from: u64,
    to: u64,
    since_ns: u64,
    loads: u64,
    /// mincore is not permitted.
    is_denied: bool,
}

impl ResidentProbe {
    /// `is_cold`: files are evicted all the time, so that each check must be new.
    pub(crate) fn new(is_cold: bool, loads: Loads) -> Self {
        let known = vec![ResidentKnown::default(); if is_cold { 0 } else { KNOWN }];
        Self { scratch: Vec::new(), known, loads }
    }

    /// Files were evicted.
    pub(crate) fn forget(&mut self) {
        self.known.fill(ResidentKnown::default());
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
        let loads = loads_of(&self.loads, inode).load(Relaxed);
        let known = self.known.get(slot).copied().unwrap_or_default();
        let is_fresh = known.inode == inode
            && known.loads == loads
            && now_ns.saturating_sub(known.since_ns) < VALID_NS;
        if is_fresh && known.from <= at && end <= known.to && has_all_pages(file, at, end) {
            return end;
        }
        let looked = match known.inode == inode && known.is_denied {
            true => None,
            false => residency::resident_to(file, at, end),
        };
        let Some(to) = looked else {
            if let Some(slot) = self.known.get_mut(slot) {
                *slot = ResidentKnown { inode, is_denied: true, ..ResidentKnown::default() };
            }
            return self.look(file, at, end);
        };
        if let Some(slot) = self.known.get_mut(slot).filter(|_| to == end) {
            // The windows of a large file are one range.
            let (from, since_ns) = match is_fresh && known.to == at {
                true => (known.from, known.since_ns),
                false => (at, now_ns),
            };
            *slot = ResidentKnown { inode, from, to, since_ns, loads, is_denied: false };
        }
        to
    }

    fn look(&mut self, file: &File, at: u64, end: u64) -> u64 {
        let bytes = (end - at).min(LOOK_BYTES as u64) as usize;
        self.scratch.resize(LOOK_BYTES, 0);
        at + read_now(file, &mut self.scratch[..bytes], at).unwrap_or(0) as u64
    }
}

fn has_all_pages(file: &File, at: u64, end: u64) -> bool {
    let page = page_size() as u64;
    let pages = (end - 1) / page - at / page + 1;
    residency::cached_pages(file, at, end - at).is_ok_and(|cached| cached >= pages)
}

/// Reads what is in memory, without waiting for a device.
pub(crate) fn read_now(file: &File, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use fathom_fileio::residency::{ResidencyState, evict};
    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

    use super::*;

    const BYTES: u64 = 3 << 20;

    fn probe(is_cold: bool) -> ResidentProbe {
        ResidentProbe::new(is_cold, loads())
    }

    #[test]
    fn bytes_in_memory_are_resident() {
        // Unlike pages of a file on a disk, these stay.
        let file = File::from(memfd_create("fathom-test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&vec![7; BYTES as usize], 0).unwrap();
        for mut probe in [probe(false), probe(true)] {
            for now_ns in [0, 1] {
                assert_eq!(probe.resident_to(&file, 1, 5, BYTES, now_ns), BYTES);
            }
        }
    }

    #[test]
    fn hole_in_the_middle_is_not_resident() {
        // Its pages exist where they were written, without a disk.
        let file = File::from(memfd_create("fathom-test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&vec![7; BYTES as usize], 0).unwrap();
        let mut probe = probe(false);
        assert_eq!(probe.resident_to(&file, 1, 5, BYTES, 0), BYTES);
        let hole = 1 << 20..(1 << 20) + 4096;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, hole.start, 4096).unwrap();
        for (at, to) in [(5, hole.start), (hole.start, hole.start), (hole.end, BYTES)] {
            assert_eq!(probe.resident_to(&file, 1, at, BYTES, 1), to);
        }
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    fn evicted_bytes_are_not_resident() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; BYTES as usize]).unwrap();
        let file = File::open(&path).unwrap();
        for mut probe in [probe(false), probe(true)] {
            for now_ns in [2, VALID_NS + 1] {
                if evict(&file).unwrap().state != ResidencyState::Cold {
                    eprintln!("skipped: this file system does not evict");
                    return;
                }
                if let Some(known) = probe.known.get_mut(1) {
                    *known =
                        ResidentKnown { inode: 1, from: 5, to: BYTES, ..ResidentKnown::default() };
                }
                assert_eq!(probe.resident_to(&file, 1, 5, BYTES, now_ns), 5);
            }
        }
    }

    #[test]
    fn known_ranges_are_checked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 9]).unwrap();
        let file = File::open(&path).unwrap();
        let mut probe = probe(false);
        let set = |probe: &mut ResidentProbe| {
            probe.known[3] =
                ResidentKnown { inode: 3, to: 9, since_ns: 5, ..ResidentKnown::default() };
        };
        let since_ns = |probe: &mut ResidentProbe, now_ns| {
            assert_eq!(probe.resident_to(&file, 3, 0, 9, now_ns), 9);
            probe.known[3].since_ns
        };
        set(&mut probe);
        assert_eq!(since_ns(&mut probe, 6), 5, "counted only");
        loads_of(&probe.loads, 3).fetch_add(1, Relaxed);
        assert_eq!(since_ns(&mut probe, 7), 7, "a lane reads it");
        set(&mut probe);
        probe.forget();
        assert_eq!(since_ns(&mut probe, 8), 8);
        // Without mincore it is read.
        probe.known[3] = ResidentKnown { inode: 3, is_denied: true, ..ResidentKnown::default() };
        assert_eq!((since_ns(&mut probe, 9), probe.known[3].to), (0, 0));
        assert!(ResidentProbe::new(true, loads()).known.is_empty());
    }
}
