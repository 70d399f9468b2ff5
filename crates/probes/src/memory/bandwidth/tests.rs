//! The cases of made-up hosts, the models on made-up results, and a visit on this machine.

use fathom_record::host::{Cache, MemoryModule};

use super::*;
use crate::smoke;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn host(cpus: u32) -> Host {
    let mut host = Host::default();
    host.cpu.allowed = (0..cpus).collect();
    host.memory.thp = Some("madvise".to_owned());
    let cache = |level, size_bytes, shared_by: Vec<u32>| Cache {
        level,
        kind: "unified".to_owned(),
        size_bytes,
        shared_by,
        ..Cache::default()
    };
    let all = host.cpu.allowed.clone();
    host.cpu.caches =
        vec![cache(1, 32 * KIB, vec![0]), cache(2, MIB, vec![0]), cache(3, 32 * MIB, all)];
    (host.cpu.architecture, host.cpu.vendor) =
        ("x86_64".to_owned(), Some("AuthenticAMD".to_owned()));
    (host.cpu.family, host.cpu.model_number) = (Some(25), Some(17));
    host
}

fn kind(op: Op, threads: usize, level: Level) -> Kind {
    Kind { op, threads, level, page: Page::Huge }
}

#[test]
fn a_visit_verifies_its_bytes_pages_and_threads() {
    let taken = smoke::take(&Bandwidth);
    let seats = cpu_selection::core_count(&host::read());
    for (case, sample) in taken {
        let threads = case.params.integer("threads").unwrap();
        match sample {
            Ok(sample) => {
                assert!(sample.values.iter().all(|rate| *rate > 1e6), "{:?}", sample.values);
                let names: Vec<&str> = sample.checks.iter().map(|it| it.name.as_str()).collect();
                assert_eq!(names, ["streams", "bytes and pages"]);
            }
            Err(fault) => {
                assert!(threads as usize > seats, "{fault}");
                assert!(fault.to_string().contains("cores of one kind"), "{fault}");
            }
        }
    }
}

#[test]
fn every_operation_in_memory_passes_over_four_caches_by_all_threads_together() {
    for op in Op::ALL {
        for threads in [1_usize, 2, 8] {
            let host = host(8);
            let (array, chunk) =
                array_and_chunk(kind(op, threads, Level::Dram), threads, &host).unwrap();
            let all = threads * op.arrays() * array;
            assert!((128 * MIB as usize..150 * MIB as usize).contains(&all), "{op:?} {threads}");
            assert!(array.is_multiple_of(chunk) && chunk.is_multiple_of(GRAIN));
        }
    }
}

#[test]
fn a_set_of_a_cache_is_half_of_it_for_each_who_has_it() {
    let host = host(4);
    let set = |op: Op, level, sharing| {
        let (array, chunk) = array_and_chunk(kind(op, 4, level), sharing, &host).unwrap();
        assert_eq!(array, chunk, "one pass is one iteration");
        (op.arrays() * array) as u64
    };
    assert_eq!(set(Op::Read, Level::Cache(1), 4), 16 * KIB);
    assert_eq!(set(Op::Copy, Level::Cache(2), 4), 512 * KIB);
    assert_eq!(set(Op::Read, Level::Cache(3), 4), 4 * MIB);
    let untold = array_and_chunk(kind(Op::Read, 1, Level::Cache(3)), 1, &Host::default());
    assert!(matches!(untold, Err(Fault::Unavailable(text, _)) if text.contains("no cache l3")));
}

#[test]
fn a_quick_run_has_the_ends_and_a_thorough_one_the_sweep() {
    let of = |effort| kinds(&host(12), effort);
    let quick = of(Effort::Quick);
    assert_eq!(quick.iter().filter(|kind| kind.level == Level::Dram).count(), 10);
    assert!(quick.iter().all(|kind| [1, 12].contains(&kind.threads)));
    let thorough = of(Effort::Thorough);
    for threads in [1, 2, 4, 8, 12] {
        assert!(thorough.contains(&kind(Op::Triad, threads, Level::Dram)));
    }
    let mut unique = thorough.clone();
    unique.dedup();
    assert_eq!(unique.len(), thorough.len());
    let mut without = host(2);
    without.memory.thp = Some("never".to_owned());
    assert!(kinds(&without, Effort::Thorough).iter().all(|kind| kind.page == Page::Base));
}

