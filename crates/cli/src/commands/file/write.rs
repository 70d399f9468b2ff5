//! `fathom file write`: so many blocks of generated data.

use std::sync::atomic::Ordering;

use fathom_fileio::write::{Request, Sync, WriteError, Written};
use fathom_record::{Cause, Disturbance, Params, Reason, Record, Unit};
use fathom_report::quantity;
use rustix::io::Errno;

use super::MIB;
use super::cap::Cap;
use super::session::{Measured, Session, checked, refuse, shown, size};
use crate::arguments::file::{SyncName, WriteArguments};
use crate::exit::Status;

/// No sync of dirty data is quicker: a write to flash memory with a buffer that survives a loss of
/// power takes some 10 µs.
const QUICKEST_NS: f64 = 5_000.0;
/// Bytes a nanosecond that no single device reaches today.
const FASTEST: f64 = 30.0;
/// From so many bytes on a rate of syncing means something.
const MUCH: u64 = 1 << 20;

pub(super) fn write(arguments: &WriteArguments) -> anyhow::Result<Status> {
    let bytes = super::check_length(arguments.block, arguments.count)?;
    check_space(arguments, bytes)?;
    let asked = format!("file write {}", shown(&arguments.file));
    let mut session = Session::begin(&arguments.common, asked)?;
    session.recall(super::MODEL_INPUTS);
    let mut passes: Vec<Written> = Vec::new();
    let mut disturbance: Option<Disturbance> = None;
    for number in 0..arguments.repeat {
        if session.stop().now().load(Ordering::Relaxed) && !passes.is_empty() {
            break;
        }
        let request = Request {
            block: arguments.block,
            count: arguments.count,
            seed: arguments.seed,
            sync: match arguments.sync {
                SyncName::None => Sync::None,
                SyncName::Data => Sync::Data,
                SyncName::Every => Sync::Every,
            },
            overwrite: arguments.force || number > 0,
            stop: session.stop().now(),
        };
        let (written, counted) =
            session.observed(|clock| fathom_fileio::write(&arguments.file, &request, clock));
        match written {
            Ok(written) => passes.push(written),
            // What earlier passes gave stands.
            Err(WriteError::Stopped { .. }) if !passes.is_empty() => break,
            Err(WriteError::Stopped { path, after }) => {
                let path = shown(&path);
                crate::terminal::warn(&format!(
                    "stopped after {after} bytes; nothing is left of {path}"
                ));
                return Ok(Status::Interrupted);
            }
            Err(error @ (WriteError::Invalid(_) | WriteError::InUse { .. })) => {
                return Err(refuse(error));
            }
            Err(WriteError::Failed { path, error, .. }) if is_of_the_place(error) => {
                let path = shown(&path);
                return Err(refuse(format!("write {path}: {error}; name a place to write to")));
            }
            Err(error) => return Err(error.into()),
        }
        disturbance = Some(disturbance.map_or(counted.clone(), |sum| sum.plus(&counted)));
    }
    // Without a sync it is memory that is written.
    let is_synced = arguments.sync != SyncName::None;
    let file = std::fs::File::open(&arguments.file).ok().filter(|_| is_synced);
    let cap = file.and_then(|file| Cap::on_writes(&file));
    let disturbance = disturbance.unwrap_or_default();
    let record = session.record(measured(arguments, &passes, cap.as_ref(), disturbance));
    say(&mut session, &record, arguments, &passes[passes.len() - 1]);
    cap.iter().for_each(|cap| session.say_facts(&cap.facts()));
    session.say_standing(&record);
    session.end()
}

/// Whether it is the place that cannot be written to, whatever is written.
fn is_of_the_place(error: Errno) -> bool {
    use Errno as E;
    [E::NOENT, E::NOTDIR, E::ACCESS, E::PERM, E::ROFS, E::NAMETOOLONG, E::LOOP].contains(&error)
}

