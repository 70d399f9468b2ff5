//! Memory use does not depend on file size, block size or threads.

use fathom_fileio::read::{BLOCK, BLOCK_MAX, ReadRequest, Way};
use fathom_fileio::{PathInfoSource, read};
use fathom_lab::clock;

/// Peak resident set size (VmHWM), including mapped file pages.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn memory_use_is_independent_of_file_size() {
    // Forgets the peak of earlier tests in this process, see proc_pid_clear_refs(5).
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let file = tempfile::NamedTempFile::new().unwrap();
    // Mapped holes count as resident like any other pages.
    file.as_file().set_len(300 << 20).unwrap();
    let source = PathInfoSource::open(file.path()).unwrap();
    let cases = [(Way::Pread, BLOCK, 4), (Way::Map, BLOCK, 4), (Way::Map, BLOCK_MAX, 1)];
    for (way, block, threads) in cases {
        let request = ReadRequest { block, threads, ..ReadRequest::whole(way) };
        let outcome = read(&source, &request, &clock()).unwrap();
        assert_eq!((outcome.sum.bytes, outcome.sum.position), (300 << 20, 0));
        assert!(peak() <= 256 << 20, "{request:?}: {} bytes", peak());
    }
}
