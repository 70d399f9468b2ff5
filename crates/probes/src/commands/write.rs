//! `fathom file write`: writes a file of generated data.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use fathom_fileio::folder::{Space, space};
use fathom_fileio::write::{SyncMode, WriteError, WriteOutcome, WriteRequest};
use fathom_metric::notation::seed;
use rustix::io::Errno;

use super::by_hand::{self, ByHandResult, amount, checked, printable, size, sum_facts, sums};
use super::cap::Cap;
use super::options::{block, block_count};
use crate::prelude::*;

/// No sync of dirty data is faster: a write to flash with power-loss protection takes about 10 µs.
const FASTEST_SYNC_NS: f64 = 5_000.0;
/// Bytes per nanosecond that no single current device reaches.
const FASTEST_RATE: f64 = 30.0;
/// Least bytes for a meaningful sync rate.
const RATE_BYTES_MIN: u64 = 1 << 20;

/// When to sync the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncName {
    /// Never.
    None,
    /// At the end (fdatasync).
    Data,
    /// After every block (fdatasync).
    Every,
}

const EXAMPLES: &str = "\
Examples:
  fathom file write FILE --block 1M --count 1024 --sync data    1 GiB, synced at the end
  fathom file write FILE --block 4K --count 1000 --sync every   a thousand small commits
  fathom file write FILE --block 64K --count 16 --force         replace an existing file

The file gets its name when it is complete: after an error or a stop no file is left.";

/// Write a file of generated data, and time data, sync and close.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Write {
    /// File to write.
    file: PathBuf,
    /// Block size.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: usize,
    /// Number of blocks.
    #[arg(long, short = 'n', value_name = "N", value_parser = block_count)]
    count: u64,
    /// When to sync.
    #[arg(long, value_enum, default_value_t = SyncName::None)]
    sync: SyncName,
    /// Replace an existing regular file.
    #[arg(long)]
    force: bool,
    /// Seed of the data.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// Number of passes, each a new file; with 12 or more the result has a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
}

