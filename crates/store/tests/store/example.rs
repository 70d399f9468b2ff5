//! Runs and records with realistic content.

use std::path::{Path, PathBuf};

use fathom_lab::seeded::Seeded;
use fathom_record::{
    Basis, Better, Cause, Check, ClockOffset, Disturbance, Document, Estimate, FarHost, Host,
    Interval, MetricId, Outline, ParamValue, Params, Prediction, Reason, Record, Remedy, Run,
    SCHEMA_VERSION, Sample, State, Stratum, Summary, Tool, Unit, Verdict,
};
use fathom_store::{Place, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

/// A temporary folder, and the path of a store that does not exist yet.
pub(crate) fn new_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fathom.db");
    (folder, path)
}

/// The place of a new store: in a file, or, within [`crate::postgres::on_server`], in a database.
/// The folder is that of the file.
pub(crate) fn new_place() -> (Option<TempDir>, Place) {
    match crate::postgres::new_database() {
        Some(place) => (None, place),
        None => {
            // In memory, where a sync is free: many writers must not wait longer than for a lock.
            let memory = Path::new("/dev/shm");
            let folder = match memory.is_dir() {
                true => tempfile::tempdir_in(memory),
                false => tempfile::tempdir(),
            };
            let folder = folder.unwrap();
            let path = folder.path().join("fathom.db");
            (Some(folder), Place::File(path))
        }
    }
}

/// A store at a [`new_place`] with one run of `records` records in it.
pub(crate) fn stored(run_id: &str, records: u64) -> (Option<TempDir>, Place, Store) {
    let (folder, place) = new_place();
    let store = store_at(&place, run_id, records);
    (folder, place, store)
}

/// A store in a file with one run of `records` records in it.
pub(crate) fn store_with(run_id: &str, records: u64) -> (TempDir, PathBuf, Store) {
    let (folder, path) = new_path();
    let store = store_at(&path, run_id, records);
    (folder, path, store)
}

/// The same at a given path.
pub(crate) fn store_at(place: impl Into<Place>, run_id: &str, records: u64) -> Store {
    let mut store = Store::open(place).unwrap();
    store.begin(&head(run_id)).unwrap();
    for number in 0..records {
        add(&mut store, run_id, &record(number)).unwrap();
    }
    store
}

/// Stores one record.
pub(crate) fn add(store: &mut Store, run_id: &str, record: &Record) -> Result<(), StoreError> {
    let refused = store.put(run_id, std::slice::from_ref(record))?;
    refused.into_iter().next().map_or(Ok(()), Err)
}

pub(crate) fn records(count: u64) -> Vec<Record> {
    (0..count).map(record).collect()
}

/// Asserts that SQLite finds no damage, if the store is in a file.
pub(crate) fn is_whole_place(place: &Place) {
    if let Some(path) = place.file() {
        is_whole(path);
    }
}

pub(crate) fn is_whole(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let answer: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok", "{}", path.display());
}

/// A run as in a history: without its records, and without the sources and the uptime of its host.
pub(crate) fn outline(mut run: Document) -> Outline {
    run.host.uptime_s = None;
    run.host.origins.clear();
    Outline::from(&run)
}

/// The history of the metric that all records have here.
pub(crate) fn history(store: &Store) -> Vec<Outline> {
    let (history, damaged) = store.history("file.read.throughput").unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    history
}

pub(crate) fn host() -> Host {
    let mut host = Host {
        name: "bench-3".to_owned(),
        kernel: "6.12.9".to_owned(),
        virtualization: Some("kvm".to_owned()),
        uptime_s: Some(86_400.25),
        ..Host::default()
    };
    host.cpu.model = "Example 9 7950X".to_owned();
    host.cpu.logical = 2;
    host.cpu.hz = Some(4.5e9);
    host.origin("cpu.model", "/proc/cpuinfo");
    host
}

/// A run without records, with a far host.
pub(crate) fn head(id: &str) -> Document {
    let clock = Some(ClockOffset { offset_ns: -1.5e9, drift_ppm: 2.5, error_ns: 40_000.0 });
    let far = FarHost { name: "bench-4".to_owned(), host: host(), clock };
    let (schema, records) = (SCHEMA_VERSION, Vec::new());
    Document { schema, tool: Tool::fixture(), run: run(id), host: host(), far: vec![far], records }
}

