//! The command line of what measures by hand: commands are made from the registry, and what all of
//! them have in common is added here.

use std::fmt;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, FromArgMatches};
use fathom_metric::{Command, Procedure};
use fathom_probes::REGISTRY;
use fathom_record::label;

use super::StoreArguments;

const EXAMPLES: &str = "\
Examples:
  fathom file read FILE --block 64K     block by block, with its XOR-32 and its speed
  fathom file fast FILE                 read and check it as fast as this machine can
  fathom file write FILE --block 1M --count 1000 --sync data
  fathom file calls                     what a call on a cached file costs
  fathom file contend                   what a block costs while other processes read as well
  fathom file capacity                  how large a file stays in memory
  fathom file sweep                     how speed depends on block, state and threads
  fathom file cache FILE                what the page cache makes of it
  fathom file size --block 16           which size takes a reasonable time

Blocks are exactly as large as they are said to be, and no block size changes a checksum. Sizes are
bytes, or as 64KiB (64K) and 1MB.";

/// The group of commands on files.
const GROUP: &str = "file";

/// What they have in common, with `fathom show` too.
#[derive(Debug, Args)]
pub struct Common {
    /// Print one JSON document instead.
    #[arg(long)]
    pub json: bool,
    /// With the raw values.
    #[arg(long, requires = "json")]
    pub samples: bool,
    /// Where results are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// What the commands on files have in common.
#[derive(Debug, Args)]
struct Shared {
    /// Name the run; every command that takes a run finds it by this name.
    #[arg(long, value_name = "TEXT", value_parser = label)]
    label: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// `fathom file …`.
pub struct FileArguments {
    /// The command.
    pub command: &'static Command,
    /// What it was asked to do.
    pub procedure: Box<dyn Procedure>,
    /// The name of its run.
    pub label: Option<String>,
    /// Output and store.
    pub common: Common,
}

impl fmt::Debug for FileArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileArguments").field("command", &self.command.path).finish_non_exhaustive()
    }
}

fn commands() -> impl Iterator<Item = &'static Command> {
    REGISTRY.commands().iter().filter(|command| command.group_and_name().0 == GROUP)
}

/// A command with the common options, and still with its own description.
fn with_common(options: clap::Command) -> clap::Command {
    let about = Resettable::from(options.get_about().cloned());
    let long = Resettable::from(options.get_long_about().cloned());
    Shared::augment_args(options).about(about).long_about(long)
}

impl Args for FileArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        let whole = command.after_help(EXAMPLES).subcommand_required(true);
        let whole = whole.arg_required_else_help(true);
        commands().fold(whole, |all, one| all.subcommand(with_common(one.options())))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FileArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, of_command) = matches.subcommand().ok_or_else(missing)?;
        let command = commands().find(|one| one.group_and_name().1 == name).ok_or_else(missing)?;
        let Shared { label, common } = Shared::from_arg_matches(of_command)?;
        Ok(Self { command, procedure: command.procedure(of_command)?, label, common })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_keeps_its_own_description() {
        assert!(commands().count() >= 9);
        for command in commands() {
            let own = command.options().get_about().map(ToString::to_string);
            let shown = with_common(command.options()).get_about().map(ToString::to_string);
            assert!(own.is_some() && own == shown, "{}: {shown:?}", command.path);
        }
    }
}