impl Procedure for Write {
    fn asked(&self) -> String {
        printable(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> ByHandResult<()> {
        check_space(self, by_hand::check_length(self.block, self.count)?)
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let pass = |recorder: &mut dyn Recorder, number| {
            let (written, counted) = self.pass(recorder, number > 0);
            match written {
                Ok(written) => Ok(Some((written, counted))),
                Err(WriteError::Stopped { path, after }) => {
                    // Earlier passes are kept.
                    if number == 0 {
                        let path = printable(&path);
                        let text =
                            format!("stopped after {after} bytes; nothing is left of {path}");
                        recorder.event(Event::Warning(&text));
                    }
                    Ok(None)
                }
                Err(error) => Err(failure(error)),
            }
        };
        let record = |recorder: &mut dyn Recorder, passes: &[WriteOutcome], disturbance| {
            // Without a sync only the page cache is written.
            let is_synced = self.sync != SyncName::None;
            let file = std::fs::File::open(&self.file).ok().filter(|_| is_synced);
            let cap = file.and_then(|file| Cap::on_writes(&file));
            recorder.record(measured(self, passes, cap.as_ref(), disturbance));
        };
        let (passes, disturbance) =
            by_hand::repeated(recorder, (self.repeat, "writing"), pass, |_| false, record)?;
        if passes.is_empty() {
            return Ok(Ending::Stopped);
        }
        record(recorder, &passes, disturbance);
        Ok(Ending::Done)
    }
}

impl Write {
    fn pass(
        &self,
        recorder: &dyn Recorder,
        overwrite: bool,
    ) -> (ByHandResult<WriteOutcome, WriteError>, Disturbance) {
        let request = WriteRequest {
            block: self.block,
            count: self.count,
            seed: self.seed,
            sync: match self.sync {
                SyncName::None => SyncMode::None,
                SyncName::Data => SyncMode::AtEnd,
                SyncName::Every => SyncMode::EachBlock,
            },
            overwrite: self.force || overwrite,
            stop: recorder.stop().now(),
        };
        let clock = recorder.clock();
        observed(recorder.cpu(), || fathom_fileio::write(&self.file, &request, clock))
    }
}

/// A failed write, with a remedy if the path is wrong.
fn failure(error: WriteError) -> ProcedureError {
    match error {
        WriteError::Exists { .. } => {
            let text = format!("{error}; use --force to replace it, or another name");
            ProcedureError::failed(text)
        }
        WriteError::Invalid(_) => ProcedureError::usage(error),
        WriteError::Failed { path, error, .. } if is_path_error(error) => {
            let path = printable(&path);
            ProcedureError::failed(format!("write {path}: {error}; use a writable path"))
        }
        error => ProcedureError::failed(error),
    }
}

/// Whether the path cannot be written, whatever the data.
fn is_path_error(error: Errno) -> bool {
    use Errno as E;
    [E::NOENT, E::NOTDIR, E::ACCESS, E::PERM, E::ROFS, E::NAMETOOLONG, E::LOOP].contains(&error)
}

/// Fails if the free space is too small. If it is unknown, the write itself fails later.
fn check_space(write: &Write, bytes: u128) -> ByHandResult<()> {
    let folder = write.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let Ok(Space { all, free }) = space(folder) else { return Ok(()) };
    if all == 0 || bytes <= u128::from(free) {
        return Ok(());
    }
    let (need, free) = (size(bytes as u64), size(free));
    let folder = printable(folder);
    Err(ProcedureError::failed(format!(
        "{need} to write, but {free} free in {folder}; use fewer blocks, or free space"
    )))
}

/// The doubt if a sync reaches no device, or was faster than any device.
fn doubts(write: &Write, passes: &[WriteOutcome]) -> Vec<Reason> {
    if write.sync == SyncName::None {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    let info = fathom_fileio::inspect(&write.file).ok();
    if let Some(info) = info.filter(|info| info.is_on_device() != Some(true)) {
        let name = info.file_system.name;
        let text = match info.is_on_device() {
            Some(_) => format!("{name} is not on a device of this machine: sync has no effect"),
            None => format!("unknown whether a sync on {name} reaches a device"),
        };
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    } else if let Some(text) = passes.iter().find_map(implausible) {
        doubts.push(Reason::new(Cause::NotAsAsked, text).with_remedy(Remedy::DistrustSyncs));
    }
    doubts
}

/// Why a sync is too fast for any device, if it is.
fn implausible(written: &WriteOutcome) -> Option<String> {
    let each_ns = written.sync_ns / written.syncs.max(1) as f64;
    let has_data = written.unsynced.is_some_and(|bytes| bytes > 0);
    if written.syncs > 0 && has_data && each_ns < FASTEST_SYNC_NS {
        let us = each_ns / 1e3;
        return Some(format!("a sync took {us:.1} µs: faster than any device"));
    }
    let bytes = written.unsynced.filter(|_| written.syncs == 1)?;
    let rate = bytes as f64 / written.sync_ns;
    (bytes >= RATE_BYTES_MIN && rate > FASTEST_RATE).then(|| {
        let rate = quantity(1e9 * rate, Unit::BytesPerSecond);
        format!("{} synced at {rate}: faster than any device", size(bytes))
    })
}

fn total_ns(written: &WriteOutcome) -> f64 {
    written.data_ns + written.sync_ns + written.close_ns
}

fn sync_name(sync: SyncName) -> &'static str {
    ["none", "data", "every"][sync as usize]
}

fn measured(
    write: &Write,
    passes: &[WriteOutcome],
    cap: Option<&Cap>,
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum;
    let params = Params::one("block", write.block as i64)
        .and("sync", sync_name(write.sync))
        .and("file_bytes", sum.bytes as i64);
    let rate = |written: &WriteOutcome| 1e9 * written.sum.bytes as f64 / total_ns(written);
    let parts = [("data", last.data_ns), ("sync", last.sync_ns), ("close", last.close_ns)];
    let mut verified = vec![("file", printable(&write.file))];
    verified.extend(sums(sum));
    verified.push(("calls", last.calls.to_string()));
    verified.extend(parts.map(|(name, ns)| (name, format!("{ns:.0} ns"))));
    let values: Vec<f64> = passes.iter().filter(|_| sum.bytes > 0).map(rate).collect();
    let remarks = cap.and_then(|cap| cap.reached(&values)).into_iter().collect();
    Measured {
        metric: "file.write.throughput",
        params,
        values,
        disturbance: vec![disturbance],
        checks: checked(verified),
        verdict: by_hand::nothing_done(sum.bytes),
        doubts: doubts(write, passes)
            .into_iter()
            .chain(passes.iter().find_map(|pass| too_short(total_ns(pass), 0.0)))
            .collect(),
        remarks,
        facts: facts(write, passes, cap),
        ..Measured::default()
    }
}

/// Times are medians of the passes, as the rate is.
fn facts(write: &Write, passes: &[WriteOutcome], cap: Option<&Cap>) -> Vec<Fact> {
    let written = &passes[passes.len() - 1];
    let seconds = |ns: f64| format!("{:.6} s", ns / 1e9);
    let untimed = format!(
        "{} generating the data, {} naming the file",
        seconds(written.generate_ns),
        seconds(written.name_ns)
    );
    let amount = amount(write.count, write.block, written.sum.bytes);
    let ns = |name, ns: &dyn Fn(&WriteOutcome) -> f64| {
        let each: Vec<f64> = passes.iter().map(ns).collect();
        Fact::quantity(name, statistics::median(&each).unwrap_or_default(), Unit::Nanoseconds)
    };
    let sync = (write.sync != SyncName::None).then(|| ns("sync", &|pass| pass.sync_ns));
    let mut facts = vec![
        Fact::text("file", printable(&write.file)),
        Fact::text("written", format!("{amount}; sync {}", sync_name(write.sync))),
        ns("data", &|pass| pass.data_ns),
    ];
    facts.extend(sync);
    facts.extend([
        ns("close", &|pass| pass.close_ns),
        ns("total", &total_ns),
        Fact::text("not in total", untimed),
        Fact::quantity("calls", 1e9 * written.calls as f64 / total_ns(written), Unit::PerSecond),
    ]);
    facts.extend(sum_facts(written.sum));
    facts.extend(cap.into_iter().flat_map(Cap::facts));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_faster_than_any_device_is_implausible() {
        let synced = |bytes, syncs, sync_ns| WriteOutcome {
            unsynced: Some(bytes),
            syncs,
            sync_ns,
            ..WriteOutcome::default()
        };
        assert_eq!(implausible(&synced(64 << 20, 1, 60e6)), None, "1.1 GB/s");
        assert!(implausible(&synced(64 << 20, 1, 1e6)).is_some(), "67 GB/s");
        assert!(implausible(&synced(4096, 1, 900.0)).is_some());
        assert_eq!(implausible(&synced(4096, 1, 50e3)), None);
        assert!(implausible(&synced(4096, 1000, 1e6)).is_some(), "1 µs each");
        assert_eq!(implausible(&synced(0, 1, 900.0)), None, "nothing dirty");
        assert_eq!(implausible(&WriteOutcome::default()), None);
    }
}
