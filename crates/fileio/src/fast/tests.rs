use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::read::NEVER_STOP;
use crate::residency::UnknownReason;

const MIB: usize = 1 << 20;

fn options(way: Option<Way>, threads: Option<usize>) -> FastOptions<'static> {
    let stop = &NEVER_STOP;
    FastOptions { way, threads, cpus: 2, block: None, keep_going: false, stop }
}

/// A file with this many bytes of data before a hole, in a folder that has holes.
fn sparse(data: usize, length: usize) -> (tempfile::NamedTempFile, PathInfoSource) {
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    file.as_file().write_all_at(&vec![1; data], 0).unwrap();
    file.as_file().set_len(length as u64).unwrap();
    file.as_file().sync_all().unwrap();
    let source = PathInfoSource::open(file.path()).unwrap();
    (file, source)
}

fn reader<'r>(
    source: &'r PathInfoSource,
    options: &'r FastOptions<'r>,
    clock: &'r Clock,
    pool: &'r MemoryPool,
    total: FastOutcome,
) -> FastReader<'r> {
    FastReader { source, options, clock, look: None, pool, total }
}

#[test]
fn fastest_is_a_trial_from_the_same_source() {
    let (_file, source) = sparse(1, 1);
    let (options, clock) = (options(None, None), fathom_lab::clock());
    let method = |way| ReadMethod { way, threads: 1, block: 1 };
    let part = |from, way, bytes: u32, is_trial| FastPart {
        from,
        method: method(way),
        bytes: bytes.into(),
        ns: 2.0,
        cpu_ns: 0,
        best: 5e8 * f64::from(bytes),
        is_trial,
    };
    let parts = vec![
        part(DataSource::Memory, Way::Pread, 300, true),
        part(DataSource::Memory, Way::Map, 200, true),
        part(DataSource::Memory, Way::Map, 900, false),
        part(DataSource::Device, Way::Direct, 500, true),
    ];
    assert_eq!((parts[0].rate(), parts[0].best_rate()), (1.5e11, 1.5e11));
    // From memory, a trial whose threads shared a CPU is compared by its CPU time.
    assert_eq!(FastPart { cpu_ns: 1, ..parts[0].clone() }.best_rate(), 3e11);
    let total = FastOutcome { parts, ..FastOutcome::default() };
    let pool = MemoryPool::default();
    let mut reader = reader(&source, &options, &clock, &pool, total);
    assert_eq!(reader.fastest(DataSource::Memory), Some(method(Way::Pread)));
    assert_eq!(reader.fastest(DataSource::Device), Some(method(Way::Direct)));
    assert_eq!(reader.fastest(DataSource::Unknown), None);
    // A slow stretch does not count.
    let fast = FastPart { best: 9e11, ns: 1e9, ..reader.total.parts[1].clone() };
    reader.total.parts[1].merge(&fast);
    reader.total.parts[1].merge(&FastPart { best: 1.0, ..fast });
    assert_eq!(reader.total.parts[1].bytes, 600);
    assert_eq!(reader.fastest(DataSource::Memory), Some(method(Way::Map)));
    reader.total.parts.retain(|part| !part.is_trial);
    assert_eq!(reader.fastest(DataSource::Memory), None, "no trial");
}

#[test]
fn stretches_of_one_method_and_source_are_one_part() {
    let (_file, source) = sparse(MIB, MIB);
    let (options, clock) = (options(None, None), fathom_lab::clock());
    let total = FastOutcome::default();
    let (source, options, clock) = (&source, &options, &clock);
    let pool = MemoryPool::default();
    let mut reader = reader(source, options, clock, &pool, total);
    let method = |way| ReadMethod { way, threads: 1, block: 4096 };
    let (pread, map) = (method(Way::Pread), method(Way::Map));
    let (memory, half, end) = (DataSource::Memory, MIB as u64 / 2, MIB as u64);
    let mut parts_after = |range, from, method, is_trial| {
        assert!(!reader.stretch(range, from, method, is_trial).unwrap(), "it goes on");
        reader.total.parts.iter().map(|part| part.bytes).collect::<Vec<u64>>()
    };
    assert_eq!(parts_after(0..half, memory, pread, false), [half]);
    assert_eq!(parts_after(half..end, memory, pread, false), [end]);
    assert_eq!(parts_after(0..7, DataSource::Device, pread, false), [end, 7]);
    assert_eq!(parts_after(0..8, memory, map, false), [end, 7, 8]);
    assert_eq!(parts_after(0..9, memory, pread, true), [end, 7, 8, 9], "a trial is apart");
    assert_eq!(parts_after(0..9, memory, pread, true), [end, 7, 8, 18]);
    assert_eq!(parts_after(0..1, memory, pread, false), [end + 1, 7, 8, 18]);
    assert_eq!(reader.total.sum.bytes, end + 34);
}

