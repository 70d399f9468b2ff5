//! `fathom fleet` on the command line.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use super::StoreArguments;

const JUDGE_EXAMPLES: &str = "\
Examples:
  for host in $(cat hosts); do ssh $host fathom run --quick --json > $host.json; done
  fathom fleet judge *.json            judge these hosts by each other
  fathom fleet judge db1 db2 db3 db4 db5   by the latest stored run of each (fathom import *.json)
  fathom fleet judge *.json --all      list every odd number, fact and host
  fathom fleet judge *.json --json | jq -r '.groups[].odd[].host'   print the names of odd hosts

Hosts of the same hardware judge each other, where there are at least 5. A host is odd by a number
that differs by more than 3 % and the metric's noise limit, and not by chance among all hosts and
cases, or by a fact that 80 % of its group have otherwise, such as the kernel or the governor.
What is slow on all hosts, only prediction and typical range show.

Exit status: 0 no host is odd, 3 a host is odd, 5 undecided: no group has 5 hosts, or enough valid
numbers; 1 failure, 2 usage error.";

const FACTS_EXAMPLES: &str = "\
Examples:
  for host in $(cat hosts); do ssh $host fathom run --only cpu.clock --json > $host.json; done
  fathom fleet facts *.json            which host has another kernel, governor, memory, link?
  fathom fleet facts *.json --json     print JSON

Exit status: 0 no fact is odd, 3 a host has an odd fact, 5 no group of the same hardware has 5
hosts; 1 failure, 2 usage error.";

#[derive(Debug, Args)]
pub struct FleetArguments {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Judge hosts by each other: odd numbers, odd facts, and what is slow on all of them.
    #[command(after_help = JUDGE_EXAMPLES)]
    Judge(FleetRuns),
    /// Find hosts with odd facts: kernel, governor, memory, links. Numbers are not judged.
    #[command(after_help = FACTS_EXAMPLES)]
    Facts(FleetRuns),
}

#[derive(Debug, Args)]
pub struct FleetRuns {
    /// Runs, at least one of each host: ids or prefixes, labels, host names (their latest run) or
    /// JSON files. Of several runs of a host, each case is of the newest.
    #[arg(value_name = "RUN", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub runs: Vec<String>,
    /// List every odd number, fact, host and reason.
    #[arg(long, short, conflicts_with = "json")]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}
