//! `read_fast`: whatever is cached, the sums are right and each byte is read once.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;

use fathom_fileio::fast::{
    DataSource, FastOptions, FastOutcome, FastPart, GENERATED_MAX, read_fast,
};
use fathom_fileio::read::{NEVER_STOP, Way};
use fathom_fileio::residency::{self, CountedBy, ResidencyState};
use fathom_fileio::{FileGenerator, PathInfoSource, XorSum};
use fathom_lab::clock;
use rustix::fs::{Advice, fadvise};

fn options(stop: &AtomicBool) -> FastOptions<'_> {
    let (way, threads, block, keep_going) = (None, None, None, false);
    FastOptions { way, threads, cpus: 2, block, keep_going, stop }
}

/// A synced file of generated data, with its sums.
fn made(length: usize) -> (tempfile::NamedTempFile, XorSum) {
    let mut bytes = vec![0; length];
    FileGenerator::new(11).fill(0, &mut bytes);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&bytes, 0).unwrap();
    file.as_file().sync_all().unwrap();
    (file, XorSum::over(&bytes))
}

fn read_file(file: &tempfile::NamedTempFile, options: &FastOptions<'_>) -> FastOutcome {
    let source = PathInfoSource::open(file.path()).unwrap();
    read_fast(&source, options, &clock()).unwrap()
}

fn is_on_device(file: &tempfile::NamedTempFile) -> bool {
    let is = fathom_fileio::inspect(file.path()).unwrap().is_on_device() == Some(true);
    if !is {
        println!("skipped: the temporary folder is not on a device");
    }
    is
}

/// A terminal to which nothing is written, and a file without an end.
#[test]
fn file_that_never_ends_is_not_waited_for() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).and_then(|()| unlockpt(&controller)).unwrap();
    let terminal = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    for (path, bytes, has_no_data) in
        [(terminal.as_str(), 0, true), ("/dev/zero", GENERATED_MAX, false)]
    {
        let source = PathInfoSource::open(std::path::Path::new(path)).unwrap();
        let fast = read_fast(&source, &options(&NEVER_STOP), &clock()).unwrap();
        assert_eq!((fast.sum.bytes, fast.has_no_data), (bytes, has_no_data), "{path}: {fast:?}");
        assert_eq!((fast.stopped, fast.faults.len()), (has_no_data, 0), "{path}");
    }
}

/// As many bytes as are counted while they are read, most of them a hole.
#[test]
fn large_file_is_read_once_whatever_is_cached() {
    let (file, data) = made(8 << 20);
    let length = (257 << 20) + 5;
    file.as_file().set_len(length).unwrap();
    // Zeroes change no sum.
    let sum = XorSum { bytes: length, ..data };
    for way in [None, Some(Way::Map)] {
        residency::warm(file.as_file(), &NEVER_STOP).unwrap();
        let evicted = NonZeroU64::new(8 << 20);
        for at in [4 << 20, 100 << 20, 200 << 20] {
            fadvise(file.as_file(), at, evicted, Advice::DontNeed).unwrap();
        }
        let fast = read_file(&file, &FastOptions { way, ..options(&NEVER_STOP) });
        assert_eq!(fast.sum, sum, "{way:?}");
        assert_eq!(fast.parts.iter().map(|part| part.bytes).sum::<u64>(), length, "{way:?}");
        assert!(fast.before.is_some() && !fast.stopped && fast.ended_at.is_none(), "{fast:?}");
    }
}

#[test]
#[ignore = "lab: pages must stay cached or evicted"]
fn cached_file_is_read_with_the_fastest_trial() {
    let (file, sum) = made((300 << 20) + 5);
    residency::warm(file.as_file(), &NEVER_STOP).unwrap();
    let fast = read_file(&file, &options(&NEVER_STOP));
    assert_eq!(fast.sum, sum);
    let before = fast.before.unwrap();
    assert_eq!((before.state, before.cached), (ResidencyState::Warm, sum.bytes), "{before:?}");
    assert_eq!(before.counted_by, CountedBy::Reads);
    assert!(fast.parts.iter().all(|part| part.from == DataSource::Memory), "{:?}", fast.parts);
    let trials: Vec<_> = fast.parts.iter().filter(|part| part.is_trial).collect();
    assert_eq!(trials.len(), 2, "{:?}", fast.parts);
    let best = trials.iter().max_by(|a, b| a.best.total_cmp(&b.best)).unwrap();
    let rest: Vec<_> = fast.parts.iter().filter(|part| !part.is_trial).collect();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].method, best.method, "the fastest trial reads the rest");
    assert_eq!(fast.parts.iter().map(|part| part.bytes).sum::<u64>(), sum.bytes);
}

