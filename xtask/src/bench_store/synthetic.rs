//! A reproducible store of synthetic runs, as large as years of real ones.

use anyhow::{Context, Result};
use fathom_analysis::core_state::{CoreStates, Loop};
use fathom_analysis::strata::Strata;
use fathom_probes::REGISTRY;
use fathom_record::run::ClockFacts;
use fathom_record::{
    Disturbance, Document, Host, Input, MetricId, Origin, Params, Prediction, Record, Reference,
    ReferenceBasis, Run, SCHEMA_VERSION, Sample, Stratum, Tool,
};
use fathom_simulation::Source;
use fathom_store::{Place, Store};

/// Processes per case, as at standard effort.
const PROCESSES: u32 = 10;
const ROUNDS: usize = 12;
const LOOP: Loop = Loop { sibling_ns: 8_900.0, frequency_ns: 8_910.0 };
/// Milliseconds between runs, and from 1970 to the first run.
const HOUR_MS: u64 = 3_600_000;
const FIRST_MS: u64 = 1_767_225_600_000;
/// Runs until the next kernel version. With it, each case whose number is divisible by
/// `CHANGED_CASES` becomes 10 % slower.
const RUNS_PER_KERNEL: usize = 250;
const CHANGED_CASES: usize = 7;
/// Set sizes of the latency curve in bytes, each once with base pages and once with huge pages.
const SET_BYTES: [i64; 36] = {
    let mut sets = [0; 36];
    let mut at = 0;
    while at < sets.len() {
        sets[at] = 1024 << (at / 2);
        at += 1;
    }
    sets
};
const PAGES: [&str; 2] = ["4K", "huge"];

/// Runs with raw samples: more would fill the disk.
const SAMPLED_RUNS: usize = 1000;
/// Of more runs, every so many is of all metrics.
const RUNS_PER_BATTERY: usize = 100;

pub(super) fn create(place: &Place, runs: usize, records: usize) -> Result<()> {
    let mut store = Store::open(place).context("create a store")?;
    let host = fathom_measure::host::read();
    let mut source = Source::new(1);
    for number in 0..runs {
        let document = document(number, runs, records, &host, &mut source);
        store.import(&document).context("store a run")?;
    }
    Ok(())
}

pub(super) fn document(
    number: usize,
    runs: usize,
    records: usize,
    host: &Host,
    source: &mut Source,
) -> Document {
    // At least two kernels, so that a short store has a change.
    let kernel = number / RUNS_PER_KERNEL.min(runs / 2).max(1);
    let mut host = host.clone();
    host.kernel = format!("6.{}.0", 12 + kernel);
    let mut run = run(number);
    let id = run.id.clone();
    let mut record = |at| record(at, kernel, &id, source);
    let has_samples = runs <= SAMPLED_RUNS;
    let mut records: Vec<Record> = match has_samples || number.is_multiple_of(RUNS_PER_BATTERY) {
        true => (0..records).map(record).collect(),
        false => {
            run.procedure = Some("file read".to_owned());
            run.asked = vec!["file read data".to_owned()];
            let mut metrics = REGISTRY.entries().iter();
            let read = metrics.position(|entry| entry.about().id == "file.read.throughput");
            vec![record(read.unwrap_or_default())]
        }
    };
    if !has_samples {
        records.iter_mut().for_each(|record| record.samples = None);
    }
    let tool = Tool {
        name: "fathom".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        compiler: None,
    };
    Document { schema: SCHEMA_VERSION, tool, run, host, far: Vec::new(), records }
}

