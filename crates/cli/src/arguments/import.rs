//! `fathom import` on the command line.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use fathom_import::Format;

use super::StoreArguments;
use super::by_hand::new_label;

const EXAMPLES: &str = "\
Examples:
  fathom import run.jsonl                        import runs of `fathom export` or `run --json`
  ssh other fathom export --all | fathom import -
  fathom import --label old sort.json            import a result of hyperfine --export-json
  fathom import --format go old1.txt old2.txt    each file is a process of one run

All files are validated before any run is stored. Runs that the store already has are skipped. The
others are then the newest of their hosts: `latest` and histories have the order of the store.

Files of other tools become one run of cases such as import.hyperfine.sort, for show, compare,
history, report and export. Each file is a process, and repetitions in it are its rounds; workers
of pyperf, forks of jmh, test binaries of go and a benchmark that a file has twice are processes of
their own. `latest:import` is the last run.";

/// The tool that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToolName {
    /// JSON of --benchmark_format=json.
    GoogleBenchmark,
    /// JSON of --export-json.
    Hyperfine,
    /// Text of `go test -bench`.
    Go,
    /// JSON of --output.
    Pyperf,
    /// JSON of --output-format=json, of fio 3.
    Fio,
    /// JSON of --json.
    Iperf3,
    /// JSON of --summary-export.
    K6,
    /// JSON of --output-format json.
    Oha,
    /// estimates.json, or lines of `cargo criterion --message-format json`.
    Criterion,
    /// JSON of -rf json.
    Jmh,
}

impl From<ToolName> for Format {
    fn from(name: ToolName) -> Self {
        match name {
            ToolName::GoogleBenchmark => Self::GoogleBenchmark,
            ToolName::Hyperfine => Self::Hyperfine,
            ToolName::Go => Self::Go,
            ToolName::Pyperf => Self::Pyperf,
            ToolName::Fio => Self::Fio,
            ToolName::Iperf3 => Self::Iperf3,
            ToolName::K6 => Self::K6,
            ToolName::Oha => Self::Oha,
            ToolName::Criterion => Self::Criterion,
            ToolName::Jmh => Self::Jmh,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArguments {
    /// Files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read files of another tool [default: recognised by their fields].
    #[arg(long, value_enum, value_name = "TOOL")]
    pub format: Option<ToolName>,
    /// Name the run of another tool; the label works wherever a RUN is expected.
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    pub label: Option<String>,
    /// Name the host that measured [default: as in the files, else unknown].
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    #[command(flatten)]
    pub store: StoreArguments,
}
