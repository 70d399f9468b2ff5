//! `xtask bench-store PROGRAM [RUNS] [METRICS]`: latency of commands on a large store.
//!
//! It creates a store of synthetic runs of this host, with some changes, and times commands that
//! read it: the history of a metric, a comparison, which uses earlier runs, searches for the newest
//! results, and the data of the views of `fathom ui`. Up to a thousand runs are all of `fathom
//! run`, with samples. Of more, one of a hundred is, without samples, and the others are of
//! `fathom file read`.
//!
//! All of it in a file, and in a database of a PostgreSQL server on the same disk, where that is
//! installed; then the rate at which 20 writers at once store records in each.

mod ingest;
mod pages;
mod synthetic;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fathom_analysis::statistics::median;
use fathom_lab::postgres::LabPostgres;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_store::Place;

/// Repetitions of each command.
const REPETITIONS: usize = 9;

/// Commands, with the limit of their median in seconds.
const COMMANDS: [(&[&str], Option<f64>); 11] = [
    (&["history", "cpu.clock.read"], Some(0.3)),
    (&["history", "memory.latency"], Some(0.3)),
    (&["history", "file.read.throughput"], Some(0.3)),
    (&["compare", "latest~1", "latest"], Some(0.3)),
    (&["compare", "latest~5", "latest~4", "latest~3", "latest~2", "latest~1", "latest"], None),
    (&["show", "latest"], Some(0.3)),
    (&["show"], Some(0.3)),
    (&["show", "cpu.call"], Some(0.3)),
    (&["explain", "os.syscall"], Some(0.3)),
    (&["show", "--classic"], Some(0.3)),
    (&["show", "--runs"], None),
];

/// Creates the store, times the commands, and prints a table.
pub(crate) fn run(program: &str, runs: usize, records: usize) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("fathom-bench-store-")
        .tempdir_in("/var/tmp")
        .context("create a folder in /var/tmp")?;
    let mut slow =
        time_commands(program, folder.path().join("runs.db").as_os_str(), runs, records)?;
    slow.extend(ingest::rate(&Place::File(folder.path().join("writers.db")))?);
    // Not in the folder, which is of this user alone.
    match LabPostgres::durable(Path::new("/var/tmp")) {
        Err(why) => println!("skipped: {why}"),
        Ok(server) => {
            let address = OsString::from(server.new_database("runs").context("a database")?);
            slow.extend(time_commands(program, &address, runs, records)?);
            let writers = server.new_database("writers").context("a database")?;
            slow.extend(ingest::rate(&Place::parse(OsStr::new(&writers))?)?);
        }
    }
    ensure!(slow.is_empty(), "above the limit: {}", slow.join("; "));
    Ok(())
}

/// Creates a store and times the commands on it; those above their limit.
fn time_commands(program: &str, store: &OsStr, runs: usize, records: usize) -> Result<Vec<String>> {
    let place = Place::parse(store)?;
    let started = monotonic_raw_ns();
    synthetic::create(&place, runs, records)?;
    println!(
        "{place}\n{runs} runs x {records} records, created in {:.0} s",
        seconds_since(started)
    );
    println!("{:<28} {:>8} {:>19}  limit", "command", "median s", "min … max");
    let mut slow = Vec::new();
    for (words, limit) in COMMANDS {
        let all = (0..REPETITIONS).map(|_| time(program, store, words));
        if !row(&command_column(words), all.collect::<Result<_>>()?, limit) {
            slow.push(words.join(" "));
        }
    }
    slow.extend(pages::time(program, store, REPETITIONS)?);
    Ok(slow)
}

/// Prints a row of the table; false if it is above the limit.
fn row(name: &str, mut seconds: Vec<f64>, limit: Option<f64>) -> bool {
    seconds.sort_by(f64::total_cmp);
    let middle = median(&seconds).unwrap_or_default();
    let range = format!("{:.3} … {:.3}", seconds[0], seconds[seconds.len() - 1]);
    let limit_text = limit.map_or_else(String::new, |limit| format!("<= {limit}"));
    println!("{name:<28} {middle:>8.3} {range:>19}  {limit_text}");
    limit.is_none_or(|limit| middle <= limit)
}

/// The command, shortened to one column.
fn command_column(words: &[&str]) -> String {
    match words {
        [command, first, .., last] if words.len() > 3 => format!("{command} {first} … {last}"),
        _ => words.join(" "),
    }
}

fn seconds_since(started: u64) -> f64 {
    (monotonic_raw_ns() - started) as f64 / 1e9
}

/// Seconds from start to exit of the program.
fn time(program: &str, store: &OsStr, words: &[&str]) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(words).env("FATHOM_STORE", store).stdin(Stdio::null());
    let started = monotonic_raw_ns();
    let output = command.output().with_context(|| format!("start {program}"))?;
    let seconds = seconds_since(started);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}: {errors}", words.join(" "), output.status);
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use fathom_store::Store;

    use super::*;

    #[test]
    fn large_synthetic_store_is_of_file_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        synthetic::create(&Place::from(&path), 1001, 3).unwrap();
        let store = Store::open_existing(&path).unwrap();
        let kinds = store.runs().unwrap();
        let batteries = kinds.iter().filter(|run| run.procedure.is_none());
        assert_eq!((kinds.len(), batteries.count()), (1001, 11));
        let document = store.document(&kinds[1].id, true).unwrap();
        assert_eq!(document.records[0].metric.as_str(), "file.read.throughput");
        assert!(document.records[0].samples.is_none());
    }

    #[test]
    fn synthetic_store_holds_the_requested_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        synthetic::create(&Place::from(&path), 12, 110).unwrap();
        let store = Store::open_existing(&path).unwrap();
        let runs = store.runs().unwrap();
        assert_eq!((runs.len(), runs[0].counts.total()), (12, 110));
        let document = |at: usize| store.document(&runs[at].id, true).unwrap();
        let (newest, oldest) = (document(0), document(11));
        let samples = newest.records[0].samples.as_ref().unwrap();
        assert_eq!(samples.len(), newest.records[0].summary.as_ref().unwrap().processes as usize);
        assert_eq!(newest.host.name, oldest.host.name);
        let medians = |document: &fathom_record::Document| -> Vec<f64> {
            document.records.iter().map(|one| one.summary.as_ref().unwrap().median).collect()
        };
        let (newest, oldest) = (medians(&newest), medians(&oldest));
        let changed = newest.iter().zip(&oldest).filter(|(b, a)| *b / *a > 1.05);
        assert!(changed.count() > 3, "no metric has changed");
    }
}
