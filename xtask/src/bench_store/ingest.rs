//! The rate at which many writers store records at once, each in a run of its own.

use anyhow::{Context, Result, anyhow};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_simulation::Source;
use fathom_store::{Place, Store};

use super::synthetic;

const WRITERS: usize = 20;
/// Of a writer, each in a transaction of its own.
const RECORDS: usize = 50;
/// Records in a second of all writers, at least.
const RATE_MIN: f64 = 200.0;

/// Prints the rate; what is below the limit.
pub(super) fn rate(place: &Place) -> Result<Option<String>> {
    drop(Store::open(place).context("create a store")?);
    let host = fathom_measure::host::read();
    let documents: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut source = Source::new(writer as u64 + 1);
            synthetic::document(writer, WRITERS, RECORDS, &host, &mut source)
        })
        .collect();
    let write = |document: &fathom_record::Document| -> Result<()> {
        let mut store = Store::open(place)?;
        let mut head = document.clone();
        let records = std::mem::take(&mut head.records);
        store.begin(&head)?;
        for record in &records {
            store.put(&head.run.id, std::slice::from_ref(record))?;
        }
        Ok(())
    };
    let started = monotonic_raw_ns();
    let all: Result<Vec<()>> = std::thread::scope(|scope| {
        let writers: Vec<_> =
            documents.iter().map(|document| scope.spawn(move || write(document))).collect();
        let ended =
            writers.into_iter().map(|writer| writer.join().map_err(|_| anyhow!("a writer")));
        ended.map(|it| it.and_then(|it| it)).collect()
    });
    all.context("store records of many writers")?;
    let rate = (WRITERS * RECORDS) as f64 / ((monotonic_raw_ns() - started) as f64 / 1e9);
    println!("{WRITERS} writers at once: {rate:.0} records/s  limit >= {RATE_MIN}");
    let store = Store::open_existing(place)?;
    let stored: u32 = store.runs()?.iter().map(|run| run.counts.total()).sum();
    anyhow::ensure!(stored as usize == WRITERS * RECORDS, "{stored} records are stored");
    Ok((rate < RATE_MIN).then(|| format!("{rate:.0} records/s of {WRITERS} writers")))
}
