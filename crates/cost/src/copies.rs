//! What it takes to copy from the very files that a run read: the pages of a file that was written
//! in small blocks lie apart, and a small file stays in a cache of the CPU. No price of a metric,
//! whose file is another one, says that: it may be three times as much.

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt as _;

use fathom_measure::clock::thread_cpu_ns;
use libc::pid_t;
use rustix::io::{ReadWriteFlags, preadv2};

/// A descriptor from which less was read has no file of its own here.
const READ_MIN: u64 = 1 << 20;
const FILES_MAX: usize = 8;
pub(super) const BLOCK: usize = 64 << 10;
/// Of a file, as much as is in no cache of a CPU.
const PASS_BYTES: u64 = 64 << 20;

/// Bytes that were read, and what copying as many takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    pub ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Copies {
    /// By process and descriptor, since it was opened or since its file was noted.
    read: HashMap<(pid_t, u64), u64>,
    /// By device and inode.
    files: HashMap<[u64; 2], (File, u64)>,
}

impl Copies {
    pub(super) fn add(&mut self, thread: pid_t, (process, descriptor): (pid_t, u64), bytes: u64) {
        let read = self.read.entry((process, descriptor)).or_default();
        *read = read.saturating_add(bytes);
        if *read < READ_MIN {
            return;
        }
        let read = std::mem::take(read);
        let file = File::open(format!("/proc/{thread}/fd/{descriptor}"));
        let about = file.as_ref().ok().and_then(|file| file.metadata().ok());
        let (Ok(file), Some(about)) = (file, about.filter(|it| it.is_file())) else { return };
        let key = [about.dev(), about.ino()];
        if self.files.len() < FILES_MAX || self.files.contains_key(&key) {
            self.files.entry(key).or_insert((file, 0)).1 += read;
        }
    }

    /// After a close: the number may name another file.
    pub(super) fn forget(&mut self, process: pid_t, descriptor: Option<u64>) {
        self.read.retain(|(of, number), _| {
            *of != process || descriptor.is_some_and(|closed| closed != *number)
        });
    }

    /// Copies from each file now, what of it is cached.
    pub(super) fn measured(&self) -> Copied {
        let mut all = Copied::default();
        for (file, bytes) in self.files.values() {
            let Some(ns) = ns_of_byte(file) else { continue };
            all.bytes += bytes;
            all.ns += (*bytes as f64 * ns) as u64;
        }
        all
    }
}

/// Of the second pass: as often as a command is run, its files are where they are read from again.
fn ns_of_byte(file: &File) -> Option<f64> {
    let blocks = file.metadata().ok()?.len().min(PASS_BYTES) / BLOCK as u64;
    let mut block = vec![0; BLOCK];
    // In CPU time: others may run meanwhile.
    let mut pass = || {
        let begun_ns = thread_cpu_ns();
        for at in 0..blocks {
            let mut to = [IoSliceMut::new(&mut block)];
            // What is not cached is not read from a device.
            let read = preadv2(file, &mut to, at * BLOCK as u64, ReadWriteFlags::NOWAIT);
            if read != Ok(BLOCK) {
                return None;
            }
        }
        Some(thread_cpu_ns() - begun_ns)
    };
    pass()?;
    let ns = pass()?;
    (blocks > 0).then(|| ns as f64 / (blocks * BLOCK as u64) as f64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn files_of_which_much_was_read_are_copied_once_more() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; 4 * BLOCK]).expect("its pages");
        let own = std::process::id() as pid_t;
        let of_file = (own, file.as_raw_fd() as u64);
        let mut copies = Copies::default();
        copies.add(own, of_file, READ_MIN - 1);
        copies.forget(own, Some(of_file.1));
        copies.add(own, of_file, READ_MIN - 1);
        assert_eq!(copies.measured(), Copied::default(), "closed meanwhile");
        copies.add(own, of_file, 1);
        copies.add(own, of_file, 3 * READ_MIN);
        let Copied { bytes, ns } = copies.measured();
        // mood: no CPU copies 1 TB a second, or a byte in 100 ns
        assert!(bytes == 4 * READ_MIN && ns > bytes / 1000 && ns < 100 * bytes, "{bytes} {ns}");
        file.set_len(BLOCK as u64 - 1).expect("a shorter file");
        assert_eq!(copies.measured(), Copied::default(), "without a whole block");
    }
}
