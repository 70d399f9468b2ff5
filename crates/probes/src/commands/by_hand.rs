//! Shared by the `fathom file …` commands: repeated passes, refusals, verdicts and the wording of
//! common facts.

use std::path::Path;
use std::sync::atomic::Ordering;

use fathom_fileio::XorSum;
use fathom_fileio::path_info::{FileKind, PathInfo, PathInfoChange};
use fathom_fileio::read::ReadFault;
use fathom_measure::clock;
use fathom_record::quantity::counted;
use fathom_record::{Check, State, escaped};

use crate::prelude::*;

/// Metrics whose earlier results on this host the file models use.
pub(super) const MODEL_INPUTS: &[&str] = &["os.syscall", "file.call", "memory.bandwidth"];

pub(super) type ByHandResult<T, E = ProcedureError> = std::result::Result<T, E>;

/// How often the passes so far are stored: a killed command loses this and one pass at most.
const DRAFT_NS: u64 = 1_000_000_000;

/// Runs `times` passes, or fewer if the user stops them, `pass` returns `None` or `is_last` is
/// true. Returns them with their total disturbance. `record` makes the record of the passes so far.
pub(super) fn repeated<P>(
    recorder: &mut dyn Recorder,
    (times, what): (u32, &str),
    mut pass: impl FnMut(&mut dyn Recorder, u32) -> ByHandResult<Option<(P, Disturbance)>>,
    is_last: impl Fn(&P) -> bool,
    record: impl Fn(&mut dyn Recorder, &[P], Disturbance),
) -> ByHandResult<(Vec<P>, Disturbance)> {
    let mut passes = Vec::new();
    let mut disturbance: Option<Disturbance> = None;
    let mut stored_ns = clock::monotonic_raw_ns();
    for number in 0..times {
        if recorder.stop().now().load(Ordering::Relaxed) && !passes.is_empty() {
            break;
        }
        recorder.event(Event::Progress { done: number.into(), all: times.into(), what });
        let Some((one, counted)) = pass(recorder, number)? else { break };
        add(&mut disturbance, counted);
        passes.push(one);
        if passes.last().is_some_and(&is_last) {
            break;
        }
        if number + 1 < times && clock::monotonic_raw_ns() - stored_ns >= DRAFT_NS {
            let so_far = disturbance.clone().unwrap_or_default();
            recorder.draft(&mut |recorder| record(recorder, &passes, so_far.clone()));
            stored_ns = clock::monotonic_raw_ns();
        }
    }
    Ok((passes, disturbance.unwrap_or_default()))
}

/// Adds the disturbance of one more step.
pub(super) fn add(sum: &mut Option<Disturbance>, counted: Disturbance) {
    *sum = Some(sum.as_ref().map_or(counted.clone(), |sum| sum.plus(&counted)));
}

/// Why a file has no pages to measure; `None` if it has.
fn no_pages(info: &PathInfo) -> Option<&'static str> {
    match (info.size, info.kind) {
        (Some(1..), _) => None,
        (Some(0), _) => Some("is empty: it has no pages"),
        (None, FileKind::Regular) => {
            Some("has no pages: the kernel generates it when it is read; name a file on a disk")
        }
        (None, _) => Some("has no end: name a regular file"),
    }
}

/// Opens a file, which must have pages to measure.
pub(super) fn open_with_pages(path: &Path) -> ByHandResult<PathInfoSource> {
    let source = PathInfoSource::open(path).map_err(ProcedureError::failed)?;
    match no_pages(source.info()) {
        None => Ok(source),
        Some(why) => Err(ProcedureError::failed(format!("{} {why}", printable(path)))),
    }
}

/// Refuses more than the maximum file size.
pub(super) fn check_length(block: usize, count: u64) -> ByHandResult<u128> {
    let bytes = block as u128 * u128::from(count);
    match bytes <= 1 << 63 {
        true => Ok(bytes),
        false => Err(ProcedureError::usage(format!(
            "{count} blocks of {block} bytes are {bytes} bytes, above 2^63; use fewer"
        ))),
    }
}

/// A path for the terminal.
pub(super) fn printable(path: &Path) -> String {
    escaped(&path.display().to_string())
}

pub(super) fn printable_list<'p>(
    paths: impl IntoIterator<Item = &'p std::path::PathBuf>,
) -> String {
    paths.into_iter().map(|path| printable(path)).collect::<Vec<_>>().join(" ")
}

