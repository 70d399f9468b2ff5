//! `fathom completions`: a completion script for a shell.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;

use crate::arguments::{Arguments, CompletionsArguments};
use crate::exit::Status;

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    let mut command = with_metric_names(Arguments::command());
    clap_complete::generate(arguments.shell, &mut command, "fathom", &mut script);
    super::print_text(&String::from_utf8_lossy(&script))
}

/// The command with the names of groups and metrics as values. Its own parser accepts cases, too,
/// which are too many to be completed.
fn with_metric_names(command: Command) -> Command {
    let ids = || REGISTRY.entries().iter().map(Entry::about).map(|about| about.id);
    let mut groups: Vec<&str> = ids().filter_map(|id| id.split('.').next()).collect();
    groups.dedup();
    let places = [
        ("run", "metrics", true),
        ("list", "metrics", true),
        ("show", "names", true),
        ("explain", "metrics", false),
        ("history", "metric", false),
    ];
    places.into_iter().fold(command, |command, (name, argument, has_groups)| {
        let groups = groups.iter().copied().filter(|_| has_groups);
        let names = PossibleValuesParser::new(groups.chain(ids()));
        command.mut_subcommand(name, |one| one.mut_arg(argument, |it| it.value_parser(names)))
    })
}
