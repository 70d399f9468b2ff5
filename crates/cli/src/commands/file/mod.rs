//! `fathom file`: one file, by hand. One file per command, and the session they share.

mod cache;
mod calls;
mod cap;
mod capacity;
mod contend;
mod contender;
mod curve;
mod fast;
mod found;
mod read;
mod search;
mod series;
mod session;
mod size;
mod state;
mod stop;
mod sweep;
mod temporary;
mod write;

use fathom_fileio::read::Fault;
use fathom_record::{Cause, Disturbance, Reason, Record, State, Verdict};

use crate::arguments::file::{FileArguments, FileCommand};
use crate::exit::Status;

/// What the models of files are made of, from earlier runs on this host.
const MODEL_INPUTS: &[&str] = &["os.syscall", "file.call", "memory.bandwidth"];

const MIB: f64 = 1_048_576.0;

/// What stands where a number must not be believed.
const NO_NUMBER: &str = "–";

/// Passes that are shorter tell of their beginning: threads, buffers, the first call.
const SHORT_NS: f64 = 200_000.0;

/// The verdict on a number for which nothing was read or written.
fn nothing_done(bytes: u64) -> Option<Verdict> {
    let text = "there were no bytes: there is nothing to measure";
    (bytes == 0).then(|| Verdict::because(State::Unavailable, Cause::Missing, text))
}

pub(super) fn file(arguments: &FileArguments) -> anyhow::Result<Status> {
    match &arguments.command {
        FileCommand::Fast(fast) => fast::fast(fast),
        FileCommand::Read(read) => read::read(read),
        FileCommand::Write(write) => write::write(write),
        FileCommand::Calls(calls) => calls::calls(calls),
        FileCommand::Contend(contend) => contend::contend(contend),
        FileCommand::Contender(contender) => contender::contender(contender),
        FileCommand::Capacity(capacity) => capacity::capacity(capacity),
        FileCommand::Size(size) => size::size_of(size),
        FileCommand::Sweep(sweep) => sweep::sweep(sweep),
        FileCommand::Cache(cache) => cache::cache(cache),
    }
}

/// The state of passes, or of files, that may differ in it, in one word.
fn state_of_all<'s>(states: &[&'s str]) -> &'s str {
    match states {
        [first, rest @ ..] if rest.iter().all(|state| state == first) => first,
        states if states.is_empty() || states.contains(&"unknown") => "unknown",
        _ => "mixed",
    }
}

/// That passes began in different states, so that no one number tells of them.
fn other_states(states: &[&str]) -> Option<Reason> {
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
fn without_own_waits(counted: Disturbance, threads: usize) -> Disturbance {
    let cpus = fathom_measure::affinity::allowed().len();
    let waits = counted.run_queue_ns.filter(|_| threads <= cpus);
    Disturbance { run_queue_ns: waits, ..counted }
}

/// That a pass was so short that beginning is a part of it.
fn too_short(ns: impl Iterator<Item = f64>) -> Option<Reason> {
    let least = ns.fold(f64::INFINITY, f64::min);
    let text = || {
        let took = fathom_report::quantity(least, fathom_record::Unit::Nanoseconds);
        format!("a pass took {took}: too short for a rate, beginning is most of it")
    };
    (least < SHORT_NS).then(|| Reason::new(Cause::TooShort, text()))
}

/// What cold means where the machine is a guest.
fn guest(session: &session::Session, state: fathom_fileio::residency::State) -> &'static str {
    let is_cold = state == fathom_fileio::residency::State::Cold;
    match is_cold && session.host().virtualization.is_some() {
        true => "; cold in this guest: its host may hold it",
        false => "",
    }
}

/// Refuses more bytes than a file can have.
fn check_length(block: usize, count: u64) -> anyhow::Result<u128> {
    let bytes = block as u128 * u128::from(count);
    match bytes <= 1 << 63 {
        true => Ok(bytes),
        false => Err(session::refuse(format!(
            "{count} blocks of {block} bytes are {bytes} bytes, above 2^63; give fewer"
        ))),
    }
}

/// A speed in both units, and calls a second where they were counted; none where the record's
/// number must not be believed.
fn speed_told(record: &Record, bytes: u64, ns: f64, calls: Option<u64>) -> String {
    if !record.verdict.shows_number() {
        return NO_NUMBER.to_owned();
    }
    let seconds = ns / 1e9;
    let rate = bytes as f64 / seconds;
    let calls =
        calls.map_or(String::new(), |calls| format!("; {:.0} calls/s", calls as f64 / seconds));
    format!("{rate:.0} B/s = {:.1} MiB/s{calls}", rate / MIB)
}

/// A number of bytes, exactly and for people.
fn bytes_told(bytes: u64) -> String {
    format!("{bytes} bytes = {}", session::size(bytes))
}

/// A place that could not be read, in words.
fn fault_told(fault: &Fault) -> String {
    let error = std::io::Error::from_raw_os_error(fault.error);
    format!("{} bytes from byte {} on: {error}", fault.bytes, fault.at)
}

/// What places that could not be read do to a number.
fn unreadable<'f>(faults: impl Iterator<Item = &'f Fault>) -> Option<Verdict> {
    let words: Vec<String> = faults.map(fault_told).collect();
    let text = match words.as_slice() {
        [] => return None,
        [first] => format!("could not be read: {first}"),
        [first, rest @ ..] => format!("could not be read: {first}; and {} more places", rest.len()),
    };
    Some(Verdict::because(State::Invalid, Cause::WrongWork, text))
}