/// Such as `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    quantity(bytes as f64, Unit::Bytes)
}

pub(super) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// Facts as checks that always pass.
pub(super) fn checked(facts: Vec<(&str, String)>) -> Vec<Check> {
    let check =
        |(name, detail): (&str, String)| Check { name: name.to_owned(), passed: true, detail };
    facts.into_iter().map(check).collect()
}

pub(super) fn sums(sum: XorSum) -> Vec<(&'static str, String)> {
    vec![
        ("XOR-32", format!("{:08x}", sum.xor)),
        ("position sum", format!("{:016x}", sum.position)),
        ("bytes", sum.bytes.to_string()),
    ]
}

/// The checksums of [`sums`].
pub(super) fn sum_facts(sum: XorSum) -> impl Iterator<Item = Fact> {
    sums(sum).into_iter().take(2).map(|(name, text)| Fact::text(name, text))
}

pub(super) fn amount(blocks: u64, block: usize, bytes: u64) -> String {
    let blocks = counted(blocks as usize, "block");
    let whole = match bytes {
        0..1024 => String::new(),
        1024..1_048_576 => format!(" = {:.3} KiB", bytes as f64 / 1024.0),
        _ => format!(" = {:.3} MiB", bytes as f64 / 1_048_576.0),
    };
    format!("{blocks} of {block} bytes: {bytes} bytes{whole}")
}

/// The verdict if no byte was read or written.
pub(super) fn nothing_done(bytes: u64) -> Option<Verdict> {
    let text = "0 bytes: nothing to measure";
    (bytes == 0).then(|| Verdict::because(State::Unavailable, Cause::NotAsAsked, text))
}

/// The common state of passes or files: `unknown` if one is, `mixed` if they differ.
pub(super) fn state_of_all<'s>(states: &[&'s str]) -> &'s str {
    match states {
        [first, rest @ ..] if rest.iter().all(|state| state == first) => first,
        states if states.is_empty() || states.contains(&"unknown") => "unknown",
        _ => "mixed",
    }
}

/// The doubt if the passes began in different states.
pub(super) fn other_states(states: &[&str]) -> Option<Reason> {
    let (first, last) = (states.first()?, states.last()?);
    let is_mixed = states.iter().any(|state| state != first);
    let text = format!(
        "the passes began in different states, the first {first}, the last {last}: each pass \
         leaves pages in the cache"
    );
    is_mixed.then(|| Reason::new(Cause::NotAsAsked, text))
}

/// Drops the run-queue wait if there are more threads than CPUs, which then wait for each other.
pub(super) fn without_own_waits(counted: Disturbance, threads: usize) -> Disturbance {
    let cpus = fathom_measure::affinity::allowed().len();
    let waits = counted.run_queue_ns.filter(|_| threads <= cpus);
    Disturbance { run_queue_ns: waits, ..counted }
}

/// An unreadable range for the terminal.
pub(super) fn describe_fault(fault: &ReadFault) -> String {
    let error = std::io::Error::from_raw_os_error(fault.error);
    format!("{} bytes from byte {} on: {error}", fault.bytes, fault.at)
}

/// The verdict if a file changed: what was read is no one content of it.
pub(super) fn changed(change: Option<PathInfoChange>) -> Option<Verdict> {
    let text = format!("the file changed: {}", change?);
    Some(Verdict::because(State::Invalid, Cause::NotAsAsked, text))
}

/// The ending of a command that read these files: faulty if one changed.
pub(super) fn ending(sources: &[PathInfoSource]) -> Ending {
    match sources.iter().any(|source| source.change().is_some()) {
        true => Ending::Faulty,
        false => Ending::Done,
    }
}

/// The verdict if ranges were unreadable.
pub(super) fn unreadable<'f>(faults: impl Iterator<Item = &'f ReadFault>) -> Option<Verdict> {
    let ranges: Vec<String> = faults.map(describe_fault).collect();
    let text = match ranges.as_slice() {
        [] => return None,
        [first] => format!("unreadable: {first}"),
        [first, rest @ ..] => format!("unreadable: {first}; and {} more ranges", rest.len()),
    };
    Some(Verdict::because(State::Invalid, Cause::WrongWork, text))
}
