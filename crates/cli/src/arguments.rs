//! The command line. Help, completions and man pages are generated from it.
//!
//! Doc comments of subcommands, arguments and values are help texts. Structs of arguments have
//! none: clap would print that of a flattened struct as the description of the command.

pub mod bisect;
pub mod by_hand;
mod compare;
pub mod crosscheck;
mod export;
pub mod fleet;
mod habits;
mod import;
mod install;
mod output_file;
mod parse_error;
pub mod report;
#[cfg(test)]
mod requirements;
pub mod serve;
mod show;
pub mod store;
pub mod ui;
mod version;
mod whole;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
pub use compare::CompareArguments;
pub use export::{BetterName, CheckArguments, ExportArguments, FormatName};
use fathom_metric::notation::{NotationError, seed, time};
use fathom_record::host::is_name;
use fathom_record::{Effort, Protocol};
pub use import::ImportArguments;
pub use install::{CompletionsArguments, ManArguments};
pub use output_file::OutputFile;
pub use parse_error::report_parse_error;
pub use show::{ShowArguments, UnitsName};
use whole::EXAMPLES;
pub use whole::{EXIT_STATUS, QUESTIONS, RUN_NAMES};

/// Measure CPU, memory, kernel and file performance, with a prediction and a verdict for every
/// number.
#[derive(Debug, Parser)]
#[command(name = "fathom")]
#[command(version = version::SHORT.as_str(), long_version = version::LONG.as_str())]
#[command(about, after_help = EXAMPLES, propagate_version = true)]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Subcommands,
    /// Colour the output; `auto` colours on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorName::Auto, global = true)]
    pub color: ColorName,
    /// Name this host, and tell it from others of its image [default: $FATHOM_HOST, or its host
    /// name and machine-id].
    #[arg(long, value_name = "NAME", value_parser = host_name, global = true)]
    pub host_name: Option<String>,
}

/// The longest name has the length of one of DNS.
pub fn host_name(text: &str) -> Result<String, NotationError> {
    // On one line, whatever the text has.
    let got = || text.escape_debug().to_string();
    let wrong = || NotationError::new(&got(), "1 to 253 printable bytes without blanks around");
    if is_name(text) { Ok(text.to_owned()) } else { Err(wrong()) }
}

