//! `fathom crosscheck` on the command line.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  fathom crosscheck                    run all installed programs: about seven minutes
  fathom crosscheck --list             list the comparisons, and which programs are missing
  fathom crosscheck network            run iperf3, sockperf, lmbench, ping
  fathom crosscheck load               run wrk, hey, ab, h2load, oha on fathom serve: an hour
  fathom crosscheck os fio             run a group of metrics, and everything fio covers
  fathom crosscheck 'memory.bandwidth{op=copy}' --pairs 10   run one case with more pairs
  fathom crosscheck dd --verbose       show every command and every result
  fathom crosscheck --json > check.json   print one JSON document

Both programs run alternately (A B, B A, A B …), so that drift affects both alike. The ratio is
fathom ÷ other program; it need not be 1, and each row says what the other program does differently.
A row is inconclusive and has no ratio if its largest pair ratio is more than 1.5 times its
smallest. Nothing is stored, and test files are removed.

Exit status: 3 if nothing was compared; the others are those of `fathom help exit-status`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CrosscheckArguments {
    /// Groups (`memory`), programs (`fio`), metrics or cases [default: all].
    #[arg(value_name = "GROUP|PEER|METRIC")]
    pub words: Vec<String>,
    /// List the comparisons and missing programs; measure nothing.
    #[arg(long)]
    pub list: bool,
    /// Run N pairs per row; with 5 or more the ratio has a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,
    /// Kill another program after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub limit: u32,
    /// Run single-CPU rows on this CPU [default: an idle one].
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Write test files into this directory; it must be on a disk, and is left unchanged [default:
    /// $FATHOM_FOLDER, or /var/tmp, or the current directory].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// Accept a `--folder` on a memory file system.
    #[arg(long, requires = "folder")]
    pub allow_memory: bool,
    /// Show every command and every result.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
