//! `fathom file write`: so many blocks of generated data.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use fathom_fileio::folder::{Space, space};
use fathom_fileio::write::{Request, Sync, WriteError, Written};
use fathom_metric::notation::{count, seed};
use fathom_metric::{Ending, Event, Measured, Procedure, ProcedureError, Recorder, observed};
use fathom_record::quantity::quantity;
use fathom_record::{Cause, Disturbance, Fact, Params, Reason, Remedy, Unit};
use rustix::io::Errno;

use super::by_hand::{self, amount, checked, shown, size, sum_facts, sums};
use super::cap::Cap;
use super::options::block;

/// No sync of dirty data is quicker: a write to flash memory with a buffer that survives a loss of
/// power takes some 10 µs.
const QUICKEST_NS: f64 = 5_000.0;
/// Bytes a nanosecond that no single device reaches today.
const FASTEST: f64 = 30.0;
/// From so many bytes on a rate of syncing means something.
const MUCH: u64 = 1 << 20;

/// When what is written is to be on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncName {
    /// When the kernel likes.
    None,
    /// At the end (fdatasync).
    Data,
    /// After every block (fdatasync).
    Every,
}

const EXAMPLES: &str = "\
Examples:
  fathom file write FILE --block 1M --count 1024 --sync data    1 GiB, on the device at the end
  fathom file write FILE --block 4K --count 1000 --sync every   a thousand small commits
  fathom file write FILE --block 64K --count 16 --force         replace a file that is there

The file gets its name when all of it is there: whatever goes wrong before, nothing is left.";

/// Write a file of generated data, and say what data, sync and close took.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Write {
    /// The file.
    file: PathBuf,
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: usize,
    /// How many blocks.
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    count: u64,
    /// When it is to be on the device.
    #[arg(long, value_enum, default_value_t = SyncName::None)]
    sync: SyncName,
    /// Replace a regular file of that name.
    #[arg(long)]
    force: bool,
    /// Which data: the same seed gives the same bytes.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// Passes, each writing it anew; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
}