#[derive(Debug, Subcommand)]
pub enum Subcommands {
    /// Measure this machine: everything, a group, or single metrics.
    Run(RunArguments),
    /// Read, write and time files, with checksums and verified page-cache state.
    File(by_hand::FileArguments),
    /// Measure an HTTP server under load, by clients or at a rate.
    Load(by_hand::WordArguments<by_hand::ByHandLoad>),
    /// Compare every way to send files and every way to receive them.
    Transfer(by_hand::WordArguments<by_hand::ByHandTransfer>),
    /// Download files over HTTP, resumed and verified.
    Fetch(by_hand::WordArguments<by_hand::ByHandFetch>),
    /// Time commands of your own in fresh processes, in random turns.
    Bench(by_hand::WordArguments<by_hand::Bench>),
    /// Find the commit that made a command slower.
    Bisect(bisect::BisectArguments),
    /// Check whether this machine is ready to be measured, and what to fix.
    Doctor(DoctorArguments),
    /// List or search metrics, and machine types.
    List(ListArguments),
    /// Explain a metric: what it times, its model, and its latest results.
    Explain(ExplainArguments),
    /// Show a stored run, or list all stored runs.
    Show(ShowArguments),
    /// Compare fathom with other benchmarks on the same work.
    Crosscheck(crosscheck::CrosscheckArguments),
    /// Compare stored runs, metric by metric.
    Compare(CompareArguments),
    /// Measure many hosts, and find the odd one.
    Fleet(fleet::FleetArguments),
    /// Write runs as a single HTML page with tables and charts.
    Report(report::ReportArguments),
    /// Show the store in a browser: runs, comparisons, histories.
    Ui(ui::UiArguments),
    /// Serve a directory over HTTP/1.1, with telemetry for load tests.
    Serve(serve::ServeArguments),
    /// Show a metric's history and its change points.
    History(HistoryArguments),
    /// Check the latest numbers against limits of your own or those of other hosts, for monitoring.
    Check(CheckArguments),
    /// Export stored runs as JSON, CSV, Markdown or OpenMetrics, and limits from a good run.
    Export(ExportArguments),
    /// Import runs that were exported elsewhere, and results of other tools.
    Import(ImportArguments),
    /// Manage stored runs.
    Store(store::StoreCommandArguments),
    /// Print a shell completion script.
    #[command(hide = true)]
    Completions(CompletionsArguments),
    /// Write the man pages into a directory.
    #[command(hide = true)]
    Man(ManArguments),
    /// Name a stored run.
    #[command(hide = true, after_help = RUN_NAMES, help_template = "{after-help}")]
    RunNames,
    /// What the exit statuses mean.
    #[command(hide = true, after_help = EXIT_STATUS, help_template = "{after-help}")]
    ExitStatus,
    /// Serve one visit for a coordinator.
    #[command(hide = true)]
    Worker,
    /// Be the far end of a measurement.
    #[command(hide = true)]
    Far,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorName {
    Auto,
    Always,
    Never,
}

const RUN_EXAMPLES: &str = "\
Examples:
  fathom run                           measure everything, in 4 minutes
  fathom run --quick                   measure everything, in one minute
  fathom run --quick --time 2min       the cases of a quick run, with more processes
  fathom run os                        measure one group
  fathom run os.syscall cpu.call       measure two metrics (and what their predictions need)
  fathom run 'os.syscall{call=stat}'   measure one case (quoted, because of the braces)
  fathom run --json > run.json         print the run as one JSON document
  fathom run --quick -qo run.json      write it to a file and print no table
  fathom run --label before-upgrade    name it for `fathom compare before-upgrade latest`
  fathom run --protocol trimmed        trimmed mean and deviation of 500 of 800 trials
  sudo fathom run --tune               set priority, governor and SMT sibling for the run";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
#[command(group(ArgGroup::new("documents").args(["json", "jsonl", "output"]).multiple(true)))]
pub struct RunArguments {
    /// Metrics, groups or cases, such as `os.syscall`, `cpu` or `os.syscall{call=stat}` [default:
    /// all].
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    /// Skip metrics that only predictions need: faster, but most results then have no model.
    #[arg(long, requires = "metrics")]
    pub only: bool,
    #[command(flatten)]
    pub effort: EffortArguments,
    /// Take this time, such as 90s or 10min, instead of that of the effort [default: 60s with
    /// --quick, 4min, 20min with --thorough].
    #[arg(long, value_name = "TIME", value_parser = budget)]
    #[arg(conflicts_with_all = ["processes", "protocol"])]
    pub time: Option<Duration>,
    /// Use N processes per case, however long that takes.
    #[arg(long, value_name = "N", conflicts_with = "protocol")]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=200))]
    pub processes: Option<u32>,
    /// Make N runs, one after the other; each is stored.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["json", "output"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Seed the random order of the processes [default: random].
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// Select how samples become the headline.
    #[arg(long, value_enum, default_value_t = ProtocolName::Median)]
    pub protocol: ProtocolName,
    /// Keep N trials with `--protocol trimmed`, out of 1.6 × N [default: 500].
    #[arg(long, value_name = "N", requires = "protocol")]
    #[arg(conflicts_with_all = ["time", "processes"])]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub keep: Option<u64>,
    /// Also show times in core cycles.
    #[arg(long, conflicts_with_all = ["json", "jsonl", "quiet"])]
    pub cycles: bool,
    /// Print a row for every case of a curve or matrix.
    #[arg(long, short, conflicts_with_all = ["json", "jsonl", "quiet"])]
    pub all: bool,
    /// Print at most 24 rows: headline cases, the worst problem, the next command.
    #[arg(long, conflicts_with_all = ["all", "cycles", "json", "jsonl", "quiet"])]
    pub brief: bool,
    /// Print the run as one JSON document instead of a table.
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print JSON lines: each case of each process when it ends, and each record at the end of the
    /// run.
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the run to this file as one JSON document, atomically.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output", conflicts_with = "repeat")]
    pub force: bool,
    /// Print neither results nor progress, only warnings.
    #[arg(long, short, conflicts_with_all = ["json", "jsonl"])]
    pub quiet: bool,
    /// Include raw samples in JSON output (the store always has them).
    #[arg(long, requires = "documents")]
    pub samples: bool,
    /// Exit with status 3 if any number is missing or invalid (noisy ones pass).
    #[arg(long)]
    pub strict: bool,
    /// Check the numbers against these limits: exit with status 3 if one is not kept, and with
    /// status 5 if one is undecided.
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Measure on this CPU [default: an idle one].
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Raise the priority, set the `performance` governor and take the SMT sibling offline during
    /// the run; restore all afterwards.
    #[arg(long)]
    pub tune: bool,
    /// Write test files into this directory; it must be on a disk, and is left unchanged [default:
    /// $FATHOM_FOLDER, or /var/tmp, or the current directory].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// Accept a `--folder` on a memory file system.
    #[arg(long, requires = "folder")]
    pub allow_memory: bool,
    /// Also measure to this host, on which `fathom serve` runs; needs network metrics.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub remote: Option<String>,
    /// Prove the token in this file to the host of --remote [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE", requires = "remote")]
    pub token_file: Option<PathBuf>,
    /// Connect to the host of --remote from this address of this host.
    #[arg(long, value_name = "ADDRESS", requires = "remote", value_parser = own_address)]
    pub bind: Option<IpAddr>,
    /// Measure to the host of --remote alone.
    #[arg(long, hide = true, requires = "remote")]
    pub remote_only: bool,
    /// Name the run; the label works wherever a RUN is expected.
    #[arg(long, value_name = "TEXT", value_parser = by_hand::new_label)]
    pub label: Option<String>,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub member: MemberOptions,
}

// Of the process that measures for a member of a fleet. It prints `ChildLine`s before its document.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MemberOptions {
    /// Store nothing, and print progress as JSON lines before the document.
    #[arg(long, hide = true, requires = "json")]
    pub member: bool,
    /// Get ready, say so, and start at the time that standard input has.
    #[arg(long, hide = true, requires = "member")]
    pub wait_start: bool,
}

