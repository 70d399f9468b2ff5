use super::*;
use crate::path_info::PathInfoSource;
use crate::read::{ReadRequest, Way};

#[test]
fn range_counts_as_cached_with_one_page_of_twenty_missing() {
    let bytes = 20 * page() as u64;
    assert!(is_nearly_all(20, bytes) && is_nearly_all(19, bytes));
    assert!(!is_nearly_all(18, bytes));
}

#[test]
fn zero_never_agrees_with_a_count() {
    assert!(agree(0, 0, 1));
    assert!(!agree(0, 1, 1_000_000), "one page on overlayfs");
    assert!(!agree(1, 0, 1_000_000));
    assert!(agree(1, TOLERANCE_PAGES + 1, 100));
    assert!(!agree(1, TOLERANCE_PAGES + 2, 100));
    assert!(agree(1_000_000, 990_001, 1_000_000));
    assert!(!agree(1_000_000, 989_999, 1_000_000));
}

#[test]
fn windows_cover_first_to_last_page() {
    let bytes = (100 << 30) + 12345;
    let windows = windows(bytes, WINDOW);
    assert_eq!(windows.len() as u64, WINDOWS);
    assert!(windows.iter().all(|(at, length)| at % page() as u64 == 0 && at + length <= bytes));
    let (at, length) = windows[windows.len() - 1];
    assert!(bytes - at - length < WINDOWS * page() as u64);
}

#[test]
fn cached_bytes_never_exceed_the_file() {
    let of = |cache| {
        let stat = CacheStat { cache, ..CacheStat::default() };
        Residency::counted(3 * page() as u64 - 1, stat, CountedBy::Both)
    };
    assert_eq!((of(0).state, of(0).cached), (ResidencyState::Cold, 0));
    assert_eq!(of(1).state, ResidencyState::Mixed { share: 1.0 / 3.0 });
    assert_eq!((of(3).state, of(3).cached), (ResidencyState::Warm, 3 * page() as u64 - 1));
    let two_of_each = CacheStat { cache: 3, dirty: 2, writeback: 1, ..CacheStat::default() };
    let found = Residency::counted(8 * page() as u64, two_of_each, CountedBy::Cachestat);
    let pages = [found.cached, found.dirty, found.writeback].map(|it| it / page() as u64);
    assert_eq!((pages, found.counted_by), ([3, 2, 1], CountedBy::Cachestat));
}

#[test]
fn states_and_counters_have_names() {
    let why = UnknownReason::Empty;
    let states = [
        ResidencyState::Cold,
        ResidencyState::Mixed { share: 0.5 },
        ResidencyState::Warm,
        ResidencyState::Unknown { why },
    ];
    assert_eq!(states.map(|state| state.name()), ["cold", "mixed", "warm", "unknown"]);
    let [both, cachestat] = [CountedBy::Both, CountedBy::Cachestat];
    let counters = [both, cachestat, CountedBy::Mincore, CountedBy::Reads, CountedBy::Neither];
    let [both, cachestat] = ["cachestat and mincore agree", "by cachestat"];
    let [mincore, reads] = ["by mincore", "by reads that do not wait"];
    assert_eq!(counters.map(CountedBy::describe), [both, cachestat, mincore, reads, "not counted"]);
}

#[test]
fn windows_of_the_smallest_large_file_are_apart() {
    let above = windows(WHOLE_MAX + 1, WINDOW);
    assert_eq!((above.len(), above[0]), (16, (0, WINDOW)));
    let page = page() as u64;
    let apart = (WHOLE_MAX + 1 - WINDOW) / 15 / page * page;
    assert_eq!((above[1].0, above[15].0), (apart, 15 * apart));
}

