//! All methods of reading give the same sums, for any block size, threads and range.

use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use fathom_fileio::path_info::PathInfoChange;
use fathom_fileio::read::{Bypass, ReadError, ReadOutcome, ReadRequest, Way};
use fathom_fileio::{FileGenerator, PathInfoSource, XorSum, read};
use fathom_lab::clock;
use rustix::process::Pid;
use rustix::thread::gettid;
use tempfile::NamedTempFile;

fn file_of(length: usize) -> (NamedTempFile, Vec<u8>) {
    let mut bytes = vec![0; length];
    FileGenerator::new(length as u64).fill(0, &mut bytes);
    let file = NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&bytes, 0).unwrap();
    (file, bytes)
}

/// Reads, or prints why the method is unavailable here.
fn read_path(path: &Path, request: &ReadRequest<'_>) -> Option<ReadOutcome> {
    let source = PathInfoSource::open(path).unwrap();
    match read(&source, request, &clock()) {
        Ok(outcome) => Some(outcome),
        Err(ReadError::Unavailable { way, why }) => {
            println!("skipped: {way}: {why}");
            None
        }
        Err(error) => panic!("{request:?}: {error}"),
    }
}

const WAYS: [Way; 5] =
    [Way::Pread, Way::Map, Way::Direct, Way::Ring { depth: 3 }, Way::Calls { count: None }];

fn check(path: &Path, bytes: &[u8], range: Option<Range<u64>>, block: usize, threads: usize) {
    let covered = range.clone().unwrap_or(0..bytes.len() as u64);
    let expected = XorSum::over(&bytes[covered.start as usize..covered.end as usize]);
    for way in WAYS {
        let is_sequential = matches!(way, Way::Calls { .. });
        if (way.is_direct() && !block.is_multiple_of(4096)) || (is_sequential && threads > 1) {
            continue;
        }
        let range = range.clone();
        let request = ReadRequest { range, block, threads, ..ReadRequest::whole(way) };
        let Some(outcome) = read_path(path, &request) else { continue };
        assert_eq!(outcome.sum, expected, "{request:?}");
        assert!(outcome.faults.is_empty() && outcome.ended_at.is_none(), "{outcome:?}");
        assert!(!outcome.stopped && outcome.changed.is_none(), "{outcome:?}");
        assert!(bytes.is_empty() || outcome.ns > 0.0);
    }
}

#[test]
fn all_block_sizes_and_threads_agree() {
    let (file, bytes) = file_of(5_000_001);
    for block in [4096, 65536, 2 << 20, 16 << 20] {
        for threads in [1, 3] {
            check(file.path(), &bytes, None, block, threads);
        }
    }
    for (block, threads) in [(1000, 1), (4097, 2), (99_999, 2)] {
        check(file.path(), &bytes, None, block, threads);
    }
}

#[test]
fn small_files_and_odd_lengths_agree() {
    for length in [0, 1, 2, 3, 4, 5, 511, 512, 513, 4095, 4096, 4097, 8191, 8193, 100_000] {
        let (file, bytes) = file_of(length);
        for block in [1, 7, 4096, 8192] {
            if length < 10_000 || block > 1 {
                check(file.path(), &bytes, None, block, 1);
                check(file.path(), &bytes, None, block, 3);
            }
        }
    }
}

#[test]
fn ranges_at_any_byte_agree() {
    let (file, bytes) = file_of(300_003);
    let ends = [0, 1, 511, 4096, 4097, 123_457, 262_144, 300_003];
    for (at, from) in ends.iter().enumerate() {
        for to in &ends[at..] {
            for (block, threads) in [(4096, 1), (65536, 2), (1001, 1)] {
                check(file.path(), &bytes, Some(*from..*to), block, threads);
            }
        }
    }
}

