//! The command line: the one definition from which help, completions and man pages are made.

pub mod by_hand;
pub mod crosscheck;
pub mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use fathom_metric::notation::{NotationError, seed};
use fathom_record::{Effort, Protocol, label};

/// Measures this machine from one clock tick up, says beside every number what it should be, and
/// whether it can be trusted.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, after_help = EXAMPLES, propagate_version = true)]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fathom run --quick             measure everything in some seconds
  fathom run os.syscall cpu      one metric and one group
  fathom doctor                  whether this machine can be measured well just now
  fathom show                    the last run again
  fathom compare latest~1 latest two runs, metric by metric
  fathom report                  the last run as a page for a browser
  fathom file read /etc/passwd --block 4K       one file, block by block, with its checksum

Exit status:
  0    done
  1    failed: a file, a run or the store is missing or cannot be read or written
  2    wrong usage: the command line is wrong, whatever the files and the store hold
  3    done, and the answer is no or there is none: a number is missing under --strict,
       compare --fail-on found a regression, doctor warns, nothing was found or compared
  4    doctor found something severe
  130  interrupted by Ctrl-C; finished results are kept
  141  the reader of the output left

A store that cannot be written costs the record and not the measurement: the results are printed
with a warning, and the status is 1 where --store or FATHOM_STORE named that store.

A run is named by its id, the beginning of the id, its --label, latest, or latest~N for the N-th
before it. A label of several runs is ambiguous: the error lists their ids.";

/// Says in one line what is wrong with a command line, for exit status 2; prints help and version
/// where that was asked for.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A closed output is no matter here: there is nothing left to do.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    crate::terminal::warn(&one_line(&error.render().to_string()));
    ExitCode::from(2)
}

/// The parser's message without its usage, its paragraphs joined.
fn one_line(message: &str) -> String {
    let said = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:"))
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .map(|line| if line.starts_with("For more") { "try `--help`" } else { line });
    let mut text = String::new();
    for line in said {
        let join = match text.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        };
        text += join;
        text += line;
    }
    text
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure this machine: everything, a group, or one metric.
    Run(RunArguments),
    /// Read, write and time one file, with checksums and proof of what was in memory.
    File(by_hand::FileArguments),
    /// Can this machine be measured well? What speaks against it, and what to do.
    Doctor(DoctorArguments),
    /// What can be measured.
    List(ListArguments),
    /// What a metric times, what it should give and why, and how it last did.
    Explain(ExplainArguments),
    /// Show a kept run again, or list the kept runs.
    Show(ShowArguments),
    /// Other programs on the same work, in turn with this one.
    Crosscheck(crosscheck::CrosscheckArguments),
    /// Compare two kept runs, metric by metric.
    Compare(CompareArguments),
    /// Write kept runs as one page for a browser: tables and charts in a file of its own.
    Report(report::ReportArguments),
    /// A metric over time: its value in every kept run, and since when it is another.
    History(HistoryArguments),
    /// Print kept runs for other programs: JSON lines, CSV, or OpenMetrics.
    Export(ExportArguments),
    /// Keep runs that were made elsewhere.
    Import(ImportArguments),
    /// Print a completion script for a shell.
    Completions(CompletionsArguments),
    /// Write the man pages into a folder.
    Man(ManArguments),
    /// Take one visit for a coordinator.
    #[command(hide = true)]
    Worker,
}

const RUN_EXAMPLES: &str = "\
Examples:
  fathom run                           everything, 10 to 20 fresh processes a case
  fathom run --quick                   everything, 5 fresh processes a case
  fathom run os                        one group
  fathom run os.syscall cpu.call       two metrics (and what their predictions need)
  fathom run 'os.syscall{call=stat}'   one case (in quotes: braces mean something to a shell)
  fathom run --json > run.json         the whole run as one JSON document
  fathom run --label before-upgrade    a name for `fathom compare before-upgrade latest`
  fathom run --protocol trimmed        mean and deviation of 500 of 800 trials
  sudo fathom run --tune               priority, governor and SMT sibling set for the run";

