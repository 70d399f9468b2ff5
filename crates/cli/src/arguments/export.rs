//! `fathom export` and `fathom check` on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use fathom_metric::notation::NotationError;

use super::{OutputFile, StoreArguments};

const CHECK_EXAMPLES: &str = "\
Examples:
  fathom export --format limits > limits.toml            write limits from a good run
  fathom check --limits limits.toml                      check the last run of all metrics
  fathom check --limits limits.toml --max-age 24h        is the last result also recent?
  fathom check --against rack1                           is this host as the others of its label?
  fathom check node7.json --against rack1.jsonl          by a file (fathom export rack1), no store

Prints one line of up to 1 kB in the form of monitoring plugins (Nagios, Icinga, Zabbix), with
counts; --verbose adds all values in base units: seconds, bytes, bytes/s. --against judges the host
by at least four others of its hardware, as `fathom fleet judge` does: odd numbers, and odd facts
such as the kernel.

Exit status, the worst of both:
  0  OK: all limits are kept; the host is not odd
  1  WARNING: a limit is undecided; the host is odd by facts or faster, or is undecided because
     fewer than half of its cases could be judged
  2  CRITICAL: a limit is not kept; the host is odd by a number that is worse
  3  UNKNOWN: no result, no limits, or fewer than five hosts of this hardware";

#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
#[command(group(ArgGroup::new("by").args(["limits", "against"]).required(true).multiple(true)))]
pub struct CheckArguments {
    /// Run: id or prefix, label, `latest`, `latest~N` or JSON file [default: latest:battery].
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub run: Option<String>,
    /// Limits, in TOML: lines such as "memory.latency.dram" = "..130 ns".
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Judge the host by this group: a label, or a file of runs (JSON, JSON lines). Repeat it for
    /// several.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub against: Vec<String>,
    /// The answer is "unknown" if the run is older: 36h, 90d, 52w.
    #[arg(long, value_name = "AGE", value_parser = super::store::age)]
    pub max_age: Option<Duration>,
    /// Also print the value of every case, for graphs.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the state, its exit status and the line as JSON.
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub file: OutputFile,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  fathom export --format limits > limits.toml      limits that this machine keeps, with a margin
  fathom export --format csv --all > runs.csv      a row for each record of every run
  fathom export latest --samples -o run.jsonl      a complete run, for `fathom import` elsewhere
  fathom export rack1 -o rack1.jsonl               all runs of a label: a baseline for `check`
  fathom export --format openmetrics -o fathom.prom --force  for a node_exporter text collector
  fathom export latest --samples --format csv -o samples.csv   raw values, for pandas, R, DuckDB
  fathom export --format go before-upgrade > old.txt     for benchstat old.txt new.txt
  fathom export --to postgres://ada@db/team        copy the store into that of the team, or back:
  fathom export --store postgres://ada@db/team --to backup.db
  fathom export --format github-action -o bench.json     tool: customSmallerIsBetter

CSV values are in base units (ns, bytes, bytes/s); the value of an invalid result is empty. Where
single operations are timed, p90 to p999 and max are of these, and median, mean and sd of values
that may each span many of them (a pass, a batch): p90 may then lie below the median. A value
that is only an upper bound has a column of its own in CSV and is omitted in OpenMetrics, where
fathom_case_noisy marks noisy results and fathom_run_info identifies the run. Tables of raw values
leave out invalid results and histograms of single timings; JSON has both. With --to, runs that the
other store has are left as they are, and so are runs in progress.";

/// Less than all of the number.
fn margin(text: &str) -> Result<f64, NotationError> {
    let share = super::percent(text)?;
    let wrong = || NotationError::new(text, "a percentage below 100, such as 5%");
    if share < 1.0 { Ok(share) } else { Err(wrong()) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Each run as an indented JSON document, for `fathom import`.
    Json,
    /// One complete run per line, for `fathom import`.
    Jsonl,
    /// One tidy table with a row for each record, or with --samples for each raw value.
    Csv,
    /// Each run as a table with a row for each record.
    Markdown,
    /// What each valid number of a run must be, for `--limits` of check, run and show.
    Limits,
    /// A row for the collection of typical machines, without the name of the host.
    Typical,
    /// One gauge per metric, labelled by host and parameters, of the latest run, and of other runs
    /// of its host for what it does not have.
    Openmetrics,
    /// Text of Go benchmarks with a line for each process, for benchstat.
    Go,
    /// JSON of one run for github-action-benchmark: customSmallerIsBetter, or
    /// customBiggerIsBetter with --better higher.
    GithubAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BetterName {
    /// Times and sizes.
    Lower,
    /// Rates.
    Higher,
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArguments {
    /// Runs: ids or prefixes, labels (all their runs), `latest`, `latest~N` or JSON files [default:
    /// latest].
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub runs: Vec<String>,
    /// Export all stored runs.
    #[arg(long, conflicts_with = "runs")]
    pub all: bool,
    /// Copy all runs into this store instead, in their order: a file, made if missing, or
    /// postgres://USER@HOST/NAME.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["runs", "format", "output", "samples"])]
    pub to: Option<OsString>,
    /// Select the format.
    #[arg(long, value_enum, default_value_t = FormatName::Jsonl)]
    pub format: FormatName,
    /// How much worse than the run a number may be, in --format limits [default: 5%].
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    pub margin: Option<f64>,
    /// Name of the machine type in --format typical, such as aws/m9g.large [default: that of the
    /// firmware].
    #[arg(long = "type", value_name = "PROVIDER/TYPE")]
    pub machine_type: Option<String>,
    /// Which numbers --format github-action has: its files are of one direction [default: lower].
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub better: Option<BetterName>,
    /// Export only the cases of `fathom show --brief` (OpenMetrics only).
    #[arg(long)]
    pub headline: bool,
    /// Also export the answers to these limits, in TOML (OpenMetrics only).
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Also export the findings in this document of `fathom doctor -o FILE` (OpenMetrics only).
    #[arg(long, value_name = "FILE")]
    pub doctor: Option<PathBuf>,
    /// Include raw samples (JSON), or export a row for each raw value (CSV).
    #[arg(long)]
    pub samples: bool,
    /// Write to this file atomically; `-` is standard output [default: -].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}
