//! Reading by the quickest way: whatever is in memory and whatever is not, the sums are those of
//! the file, and each byte is read once.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;

use fathom_fileio::fast::{Fast, From, Options, fast};
use fathom_fileio::read::{NEVER, Way};
use fathom_fileio::{Generator, Source, Sum, residency};
use fathom_lab::clock;
use rustix::fs::{Advice, fadvise};

fn options(stop: &AtomicBool) -> Options<'_> {
    let (way, threads, block, keep_going) = (None, None, None, false);
    Options { way, threads, cpus: 2, block, keep_going, stop }
}

/// A synced file of generated data, with its sums.
fn made(length: usize) -> (tempfile::NamedTempFile, Sum) {
    let mut bytes = vec![0; length];
    Generator::new(11).fill(0, &mut bytes);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&bytes, 0).unwrap();
    file.as_file().sync_all().unwrap();
    (file, Sum::of(&bytes))
}

fn read_fast(file: &tempfile::NamedTempFile, options: &Options<'_>) -> Fast {
    let source = Source::open(file.path()).unwrap();
    fast(&source, options, &clock()).unwrap()
}

/// Whether files here can be cold at all.
fn is_on_device(file: &tempfile::NamedTempFile) -> bool {
    let is = fathom_fileio::look(file.path()).unwrap().is_on_device() == Some(true);
    if !is {
        println!("skipped: files for temporary use lie on no device here");
    }
    is
}

#[test]
fn a_file_in_memory_is_read_from_there_and_the_ways_are_tried_on_it() {
    let (file, sum) = made((300 << 20) + 5);
    residency::warm(file.as_file(), &NEVER).unwrap();
    let fast = read_fast(&file, &options(&NEVER));
    assert_eq!(fast.sum, sum);
    assert!(fast.parts.iter().all(|part| part.from == From::Memory), "{:?}", fast.parts);
    let trials: Vec<_> = fast.parts.iter().filter(|part| part.is_trial).collect();
    assert_eq!(trials.len(), 2, "{:?}", fast.parts);
    let best = trials.iter().max_by(|a, b| a.rate().total_cmp(&b.rate())).unwrap();
    let rest: Vec<_> = fast.parts.iter().filter(|part| !part.is_trial).collect();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].choice, best.choice, "the quickest of those tried reads the rest");
    assert_eq!(fast.parts.iter().map(|part| part.bytes).sum::<u64>(), sum.bytes);
}

#[test]
fn each_piece_of_a_mixed_file_comes_from_where_it_is() {
    let (file, sum) = made(96 << 20);
    if !is_on_device(&file) {
        return;
    }
    residency::warm(file.as_file(), &NEVER).unwrap();
    let (from, length) = (32 << 20, NonZeroU64::new(32 << 20));
    fadvise(file.as_file(), from, length, Advice::DontNeed).unwrap();
    let fast = read_fast(&file, &options(&NEVER));
    assert_eq!(fast.sum, sum);
    let of = |from| {
        let parts = fast.parts.iter().filter(move |part| part.from == from);
        parts.map(|part| part.bytes).sum::<u64>()
    };
    assert_eq!((of(From::Memory), of(From::Device)), (64 << 20, 32 << 20), "{:?}", fast.parts);
    let is_past = |way: Way| matches!(way, Way::Direct | Way::Ring { .. });
    let device = fast.parts.iter().find(|part| part.from == From::Device).unwrap();
    if fast.refused.is_empty() {
        assert!(is_past(device.choice.way), "{device:?}");
        let left = residency::of(file.as_file());
        assert!(left.cached <= 65 << 20, "what was not in memory still is not: {left:?}");
    }
}

#[test]
fn a_cold_file_small_files_and_fixed_ways_give_the_same_sums() {
    for length in [0, 1, 5, 4096, 1_000_003, 9 << 20] {
        let (file, sum) = made(length);
        residency::evict(file.as_file()).unwrap();
        assert_eq!(read_fast(&file, &options(&NEVER)).sum, sum, "{length}");
        for way in [Way::Pread, Way::Map] {
            let fixed = Options { way: Some(way), ..options(&NEVER) };
            let fast = read_fast(&file, &fixed);
            assert_eq!(fast.sum, sum, "{length} {way:?}");
            assert!(fast.parts.iter().all(|part| part.choice.way == way));
        }
    }
}

#[test]
fn one_that_is_told_to_stop_reads_next_to_nothing() {
    let (file, _) = made(40 << 20);
    let stop = AtomicBool::new(true);
    let fast = read_fast(&file, &options(&stop));
    assert!(fast.stopped);
    assert!(fast.sum.bytes < 40 << 20, "{}", fast.sum.bytes);
}

#[test]
fn a_file_of_unknown_size_is_read_to_its_end() {
    let source = Source::open(std::path::Path::new("/proc/cpuinfo")).unwrap();
    let fast = fast(&source, &options(&NEVER), &clock()).unwrap();
    assert!(fast.sum.bytes > 100);
}

#[test]
fn holes_are_not_called_a_device() {
    let file = tempfile::NamedTempFile::new().unwrap();
    File::options().write(true).open(file.path()).unwrap().set_len(10 << 20).unwrap();
    let fast = read_fast(&file, &options(&NEVER));
    assert_eq!((fast.sum.xor, fast.sum.bytes), (0, 10 << 20));
    assert!(fast.parts.iter().all(|part| part.from != From::Device), "{:?}", fast.parts);
}
