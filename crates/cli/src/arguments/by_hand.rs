//! `fathom file`, `fathom load` and others: subcommands and options come from the registry; the
//! options that all share are here.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches};
use fathom_engine::matches;
use fathom_metric::{Command, Procedure};
use fathom_probes::REGISTRY;
use fathom_record::{is_own, label};

use super::{MemberOptions, StoreArguments};

const EXAMPLES: &str = "\
Examples:
  fathom file read FILE --block 64K     read block by block: XOR-32 and throughput
  fathom file fast FILE                 read and checksum as fast as this machine can
  fathom file write FILE --block 1M --count 1000 --sync data
  fathom file calls                     time system calls on a cached file
  fathom file contend                   time a block while other processes read too
  fathom file capacity                  find how large a file stays in the page cache
  fathom file sweep                     sweep block size, page-cache state and threads
  fathom file cache FILE                compare cold and warm reads
  fathom file size --block 16           find the size that takes a reasonable time

Block sizes are exact, and the checksum is the same for every block size. Sizes are in bytes, or
with a unit: 64KiB (64K), 1MB.";

const GROUP: &str = "file";

// Shared with `fathom show`.
#[derive(Clone, Debug, Args)]
pub struct OutputArguments {
    /// Print at most 24 rows: headline cases, the worst problem, the next command.
    #[arg(long, conflicts_with = "json")]
    pub brief: bool,
    /// Print one JSON document.
    #[arg(long, group = "document")]
    pub json: bool,
    /// Include raw samples.
    #[arg(long, requires = "document")]
    pub samples: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Debug, Args)]
struct SharedArguments {
    /// Name the run; the label works wherever a RUN is expected.
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    label: Option<String>,
    /// Print JSON lines: of a load each second, and each record when its step ends.
    #[arg(long, group = "document", conflicts_with_all = ["brief", "json"])]
    jsonl: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    member: MemberOptions,
}

// Of commands that have no -o of their own.
#[derive(Clone, Debug, Default, Args)]
struct DocumentFile {
    /// Also write the run to this file as one JSON document, atomically.
    #[arg(id = "document_file", long = "output", short = 'o', value_name = "FILE")]
    #[arg(group = "document")]
    path: Option<PathBuf>,
}

const FORCE: &str = "force";

/// A procedure with its parsed options and those that all procedures share.
pub struct ProcedureArguments {
    /// The command, such as `file read`.
    pub path: &'static str,
    pub procedure: Box<dyn Procedure>,
    pub label: Option<String>,
    /// Whether JSON lines are printed.
    pub jsonl: bool,
    pub output: OutputArguments,
    /// What the document is also written to, and whether that may exist.
    pub file: Option<PathBuf>,
    pub force: bool,
    pub member: MemberOptions,
}

impl ProcedureArguments {
    /// The options that all share, behind those of the command.
    fn augment(command: &Command, options: clap::Command) -> clap::Command {
        let whole = SharedArguments::augment_args(options);
        if !has_document_file(command) {
            return whole;
        }
        let whole = DocumentFile::augment_args(whole);
        let whole = whole.group(clap::ArgGroup::new("document").multiple(true));
        // That of `file write` is of both files.
        let has_force = whole.get_arguments().any(|it| it.get_id() == FORCE);
        let force = clap::Arg::new(FORCE).long(FORCE).help("Replace an existing file");
        let force = force.action(clap::ArgAction::SetTrue).requires("document_file");
        if has_force { whole } else { whole.arg(force) }
    }

    fn from_matches(command: &'static Command, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let SharedArguments { label, jsonl, output, member } =
            SharedArguments::from_arg_matches(matches)?;
        let (file, force) = match has_document_file(command) {
            true => (DocumentFile::from_arg_matches(matches)?.path, matches.get_flag(FORCE)),
            false => (None, false),
        };
        let procedure = command.procedure(matches)?;
        Ok(Self { path: command.path, procedure, label, jsonl, output, file, force, member })
    }
}

/// `--output` of `bench` and `fetch` is of what commands print, and of downloads.
fn has_document_file(command: &Command) -> bool {
    !["bench", "fetch"].contains(&command.path)
}

impl fmt::Debug for ProcedureArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcedureArguments").field("command", &self.path).finish_non_exhaustive()
    }
}

fn commands() -> impl Iterator<Item = &'static Command> {
    REGISTRY.commands().iter().filter(|command| command.group_and_name().0 == GROUP)
}

#[derive(Debug)]
pub struct FileArguments(pub ProcedureArguments);

impl Args for FileArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        let whole = command.after_help(EXAMPLES).subcommand_required(true);
        let whole = whole.arg_required_else_help(true);
        let with_shared = |one: &Command| ProcedureArguments::augment(one, one.options());
        commands().fold(whole, |all, one| all.subcommand(with_shared(one)))
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
        Ok(Self(ProcedureArguments::from_matches(command, of_command)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A command of one word.
pub trait Word: fmt::Debug {
    const PATH: &'static str;

    fn command() -> &'static Command {
        let is_this = |command: &&Command| command.path == Self::PATH;
        REGISTRY.commands().iter().find(is_this).expect("a registered command")
    }
}

#[derive(Debug)]
pub struct ByHandLoad;

impl Word for ByHandLoad {
    const PATH: &'static str = "load";
}

#[derive(Debug)]
pub struct ByHandTransfer;

impl Word for ByHandTransfer {
    const PATH: &'static str = "transfer";
}

#[derive(Debug)]
pub struct Bench;

impl Word for Bench {
    const PATH: &'static str = "bench";
}

#[derive(Debug)]
pub struct ByHandFetch;

impl Word for ByHandFetch {
    const PATH: &'static str = "fetch";
}

#[derive(Debug)]
pub struct WordArguments<W>(pub ProcedureArguments, PhantomData<W>);

impl<W: Word> Args for WordArguments<W> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let own = W::command().options();
        let examples = own.get_after_help().cloned().unwrap_or_default();
        let with_own = own.get_arguments().cloned().fold(command, clap::Command::arg);
        ProcedureArguments::augment(W::command(), with_own.after_help(examples))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<W: Word> FromArgMatches for WordArguments<W> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(ProcedureArguments::from_matches(W::command(), matches)?, PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A label that `fathom show` can tell from the metrics and groups whose results it shows.
pub(super) fn new_label(text: &str) -> Result<String, String> {
    let text = label(text).map_err(|error| error.to_string())?;
    match is_metric(&text) {
        true => Err(format!("a label must not be the name of a metric or group: `{text}` is one")),
        false => Ok(text),
    }
}

/// Whether it is the name of a metric or group. Those outside the registry may have no results.
pub fn is_metric(name: &str) -> bool {
    is_own(name) || REGISTRY.entries().iter().any(|entry| matches(entry.about().id, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_commands_keep_their_descriptions() {
        assert!(commands().count() >= 9);
        for command in commands() {
            let own = command.options().get_about().map(ToString::to_string);
            let whole = ProcedureArguments::augment(command, command.options());
            let shown = whole.get_about().map(ToString::to_string);
            assert!(own.is_some() && own == shown, "{}: {shown:?}", command.path);
        }
    }
}
