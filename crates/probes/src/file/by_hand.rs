//! What the procedures on files share: how they refuse, what they call invalid or doubtful, and how
//! facts are written that every one of them states.

use std::path::Path;
use std::sync::atomic::Ordering;

use fathom_fileio::Sum;
use fathom_fileio::read::{ReadFault, Way};
use fathom_metric::{Event, ProcedureError, Recorder};
use fathom_record::quantity::quantity;
use fathom_record::{Cause, Check, Disturbance, Fact, Reason, State, Unit, Verdict};

/// What the models of files are made of, from earlier runs on this host.
pub(super) const MODEL_INPUTS: &[&str] = &["os.syscall", "file.call", "memory.bandwidth"];

/// Passes that are shorter are mostly their beginning: threads, buffers, the first call.
const SHORT_NS: f64 = 200_000.0;

/// A pass with what disturbed it; none where it gave nothing.
type Passed<P> = Result<Option<(P, Disturbance)>, ProcedureError>;

/// Makes passes, as often as asked, until a person stops it, one gives nothing or one `ends` them;
/// with what disturbed them all together.
pub(super) fn repeated<P>(
    recorder: &mut dyn Recorder,
    (times, what): (u32, &str),
    mut pass: impl FnMut(&mut dyn Recorder, u32) -> Passed<P>,
    ends: impl Fn(&P) -> bool,
) -> Result<(Vec<P>, Disturbance), ProcedureError> {
    let mut passes = Vec::new();
    let mut disturbance: Option<Disturbance> = None;
    for number in 0..times {
        if recorder.stop().now().load(Ordering::Relaxed) && !passes.is_empty() {
            break;
        }
        recorder.event(Event::Progress { done: number.into(), all: times.into(), what });
        let Some((one, counted)) = pass(recorder, number)? else { break };
        disturbance = Some(disturbance.map_or(counted.clone(), |sum| sum.plus(&counted)));
        passes.push(one);
        if passes.last().is_some_and(&ends) {
            break;
        }
    }
    Ok((passes, disturbance.unwrap_or_default()))
}

/// Refuses more bytes than a file can have.
pub(super) fn check_length(block: usize, count: u64) -> Result<u128, ProcedureError> {
    let bytes = block as u128 * u128::from(count);
    match bytes <= 1 << 63 {
        true => Ok(bytes),
        false => Err(ProcedureError::usage(format!(
            "{count} blocks of {block} bytes are {bytes} bytes, above 2^63; give fewer"
        ))),
    }
}

/// A path for the terminal: what moves a cursor is taken out of names.
pub(super) fn printable(path: &Path) -> String {
    path.display().to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Several paths for the terminal.
pub(super) fn printable_list<'p>(paths: impl IntoIterator<Item = &'p std::path::PathBuf>) -> String {
    paths.into_iter().map(|path| printable(path)).collect::<Vec<_>>().join(" ")
}

/// A number of bytes, as `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    quantity(bytes as f64, Unit::Bytes)
}

/// A way in one word, as records and `--way` have it.
pub(super) fn way_name(way: Way) -> &'static str {
    match way {
        Way::Pread => "pread",
        Way::Map => "mmap",
        Way::Direct => "direct",
        Way::Ring { .. } => "ring",
        Way::Calls { .. } => "read",
    }
}

pub(super) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// Facts that were counted or looked up, as checks that cannot fail by themselves.
pub(super) fn checked(facts: Vec<(&str, String)>) -> Vec<Check> {
    let check =
        |(name, detail): (&str, String)| Check { name: name.to_owned(), passed: true, detail };
    facts.into_iter().map(check).collect()
}

/// The sums of what was read or written.
pub(super) fn sums(sum: Sum) -> Vec<(&'static str, String)> {
    vec![
        ("XOR-32", format!("{:08x}", sum.xor)),
        ("position sum", format!("{:016x}", sum.position)),
        ("bytes", sum.bytes.to_string()),
    ]
}

/// The same as facts, without the bytes.
pub(super) fn sum_facts(sum: Sum) -> impl Iterator<Item = Fact> {
    sums(sum).into_iter().take(2).map(|(name, text)| Fact::text(name, text))
}

/// How many blocks, bytes and MiB there are.
pub(super) fn amount(blocks: u64, block: usize, bytes: u64) -> String {
    let mib = bytes as f64 / 1_048_576.0;
    format!("{blocks} blocks of {block} bytes: {bytes} bytes = {mib:.3} MiB")
}

/// The verdict on a number for which nothing was read or written.
pub(super) fn nothing_done(bytes: u64) -> Option<Verdict> {
    let text = "there were no bytes: there is nothing to measure";
    (bytes == 0).then(|| Verdict::because(State::Unavailable, Cause::Missing, text))
}

/// The state of passes, or of files, that may differ in it, in one word.
pub(super) fn state_of_all<'s>(states: &[&'s str]) -> &'s str {
    match states {
        [first, rest @ ..] if rest.iter().all(|state| state == first) => first,
        states if states.is_empty() || states.contains(&"unknown") => "unknown",
        _ => "mixed",
    }
}

/// That passes began in different states, so that no one number tells of them.
pub(super) fn other_states(states: &[&str]) -> Option<Reason> {
    let (first, last) = (states.first()?, states.last()?);
    let is_mixed = states.iter().any(|state| state != first);
    let text = format!(
        "the passes began in different states, the first {first}, the last {last}: what one reads \
         the next finds in memory"
    );
    is_mixed.then(|| Reason::new(Cause::NotAsAsked, text))
}

/// The same counters where more threads than CPUs wait for each other: that is the work's own
/// doing, and nobody else's.
pub(super) fn without_own_waits(counted: Disturbance, threads: usize) -> Disturbance {
    let cpus = fathom_measure::affinity::allowed().len();
    let waits = counted.run_queue_ns.filter(|_| threads <= cpus);
    Disturbance { run_queue_ns: waits, ..counted }
}

/// That a pass was so short that beginning is a part of it.
pub(super) fn too_short(ns: impl Iterator<Item = f64>) -> Option<Reason> {
    let least = ns.fold(f64::INFINITY, f64::min);
    let text = || {
        let took = quantity(least, Unit::Nanoseconds);
        format!("a pass took {took}: too short for a rate, beginning is most of it")
    };
    (least < SHORT_NS).then(|| Reason::new(Cause::TooShort, text()))
}

/// A place that could not be read, in words.
pub(super) fn fault_words(fault: &ReadFault) -> String {
    let error = std::io::Error::from_raw_os_error(fault.error);
    format!("{} bytes from byte {} on: {error}", fault.bytes, fault.at)
}

/// What places that could not be read do to a number.
pub(super) fn unreadable<'f>(faults: impl Iterator<Item = &'f ReadFault>) -> Option<Verdict> {
    let words: Vec<String> = faults.map(fault_words).collect();
    let text = match words.as_slice() {
        [] => return None,
        [first] => format!("could not be read: {first}"),
        [first, rest @ ..] => format!("could not be read: {first}; and {} more places", rest.len()),
    };
    Some(Verdict::because(State::Invalid, Cause::WrongWork, text))
}
