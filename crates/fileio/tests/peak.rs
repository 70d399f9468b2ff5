//! However large a file, its blocks and its number of threads are, little of it is in memory of
//! this program at a time. One test alone in its process: the peak is that of a process.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]

use fathom_fileio::read::{BLOCK, BLOCK_MAX, Request, Way};
use fathom_fileio::{Source, read};
use fathom_lab::clock;

/// The most memory that this process has had, with the mapped pages of files.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_large_file_takes_no_more_memory_than_a_small_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // Mapped holes are pages of zeroes, which count as any others.
    file.as_file().set_len(700 << 20).unwrap();
    let source = Source::open(file.path()).unwrap();
    let cases = [(Way::Pread, BLOCK, 4), (Way::Map, BLOCK, 4), (Way::Map, BLOCK_MAX, 1)];
    for (way, block, threads) in cases {
        let request = Request { block, threads, ..Request::whole(way) };
        let outcome = read(&source, &request, &clock()).unwrap();
        assert_eq!((outcome.sum.bytes, outcome.sum.position), (700 << 20, 0));
        assert!(peak() <= 256 << 20, "{request:?}: {} bytes", peak());
    }
}
