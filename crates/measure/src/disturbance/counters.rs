//! Counter files of the kernel, opened once and read repeatedly.
//!
//! Not with the `procfs` crate, which opens the file each time and allocates vectors and maps for
//! all of it, such as every CPU of `/proc/stat`; a visit needs three numbers.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::tree::{FILE_BYTES_MAX, FileTree};

/// Enough for every other counter file.
const FIRST_BYTES: usize = 4096;

/// A file that is kept open. The kernel generates its text at each read from the start.
#[derive(Debug)]
pub(crate) struct DisturbanceCounters {
    file: Option<File>,
    // Reused, so that reads during a visit do not allocate.
    buffer: RefCell<Vec<u8>>,
}

impl DisturbanceCounters {
    pub(super) fn open(tree: &FileTree, path: &str) -> Self {
        let file = File::open(tree.place(path)).ok();
        Self { file, buffer: RefCell::new(vec![0; FIRST_BYTES]) }
    }

    /// Parses the current text of the file. `None` if it cannot be read.
    pub(super) fn read<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let file = self.file.as_ref()?;
        let mut buffer = self.buffer.borrow_mut();
        let mut filled = 0;
        loop {
            if filled == buffer.len() {
                if filled >= FILE_BYTES_MAX {
                    return None;
                }
                buffer.resize(2 * filled, 0);
            }
            match file.read_at(&mut buffer[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        find(std::str::from_utf8(&buffer[..filled]).ok()?)
    }
}

/// Later minus earlier. Unknown if either is, or if the counter went backwards.
pub(super) fn difference(later: Option<u64>, earlier: Option<u64>) -> Option<u64> {
    later?.checked_sub(earlier?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::after;

    #[test]
    fn file_is_read_completely_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        std::fs::write(&path, "intr 7\n").unwrap();
        let counters = DisturbanceCounters::open(&FileTree::at(dir.path()), "/stat");
        let interrupts = |text: &str| after(text, "intr ").map(str::to_owned);
        assert_eq!(counters.read(interrupts).as_deref(), Some("7"));
        // A line of every interrupt, and more than 16 MiB in all.
        let long = format!("{}\n{}intr 8\n", "0 ".repeat(100_000), "filler 1\n".repeat(2_000_000));
        std::fs::write(&path, long).unwrap();
        assert_eq!(counters.read(interrupts).as_deref(), Some("8"));
        assert_eq!(
            DisturbanceCounters::open(&FileTree::at(dir.path()), "/none").read(|_| Some(1)),
            None
        );
    }
}
