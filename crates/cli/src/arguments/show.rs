//! `fathom show` on the command line.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::OutputFile;
use super::by_hand::OutputArguments;

const EXAMPLES: &str = "\
Examples:
  fathom show                show the latest run, and cases that only other runs have
  fathom show latest:file    show the latest run of a file command
  fathom show latest~1       show the run before it
  fathom show 0195c3         show the run whose id begins with 0195c3
  fathom show memory         show all results of a group or metric of the latest run
  fathom show latest~1 os.syscall cpu   show a metric and a group of the run before
  fathom show --brief        show the headline on 24 rows
  fathom show --noisy        show which results to ignore, each with its reason
  fathom show --all          show every case in a row of its own
  fathom show --classic      print the classic table of 37 operations
  fathom show --classic --reference --units published   with the published figures and units
  fathom show --limits limits.toml   which limits are kept, not kept, undecided?
  fathom show --markdown     print every case as a row of a Markdown table
  fathom show --runs         list all stored runs";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowArguments {
    /// Run (id or prefix, label, `latest`, `latest:file~N` or JSON file; default: latest:battery,
    /// and cases that only other runs have), and metrics or groups to show in detail. With
    /// --classic several runs; the first with a result gives the row.
    #[arg(value_name = "RUN] [METRIC", value_parser = NonEmptyStringValueParser::new())]
    pub names: Vec<String>,
    /// Show this run alone, without cases of other runs.
    #[arg(long, value_name = "RUN", conflicts_with = "runs")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub run: Option<String>,
    /// List all stored runs.
    #[arg(long, conflicts_with_all = ["names", "classic", "markdown", "brief"])]
    #[arg(conflicts_with_all = ["all", "cycles", "samples"])]
    pub runs: bool,
    /// Print the classic table: hardware base, software overhead, predicted, measured, standard
    /// deviation. Without RUN, other runs of this host fill the rows that the latest does not have.
    #[arg(long, conflicts_with_all = ["samples", "brief"])]
    pub classic: bool,
    /// Add the published figures to the classic table.
    #[arg(long, value_name = "NAME", num_args = 0..=1, requires = "classic")]
    #[arg(conflicts_with_all = ["runs", "limits", "brief", "samples", "all", "cycles", "noisy"])]
    #[arg(default_missing_value = fathom_analysis::reference::CLASSIC)]
    pub reference: Option<String>,
    /// Select the units of rates in the classic table.
    #[arg(long, value_enum, default_value_t = UnitsName::Binary, requires = "classic")]
    #[arg(conflicts_with_all = ["runs", "limits", "brief", "samples", "all", "cycles", "noisy"])]
    pub units: UnitsName,
    /// Show the numbers beside the limits in this file: exit with status 3 if one is not kept, and
    /// with status 5 if one is undecided.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["classic", "runs", "markdown", "brief"])]
    pub limits: Option<PathBuf>,
    /// Show noisy results only, each with its reason.
    #[arg(long, conflicts_with_all = ["runs", "classic", "limits", "brief", "json", "samples"])]
    #[arg(conflicts_with_all = ["markdown", "all"])]
    pub noisy: bool,
    /// Print Markdown.
    #[arg(long, conflicts_with_all = ["json", "brief"])]
    pub markdown: bool,
    /// Also show times in core cycles.
    #[arg(long, conflicts_with_all = ["brief", "json", "classic", "limits", "markdown"])]
    pub cycles: bool,
    /// Print every case in a row of its own, instead of one screen.
    #[arg(long, short, conflicts_with_all = ["brief", "json", "classic", "limits", "markdown"])]
    pub all: bool,
    #[command(flatten)]
    pub output: OutputArguments,
    #[command(flatten)]
    pub file: OutputFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitsName {
    /// GiB/s: powers of 1024, as in all other views.
    Binary,
    /// GB/s: powers of 1000, as published.
    Published,
}
