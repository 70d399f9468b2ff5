//! The cases of simulated hosts, the models on simulated results, and a visit on this machine.

use fathom_record::host::MemoryModule;

use super::*;
use crate::smoke;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A Zen 4 with one CPU per core, which all share the last-level cache.
fn host(cpus: u32) -> Host {
    let mut host = smoke::zen4();
    host.cpu.allowed = (0..cpus).collect();
    host.memory.thp = Some("madvise".to_owned());
    host.cpu.caches[2].shared_by = host.cpu.allowed.clone();
    host
}

fn case(op: Op, threads: usize, level: Level) -> StreamCase {
    StreamCase { op, threads, level, page: Page::Huge }
}

#[test]
fn visit_verifies_bytes_pages_and_threads() {
    let cores = cpu_selection::core_count(&host::read());
    for (case, sample) in smoke::run(&Bandwidth) {
        let threads = case.params.integer("threads").unwrap();
        match sample {
            Ok(sample) => {
                let names: Vec<&str> = sample.checks.iter().map(|it| it.name.as_str()).collect();
                assert_eq!(names, ["streams", "bytes and pages"]);
                let detail = &sample.checks[1].detail;
                assert!(detail.contains(" verified; "), "{detail}");
            }
            Err(fault) => {
                assert!(threads as usize > cores, "{fault}");
                assert!(fault.to_string().contains("cores of one type"), "{fault}");
            }
        }
    }
}

#[test]
fn arrays_in_memory_are_four_caches_in_all() {
    for op in Op::ALL {
        for threads in [1_usize, 2, 8] {
            let host = host(8);
            let (array, chunk) =
                array_and_chunk(case(op, threads, Level::Memory), threads, &host).unwrap();
            let all = threads * op.arrays() * array;
            assert!((128 * MIB as usize..150 * MIB as usize).contains(&all), "{op:?} {threads}");
            assert!(array.is_multiple_of(chunk) && chunk.is_multiple_of(GRANULARITY));
        }
    }
}

#[test]
fn arrays_in_a_cache_are_half_of_each_share() {
    let host = host(4);
    let set = |op: Op, level, sharing| {
        let (array, chunk) = array_and_chunk(case(op, 4, level), sharing, &host).unwrap();
        assert_eq!(array, chunk, "one pass per iteration");
        (op.arrays() * array) as u64
    };
    assert_eq!(set(Op::Read, Level::Cache(1), 4), 16 * KIB);
    assert_eq!(set(Op::Copy, Level::Cache(2), 4), 512 * KIB);
    assert_eq!(set(Op::Read, Level::Cache(3), 4), 4 * MIB);
    let missing = array_and_chunk(case(Op::Read, 1, Level::Cache(3)), 1, &Host::default());
    assert!(matches!(missing, Err(Fault::Unavailable(text, _)) if text.contains("no l3 cache")));
}

#[test]
fn thorough_run_sweeps_the_thread_counts() {
    let of = |effort| stream_cases(&host(12), effort);
    let quick = of(Effort::Quick);
    assert_eq!(quick.iter().filter(|case| case.level == Level::Memory).count(), 10);
    assert!(quick.iter().all(|case| [1, 12].contains(&case.threads)));
    let thorough = of(Effort::Thorough);
    for threads in [1, 2, 4, 8, 12] {
        assert!(thorough.contains(&case(Op::Triad, threads, Level::Memory)));
    }
    let mut unique = thorough.clone();
    unique.dedup();
    assert_eq!(unique.len(), thorough.len());
    let mut without = host(2);
    without.memory.thp = Some("never".to_owned());
    assert!(stream_cases(&without, Effort::Thorough).iter().all(|case| case.page == Page::Base));
}

fn record(case: StreamCase, rate: f64) -> Record {
    smoke::record(ABOUT.id, &case.params(), rate, 0.01 * rate)
}