/// `fathom run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// Metrics, groups or cases, such as `os.syscall`, `cpu` or `os.syscall{call=stat}`; all where
    /// none is named.
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    /// Leave out what only predictions need: faster, and most numbers then have no model.
    #[arg(long, requires = "metrics")]
    pub only: bool,
    /// 5 fresh processes a case: some seconds.
    #[arg(long, conflicts_with = "thorough")]
    pub quick: bool,
    /// 20 to 40 fresh processes a case.
    #[arg(long)]
    pub thorough: bool,
    /// Seed of every random order; by chance where none is given.
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// How the headline is taken.
    #[arg(long, value_enum, default_value_t = ProtocolName::Median)]
    pub protocol: ProtocolName,
    /// Values that remain with `--protocol trimmed`; 1.6 times as many are taken.
    #[arg(long, value_name = "N", default_value_t = fathom_engine::KEPT, requires = "protocol")]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub keep: u64,
    /// Show every time in core cycles too.
    #[arg(long)]
    pub cycles: bool,
    /// Print a row for every case of a curve or a matrix.
    #[arg(long, short)]
    pub all: bool,
    /// Print the run as one JSON document instead of a table.
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print each record as a line of JSON as soon as it is done.
    #[arg(long)]
    pub jsonl: bool,
    /// Keep the raw values in JSON too (the store always keeps them).
    #[arg(long)]
    pub samples: bool,
    /// Exit with status 3 if any number is missing or must not be believed (a noisy one may be).
    #[arg(long)]
    pub strict: bool,
    /// The CPU to measure on; a quiet one is chosen where none is given.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Raise the priority, set the governor to performance and take the SMT sibling offline for
    /// the length of the run; all is put back afterwards.
    #[arg(long)]
    pub tune: bool,
    /// Where metrics of files write: a folder on a device, left as it was found [default:
    /// $FATHOM_FOLDER, or /var/tmp, or the current one].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// Let `--folder` be one that keeps files in memory.
    #[arg(long, requires = "folder")]
    pub allow_memory: bool,
    /// Name the run; every command that takes a run finds it by this name.
    #[arg(long, value_name = "TEXT", value_parser = label)]
    pub label: Option<String>,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// `5%` as 0.05.
fn percent(text: &str) -> Result<f64, NotationError> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err(NotationError::new(text, "a share, such as 5%")),
    }
}

impl RunArguments {
    /// How thoroughly.
    pub fn effort(&self) -> Effort {
        match (self.quick, self.thorough) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Thorough,
            _ => Effort::Standard,
        }
    }
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// The file that keeps runs, in an existing folder [default: $FATHOM_STORE, or fathom/fathom.db
    /// in the user's data folder].
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,
}

/// A protocol by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolName {
    /// Median over fresh processes of their medians, with its interval.
    Median,
    /// The classic trimmed mean: 500 of 800 trials, with their standard deviation.
    Trimmed,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Self {
        match name {
            ProtocolName::Median => Self::Median,
            ProtocolName::Trimmed => Self::Trimmed,
        }
    }
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  fathom doctor                        what speaks against measuring just now, and what to do
  fathom doctor --all                  what was found in order as well, with its values
  sudo fathom doctor                   root may read more
  fathom doctor --json | jq .severity  the weightiest severity, for scripts
  fathom doctor && fathom run          measure only where nothing is above a note

Exit status: 0 nothing above a note, 3 a warning (numbers will be noisier than they could be, or
different), 4 something severe (numbers should not be believed, or cannot be taken), 1 failed, 2
wrong usage. Nothing is changed and nothing is written.";

/// `fathom doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArguments {
    /// Show what was found in order as well.
    #[arg(long, short)]
    pub all: bool,
    /// Print the findings and the facts behind them as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Where runs would be kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const LIST_EXAMPLES: &str = "\
Examples:
  fathom list             every metric, with what it measures
  fathom list --json      as JSON, for scripts";

/// `fathom list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArguments {
    /// Only this group or metric.
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    /// Print as JSON, with every text of each metric.
    #[arg(long)]
    pub json: bool,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  fathom explain os.syscall            what it is, and the last kept result of each case
  fathom explain 'os.syscall{call=stat}'   one case
  fathom explain cpu.call --run 0195c3 the results of an earlier run";

/// `fathom explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// The metric, or some cases of it.
    #[arg(value_name = "METRIC")]
    pub metric: String,
    /// The run whose results are shown: an id or its beginning, a label, `latest`, or `latest~N`;
    /// the newest that measured it where none is named.
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Give an account of every case of a curve or a matrix, not of one of each kind.
    #[arg(long, short)]
    pub all: bool,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  fathom show                the last run
  fathom show latest~1       the one before
  fathom show 0195c3         the one whose id begins so
  fathom show --all          with a row for every point of a curve
  fathom show --runs         all kept runs";

