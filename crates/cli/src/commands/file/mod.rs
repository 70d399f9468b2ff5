//! `fathom file`: one file, by hand. One file per command, and the session they share.

mod read;
mod session;
mod state;
mod stop;
mod write;

use fathom_record::{Cause, State, Verdict};

use crate::arguments::file::{FileArguments, FileCommand};
use crate::exit::Status;

/// What the models of files are made of, from earlier runs on this host.
const MODEL_INPUTS: &[&str] = &["os.syscall", "memory.latency.dram", "memory.bandwidth"];

/// The verdict on a number for which nothing was read or written.
fn nothing_done(bytes: u64) -> Option<Verdict> {
    let text = "there were no bytes: there is nothing to measure";
    (bytes == 0).then(|| Verdict::because(State::Unavailable, Cause::Missing, text))
}

pub(super) fn file(arguments: &FileArguments) -> anyhow::Result<Status> {
    match &arguments.command {
        FileCommand::Read(read) => read::read(read),
        FileCommand::Write(write) => write::write(write),
    }
}
