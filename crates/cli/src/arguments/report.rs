//! `fathom report` on the command line.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::StoreArguments;

const EXAMPLES: &str = "\
Examples:
  fathom report                        write the latest run of this host to report.html
  fathom report --open                 … and show it in a browser
  fathom report --run latest           without the cases that only other runs have
  fathom report latest~1 latest        overlay two runs, with their comparison
  fathom report latest 0195c3 -o lab.html   overlay a run and a file sweep
  fathom report latest --reference 2016-i5-5257u   add published figures
  fathom report before.json -o - | ssh other 'cat > report.html'
  fathom report --paper                write a whole measurement report to print: machine, method,
                                       predictions, results, discussion, summary, sources
  fathom report --paper latest sweep -o lab.md   the same in Markdown, its figures in lab-figures/
  fathom report --fleet rack1          draw the hosts of a label beside each other
  fathom report --fleet *.json -o rack1.html   the same of files, one or more a host

The page is one file and loads nothing else. An existing file is replaced if it is such a page;
other files only with --force. A paper runs no script.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArguments {
    /// Up to 6 runs, or any number with --fleet: ids or prefixes, labels, `latest`, `latest~N`,
    /// host names (their latest run) or JSON files [default: latest:battery, and cases that only
    /// other runs have].
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub runs: Vec<String>,
    /// Write this run alone, without cases of other runs.
    #[arg(long, value_name = "RUN", conflicts_with = "runs")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub run: Option<String>,
    /// Draw many hosts beside each other, as `fathom fleet judge` judges them; a label is all its
    /// runs.
    #[arg(long, requires = "runs", conflicts_with_all = ["run", "reference"])]
    pub fleet: bool,
    /// Write a measurement report for reading and printing: of what was timed, predicted and
    /// measured, with figures; in Markdown if FILE ends with `.md`.
    #[arg(long, conflicts_with_all = ["fleet", "reference"])]
    pub paper: bool,
    /// Add the figures of a published study; list the studies if NAME is omitted.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub reference: Option<String>,
    /// Write to this file atomically; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Open the file in the browser of this desktop (xdg-open).
    #[arg(long)]
    pub open: bool,
    /// Replace an existing file that is not a fathom page.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}