/// `fathom show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArguments {
    /// A run: an id or its beginning, a label, `latest`, or `latest~N`.
    #[arg(value_name = "RUN", default_value = "latest")]
    pub run: String,
    /// List the kept runs instead.
    #[arg(long)]
    pub runs: bool,
    /// Show every time in core cycles too.
    #[arg(long)]
    pub cycles: bool,
    /// Print a row for every case of a curve or a matrix.
    #[arg(long, short)]
    pub all: bool,
    /// Output and store.
    #[command(flatten)]
    pub common: by_hand::Common,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  fathom compare latest~1 latest       what changed since the run before
  fathom compare 0195c3 0195d0         two runs by the beginnings of their ids
  fathom compare latest~3 latest~2 latest~1 latest   three runs together, and the one after them
  fathom compare before.json latest    a JSON document against a kept run
  fathom compare db1 db2               the newest runs of two hosts, by their names
  fathom compare before.json latest --fail-on 5%   for scripts: status 3 where something is worse
  fathom compare --reference 2016-i5-5257u   the latest run beside figures that were published
  fathom compare latest --reference    which published figures there are

A change is one where its interval excludes 1, and where it is above 1 % and above what runs of the
same host and configuration differ by: kept ones, or the several runs of A.";

/// `fathom compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = "fathom compare [OPTIONS] A… B\n       \
    fathom compare [OPTIONS] --reference NAME [RUN]")]
pub struct CompareArguments {
    /// Runs: the last one, B, is compared with those before it, which together are A. Each is an
    /// id, a label, `latest`, `latest~N`, a host's name (its newest run), or a JSON file.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Hold one run (the latest, where none is named) beside published figures; without a name,
    /// those there are.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["fail_on", "seed"])]
    pub reference: Option<String>,
    /// Exit with status 3 where a metric is worse by more than this (a time that grew, a rate that
    /// fell), and that remains when the number of metrics is allowed for; or where one looks so
    /// or none can be decided, since one side has fewer than 8 processes (--quick has 5), is noisy
    /// as a whole, or met a core that others made slow.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_on: Option<f64>,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  fathom history os.syscall                every case: its newest value, and its changes
  fathom history 'os.syscall{call=stat}'   one case, run by run
  fathom history cpu.call --json | jq      for a program

A change has a date and a size, and what else changed with it, such as the kernel. Hosts are never
mixed: this one is shown unless another is named.";

/// `fathom history`.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryArguments {
    /// The metric, or some cases of it.
    #[arg(value_name = "METRIC")]
    pub metric: String,
    /// The host, by its name or the beginning of its id [default: this one].
    #[arg(long, value_name = "NAME|ID")]
    pub host: Option<String>,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  fathom export --format csv --all > runs.csv      a row for each record of each kept run
  fathom export latest --samples -o run.jsonl      a whole run, for `fathom import` elsewhere
  fathom export --format openmetrics -o fathom.prom --force  for a text collector of monitoring

CSV has values in base units (ns, bytes, bytes/s); what must not be believed has no number there. A
value of which only a bound is known has that alone in CSV, and none in OpenMetrics, where
fathom_case_noisy marks what is noisy and fathom_run_info names the run.";

/// How runs are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// A whole run in each line: what `fathom import` reads.
    Jsonl,
    /// One tidy table: a row for each record.
    Csv,
    /// A gauge for each metric, labelled by host and parameters; the newest run's.
    Openmetrics,
}

/// `fathom export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArguments {
    /// Runs: ids, labels, `latest`, `latest~N` or JSON files; the latest where none is named.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// All kept runs.
    #[arg(long, conflicts_with = "runs")]
    pub all: bool,
    /// The format.
    #[arg(long, value_enum, default_value_t = FormatName::Jsonl)]
    pub format: FormatName,
    /// With the raw values (JSON lines only).
    #[arg(long)]
    pub samples: bool,
    /// Write to this file, whole or not at all; `-` is standard output, as without it.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that is there already.
    #[arg(long)]
    pub force: bool,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  fathom import run.jsonl                        runs of `fathom export` or `fathom run --json`
  ssh other fathom export --all | fathom import -

Every file is read and checked whole before anything is kept. A run that is there already is left as
it is.";

/// `fathom import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArguments {
    /// Files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  fathom completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom completions fish > ~/.config/fish/completions/fathom.fish";

/// `fathom completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  fathom man ./man1 && man ./man1/fathom-run.1";

/// `fathom man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArguments {
    /// The folder to write into; it is created if need be.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_refusal_is_one_line_with_the_tip_and_without_the_usage() {
        let error = Arguments::try_parse_from(["fathom", "run", "--quik"]).unwrap_err();
        let line = one_line(&error.render().to_string());
        assert!(line.contains("'--quik'") && line.contains("'--quick'"), "{line}");
        assert!(!line.contains('\n') && !line.contains("Usage"), "{line}");
        let error = Arguments::try_parse_from(["fathom", "run", "--keep", "99"]).unwrap_err();
        let line = one_line(&error.render().to_string());
        assert!(line.contains("not provided: --protocol <PROTOCOL>; try"), "{line}");
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}