/// Which trial is the fastest decides what reads the cached rest: a fixed method tests each.
#[test]
#[ignore = "lab: pages must stay cached or evicted"]
fn large_file_with_evicted_ranges_is_read_from_both_sources() {
    let (file, sum) = made(300 << 20);
    if !is_on_device(&file) {
        return;
    }
    for way in [Some(Way::Pread), Some(Way::Map), None] {
        residency::warm(file.as_file(), &NEVER_STOP).unwrap();
        // 8 MiB in every 32, at the end of a chunk of the threads.
        let evicted = NonZeroU64::new(8 << 20);
        for at in (24 << 20..288 << 20).step_by(32 << 20) {
            fadvise(file.as_file(), at, evicted, Advice::DontNeed).unwrap();
        }
        let fast = read_file(&file, &FastOptions { way, ..options(&NEVER_STOP) });
        assert_eq!(fast.sum, sum, "{way:?}");
        let from = |from| {
            let parts = fast.parts.iter().filter(move |part| part.from == from);
            parts.map(|part| part.bytes).sum::<u64>()
        };
        let device = 9 * (8 << 20);
        assert_eq!(from(DataSource::Device), device, "{way:?} {:?}", fast.parts);
        let is_direct =
            |part: &FastPart| part.from != DataSource::Device || part.method.way.is_direct();
        let any = way.is_some() || !fast.unavailable.is_empty();
        assert!(any || fast.parts.iter().all(is_direct), "{:?}", fast.parts);
        assert_eq!(from(DataSource::Memory), sum.bytes - device, "{way:?}");
        let before = fast.before.unwrap();
        assert_eq!(before.cached, sum.bytes - device, "{way:?}");
        assert!(matches!(before.state, ResidencyState::Mixed { .. }), "{way:?} {before:?}");
    }
}

#[test]
fn sums_are_right_for_small_files_and_fixed_methods() {
    for length in [0, 1, 5, 4096, 1_000_003, 9 << 20] {
        let (file, sum) = made(length);
        residency::evict(file.as_file()).unwrap();
        assert_eq!(read_file(&file, &options(&NEVER_STOP)).sum, sum, "{length}");
        for way in [Way::Pread, Way::Map] {
            let fixed = FastOptions { way: Some(way), ..options(&NEVER_STOP) };
            let fast = read_file(&file, &fixed);
            assert_eq!(fast.sum, sum, "{length} {way:?}");
            assert!(fast.parts.iter().all(|part| part.method.way == way));
        }
    }
}

#[test]
fn stop_ends_the_read() {
    let (file, _) = made(40 << 20);
    let stop = AtomicBool::new(true);
    let fast = read_file(&file, &options(&stop));
    assert!(fast.stopped);
    assert!(fast.sum.bytes < 40 << 20, "{}", fast.sum.bytes);
}

#[test]
fn file_of_unknown_size_is_read_to_its_end() {
    let source = PathInfoSource::open(std::path::Path::new("/proc/cpuinfo")).unwrap();
    let fast = read_fast(&source, &options(&NEVER_STOP), &clock()).unwrap();
    assert!(fast.sum.bytes > 100);
}

#[test]
fn holes_do_not_count_as_device_reads() {
    let file = tempfile::NamedTempFile::new().unwrap();
    File::options().write(true).open(file.path()).unwrap().set_len(10 << 20).unwrap();
    let fast = read_file(&file, &options(&NEVER_STOP));
    assert_eq!((fast.sum.xor, fast.sum.bytes), (0, 10 << 20));
    assert!(fast.parts.iter().all(|part| part.from != DataSource::Device), "{:?}", fast.parts);
}
