//! `fathom file write`: so many blocks of generated data.

use std::sync::atomic::Ordering;

use fathom_fileio::write::{Request, Sync, WriteError, Written};
use fathom_record::{Disturbance, Params};

use super::cap::Cap;
use super::session::{Measured, Session, checked, refuse, shown};
use crate::arguments::file::{SyncName, WriteArguments};
use crate::exit::Status;

const MIB: f64 = 1_048_576.0;

pub(super) fn write(arguments: &WriteArguments) -> anyhow::Result<Status> {
    let bytes = (arguments.block as u128) * u128::from(arguments.count);
    if bytes > 1 << 63 {
        let (block, count) = (arguments.block, arguments.count);
        return Err(refuse(format!(
            "{count} blocks of {block} bytes are {bytes} bytes, above 2^63; give fewer"
        )));
    }
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
    say(&mut session, arguments, &passes[passes.len() - 1]);
    cap.iter().for_each(|cap| session.say_facts(&cap.facts()));
    session.say_standing(&record);
    session.end()
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
        remarks,
        notes: cap.map(|cap| cap.told.clone()).unwrap_or_default(),
        ..Measured::default()
    }
}

fn say(session: &mut Session, arguments: &WriteArguments, written: &Written) {
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
                "{} (making the data: {}, not in it)",
                seconds(total),
                seconds(written.generate_ns)
            ),
        ),
    ];
    if bytes > 0 {
        let rate = 1e9 * bytes as f64 / total;
        let per_second = 1e9 * written.calls as f64 / total;
        let mib = rate / MIB;
        facts.push(("speed", format!("{rate:.0} B/s = {mib:.1} MiB/s; {per_second:.0} calls/s")));
    }
    facts.push(("XOR-32", format!("{:08x}", written.sum.xor)));
    facts.push(("position sum", format!("{:016x}", written.sum.position)));
    session.say_facts(&facts);
}