#[test]
fn sparse_file_reads_zeroes() {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(5_000_000).unwrap();
    file.as_file().write_all_at(b"abcd", 4_000_000).unwrap();
    let mut bytes = vec![0; 5_000_000];
    bytes[4_000_000..4_000_004].copy_from_slice(b"abcd");
    check(file.path(), &bytes, None, 65536, 2);
    check(file.path(), &bytes, None, 65536, 1);
}

#[test]
fn fixed_number_of_calls_is_made() {
    let (file, bytes) = file_of(1_000_000);
    for (block, count) in
        [(1, 1), (1, 300_000), (3, 5), (70, 20_000), (4096, 10), (300_000, 9), (1, 0)]
    {
        let way = Way::Calls { count: Some(count) };
        let request = ReadRequest { block, ..ReadRequest::whole(way) };
        let outcome = read_path(file.path(), &request).unwrap();
        let length = (block as u64 * count).min(1_000_000);
        assert_eq!(outcome.calls, count, "blocks of {block}");
        assert_eq!(outcome.sum, XorSum::over(&bytes[..length as usize]), "{count} of {block}");
        assert_eq!(outcome.fallbacks, 0);
    }
    // Until the end: all blocks and the call that returns 0.
    let request = ReadRequest { block: 4096, ..ReadRequest::whole(Way::Calls { count: None }) };
    let outcome = read_path(file.path(), &request).unwrap();
    assert_eq!(outcome.calls, 1_000_000_u64.div_ceil(4096) + 1);
    assert_eq!(outcome.sum, XorSum::over(&bytes));
}

#[test]
fn endless_device_needs_a_number_of_calls() {
    let way = Way::Calls { count: Some(1000) };
    let request = ReadRequest { block: 1000, ..ReadRequest::whole(way) };
    let outcome = read_path(Path::new("/dev/zero"), &request).unwrap();
    assert_eq!((outcome.sum.bytes, outcome.calls), (1_000_000, 1000));
    assert_eq!((outcome.sum.xor, outcome.ended_at), (0, None));
    let source = PathInfoSource::open(Path::new("/dev/zero")).unwrap();
    for way in [Way::Pread, Way::Map, Way::Direct] {
        let error = read(&source, &ReadRequest::whole(way), &clock()).unwrap_err();
        assert!(matches!(error, ReadError::Invalid(_)), "{way:?}: {error}");
    }
}

#[test]
fn generated_file_is_read_completely() {
    let path = Path::new("/proc/version");
    let bytes = std::fs::read(path).unwrap();
    for way in [Way::Pread, Way::Calls { count: None }] {
        for block in [1, 10, 4096] {
            let outcome =
                read_path(path, &ReadRequest { block, ..ReadRequest::whole(way) }).unwrap();
            assert_eq!(outcome.sum, XorSum::over(&bytes), "{way:?}");
            assert_eq!(outcome.ended_at, None);
        }
    }
    let source = PathInfoSource::open(path).unwrap();
    assert!(read(&source, &ReadRequest::whole(Way::Map), &clock()).is_err());
    let threads = ReadRequest { threads: 2, ..ReadRequest::whole(Way::Pread) };
    assert!(read(&source, &threads, &clock()).is_err());
}

#[test]
fn stop_ends_every_method_at_once() {
    let (file, _) = file_of(8 << 20);
    let stop = AtomicBool::new(true);
    for way in WAYS {
        for threads in [1, 2] {
            if threads > 1 && matches!(way, Way::Calls { .. }) {
                continue;
            }
            let request = ReadRequest { stop: &stop, threads, ..ReadRequest::whole(way) };
            let Some(outcome) = read_path(file.path(), &request) else { continue };
            assert!(outcome.stopped, "{way:?}");
            assert!(outcome.sum.bytes <= 2 << 20, "{way:?}: {}", outcome.sum.bytes);
        }
    }
}

