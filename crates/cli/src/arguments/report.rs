//! `fathom report` on the command line.

use std::path::PathBuf;

use clap::Args;

use super::StoreArguments;

const EXAMPLES: &str = "\
Examples:
  fathom report                        the last run of this host, as report.html
  fathom report latest~1 latest        two runs overlaid, with what changed between them
  fathom report latest 0195c3 -o lab.html   a run, and the sweep of a file made by hand
  fathom report latest --reference 2016-i5-5257u   published figures under those of the run
  fathom report before.json -o - | ssh other 'cat > report.html'   a JSON document, to elsewhere

The page is one file and loads nothing from anywhere. A file that is there already is replaced where
it is such a page; another only with --force.";

/// `fathom report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArguments {
    /// Up to 6 runs: ids, `latest`, `latest~N`, a host's name (its newest run) or JSON files; the
    /// last of this host where none is named.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Lay published figures under those of the runs; without a name, those there are.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub reference: Option<String>,
    /// Write to this file, whole or not at all; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Replace a file that is no page of ours.
    #[arg(long)]
    pub force: bool,
    /// Where runs are kept.
    #[command(flatten)]
    pub store: StoreArguments,
}
