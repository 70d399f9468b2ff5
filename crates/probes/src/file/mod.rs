//! Files: what it takes to read and to write them.

mod bandwidth;
mod by_hand;
pub mod cache;
pub mod call;
pub mod calls;
mod cap;
pub mod capacity;
mod cache_state;
pub mod contention;
pub mod create;
pub mod delete;
pub mod fast;
pub mod fsync;
mod generated_file;
mod model;
mod small_files;
mod options;
mod passes;
pub mod read;
pub mod read_latency;
pub mod read_throughput;
pub mod reasonable_size;
#[cfg(test)]
mod test_recorder;
mod state;
pub mod sweep;
mod temporary;
#[cfg(test)]
mod tests;
pub mod write;
pub mod write_throughput;

use fathom_measure::sampler::Fault;
use fathom_metric::About;
use fathom_record::{Counters, Remedy};

/// What most metrics of files have in common: they wait for a device, and are as steady as it.
const BASE: About = About { expects: Counters::DEVICE, noise_limit: 0.10, ..About::BASE };
/// Besides, what those have in common that `fathom run` measures.
const OF_RUNS: About =
    About { needs: &["os.syscall"], requires: "a folder on a device (--folder)", ..BASE };

/// Bytes of the large file: more than the last-level cache of most machines, so that it is read
/// from memory and not from a cache, and written in a tenth of a second by a disk of today. One
/// size for all efforts, for their results to be one history.
pub const LARGE_BYTES: u64 = 64 << 20;
/// Sizes of the files that are made, deleted and synced, as lmbench's `lat_fs` has them.
const SMALL_BYTES: [i64; 4] = [0, 1 << 10, 4 << 10, 10 << 10];

/// A file operation that failed; a full disk is a fact of the machine.
fn failed(what: &str, error: impl Into<std::io::Error>) -> Fault {
    let error = error.into();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EROFS) => {
            Fault::unavailable(format!("{what}: {error}"), Remedy::FreeSpace)
        }
        _ => Fault::system(what, error),
    }
}
