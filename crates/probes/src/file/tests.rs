//! The file probes at smoke size, their models and their checks.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use fathom_measure::sampler::{Files, Resources};
use fathom_record::host::Cache;
use rustix::fs::{MemfdFlags, memfd_create};

use super::small_files::{Apart, SmallFiles};
use super::state::FileState;
use super::{
    call, generated_file, many_files, read_latency, read_throughput, small_files, write_throughput,
};
use crate::prelude::*;
use crate::{REGISTRY, smoke};
use fathom_metric::Entry;

#[test]
fn every_case_makes_its_checks_and_leaves_no_file() {
    let Some(place) = smoke::test_folder() else { return };
    let probes: [(&dyn Probe, &[&str]); 9] = [
        (&read_throughput::ReadThroughput, &["in memory", "content", "bytes"]),
        (&write_throughput::WriteThroughput, &["content", "last pass"]),
        (&read_latency::ReadLatency, &["in memory", "content"]),
        (&call::FileCall, &["in memory", "content"]),
        (&small_files::CREATE, &["files"]),
        (&small_files::DELETE, &["files"]),
        (&small_files::LIST, &["names"]),
        (&small_files::FSYNC, &["written"]),
        (&many_files::FilePath, &["files"]),
    ];
    for (probe, checks) in probes {
        for (case, sample) in smoke::run(probe) {
            let Ok(sample) = sample else { continue };
            for check in checks {
                let found = sample.checks.iter().any(|one| one.name == *check);
                assert!(found, "{}{}: no check {check}", probe.about().id, case.params);
            }
        }
    }
    // The run removes the folders of small files with its own.
    let names = std::fs::read_dir(&place.folder).unwrap().map(|entry| entry.unwrap().file_name());
    let is_of_small_files = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b"f-");
    assert_eq!(names.filter(|name| !is_of_small_files(name)).count(), 0);
}

#[test]
fn corrupt_byte_is_wrong_work() {
    let Some(place) = smoke::test_folder() else { return };
    let large = std::fs::OpenOptions::new().write(true).open(&place.large).unwrap();
    large.write_all_at(b"?", 5).unwrap();
    let sizes = Sizes { smoke: true, ..Sizes::default() };
    let probes: [&dyn Probe; 2] = [&read_throughput::ReadThroughput, &read_latency::ReadLatency];
    for probe in probes {
        let mut cases = probe.cases(&Host::default(), &sizes);
        // Sequential passes over the large file read its first block.
        cases.retain(|case| {
            let is = |name: &str, text: &str| case.params.text(name) == Some(text);
            let is_large = case.params.integer("file_bytes") == Some(1 << 20);
            is("way", "direct") || (is_large && is("order", "sequential") && is("state", "cold"))
        });
        assert_eq!(cases.len(), 1);
        let outcome = smoke::visit(probe, &cases).remove(0);
        let is_found =
            matches!(&outcome, Err(SamplerFault::WrongWork(text)) if text.contains("written"));
        assert!(is_found, "{outcome:?}");
    }
}

