//! All ways of reading give one answer, whatever the blocks, the threads and the place.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::read::{BLOCK, Bypass, Change, Outcome, ReadError, Request, Way};
use fathom_fileio::{Generator, Source, Sum, read, residency};
use fathom_lab::clock;
use tempfile::NamedTempFile;

fn file_of(length: usize) -> (NamedTempFile, Vec<u8>) {
    let mut bytes = vec![0; length];
    Generator::new(length as u64).fill(0, &mut bytes);
    let file = NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&bytes, 0).unwrap();
    (file, bytes)
}

/// Reads, or says why that way is not to be had here.
fn tried(path: &Path, request: &Request<'_>) -> Option<Outcome> {
    let source = Source::open(path).unwrap();
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

fn is_past_cache(way: Way) -> bool {
    matches!(way, Way::Direct | Way::Ring { .. })
}

fn same(path: &Path, bytes: &[u8], range: Option<Range<u64>>, block: usize, threads: usize) {
    let covered = range.clone().unwrap_or(0..bytes.len() as u64);
    let wanted = Sum::of(&bytes[covered.start as usize..covered.end as usize]);
    for way in WAYS {
        let is_one_by_one = matches!(way, Way::Calls { .. });
        if (is_past_cache(way) && !block.is_multiple_of(4096)) || (is_one_by_one && threads > 1) {
            continue;
        }
        let range = range.clone();
        let request = Request { range, block, threads, ..Request::whole(way) };
        let Some(outcome) = tried(path, &request) else { continue };
        assert_eq!(outcome.sum, wanted, "{request:?}");
        assert!(outcome.faults.is_empty() && outcome.ended_at.is_none(), "{outcome:?}");
        assert!(!outcome.stopped && outcome.changed.is_none(), "{outcome:?}");
        assert!(bytes.is_empty() || outcome.ns > 0.0);
    }
}

#[test]
fn all_ways_give_one_answer_over_blocks_and_threads() {
    let (file, bytes) = file_of(9_000_001);
    for block in [4096, 65536, 256 << 10, 5 << 20, 16 << 20] {
        for threads in [1, 2, 5] {
            same(file.path(), &bytes, None, block, threads);
        }
    }
    for block in [1000, 4097, 99_999] {
        same(file.path(), &bytes, None, block, 2);
        same(file.path(), &bytes, None, block, 1);
    }
}

#[test]
fn all_ways_give_one_answer_for_small_files_and_odd_lengths() {
    for length in [0, 1, 2, 3, 4, 5, 511, 512, 513, 4095, 4096, 4097, 8191, 8193, 100_000] {
        let (file, bytes) = file_of(length);
        for block in [1, 7, 4096, 8192] {
            if length < 10_000 || block > 1 {
                same(file.path(), &bytes, None, block, 1);
                same(file.path(), &bytes, None, block, 3);
            }
        }
    }
}

#[test]
fn all_ways_give_one_answer_for_parts_at_any_byte() {
    let (file, bytes) = file_of(600_003);
    let ends = [0, 1, 3, 511, 4095, 4096, 4097, 123_457, 262_144, 262_145, 600_000, 600_003];
    for (at, from) in ends.iter().enumerate() {
        for to in &ends[at..] {
            for block in [4096, 65536] {
                same(file.path(), &bytes, Some(*from..*to), block, 2);
                same(file.path(), &bytes, Some(*from..*to), block, 1);
            }
            same(file.path(), &bytes, Some(*from..*to), 1001, 1);
        }
    }
}

#[test]
fn a_sparse_file_is_zeroes() {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(5_000_000).unwrap();
    file.as_file().write_all_at(b"abcd", 4_000_000).unwrap();
    let mut bytes = vec![0; 5_000_000];
    bytes[4_000_000..4_000_004].copy_from_slice(b"abcd");
    same(file.path(), &bytes, None, 65536, 2);
    same(file.path(), &bytes, None, 65536, 1);
}

#[test]
fn so_many_calls_of_so_many_bytes_are_made_and_no_more() {
    let (file, bytes) = file_of(1_000_000);
    for (block, count) in
        [(1, 1), (1, 300_000), (3, 5), (7, 200_000), (4096, 10), (300_000, 9), (1, 0)]
    {
        let way = Way::Calls { count: Some(count) };
        let request = Request { block, ..Request::whole(way) };
        let outcome = tried(file.path(), &request).unwrap();
        let length = (block as u64 * count).min(1_000_000);
        assert_eq!(outcome.calls, count, "blocks of {block}");
        assert_eq!(outcome.sum, Sum::of(&bytes[..length as usize]), "{count} of {block}");
        assert_eq!(outcome.fallbacks, 0);
    }
    // Until the end: all blocks, and the call that finds the end; a short one was at the end.
    let request = Request { block: 4096, ..Request::whole(Way::Calls { count: None }) };
    let outcome = tried(file.path(), &request).unwrap();
    assert_eq!(outcome.calls, 1_000_000_u64.div_ceil(4096) + 1);
    assert_eq!(outcome.sum, Sum::of(&bytes));
}

#[test]
fn a_device_without_end_is_read_by_counted_calls() {
    let way = Way::Calls { count: Some(1000) };
    let request = Request { block: 1000, ..Request::whole(way) };
    let outcome = tried(Path::new("/dev/zero"), &request).unwrap();
    assert_eq!((outcome.sum.bytes, outcome.calls), (1_000_000, 1000));
    assert_eq!((outcome.sum.xor, outcome.ended_at), (0, None));
    let source = Source::open(Path::new("/dev/zero")).unwrap();
    for way in [Way::Pread, Way::Map, Way::Direct] {
        let error = read(&source, &Request::whole(way), &clock()).unwrap_err();
        assert!(matches!(error, ReadError::Invalid(_)), "{way:?}: {error}");
    }
}

#[test]
fn a_file_that_the_kernel_writes_while_it_is_read_has_its_bytes() {
    let path = Path::new("/proc/version");
    let bytes = std::fs::read(path).unwrap();
    for way in [Way::Pread, Way::Calls { count: None }] {
        for block in [1, 10, 4096] {
            let outcome = tried(path, &Request { block, ..Request::whole(way) }).unwrap();
            assert_eq!(outcome.sum, Sum::of(&bytes), "{way:?}");
            assert_eq!(outcome.ended_at, None);
        }
    }
    let source = Source::open(path).unwrap();
    assert!(read(&source, &Request::whole(Way::Map), &clock()).is_err());
}

#[test]
fn a_stop_is_obeyed_at_once_by_every_way() {
    let (file, _) = file_of(32 << 20);
    let stop = AtomicBool::new(true);
    for way in WAYS {
        for threads in [1, 2] {
            if threads > 1 && matches!(way, Way::Calls { .. }) {
                continue;
            }
            let request = Request { stop: &stop, threads, ..Request::whole(way) };
            let Some(outcome) = tried(file.path(), &request) else { continue };
            assert!(outcome.stopped, "{way:?}");
            assert!(outcome.sum.bytes <= 2 << 20, "{way:?}: {}", outcome.sum.bytes);
        }
    }
}

#[test]
fn a_stop_on_the_way_ends_an_endless_read() {
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let request = Request { stop: &stop, ..Request::whole(Way::Calls { count: None }) };
            tried(Path::new("/dev/zero"), &request)
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap().unwrap()
    });
    assert!(outcome.stopped);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_read() {
    let (file, _) = file_of(10_000);
    let source = Source::open(file.path()).unwrap();
    let whole = Request::whole(Way::Pread);
    let direct = Request::whole(Way::Direct);
    let calls = Request::whole(Way::Calls { count: None });
    for request in [
        Request { block: 0, ..whole.clone() },
        Request { block: usize::MAX, ..whole.clone() },
        Request { threads: 0, ..whole.clone() },
        Request { threads: 1 << 20, block: 1 << 20, ..whole.clone() },
        Request { range: Some(Range { start: 5, end: 4 }), ..whole },
        Request { threads: 2, ..calls },
        Request { block: 1000, ..direct },
        Request::whole(Way::Ring { depth: 0 }),
        Request::whole(Way::Ring { depth: 5000 }),
    ] {
        match read(&source, &request, &clock()) {
            Err(ReadError::Invalid(_)) => {}
            Err(ReadError::Unavailable { way, why }) => println!("skipped: {way}: {why}"),
            other => panic!("{request:?}: {other:?}"),
        }
    }
}