#[test]
fn overlay_is_counted_by_mincore() {
    let of = |cachestat, mincore| {
        let bytes = 3 * page() as u64;
        let found = unsettled(bytes, UnknownReason::Disagreement { cachestat, mincore });
        (found.state, found.cached / page() as u64, found.counted_by)
    };
    assert_eq!(of(0, 3), (ResidencyState::Warm, 3, CountedBy::Mincore));
    let why = UnknownReason::Disagreement { cachestat: 1, mincore: 3 };
    assert_eq!(of(1, 3), (ResidencyState::Unknown { why }, 0, CountedBy::Neither));
}

#[test]
fn uncached_ranges_are_sorted_and_joined() {
    let look = ResidencyLook::default();
    assert!(look.uses_reads());
    look.was_read(3 * page() as u64);
    [80..90, 10..20, 20..30, 40..50].into_iter().for_each(|range| look.missed(range));
    assert!(!look.uses_reads(), "counts from the first miss on");
    let bytes = 8 * page() as u64;
    let (found, uncached) = look.result(bytes, CountedBy::Both);
    assert_eq!(uncached, [10..30, 40..50, 80..90]);
    assert_eq!((found.cached, found.counted_by), (3 * page() as u64, CountedBy::Reads));
    let (found, uncached) = ResidencyLook::default().result(bytes, CountedBy::Both);
    assert_eq!((found.state, found.counted_by), (ResidencyState::Cold, CountedBy::Both));
    assert!(uncached.is_empty());
}

#[test]
fn uncached_hole_is_one_piece_and_left_to_the_caller() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    assert_eq!(pieces(file.as_file(), 1 << 20), Some(vec![(0..4 << 20, false)]));
    let stopped = warm(file.as_file(), &AtomicBool::new(true)).unwrap();
    assert_eq!((stopped.bytes, stopped.state), (4 << 20, ResidencyState::Cold));
    let source = PathInfoSource::open(file.path()).unwrap();
    // A read that may not wait fills a hole with zeroes: only the first finds it uncached.
    for way in [Way::Map, Way::Pread] {
        let look = ResidencyLook::default();
        let request = ReadRequest { look: Some(&look), threads: 2, ..ReadRequest::whole(way) };
        let read = crate::read(&source, &request, &fathom_lab::clock()).unwrap();
        let (_, uncached) = look.result(4 << 20, CountedBy::Both);
        let left: u64 = uncached.iter().map(|range| range.end - range.start).sum();
        assert_eq!(read.sum.bytes + left, 4 << 20, "{way:?}");
        assert!(way == Way::Pread || left == 4 << 20, "{uncached:?}");
    }
}

#[test]
fn memory_file_is_one_cached_piece() {
    let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 3 << 20], 0).unwrap();
    assert_eq!(pieces(&file, 1 << 20), Some(vec![(0..3 << 20, true)]));
}

#[test]
#[ignore = "lab: pages must stay cached or evicted"]
fn half_cached_file_is_in_two_pieces() {
    let (file, half) = (&tempfile::tempfile_in("/var/tmp").unwrap(), 8 << 20);
    std::os::unix::fs::FileExt::write_all_at(file, &vec![1; 2 * half as usize], 0).unwrap();
    if evict(file).unwrap().state != ResidencyState::Cold {
        println!("skipped: /var/tmp keeps its pages in memory");
        return;
    }
    assert_eq!(pieces(file, half), Some(vec![(0..2 * half, false)]));
    // Random access: no readahead into the second half.
    fadvise(file, 0, None, Advice::Random).unwrap();
    let mut block = vec![0; half as usize];
    rustix::io::pread(file, &mut block, 0).unwrap();
    assert_eq!(cached_pages(file, 0, half), Ok(half / page() as u64));
    assert_eq!(pieces(file, half), Some(vec![(0..half, true), (half..2 * half, false)]));
    assert_eq!(residency_of(file).state, ResidencyState::Mixed { share: 0.5 });
    assert_eq!(warm(file, &AtomicBool::new(false)).unwrap().state, ResidencyState::Warm);
    assert_eq!(pieces(file, half), Some(vec![(0..2 * half, true)]));
}