#[test]
fn memory_file_is_never_cold() {
    let file = std::fs::File::from(memfd_create("fathom-test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all_at(&[1; 10_000], 0).unwrap();
    for state in [FileState::Cold, FileState::Direct] {
        let outcome = state.prepare(&file);
        let is_found =
            matches!(&outcome, Err(SamplerFault::WrongWork(text)) if text.contains("WARM"));
        assert!(is_found, "{outcome:?}");
    }
    assert!(FileState::Warm.prepare(&file).is_ok());
    assert!(!FileState::Direct.was_kept(&file, Some(0)), "its pages are cached");
}

#[test]
fn evicted_file_is_not_warm() {
    let Some(place) = smoke::test_folder() else { return };
    let scratch = generated_file::write_synced(&place.folder, 1 << 20, 1).unwrap();
    FileState::Cold.prepare(scratch.file()).unwrap();
    assert!(!FileState::Warm.was_kept(scratch.file(), Some(0)));
    // Reclaim may take pages at once.
    if let Ok(is) = FileState::Warm.prepare(scratch.file()) {
        assert_eq!((is.cached, is.bytes), (1 << 20, 1 << 20));
    }
}

#[test]
fn probe_without_a_folder_returns_the_reason() {
    for entry in REGISTRY.entries() {
        let Entry::Probe(probe) = entry else { continue };
        if entry.about().disk.is_none() {
            continue;
        }
        let cases = probe.cases(&Host::default(), &Sizes { smoke: true, ..Sizes::default() });
        let mut sampler = smoke::sampler(cases.len(), 0);
        let outcome = probe.visit(&cases, &mut sampler);
        let missing: SamplerFault = Resources::none().files.unwrap_err().into();
        match outcome {
            // Cases that do not share a visit fail one by one.
            Ok(()) => {
                let samples = sampler.finish().samples;
                assert!(samples.iter().all(|one| one.as_ref() == Err(&missing)), "{samples:?}");
            }
            Err(fault) => assert_eq!(fault, missing, "{}", entry.about().id),
        }
    }
}

#[test]
fn small_files_are_counted_and_must_be_new() {
    let Some(place) = smoke::test_folder() else { return };
    let files = Files { folder: place.folder.clone(), large: PathBuf::new(), seed: 1, doubt: None };
    let folder = Apart::within(&place.folder).unwrap();
    let mut sets = SmallFiles::from_folder(&folder, &files, 3, 1024);
    let set = sets.next().unwrap();
    assert_eq!((set.existing(), set.whole()), (0, 0));
    set.create().unwrap();
    assert_eq!((set.existing(), set.whole()), (3, 3));
    assert!(set.create().is_err(), "they exist");
    set.open(0).unwrap_err();
    std::fs::write(folder.0.join("1024/0/1"), "").unwrap();
    assert_eq!((set.existing(), set.whole()), (3, 2), "one is empty");
    set.empty().unwrap();
    assert_eq!((set.existing(), set.whole()), (3, 0), "their blocks are free");
    assert_eq!(sets.next().unwrap().existing(), 0, "another pass");
}

/// Deletions would make later creations slower: a visit makes them at its end.
#[test]
fn small_files_stay_until_there_are_very_many() {
    let Some(place) = smoke::test_folder() else { return };
    let files = Files { folder: place.folder.clone(), large: PathBuf::new(), seed: 1, doubt: None };
    let folder = Apart::within(&place.folder).unwrap();
    let mut sets = SmallFiles::from_folder(&folder, &files, 1, 0);
    let existing = |passes: std::ops::Range<u32>, sets: &mut SmallFiles| {
        passes.clone().for_each(|_| sets.next().unwrap().create().unwrap());
        (0..passes.end).filter(|pass| folder.0.join(format!("0/{pass}/0")).exists()).count()
    };
    assert_eq!(existing(0..32, &mut sets), 32);
    assert_eq!(existing(32..40, &mut sets), 32);
}

#[test]
fn random_order_has_no_duplicates() {
    let Some(_place) = smoke::test_folder() else { return };
    let files = smoke::sampler(1, 0).files().unwrap();
    let params = Params::one("order", "random").and("state", "cold").and("file_bytes", 1 << 20);
    let mut orders = read_latency::orders(&ProbeCase::usual(params), &files, 3).unwrap();
    assert_ne!(orders[0], orders[1], "each pass chooses others");
    for order in &mut orders {
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), 64);
        assert!(order.iter().all(|at| at % 4096 == 0 && *at < 1 << 20));
    }
}

fn host() -> Host {
    let mut host = Host::default();
    let of = |level, size_bytes| Cache {
        level,
        kind: "unified".to_owned(),
        size_bytes,
        ..Cache::default()
    };
    host.cpu.caches = vec![of(2, 1 << 20), of(3, 32 << 20)];
    host
}

/// Calls of 100 ns, loads from memory of 90; copy at 20 GB/s with one thread and 40 with two; reads
/// at 100 GB/s from L2, 50 from L3, and 25 and 60 from memory; stores at 10 GB/s.
fn records() -> Vec<Record> {
    let rate = |op: &str, threads: i64, level: &str, rate: f64| {
        let params = Params::one("op", op).and("threads", threads);
        let params = params.and("level", level).and("page", "huge");
        smoke::record("memory.bandwidth", &params, rate, 1e6)
    };
    let call = |call: &str| smoke::record("os.syscall", &Params::one("call", call), 100.0, 1.0);
    let mut records =
        ["read1", "write1", "getppid", "invalid", "fstat", "open_close"].map(call).to_vec();
    let called = Params::one("call", "getppid_called");
    records.push(smoke::record("os.syscall", &called, 140.0, 1.0));
    records.push(smoke::record("file.call", &Params::one("call", "read1"), 100.0, 1.0));
    records.extend([
        rate("copy", 1, "dram", 20e9),
        rate("copy", 2, "dram", 40e9),
        rate("read", 1, "l2", 100e9),
        rate("read", 1, "l3", 50e9),
        rate("read", 1, "dram", 25e9),
        rate("read", 2, "dram", 60e9),
        rate("write", 1, "dram", 10e9),
    ]);
    records.push(smoke::record("memory.latency.dram", &Params::none(), 90.0, 1.0));
    let to = Params::one("to", "loopback");
    let trip = to.clone().and("bytes", 56).and("cpus", 2).and("mode", "block");
    records.push(smoke::record("network.tcp.rtt", &trip, 20e3, 100.0));
    records.push(smoke::record("network.tcp.connect", &to, 15e3, 100.0));
    records
}

#[test]
fn predictions_use_declared_needs_only() {
    for entry in REGISTRY.entries().iter().filter(|entry| entry.about().group() == "file") {
        let Entry::Probe(probe) = entry else { continue };
        let about = probe.about();
        let is_declared = |record: &Record| about.needs.contains(&record.metric.as_str());
        let mut records: Vec<Record> = records().into_iter().filter(is_declared).collect();
        for case in probe.cases(&host(), &Sizes::default()) {
            match probe.predict(&case, &host(), &Inputs::new(&records)) {
                Ok(prediction) => assert!(!prediction.inputs.is_empty(), "{}", about.id),
                Err(none) => assert!(
                    !matches!(none, NoModel::MissingInput { .. }),
                    "{}{}: {none:?}",
                    about.id,
                    case.params
                ),
            }
            records.push(smoke::record(about.id, &case.params, 1e3, 1.0));
        }
    }
}