pub(crate) fn run(id: &str) -> Run {
    serde_json::from_value(serde_json::json!({
        "id": id,
        "started": "2026-02-03T04:05:06.789Z",
        "ended": null,
        "effort": "quick",
        "protocol": "median",
        "seed": u64::MAX,
        "asked": ["os"],
        "planned": 12,
        "state": "running",
        "cpu": 1,
        "cpu_reason": "fewest interrupts",
        "clock": {
            "source": "tsc",
            "refused": null,
            "hz": 4_491_539_123.456_789,
            "resolution_ns": 0.1 + 0.2,
            "read_ns": 11.5,
            "raw_ppm": null,
            "monotonic_ppm": null,
        },
        "verdict": { "state": "valid", "reasons": [] },
        "notes": ["the governor stays as it is"],
    }))
    .unwrap()
}

/// Record `number`: always the same, with samples of varying length.
pub(crate) fn record(number: u64) -> Record {
    let mut random = Seeded(number);
    let samples: Vec<Sample> = (0..5)
        .map(|process| sample(process, &mut random, (number * 37 % 200) as usize + 1))
        .collect();
    let medians: Vec<f64> = samples.iter().map(|sample| sample.values[0]).collect();
    let params = Params::one("block", number as i64).and("mode", "cold");
    let metric = MetricId::new("file.read.throughput");
    Record {
        visit: format!("visit-{number}"),
        summary: Some(Summary {
            n: 600,
            processes: 5,
            median: medians[0],
            interval: Some(Interval::new(
                [medians[1], f64::MIN_POSITIVE],
                0.9375,
                Basis::Processes,
            )),
            mean: 1.0 / 3.0,
            min: -0.0,
            max: f64::MAX,
            process_medians: medians,
            ..strata(number)
        }),
        samples: Some(samples),
        prediction: Some(Prediction::sum(60.0, 45.1, 0.2, "entry + work", "a table")),
        verdict: verdict(number),
        checks: [("bytes read".to_owned(), "4096 of 4096".to_owned())].into(),
        facts: vec![fathom_record::Fact::text("file", "a file")],
        ..Record::new(metric, params, "Reading a file", Unit::Nanoseconds, Better::Lower)
    }
    .sealed()
}

/// Every other record rests on selected visits.
fn strata(number: u64) -> Summary {
    let interval = Some(Interval::new([101.0, 131.5], 0.9375, Basis::Processes));
    let as_found =
        Some(Estimate { median: 120.25, interval, visits: 5, of: 5, ..Estimate::default() });
    let stratum = if number.is_multiple_of(2) { Stratum::ToItself } else { Stratum::AsFound };
    Summary { stratum, as_found, ..Summary::default() }
}

/// Cycles through the five states.
fn verdict(number: u64) -> Verdict {
    let state = match number % 5 {
        1 => State::Noisy,
        2 => State::Unavailable,
        3 => State::Invalid,
        4 => State::Failed,
        _ => return Verdict::default(),
    };
    let reason = Reason::new(Cause::Steal, "CPU steal 31 %");
    Verdict { state, reasons: vec![reason.with_remedy(Remedy::QuieterHost)] }
}

fn sample(process: u32, random: &mut Seeded, length: usize) -> Sample {
    Sample {
        process,
        cpu: 1,
        batch: 4096,
        values: (0..length).map(|_| 100.0 + random.share()).collect(),
        overhead_ns: 0.7,
        disturbance: Disturbance { wall_ns: u64::MAX, steal_ns: Some(3), ..Disturbance::default() },
        checks: vec![Check {
            name: "bytes read".to_owned(),
            passed: true,
            detail: "4096 of 4096".to_owned(),
        }],
        ..Sample::default()
    }
}

/// The number that a record was made from.
pub(crate) fn number_of(record: &Record) -> u64 {
    match record.params.0.get("block") {
        Some(ParamValue::Integer(number)) => *number as u64,
        other => panic!("not a record of these tests: {other:?}"),
    }
}