#[test]
fn trials_from_memory_are_spread_over_the_file() {
    let length = 3 * TRIALS_SHARE * TRIAL_MEMORY;
    let (_file, source) = sparse(1, length as usize + 5);
    let (options, clock) = (options(None, None), fathom_lab::clock());
    let total = FastOutcome::default();
    let (source, options, clock) = (&source, &options, &clock);
    let pool = MemoryPool::default();
    let mut reader = reader(source, options, clock, &pool, total);
    let found = methods(source, options, DataSource::Memory);
    let left = reader.trials(0..length + 5, DataSource::Memory, &found).unwrap().unwrap();
    let span = length / TRIAL_SPANS;
    let starts: Vec<u64> = left.iter().map(|range| range.start).collect();
    let trial = 3 * TRIAL_MEMORY / TRIAL_SPANS;
    assert_eq!(starts, [0, 1].map(|number| number * span + trial));
    assert_eq!(left[1].end, length + 5);
    let tried: Vec<u64> = reader.total.parts.iter().map(|part| part.bytes).collect();
    assert_eq!(tried, [TRIAL_MEMORY; 3], "one part for each method");
    let bytes: u64 = left.iter().map(|range| range.end - range.start).sum();
    assert_eq!(bytes + 3 * TRIAL_MEMORY, length + 5);
    let short = 0..length - GRAIN;
    let left = reader.trials(short.clone(), DataSource::Memory, &found).unwrap();
    assert_eq!(left, Some(vec![short]), "too short for trials");
}

/// Whatever the residency, which is given here: each byte is read once, in its piece's way.
#[test]
fn pieces_are_read_from_their_sources() {
    let (_file, source) = sparse(3 * MIB, 4 * MIB);
    let mut expected = XorSum::over(&vec![1; 3 * MIB]);
    expected.bytes += MIB as u64;
    let stop = AtomicBool::new(false);
    for way in [None, Some(Way::Pread), Some(Way::Map)] {
        let options = FastOptions { stop: &stop, ..options(way, None) };
        let clock = fathom_lab::clock();
        let total = FastOutcome::default();
        let pool = MemoryPool::default();
        let mut reader = reader(&source, &options, &clock, &pool, total);
        let piece = |from: usize, to: usize, of| ((from * MIB) as u64..(to * MIB) as u64, of);
        let (memory, device) = (DataSource::Memory, DataSource::Device);
        let pieces = vec![piece(0, 1, memory), piece(1, 3, device), piece(3, 4, memory)];
        assert!(!reader.pieces(pieces).unwrap(), "it goes on");
        assert_eq!(reader.total.sum, expected, "{way:?}");
        let bytes = reader.total.parts.iter().map(|part| (part.from, part.bytes));
        let of = |from| bytes.clone().filter(|it| it.0 == from).map(|it| it.1).sum::<u64>();
        assert_eq!((of(memory), of(device)), (2 << 20, 2 << 20), "{way:?}");
    }
}

#[test]
fn methods_depend_on_source_and_options() {
    let (_file, source) = sparse(MIB, MIB);
    let of = |way, threads, from| {
        let found = methods(&source, &options(way, threads), from);
        found.into_iter().map(|it| (it.way, it.threads, it.block)).collect::<Vec<_>>()
    };
    let ring = Way::Ring { depth: DEPTH };
    let direct = [(ring, 1, MIB), (Way::Direct, 8, MIB)];
    let buffered = [(Way::Pread, 2, BLOCK), (Way::Map, 2, BLOCK), (Way::Pread, 2, BLOCK_L2)];
    assert_eq!(of(Some(ring), None, DataSource::Memory), direct);
    assert_eq!(of(Some(Way::Map), None, DataSource::Device), buffered[1..2]);
    assert_eq!(of(Some(Way::Direct), Some(3), DataSource::Device), [(Way::Direct, 3, MIB)]);
    assert_eq!(of(None, None, DataSource::Memory), buffered);
    assert_eq!(of(None, None, DataSource::Unknown), buffered[..1]);
    let info = source.info();
    let from_device = of(None, None, DataSource::Device);
    match info.direct != Direct::Refused && info.file_system.class != FilesystemClass::Memory {
        true => assert_eq!(from_device, [direct[0], direct[1], buffered[0]]),
        false => assert_eq!(from_device, buffered[..1]),
    }
    let endless = PathInfoSource::open(Path::new("/dev/zero")).unwrap();
    let found = methods(&endless, &options(Some(Way::Map), Some(4)), DataSource::Unknown);
    let way = Way::Calls { count: None };
    assert_eq!(found, [ReadMethod { way, threads: 1, block: BLOCK }]);
}

#[test]
fn pieces_follow_the_residency() {
    let of = |source: &PathInfoSource, state| {
        let counted_by = CountedBy::Both;
        let whole = Residency { state, bytes: 0, cached: 0, dirty: 0, writeback: 0, counted_by };
        let found = pieces(source, &whole);
        let [(range, from)] = found.as_slice() else { panic!("{found:?}") };
        (range.end, *from)
    };
    let end = 2 * MIB as u64;
    let (_half, half) = sparse(MIB, 2 * MIB);
    assert_eq!(of(&half, ResidencyState::Warm), (end, DataSource::Memory));
    assert_eq!(of(&half, ResidencyState::Cold), (end, DataSource::Device));
    let unknown = ResidencyState::Unknown { why: UnknownReason::NoPermission };
    assert_eq!(of(&half, unknown), (end, DataSource::Unknown));
    let (_less, less) = sparse(MIB / 2, 2 * MIB);
    assert_eq!(of(&less, ResidencyState::Cold), (end, DataSource::Unknown), "holes are no device");
    assert_eq!(of(&less, ResidencyState::Warm), (end, DataSource::Memory));
    let endless = PathInfoSource::open(Path::new("/dev/zero")).unwrap();
    assert_eq!(of(&endless, ResidencyState::Cold), (u64::MAX, DataSource::Unknown));
}
