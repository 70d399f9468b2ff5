//! File metrics of `fathom run`: read, write, create, delete and sync.

use fathom_fileio::folder::write_cause;

use crate::prelude::*;

pub mod call;
pub(crate) mod generated_file;
pub mod many_files;
pub(crate) mod model;
pub mod read_latency;
pub mod read_throughput;
pub mod small_files;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub mod write_throughput;

/// Common to most file metrics: they wait for a device.
pub(crate) const BASE: About =
    About { expects: Counters::DEVICE, noise_limit: 0.10, ..About::BASE };
/// Common to those that `fathom run` measures.
const OF_RUNS: About =
    About { needs: &["os.syscall"], requires: "a folder on a device (--folder)", ..BASE };

/// Bytes of the large file: more than the last-level cache of most machines, so that it is read
/// from DRAM, and little enough that a current disk writes it in 0.1 s. The same for all efforts,
/// so that their results are comparable.
pub const LARGE_BYTES: u64 = 64 << 20;
/// Sizes of the small files, as in lmbench's `lat_fs`.
const SMALL_BYTES: [i64; 4] = [0, 1 << 10, 4 << 10, 10 << 10];

pub(crate) const BUFFERED_DIRECT: &str =
    "the file system accepted O_DIRECT, but read through the page cache";

/// A failed file operation. A full or read-only disk makes the metric unavailable.
fn failed(what: &str, error: impl Into<std::io::Error>) -> SamplerFault {
    let error = error.into();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            SamplerFault::unavailable(format!("{what}: {error}"), Remedy::FreeSpace)
        }
        Some(libc::EROFS) => {
            SamplerFault::unavailable(format!("{what}: {error}"), Remedy::OtherFolder)
        }
        _ => SamplerFault::system(what, error),
    }
}

/// A file that could not be created in a folder, whose file system may lack inodes.
fn not_created(what: &str, folder: &std::path::Path, error: rustix::io::Errno) -> SamplerFault {
    match error {
        rustix::io::Errno::NOSPC => SamplerFault::of_cause(what, &write_cause(folder, error)),
        error => failed(what, error),
    }
}