fn run(number: usize) -> Run {
    let ms = FIRST_MS + number as u64 * HOUR_MS;
    let days = number / 24;
    let started = |minute: u32| {
        let (year, day) = (2026 + days / 336, days % 336);
        let (month, day, hour) = (1 + day / 28, 1 + day % 28, number % 24);
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z")
    };
    Run {
        id: format!("{ms:012x}{number:04x}"),
        started: started(0),
        ended: Some(started(4)),
        duration_ns: Some(240e9),
        seed: number as u64,
        cpu: 1,
        cpu_reason: "0 % busy".to_owned(),
        reference: Some(Reference {
            loop_ns: LOOP.sibling_ns,
            frequency_ns: LOOP.frequency_ns,
            basis: ReferenceBasis::EarlierRuns,
            visits: PROCESSES,
            clean: PROCESSES,
            state: Some(Stratum::ToItself),
            ..Reference::default()
        }),
        clock: ClockFacts { source: "tsc".to_owned(), hz: 2.6e9, ..ClockFacts::default() },
        ..Run::default()
    }
}

/// Case `at`: first each metric of the registry, then the points of the curve, then again.
fn record(at: usize, kernel: usize, run: &str, source: &mut Source) -> Record {
    let entries = REGISTRY.entries();
    let cases = entries.len() + SET_BYTES.len();
    let (entry, params) = match at % cases {
        index if index < entries.len() => (entries[index], Params::none()),
        index => {
            let (page, set) = (PAGES[index % 2], SET_BYTES[index - entries.len()]);
            let params = Params::one("page", page).and("pattern", "random");
            let curve = REGISTRY.find("memory.latency").unwrap_or(&entries[0]);
            (*curve, params.and("set_bytes", set))
        }
    };
    let params = match at / cases {
        0 => params,
        case => params.and("case", case as i64),
    };
    let about = entry.about();
    let factor = if at.is_multiple_of(CHANGED_CASES) { 1.1_f64.powi(kernel as i32) } else { 1.0 };
    let level = 100.0 * (at + 1) as f64 * factor * (1.0 + 0.004 * source.normal());
    let samples: Vec<Sample> =
        (0..PROCESSES).map(|process| sample(process, level, source)).collect();
    let id = MetricId::new(about.id);
    let mut record = Record::new(id, params, about.title, about.unit, about.better);
    let visits = [PROCESSES as usize, 0, 0];
    let states = CoreStates { idle: LOOP, reported: Stratum::ToItself, visits };
    record.summary = Strata::new(&samples, Ok(()), Some(&states)).summarise();
    record.visit = format!("{run}/{}", about.id);
    let input = Input {
        name: "nominal".to_owned(),
        value: 2.6e9,
        unit: Some(fathom_record::Unit::Hertz),
        origin: Origin::Host { fact: "cpu.tsc_hz".to_owned(), read_at: String::new() },
        part: None,
    };
    let prediction = Prediction::sum(level, 0.2 * level, 0.3, about.model, about.source);
    record.prediction = Some(Prediction { inputs: vec![input], ..prediction });
    record.agreement = record.prediction.as_ref().map(|prediction| {
        prediction.agreement(record.summary.as_ref().and_then(|one| one.limits()))
    });
    record.notes = vec!["overhead of 20 ns per batch subtracted (clock, call)".to_owned()];
    record.samples = Some(samples);
    record.sealed()
}

fn sample(process: u32, level: f64, source: &mut Source) -> Sample {
    let own = level * (1.0 + 0.003 * source.normal());
    let mut loops =
        |ns: f64| -> Vec<f64> { (0..=ROUNDS).map(|_| (ns + source.normal()).round()).collect() };
    let (reference_ns, frequency_ns) = (loops(LOOP.sibling_ns), loops(LOOP.frequency_ns));
    Sample {
        process,
        cpu: 1,
        batch: 4096,
        values: (0..ROUNDS).map(|_| own * (1.0 + 0.005 * source.normal().abs())).collect(),
        values_per_round: 1,
        reference_ns,
        frequency_ns,
        disturbance: Disturbance {
            wall_ns: 5_000_000,
            cpu_ns: 4_990_000,
            run_queue_ns: Some(4_000),
            steal_ns: Some(0),
            interrupt_ns: Some(0),
            ..Disturbance::default()
        },
        ..Sample::default()
    }
}