fn predicted(case: StreamCase, host: &Host, records: &[Record]) -> Prediction {
    model::predict(case, host, &Inputs::new(records)).unwrap()
}

#[test]
fn all_readers_are_bounded_by_one_or_by_the_modules() {
    let one = record(case(Op::Read, 1, Level::Memory), 10e9);
    let all = case(Op::Read, 4, Level::Memory);
    let bound = predicted(all, &host(4), std::slice::from_ref(&one));
    assert_eq!((bound.low, bound.high), (Some(9e9), None));
    let mut reported = host(4);
    let module = MemoryModule { transfers_per_s: Some(3.2e9), ..MemoryModule::default() };
    reported.memory.modules = vec![module.clone(), module];
    let bound = predicted(all, &reported, &[one]);
    assert_eq!((bound.low, bound.high), (None, Some(2.0 * 3.2e9 * 8.0)));
    reported.memory.modules[0].transfers_per_s = None;
    let none = model::predict(all, &reported, &Inputs::new(&[]));
    assert!(matches!(none, Err(NoModel::MissingInput { .. })), "{none:?}");
}

#[test]
fn stores_load_as_reads_do_and_caches_scale() {
    let read = record(case(Op::Read, 2, Level::Memory), 20e9);
    for op in [Op::Write, Op::Copy, Op::Triad] {
        let bound = predicted(case(op, 2, Level::Memory), &host(2), std::slice::from_ref(&read));
        assert_eq!((bound.value, bound.high), (Some(20e9), Some(25e9)), "{op:?}");
    }
    let nt = model::predict(case(Op::WriteNt, 2, Level::Memory), &host(2), &Inputs::new(&[read]));
    assert!(nt.is_err());
    let l2 = record(case(Op::Read, 1, Level::Cache(2)), 100e9);
    let sum = predicted(case(Op::Read, 4, Level::Cache(2)), &host(4), std::slice::from_ref(&l2));
    assert_eq!((sum.value, sum.low), (Some(400e9), Some(320e9)));
    assert_eq!(sum.class(), fathom_record::Class::SelfConsistency);
    let bound = predicted(case(Op::Read, 1, Level::Cache(3)), &host(4), &[l2]);
    assert_eq!(bound.high, Some(100e9));
}

#[test]
fn one_reader_reads_at_least_a_line_per_latency() {
    let latency = smoke::record("memory.latency.dram", &Params::none(), 100.0, 2.0);
    let one = case(Op::Read, 1, Level::Memory);
    let bound = predicted(one, &host(1), &[latency]);
    assert_eq!((bound.low, bound.high), (Some(0.64e9), None));
    assert!(model::predict(one, &host(1), &Inputs::new(&[])).is_err());
}

#[test]
fn l1_reads_at_the_published_bytes_per_cycle() {
    let mut skylake = host(1);
    skylake.cpu.vendor = Some("GenuineIntel".to_owned());
    (skylake.cpu.family, skylake.cpu.model_number) = (Some(6), Some(0x55));
    let hz = [smoke::record("cpu.frequency", &Params::none(), 2e9, 1e6)];
    let first = predicted(case(Op::Read, 1, Level::Cache(1)), &skylake, &hz);
    assert_eq!(first.value, Some(128.0 * 2e9));
    let second = predicted(case(Op::Read, 1, Level::Cache(2)), &skylake, &hz);
    assert_eq!((second.value, second.high), (None, Some(64.0 * 2e9)));
    // Half a line per cycle is reached; a whole one is not.
    let mut zen4 = host(1);
    zen4.cpu.vendor = Some("AuthenticAMD".to_owned());
    (zen4.cpu.family, zen4.cpu.model_number) = (Some(25), Some(0x11));
    let second = predicted(case(Op::Read, 1, Level::Cache(2)), &zen4, &hz);
    assert_eq!((second.value, second.low), (Some(32.0 * 2e9), Some(0.8 * 32.0 * 2e9)));
}