#[test]
fn a_case_is_understood_as_it_was_named() {
    for kind in kinds(&host(12), Effort::Thorough) {
        assert_eq!(Kind::of(&kind.params()), Some(kind));
    }
    assert_eq!(Kind::of(&Params::none()), None);
}

fn record(kind: Kind, rate: f64) -> fathom_record::Record {
    smoke::record(ABOUT.id, &kind.params(), rate, 0.01 * rate)
}

fn predicted(kind: Kind, host: &Host, records: &[fathom_record::Record]) -> Prediction {
    model::predict(kind, host, &Known::new(records)).unwrap()
}

#[test]
fn more_readers_read_as_much_as_one_and_no_more_than_the_modules_give() {
    let one = record(kind(Op::Read, 1, Level::Dram), 10e9);
    let all = kind(Op::Read, 4, Level::Dram);
    let claim = predicted(all, &host(4), std::slice::from_ref(&one));
    assert_eq!((claim.low, claim.high), (Some(9e9), None));
    let mut told = host(4);
    let module = MemoryModule { transfers_per_s: Some(3.2e9), ..MemoryModule::default() };
    told.memory.modules = vec![module.clone(), module];
    let claim = predicted(all, &told, &[one]);
    assert_eq!((claim.low, claim.high), (None, Some(2.0 * 3.2e9 * 8.0)));
    told.memory.modules[0].transfers_per_s = None;
    let none = model::predict(all, &told, &Known::new(&[]));
    assert!(matches!(none, Err(NoModel::MissingInput { .. })), "{none:?}");
}

#[test]
fn what_stores_is_held_against_a_read_and_private_caches_grow_with_the_threads() {
    let read = record(kind(Op::Read, 2, Level::Dram), 20e9);
    for op in [Op::Write, Op::Copy, Op::Triad] {
        let claim = predicted(kind(op, 2, Level::Dram), &host(2), std::slice::from_ref(&read));
        assert_eq!(claim.high, Some(20e9), "{op:?}");
    }
    let nt = model::predict(kind(Op::WriteNt, 2, Level::Dram), &host(2), &Known::new(&[read]));
    assert!(nt.is_err());
    let l2 = record(kind(Op::Read, 1, Level::Cache(2)), 100e9);
    let sum = predicted(kind(Op::Read, 4, Level::Cache(2)), &host(4), std::slice::from_ref(&l2));
    assert_eq!((sum.value, sum.low), (Some(400e9), Some(320e9)));
    let claim = predicted(kind(Op::Read, 1, Level::Cache(3)), &host(4), &[l2]);
    assert_eq!(claim.high, Some(100e9));
}

#[test]
fn one_reader_brings_at_least_a_line_for_each_latency() {
    let latency = smoke::record("memory.latency.dram", &Params::none(), 100.0, 2.0);
    let one = kind(Op::Read, 1, Level::Dram);
    let claim = predicted(one, &host(1), &[latency]);
    assert_eq!((claim.low, claim.high), (Some(0.64e9), None));
    assert!(model::predict(one, &host(1), &Known::new(&[])).is_err());
}

#[test]
fn a_first_level_is_read_at_the_published_bytes_a_cycle() {
    let mut skylake = host(1);
    skylake.cpu.vendor = Some("GenuineIntel".to_owned());
    (skylake.cpu.family, skylake.cpu.model_number) = (Some(6), Some(0x55));
    let hz = [smoke::record("cpu.frequency", &Params::none(), 2e9, 1e6)];
    let first = predicted(kind(Op::Read, 1, Level::Cache(1)), &skylake, &hz);
    assert_eq!(first.value, Some(128.0 * 2e9));
    let second = predicted(kind(Op::Read, 1, Level::Cache(2)), &skylake, &hz);
    assert_eq!((second.value, second.high), (None, Some(64.0 * 2e9)));
}
