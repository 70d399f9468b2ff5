//! Memory use does not depend on file size, block size or threads. One test per binary, since the
//! peak is that of the process.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]

use fathom_fileio::read::{BLOCK, BLOCK_MAX, Request, Way};
use fathom_fileio::{Source, read};
use fathom_lab::clock;

/// Peak resident set size (VmHWM), including mapped file pages.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn memory_use_is_independent_of_file_size() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // Mapped holes count as resident like any other pages.
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
