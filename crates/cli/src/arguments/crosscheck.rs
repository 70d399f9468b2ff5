//! The words of `fathom crosscheck`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  fathom crosscheck                    all programs that are installed: some three minutes
  fathom crosscheck --list             what is compared with what, and what is not installed
  fathom crosscheck os fio             a group of metrics, and all that fio does
  fathom crosscheck 'memory.bandwidth{op=copy}' --pairs 10   one case, with a closer interval
  fathom crosscheck dd --verbose       with every command, to repeat it by hand, and every turn
  fathom crosscheck --json > check.json   as one JSON document

Both sides run in turn (A B, B A, A B …), so that what changes meanwhile meets both. A ratio is
ours ÷ theirs. Beneath each row stands what the other program counts or does otherwise, since the
ratio need not be 1. Where the largest ratio of a row's pairs is more than 1.5 times the smallest,
the row is inconclusive, and has no ratio. Nothing is kept in the store, and files are removed.

Exit status: 3 where nothing was compared; other statuses are as of `fathom --help`.";

/// `fathom crosscheck`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CrosscheckArguments {
    /// Groups (`memory`), programs (`fio`), metrics or cases of them; all where none is named.
    #[arg(value_name = "GROUP|PEER|METRIC")]
    pub words: Vec<String>,
    /// List what is compared with what, and which program is not installed; measure nothing.
    #[arg(long)]
    pub list: bool,
    /// Pairs in each row; from 5 on the ratio has an interval.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,
    /// Seconds that one start of another program may take before it is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub limit: u32,
    /// The CPU for what runs on one; a quiet one is chosen where none is given.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Where files are written: a folder on a device, left as it was found [default:
    /// $FATHOM_FOLDER, or /var/tmp, or the current one].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// Let `--folder` be one that keeps files in memory.
    #[arg(long, requires = "folder")]
    pub allow_memory: bool,
    /// Show every command and every turn.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
