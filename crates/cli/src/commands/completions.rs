//! `fathom completions`: a completion script for a shell.

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsArguments};
use crate::exit::Status;
use crate::terminal::Output;

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "fathom", &mut script);
    let mut output = Output::new();
    output.write(&String::from_utf8_lossy(&script));
    super::printed(&output)
}