fn own_address(text: &str) -> Result<IpAddr, NotationError> {
    let wrong = |_| NotationError::new(text, "an IP address of this host, such as 10.0.0.1 or ::1");
    text.parse().map_err(wrong)
}

/// `5%` as 0.05.
fn percent(text: &str) -> Result<f64, NotationError> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err(NotationError::new(text, "a percentage, such as 5%")),
    }
}

/// A run needs some seconds to calibrate, and for one visit of each case.
const BUDGET: std::ops::RangeInclusive<u64> = 5..=86_400;

fn budget(text: &str) -> Result<Duration, String> {
    let wrong = || NotationError::new(text, "a time from 5s to 24h, such as 20s, 2min or 1h");
    let time = time(text).map_err(|_| wrong().to_string())?;
    BUDGET.contains(&time.as_secs()).then_some(time).ok_or_else(|| wrong().to_string())
}

/// How long a run takes, and with it how many processes each number is of.
#[derive(Clone, Copy, Debug, Args)]
pub struct EffortArguments {
    /// Take one minute, with fewer sizes.
    #[arg(long, conflicts_with = "thorough")]
    quick: bool,
    /// Take 20 minutes, with more sizes.
    #[arg(long)]
    thorough: bool,
}

impl EffortArguments {
    pub fn effort(self) -> Effort {
        match (self.quick, self.thorough) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Thorough,
            _ => Effort::Standard,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct StoreArguments {
    /// Use this store: a file, whose directory must exist, or a database, postgres://USER@HOST/NAME
    /// [default: $FATHOM_STORE, or fathom/fathom.db in the user's data directory].
    #[arg(long, value_name = "PATH|ADDRESS")]
    pub store: Option<PathBuf>,
    /// Refuse a store of an older version, instead of migrating it and keeping a copy beside it.
    #[arg(long)]
    pub no_migrate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolName {
    /// Median of the process medians, with its confidence interval.
    Median,
    /// Classic trimmed mean: 500 of 800 trials, with their standard deviation.
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
  fathom doctor                        show what impairs measurements now, and what to do
  fathom doctor --all                  also describe the machine, and show passed checks
  sudo fathom doctor                   run checks that only root can
  fathom doctor --json | jq .severity  print the highest severity, for scripts
  fathom doctor --expect-busy          a machine that works is not severe for being busy
  fathom doctor --ignore damon,autogroup   accept what these rules find
  fathom doctor --openmetrics > doctor.prom    severities for a node_exporter text collector
  fathom doctor && fathom run          measure only if nothing is worse than a note
  sudo fathom doctor --try             which remedies pay here: each off and on, in turns
  sudo fathom doctor --try read-ahead=4096 --for 'md5sum data.bin'
                                       one setting, its value, and the program that matters

Exit status: 0 nothing worse than a note, 3 a warning (noisier or different numbers), 4 a severe
problem (invalid numbers or none), 1 failure, 2 usage error. Nothing is changed but by --try, which
restores each setting, and stores a run.";

/// Options of a diagnosis, and of the other thing to do.
const NOT_TRIED: [&str; 6] = ["all", "only", "ignore", "expect_busy", "openmetrics", "undo"];

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArguments {
    /// Also show caches, disks, bus links and network interfaces, and passed checks.
    #[arg(long, short, conflicts_with = "json")]
    pub all: bool,
    /// Measure with each of these settings as it is and changed, in turns, and say which pay; then
    /// restore them. NAME=VALUE names the value, `all` is what this machine has [default: remedies
    /// of the findings, with --for all].
    #[arg(long = "try", value_name = "NAME", num_args = 0.., conflicts_with_all = NOT_TRIED)]
    pub tried: Option<Vec<String>>,
    /// Measure this: a command, the URL of a server, or metrics [default: what shows the effect].
    #[arg(long = "for", value_name = "CMD|URL|METRIC", num_args = 1.., requires = "tried")]
    #[arg(conflicts_with_all = NOT_TRIED)]
    pub subject: Vec<String>,
    /// Take about this time [default: 5min].
    #[arg(long, value_name = "TIME", value_parser = budget, requires = "tried")]
    #[arg(conflicts_with_all = NOT_TRIED)]
    pub time: Option<Duration>,
    /// Seed the random order of the turns [default: random].
    #[arg(long, value_name = "N", value_parser = seed, requires = "tried")]
    #[arg(conflicts_with_all = NOT_TRIED)]
    pub seed: Option<u64>,
    /// Restore what a killed --try left changed, and end.
    #[arg(long, conflicts_with_all = ["json", "output", "force", "store", "no_migrate"])]
    #[arg(conflicts_with_all = ["all", "only", "ignore", "expect_busy", "openmetrics"])]
    pub undo: bool,
    /// List the settings that --try knows, with their values here, and end.
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// Apply only these rules, such as `cpu-busy,swap`.
    #[arg(long, value_name = "RULE", value_delimiter = ',', conflicts_with = "ignore")]
    pub only: Vec<String>,
    /// Ignore these rules.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Report the load of other programs as a note: this machine is meant to work.
    #[arg(long)]
    pub expect_busy: bool,
    /// Print the findings and the underlying facts as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Print the severity of each finding as OpenMetrics: 0 good, 1 note, 2 warning, 3 severe.
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub openmetrics: bool,
    /// Also write the JSON document to this file, for `fathom export --doctor`.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}

const LIST_EXAMPLES: &str = "\
Examples:
  fathom list             list every metric, by group
  fathom list disk        those whose description has a word
  fathom list os.syscall  one, with its parameters
  fathom list types c3d   machine types of `compare --typical --like`
  fathom list --json      print the metrics as JSON, for scripts";

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArguments {
    /// List these groups or metrics, those whose description has a word, or `types` of machines.
    #[arg(value_name = "METRIC|WORD")]
    pub metrics: Vec<String>,
    /// Print JSON with the full description of each metric.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub file: OutputFile,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  fathom explain os.syscall             describe it, with the latest stored result of each case
  fathom explain 'os.syscall{call=stat}'   one case
  fathom explain cpu.call --run 0195c3  with the results of an earlier run";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// Metrics, or cases of them.
    #[arg(value_name = "METRIC", required = true)]
    pub metrics: Vec<String>,
    /// Show the results of this run: id or prefix, label, `latest` or `latest~N` [default: the
    /// latest run that measured the metric].
    #[arg(long, value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub run: Option<String>,
    /// Explain every case of a curve or matrix, not one of each kind.
    #[arg(long, short)]
    pub all: bool,
    /// Print JSON: the description, and the results.
    #[arg(long, conflicts_with = "all")]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub file: OutputFile,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  fathom history os.syscall                show every case: latest value and change points
  fathom history 'os.syscall{call=stat}'   show one case, run by run
  fathom history cpu.call --json | jq      print JSON
  fathom history memory.latency.dram --label rack1   of each host of a label, in its runs only

A change point has a date, a size, and what else changed, such as the kernel. Hosts are never
pooled: the default is this host.";

#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryArguments {
    /// Metric, or cases of it.
    #[arg(value_name = "METRIC")]
    pub metric: String,
    /// Show this host, by name or id prefix [default: this host].
    #[arg(long, value_name = "NAME|ID")]
    pub host: Option<String>,
    /// Show the runs with this label only, of every host that has one.
    #[arg(long, value_name = "TEXT", conflicts_with = "host")]
    pub label: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub file: OutputFile,
}

#[cfg(test)]
mod tests;
