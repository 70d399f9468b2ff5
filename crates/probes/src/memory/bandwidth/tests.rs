//! The cases of simulated hosts, the models on simulated results, and a visit on this machine.

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
    StreamCase { op, threads, level, page: BufferPage::Huge }
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
    assert!(
        matches!(missing, Err(SamplerFault::Unavailable(text, _)) if text.contains("no l3 cache"))
    );
}
