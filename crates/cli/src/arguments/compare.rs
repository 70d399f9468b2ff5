//! The arguments of `fathom compare`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use fathom_analysis::classes;
use fathom_analysis::compare::ComparisonAnswer;

use super::{OutputFile, StoreArguments, percent, seed};

const COMPARE_EXAMPLES: &str = "\
Examples:
  fathom compare                       compare the last two runs of all metrics
  fathom compare latest~1 latest       compare the latest run with the one before
  fathom compare 0195c3 0195d0         compare two runs by id prefix
  fathom compare latest~3 latest~2 latest~1 latest   compare the latest run with the three before it
  fathom compare before.json latest    compare a stored run with a JSON document
  fathom compare db1 db2               compare the latest runs of two hosts
  fathom compare vm1 vm2 vm3           put the latest runs of three hosts side by side
  fathom compare before after          two groups: labels that several runs have, or such files
  fathom compare before.json latest --fail-on 5%   exit with status 3 if a case lost more than 5 %
  fathom compare latest~1 latest --fail-on 5% --undecided pass   exit with 0 if it is undecided
  fathom compare --reference 2016-i5-5257u   compare the latest run with published figures
  fathom compare latest --reference    list the published studies
  fathom compare --typical             is this what such a machine gives?
  fathom compare --typical --like gcp/c3d-standard-4   beside this machine type

Moved together: of the cases that share a resource (core speed, two CPUs, memory of two CPUs, cache
and memory, page faults, kernel entry, processes, device, file system, network stack) by how much
they are slower in common, with an interval by bootstrap over processes, and how many agree. A class
moved if that is more than 1 % and significant among the classes (Holm, 5 %). What was recorded to
differ coincides with it: the reference loop, the distance of two CPUs, and facts of the machine,
each with the command that tests it. A class that is slower by no more than its core was, up to 1 %
(reference loop), moved with the core: no finding of its own. Then the cases that differ net of
their class.

Words:
  20 % slower     the time grew, or the rate fell, by 20 %: medians over processes
  looks slower    tentative: fewer than 8 processes on a side, noisy, or a low-quality run
  moved with its class   net of what its class has in common nothing is left
  with CPUs farther apart, nearer   not shown to be unchanged, but the hypervisor moved the CPUs of
                  its work between both runs: measure again until it did not
  unchanged ±3 %  the interval is within 3 % of no change: 2 %, or the noise between runs; or its
                  class is unchanged within 2 %
  inconclusive    neither a change nor its absence is shown; too noisy: with an interval wider than
                  30 %; core speed: no more than a faster core on one side explains
  ~ noisy on a side; ° over all processes; (4 cases): the one that changed most, and the hull of all

A difference counts as a change if its interval excludes 0, it is significant among so many cases
(Benjamini-Hochberg, 5 %), and it exceeds both 1 % and the run-to-run noise of this host and
configuration: of its stored runs, or of the runs of A.

Of three or more runs of different hosts, and of fewer than five hosts of a fleet, the best-known
numbers stand side by side: * is the best by an interval apart from all others. Too few hosts say
nothing of which is odd.

Of two groups the hosts in both are compared, each with itself: the median of their ratios with an
interval over hosts, and the hosts that changed most. Without such hosts, the medians of the groups.

--fail-on X answers in the first line, and by its exit status:
  pass       0  no gateable case may have lost more than X (95 % interval)
  fail       3  a gateable case lost more than X, corrected for multiple tests
  undecided  5  a loss above X is not excluded in a gateable case, or no case is gateable: the
                cases are listed, with the possible loss and what would decide them
A case is gateable at X if it would pass unchanged: the noise between stored runs and the width of
its interval, together, are below X. It also is if its whole interval is a loss above X and the
noise. Others are listed as not gateable and do not count: they need more processes (--thorough) or
a larger X. If no case can be compared, the exit status is 3. --except core-speed judges the cases
of that class, and of classes that moved with the core, net of what they have in common: a runner
that got slower is no regression.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerName {
    Pass,
    Fail,
}

impl From<AnswerName> for ComparisonAnswer {
    fn from(name: AnswerName) -> Self {
        match name {
            AnswerName::Pass => Self::Pass,
            AnswerName::Fail => Self::Fail,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = "fathom compare [OPTIONS] A… B\n       \
    fathom compare [OPTIONS] --reference NAME [RUN…]")]
pub struct CompareArguments {
    /// Runs: the last one (B) is compared with all before it (A); more than two of different hosts
    /// stand side by side. Each is an id or prefix, label, `latest`, `latest~N`, host name (its
    /// latest run) or JSON file [default: latest:battery~1 latest:battery].
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub runs: Vec<String>,
    /// Compare runs (default: the latest of this host) with published figures; list the studies if
    /// NAME is omitted.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["fail_on", "seed"])]
    pub reference: Option<String>,
    /// Compare a run (default: latest:battery) with published machines of the same CPU and size,
    /// the most unusual numbers first.
    #[arg(long, conflicts_with_all = ["reference", "fail_on", "seed", "all"])]
    pub typical: bool,
    /// Also print the numbers of this machine type, such as aws/m9g.large (`fathom list types`)
    /// [default: this machine's, where its firmware names it].
    #[arg(long, value_name = "PROVIDER/TYPE", requires = "typical")]
    #[arg(conflicts_with_all = ["reference", "fail_on", "seed", "all", "undecided"])]
    pub like: Option<String>,
    /// Exit with status 3 if a case lost more than this, and with status 5 if that is undecided.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_on: Option<f64>,
    /// Do not count what moved all cases of this class: core-speed of a runner that got slower, for
    /// example; several with commas.
    #[arg(long, value_name = "CLASS", requires = "fail_on", value_delimiter = ',')]
    #[arg(value_parser = class_name)]
    #[arg(conflicts_with_all = ["typical", "like", "reference"])]
    pub except: Vec<String>,
    /// Exit as for `pass` or `fail` if --fail-on is undecided.
    #[arg(long, value_enum, value_name = "ANSWER", requires = "fail_on")]
    #[arg(conflicts_with_all = ["reference", "typical"])]
    pub undecided: Option<AnswerName>,
    /// Print a row for every case, also for unchanged ones.
    #[arg(long, short, conflicts_with_all = ["reference", "json"])]
    pub all: bool,
    /// Seed the bootstrap [default: 1].
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub file: OutputFile,
}

/// The name of a class of cases, with hyphens for blanks.
fn class_name(text: &str) -> Result<String, String> {
    let option = |name: &str| name.to_lowercase().replace(' ', "-");
    let found = classes::names().find(|name| option(name) == text);
    found.map(str::to_owned).ok_or_else(|| {
        format!(
            "`{text}` is no class: {}",
            classes::names().map(option).collect::<Vec<_>>().join(", ")
        )
    })
}
