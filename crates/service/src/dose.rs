//! Doses: known work that a request adds on purpose to one resource, so that a load can prove what
//! limits it.

use std::fs::File;

use fathom_fileio::memory::MemoryPages;
use fathom_measure::clock::thread_cpu_ns;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pread};

use crate::ticket::IsOver;

/// Of one request.
pub(crate) const TIME_NS_MAX: u64 = 100_000_000;
pub(crate) const BYTES_MAX: u64 = 16 << 20;
const LONG_NS: u64 = 1_000_000;
/// Bytes of one direct read.
pub(crate) const PIECE: usize = 2 << 20;
const BLOCK: u64 = 4096;

/// The field `Fathom-Dose` of a request, such as `cpu_ns=200000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dose {
    /// CPU time of the server.
    pub(crate) cpu_ns: u64,
    /// Time in a section that one request at a time can be in.
    pub(crate) serial_ns: u64,
    /// Read from the device, from the beginning of the file on.
    pub(crate) disk_bytes: u64,
    /// Sent behind the file's.
    pub(crate) wire_bytes: u64,
}

impl Dose {
    /// `NAME=NUMBER`, separated by commas. `None` if it is malformed or above the limits.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut dose = Self::default();
        for part in std::str::from_utf8(value).ok()?.split(',') {
            let (name, number) = part.trim().split_once('=')?;
            let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            let number: u64 = is_number.then(|| number.parse().ok())??;
            let (slot, max) = match name {
                "cpu_ns" => (&mut dose.cpu_ns, TIME_NS_MAX),
                "serial_ns" => (&mut dose.serial_ns, TIME_NS_MAX),
                "disk_bytes" => (&mut dose.disk_bytes, BYTES_MAX),
                "wire_bytes" => (&mut dose.wire_bytes, BYTES_MAX),
                _ => return None,
            };
            *slot = (number <= max).then_some(number)?;
        }
        Some(dose)
    }

    /// Whether a lane is needed.
    pub(crate) fn waits(&self) -> bool {
        self.serial_ns > 0 || self.disk_bytes > 0 || self.is_long()
    }

    /// Whether a lane uses the CPU: a reactor that does has no time for other responses meanwhile.
    pub(crate) fn is_long(&self) -> bool {
        self.cpu_ns >= LONG_NS
    }

    /// Uses the CPU.
    pub(crate) fn spin(&self) {
        if self.cpu_ns == 0 {
            return;
        }
        let until_ns = thread_cpu_ns() + self.cpu_ns;
        while thread_cpu_ns() < until_ns {
            std::hint::spin_loop();
        }
    }
}

/// Reads `bytes` of a file past the page cache, from a whole block on; after the end of the file
/// from its beginning again. Returns how many were read: 0 of an empty file, and at most a read for
/// each block of `bytes` of a file that is smaller than a block.
pub(crate) fn read_direct(
    file: &File,
    buffer: &mut MemoryPages,
    from: u64,
    bytes: u64,
    is_over: IsOver<'_>,
) -> Result<u64, Errno> {
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags | OFlags::DIRECT)?;
    let read = read_around(file, buffer, from, bytes, is_over);
    fcntl_setfl(file, flags)?;
    read
}

fn read_around(
    file: &File,
    buffer: &mut MemoryPages,
    from: u64,
    bytes: u64,
    is_over: IsOver<'_>,
) -> Result<u64, Errno> {
    let (mut read, mut at) = (0, from);
    for _ in 0..bytes.div_ceil(BLOCK) {
        if read >= bytes || is_over() {
            break;
        }
        // Direct reads have whole blocks, also of the last bytes of a file.
        let most = (bytes - read).next_multiple_of(BLOCK).min(PIECE as u64) as usize;
        match pread(file, &mut buffer[..most], at) {
            Ok(0) if at == 0 => return Ok(read),
            // Short only at the end of the file.
            Ok(count) if count < most => (read, at) = (read + count as u64, 0),
            Ok(count) => (read, at) = (read + count as u64, at + count as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doses_are_numbers_within_limits() {
        let parsed = Dose::parse(b"cpu_ns=5, wire_bytes=16777216");
        assert_eq!(parsed, Some(Dose { cpu_ns: 5, wire_bytes: BYTES_MAX, ..Dose::default() }));
        for text in ["", "cpu_ns", "cpu_ns=", "cpu_ns=+1", "cpu_ns=100000001", "x=1", "cpu_ns=1,"] {
            assert_eq!(Dose::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn spin_uses_the_cpu_time() {
        let before_ns = thread_cpu_ns();
        Dose { cpu_ns: 2_000_000, ..Dose::default() }.spin();
        assert!(thread_cpu_ns() - before_ns >= 2_000_000);
    }

    #[test]
    fn direct_reads_repeat_a_short_file() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 10_000]).unwrap();
        let mut buffer = MemoryPages::new(PIECE).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(read_direct(&file, &mut buffer, 8192, 21_808, &|| false), Ok(21_808));
        assert_eq!(read_direct(&file, &mut buffer, 0, 21_808, &|| true), Ok(0), "not wanted");
        std::fs::write(&path, []).unwrap();
        let mut read = || read_direct(&File::open(&path).unwrap(), &mut buffer, 0, 9000, &|| false);
        assert_eq!(read(), Ok(0), "empty");
        std::fs::write(&path, [7]).unwrap();
        assert_eq!(read(), Ok(3), "a read for each block");
    }
}
