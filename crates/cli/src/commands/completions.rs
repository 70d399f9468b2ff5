//! `fathom completions`: a completion script for a shell.

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsArguments};
use crate::exit::Status;

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "fathom", &mut script);
    super::print_text(&String::from_utf8_lossy(&script))
}
