//! Which bytes of a file can be read without waiting for a device.

use std::fs::File;
use std::io::IoSliceMut;

use fathom_fileio::residency::cached_pages;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::param::page_size;

/// Bytes read to find out what is in memory, where cachestat cannot.
const LOOK_BYTES: usize = 128 << 10;

/// Asks the kernel, by cachestat or by reading without waiting.
#[derive(Debug)]
pub(crate) struct Probe {
    scratch: Vec<u8>,
    has_cachestat: bool,
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self { scratch: Vec::new(), has_cachestat: true }
    }

    /// As on a kernel before 6.5.
    #[cfg(test)]
    pub(crate) fn without_cachestat() -> Self {
        Self { scratch: Vec::new(), has_cachestat: false }
    }

    /// The end of the bytes from `at` on that are in memory, at most `end`; `at` if none are or
    /// this cannot be determined.
    pub(crate) fn resident_to(&mut self, file: &File, at: u64, end: u64) -> u64 {
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
    use fathom_fileio::residency::{State, evict};

    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    fn evicted_bytes_are_not_resident() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        for mut probe in [Probe::new(), Probe::without_cachestat()] {
            std::io::copy(&mut File::open(&path).unwrap(), &mut std::io::sink()).unwrap();
            let to = probe.resident_to(&file, 5, 3 << 20);
            assert!(to == 3 << 20 || (!probe.has_cachestat && to == 5 + LOOK_BYTES as u64), "{to}");
            if evict(&file).unwrap().state != State::Cold {
                eprintln!("skipped: this file system does not evict");
                return;
            }
            assert_eq!(probe.resident_to(&file, 5, 3 << 20), 5);
        }
    }
}