/// Refuses what there is no space for, before the disk is full. What may not be looked at is found
/// out later.
fn check_space(arguments: &WriteArguments, bytes: u128) -> anyhow::Result<()> {
    let folder = arguments.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let Ok(told) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = told.f_bavail.saturating_mul(told.f_frsize);
    if told.f_blocks == 0 || bytes <= u128::from(free) {
        return Ok(());
    }
    let (need, free) = (size(bytes as u64), size(free));
    let folder = shown(folder);
    Err(refuse(format!(
        "{need} are to be written to {folder}, where {free} are free; give fewer blocks, or free \
         space"
    )))
}

/// What speaks against a sync: that there is no device behind it, or that it was quicker than any.
fn doubts(arguments: &WriteArguments, passes: &[Written]) -> Vec<Reason> {
    if arguments.sync == SyncName::None {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    let place = fathom_fileio::look(&arguments.file).ok();
    if let Some(place) = place.filter(|place| place.is_on_device() != Some(true)) {
        let name = place.file_system.name;
        let text = match place.is_on_device() {
            Some(_) => format!("{name} is no device of this machine: a sync there is none"),
            None => format!("whether a sync on {name} reaches a device cannot be told"),
        };
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    } else if let Some(text) = passes.iter().find_map(implausible) {
        let next = "the file system, the host or the device drops syncs: a loss of power would \
                    lose what is called written";
        doubts.push(Reason::new(Cause::NotAsAsked, text).with_next(next));
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
    arguments: &WriteArguments,
    passes: &[Written],
    cap: Option<&Cap>,
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum;
    let params = Params::one("block", arguments.block as i64)
        .and("sync", word(arguments.sync))
        .and("file_bytes", sum.bytes as i64);
    let rate = |written: &Written| 1e9 * written.sum.bytes as f64 / total_ns(written);
    let facts = vec![
        ("file", shown(&arguments.file)),
        ("XOR-32", format!("{:08x}", sum.xor)),
        ("position sum", format!("{:016x}", sum.position)),
        ("bytes", sum.bytes.to_string()),
        ("calls", last.calls.to_string()),
        ("data", format!("{:.0} ns", last.data_ns)),
        ("sync", format!("{:.0} ns", last.sync_ns)),
        ("close", format!("{:.0} ns", last.close_ns)),
    ];
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
        checks: checked(facts),
        verdict: super::nothing_done(sum.bytes),
        doubts: doubts(arguments, passes)
            .into_iter()
            .chain(super::too_short(passes.iter().map(total_ns)))
            .collect(),
        remarks,
        notes: cap.map(|cap| cap.told.clone()).unwrap_or_default(),
        ..Measured::default()
    }
}

fn say(session: &mut Session, record: &Record, arguments: &WriteArguments, written: &Written) {
    let bytes = written.sum.bytes;
    let seconds = |ns: f64| format!("{:.6} s", ns / 1e9);
    let total = total_ns(written);
    let mut facts = vec![
        ("file", shown(&arguments.file)),
        (
            "written",
            format!(
                "{} blocks of {} bytes: {bytes} bytes = {:.3} MiB; sync {}",
                arguments.count,
                arguments.block,
                bytes as f64 / MIB,
                word(arguments.sync)
            ),
        ),
        ("data", seconds(written.data_ns)),
        ("sync", seconds(written.sync_ns)),
        ("close", seconds(written.close_ns)),
        (
            "total",
            format!(
                "{} (not in it: making the data, {}; giving it its name, {})",
                seconds(total),
                seconds(written.generate_ns),
                seconds(written.name_ns)
            ),
        ),
    ];
    if bytes > 0 {
        facts.push(("speed", super::speed_told(record, bytes, total, Some(written.calls))));
    }
    facts.push(("XOR-32", format!("{:08x}", written.sum.xor)));
    facts.push(("position sum", format!("{:016x}", written.sum.position)));
    session.say_facts(&facts);
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