#[test]
fn invalid_requests_are_refused() {
    let (file, _) = file_of(10_000);
    let source = PathInfoSource::open(file.path()).unwrap();
    let whole = ReadRequest::whole(Way::Pread);
    let direct = ReadRequest::whole(Way::Direct);
    let calls = ReadRequest::whole(Way::Calls { count: None });
    for request in [
        ReadRequest { block: 0, ..whole.clone() },
        ReadRequest { block: usize::MAX, ..whole.clone() },
        ReadRequest { threads: 0, ..whole.clone() },
        ReadRequest { threads: 1 << 20, block: 1 << 20, ..whole.clone() },
        ReadRequest { range: Some(Range { start: 5, end: 4 }), ..whole },
        ReadRequest { threads: 2, ..calls },
        ReadRequest { block: 1000, ..direct },
        ReadRequest::whole(Way::Ring { depth: 0 }),
        ReadRequest::whole(Way::Ring { depth: 5000 }),
    ] {
        match read(&source, &request, &clock()) {
            Err(ReadError::Invalid(_)) => {}
            Err(ReadError::Unavailable { way, why }) => println!("skipped: {way}: {why}"),
            other => panic!("{request:?}: {other:?}"),
        }
    }
}

/// Calls of read(2) and pread(2) of a thread of this process. `None` where they are not counted.
fn reads(thread: Pid) -> Option<u64> {
    let path = format!("/proc/self/task/{}/io", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

fn changed_at(path: &Path) -> (i64, i64) {
    let found = std::fs::metadata(path).unwrap();
    (found.ctime(), found.ctime_nsec())
}

/// Runs `change` during a read, and returns the change that the read reports.
fn changed_by(path: &Path, change: impl Fn()) -> Option<PathInfoChange> {
    let stop = AtomicBool::new(false);
    let way = Way::Calls { count: Some(u64::MAX) };
    let request = ReadRequest { block: 1, stop: &stop, ..ReadRequest::whole(way) };
    // Until the clock of the file system has moved on since the file's last change.
    let (touched, other) = (changed_at(path), NamedTempFile::new().unwrap());
    while changed_at(other.path()) <= touched {
        other.as_file().write_all_at(b"x", 0).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            sender.send(gettid()).unwrap();
            read_path(path, &request).unwrap().changed
        });
        let thread = receiver.recv().unwrap();
        while reads(thread).unwrap() < 1000 {
            std::thread::yield_now();
        }
        change();
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    })
}

#[test]
fn change_during_the_read_is_reported() {
    if reads(gettid()).is_none() {
        println!("skipped: /proc/self/io is not readable");
        return;
    }
    let (file, _) = file_of(5_000_000);
    let change = changed_by(file.path(), || file.as_file().write_all_at(b"x", 77).unwrap());
    assert!(change.is_some_and(|change| change.then.size == change.now.size));
    let change = changed_by(file.path(), || file.as_file().set_len(1_000_000).unwrap());
    assert_eq!(change.unwrap().to_string(), "from 5000000 to 1000000 bytes");
    let change = changed_by(file.path(), || {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        file.as_file().set_permissions(mode).unwrap();
    });
    assert!(change.is_some());
    assert_eq!(changed_by(file.path(), || {}), None);
}

#[test]
fn direct_read_leaves_a_cold_file_cold() {
    let file = NamedTempFile::new().unwrap();
    // Nothing but a read brings the pages of a hole into the page cache.
    file.as_file().set_len(8 << 20).unwrap();
    let zeroes = XorSum { bytes: 8 << 20, ..XorSum::default() };
    for way in [Way::Direct, Way::Ring { depth: 8 }] {
        let Some(outcome) = read_path(file.path(), &ReadRequest::whole(way)) else { continue };
        assert_eq!((outcome.sum, outcome.bypass), (zeroes, Some(Bypass::Confirmed)), "{way:?}");
    }
    let outcome = read_path(file.path(), &ReadRequest::whole(Way::Pread)).unwrap();
    assert_eq!((outcome.sum, outcome.bypass), (zeroes, None));
}