/// A reader that the file changes under: what it is told.
fn changed_by(path: &Path, change: impl Fn() + Sync) -> Option<Change> {
    // A read of a FIFO of our own would be simpler; a slow reader is a stop that comes late.
    let request = Request { block: 1, ..Request::whole(Way::Calls { count: Some(3_000_000) }) };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| tried(path, &request).unwrap().changed);
        std::thread::sleep(std::time::Duration::from_millis(30));
        change();
        reader.join().unwrap()
    })
}

#[test]
fn a_file_that_changes_while_it_is_read_is_told() {
    let (file, _) = file_of(5_000_000);
    let change = changed_by(file.path(), || file.as_file().write_all_at(b"x", 77).unwrap());
    assert!(change.is_some_and(|change| change.modified && change.size.0 == change.size.1));
    let change = changed_by(file.path(), || file.as_file().set_len(1_000_000).unwrap());
    assert_eq!(change.unwrap().size, (5_000_000, 1_000_000));
    let change = changed_by(file.path(), || {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        file.as_file().set_permissions(mode).unwrap();
    });
    assert!(change.is_some_and(|change| change.touched && !change.modified));
    assert_eq!(changed_by(file.path(), || {}), None);
}

#[test]
fn a_read_past_the_cache_leaves_a_cold_file_cold() {
    let (file, bytes) = file_of(8 << 20);
    for way in [Way::Direct, Way::Ring { depth: 8 }] {
        let left = residency::evict(file.as_file()).unwrap();
        if left.state != residency::State::Cold {
            println!("skipped: the file cannot be taken out of memory here: {left:?}");
            return;
        }
        let Some(outcome) = tried(file.path(), &Request::whole(way)) else { continue };
        assert_eq!(outcome.sum, Sum::of(&bytes));
        assert_eq!(outcome.bypass, Some(Bypass::Real), "{way:?}");
        let outcome = tried(file.path(), &Request::whole(Way::Pread)).unwrap();
        assert_eq!(outcome.bypass, None);
        let outcome = tried(file.path(), &Request::whole(way)).unwrap();
        assert_eq!(outcome.bypass, Some(Bypass::Unknown), "it was warm");
    }
}

#[test]
fn a_stop_is_seen_between_two_small_calls() {
    let source = Source::open(Path::new("/dev/zero")).unwrap();
    let way = Way::Calls { count: Some(u64::MAX) };
    let calls = loop {
        let stop = AtomicBool::new(false);
        let request = Request { block: 1, stop: &stop, ..Request::whole(way) };
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                stop.store(true, Ordering::Relaxed);
            });
            read(&source, &request, &clock()).unwrap()
        });
        if outcome.calls > 0 {
            assert!(outcome.stopped);
            break outcome.calls;
        }
    };
    // A buffer that was filled to its end would be a multiple of this.
    assert!(!calls.is_multiple_of(BLOCK as u64), "{calls} calls");
}
