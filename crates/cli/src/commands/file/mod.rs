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
use fathom_record::{Cause, State, Verdict};

use crate::arguments::file::{FileArguments, FileCommand};
use crate::exit::Status;

/// What the models of files are made of, from earlier runs on this host.
const MODEL_INPUTS: &[&str] = &["os.syscall", "file.call", "memory.bandwidth"];

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