impl Procedure for Write {
    fn asked(&self) -> String {
        shown(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> Result<(), ProcedureError> {
        check_space(self, by_hand::check_length(self.block, self.count)?)
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let pass = |recorder: &mut dyn Recorder, number| {
            let (written, counted) = self.pass(recorder, number > 0);
            match written {
                Ok(written) => Ok(Some((written, counted))),
                Err(WriteError::Stopped { path, after }) => {
                    // What earlier passes gave stands.
                    if number == 0 {
                        let path = shown(&path);
                        let text =
                            format!("stopped after {after} bytes; nothing is left of {path}");
                        recorder.event(Event::Warning(&text));
                    }
                    Ok(None)
                }
                Err(error) => Err(failure(error)),
            }
        };
        let (passes, disturbance) =
            by_hand::repeated(recorder, (self.repeat, "writing"), pass, |_| false)?;
        if passes.is_empty() {
            return Ok(Ending::Stopped);
        }
        // Without a sync it is memory that is written.
        let is_synced = self.sync != SyncName::None;
        let file = std::fs::File::open(&self.file).ok().filter(|_| is_synced);
        let cap = file.and_then(|file| Cap::on_writes(&file));
        recorder.record(measured(self, &passes, cap.as_ref(), disturbance));
        Ok(Ending::Done)
    }
}

impl Write {
    fn pass(
        &self,
        recorder: &dyn Recorder,
        overwrite: bool,
    ) -> (Result<Written, WriteError>, Disturbance) {
        let request = Request {
            block: self.block,
            count: self.count,
            seed: self.seed,
            sync: match self.sync {
                SyncName::None => Sync::None,
                SyncName::Data => Sync::Data,
                SyncName::Every => Sync::Every,
            },
            overwrite: self.force || overwrite,
            stop: recorder.stop().now(),
        };
        let clock = recorder.clock();
        observed(recorder.cpu(), || fathom_fileio::write(&self.file, &request, clock))
    }
}

/// A failed write, with the remedy where the place is at fault.
fn failure(error: WriteError) -> ProcedureError {
    match error {
        WriteError::Exists { .. } => {
            let text = format!("{error}; replace it by --force, or give another name");
            ProcedureError::failed(text)
        }
        WriteError::Invalid(_) => ProcedureError::usage(error),
        WriteError::Failed { path, error, .. } if is_of_the_place(error) => {
            let path = shown(&path);
            ProcedureError::failed(format!("write {path}: {error}; name a place to write to"))
        }
        error => ProcedureError::failed(error),
    }
}

/// Whether it is the place that cannot be written to, whatever is written.
fn is_of_the_place(error: Errno) -> bool {
    use Errno as E;
    [E::NOENT, E::NOTDIR, E::ACCESS, E::PERM, E::ROFS, E::NAMETOOLONG, E::LOOP].contains(&error)
}

/// Refuses what there is no space for, before the disk is full. What may not be looked at is found
/// out later.
fn check_space(write: &Write, bytes: u128) -> Result<(), ProcedureError> {
    let folder = write.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let Ok(Space { all, free }) = space(folder) else { return Ok(()) };
    if all == 0 || bytes <= u128::from(free) {
        return Ok(());
    }
    let (need, free) = (size(bytes as u64), size(free));
    let folder = shown(folder);
    Err(ProcedureError::failed(format!(
        "{need} are to be written to {folder}, where {free} are free; give fewer blocks, or free \
         space"
    )))
}

/// What speaks against a sync: that there is no device behind it, or that it was quicker than any.
fn doubts(write: &Write, passes: &[Written]) -> Vec<Reason> {
    if write.sync == SyncName::None {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    let place = fathom_fileio::look(&write.file).ok();
    if let Some(place) = place.filter(|place| place.is_on_device() != Some(true)) {
        let name = place.file_system.name;
        let text = match place.is_on_device() {
            Some(_) => format!("{name} is no device of this machine: a sync there is none"),
            None => format!("whether a sync on {name} reaches a device cannot be told"),
        };
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    } else if let Some(text) = passes.iter().find_map(implausible) {
        doubts.push(Reason::new(Cause::NotAsAsked, text).with_remedy(Remedy::DistrustSyncs));
    }
    doubts
}

/// A sync that no device can have made, in words.
fn implausible(written: &Written) -> Option<String> {
    let each_ns = written.sync_ns / written.syncs.max(1) as f64;
    if written.syncs > 0 && written.unsynced.is_some_and(|bytes| bytes > 0) && each_ns < QUICKEST_NS
    {
        let us = each_ns / 1e3;
        return Some(format!("a sync took {us:.1} µs: no device writes in so little time"));
    }
    let bytes = written.unsynced.filter(|_| written.syncs == 1)?;
    let rate = bytes as f64 / written.sync_ns;
    (bytes >= MUCH && rate > FASTEST).then(|| {
        let rate = quantity(1e9 * rate, Unit::BytesPerSecond);
        format!("{} were synced at {rate}: no device writes so fast", size(bytes))
    })
}

fn total_ns(written: &Written) -> f64 {
    written.data_ns + written.sync_ns + written.close_ns
}

fn word(sync: SyncName) -> &'static str {
    match sync {
        SyncName::None => "none",
        SyncName::Data => "data",
        SyncName::Every => "every",
    }
}

fn measured(
    write: &Write,
    passes: &[Written],
    cap: Option<&Cap>,
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum;
    let params = Params::one("block", write.block as i64)
        .and("sync", word(write.sync))
        .and("file_bytes", sum.bytes as i64);
    let rate = |written: &Written| 1e9 * written.sum.bytes as f64 / total_ns(written);
    let parts = [("data", last.data_ns), ("sync", last.sync_ns), ("close", last.close_ns)];
    let mut verified = vec![("file", shown(&write.file))];
    verified.extend(sums(sum));
    verified.push(("calls", last.calls.to_string()));
    verified.extend(parts.map(|(name, ns)| (name, format!("{ns:.0} ns"))));
    let values: Vec<f64> = match sum.bytes {
        0 => Vec::new(),
        _ => passes.iter().map(rate).collect(),
    };
    let remarks = cap.and_then(|cap| cap.reached(&values)).into_iter().collect();
    Measured {
        metric: "file.write.throughput",
        params,
        values,
        disturbance,
        checks: checked(verified),
        verdict: by_hand::nothing_done(sum.bytes),
        doubts: doubts(write, passes)
            .into_iter()
            .chain(by_hand::too_short(passes.iter().map(total_ns)))
            .collect(),
        remarks,
        facts: facts(write, last, cap),
        ..Measured::default()
    }
}

/// What was written, and how long each part of it took.
fn facts(write: &Write, written: &Written, cap: Option<&Cap>) -> Vec<Fact> {
    let seconds = |ns: f64| format!("{:.6} s", ns / 1e9);
    let total = total_ns(written);
    let beside = format!(
        "{} for making the data, {} for giving it its name",
        seconds(written.generate_ns),
        seconds(written.name_ns)
    );
    let amount = amount(write.count, write.block, written.sum.bytes);
    let ns = |name, ns| Fact::quantity(name, ns, Unit::Nanoseconds);
    let mut facts = vec![
        Fact::text("file", shown(&write.file)),
        Fact::text("written", format!("{amount}; sync {}", word(write.sync))),
        ns("data", written.data_ns),
        ns("sync", written.sync_ns),
        ns("close", written.close_ns),
        ns("total", total),
        Fact::text("beside", beside),
        Fact::quantity("calls", 1e9 * written.calls as f64 / total, Unit::PerSecond),
    ];
    facts.extend(sum_facts(written.sum));
    facts.extend(cap.into_iter().flat_map(Cap::facts));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_no_device_can_have_made_is_implausible() {
        let synced = |bytes, syncs, sync_ns| Written {
            unsynced: Some(bytes),
            syncs,
            sync_ns,
            ..Written::default()
        };
        assert_eq!(implausible(&synced(64 << 20, 1, 60e6)), None, "1.1 GB/s");
        assert!(implausible(&synced(64 << 20, 1, 1e6)).is_some(), "67 GB/s");
        assert!(implausible(&synced(4096, 1, 900.0)).is_some());
        assert_eq!(implausible(&synced(4096, 1, 50e3)), None);
        assert!(implausible(&synced(4096, 1000, 1e6)).is_some(), "1 µs each");
        assert_eq!(implausible(&synced(0, 1, 900.0)), None, "all was written back before");
        assert_eq!(implausible(&Written::default()), None);
    }
}
