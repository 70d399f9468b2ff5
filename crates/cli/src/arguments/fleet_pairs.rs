//! `fathom fleet pairs` on the command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::by_hand::new_label;
use super::fleet::{FleetOutput, GatherArguments};

pub const PAIRS_EXAMPLES: &str = "\
Examples:
  fathom fleet pairs --quick --hosts 'node[01-40]' --push   39 rounds of 20 pairs, copied by ssh
  fathom fleet pairs network.udp.rtt --hosts hosts.txt      another metric between two hosts
  salloc -N 12 fathom fleet pairs --quick                   the nodes of a Slurm allocation, by srun
  fathom fleet pairs --members 8 --listen 10.0.0.1          wait for members that others start
  fathom fleet judge fleet-k3x9qa                           judge the runs of a label again
  fathom report --fleet fleet-k3x9qa                        draw the matrix

Each two hosts measure to each other, in rounds of pairs in which no host is twice: n - 1 rounds of
n / 2 pairs, each way. Above 64 hosts 63 rounds are drawn at random. From 6 hosts on, what is slow
is divided into hosts and links: a bad host is named once, and a bad link blames no host. The other
end of each pair is a far end (`fathom serve` without files) on a port that the kernel chooses.

Exit status: 0 no host and no link is odd, 3 one is odd, or a pair could not be measured, 5
undecided: too few hosts or valid numbers; 1 failure, 2 usage error, 130 interrupted.";

#[derive(Debug, Args)]
pub struct FleetPairsArguments {
    /// Metrics or cases that have a far host [default: the round trip of a byte and the bandwidth,
    /// network.tcp.rtt and network.tcp.bandwidth].
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    /// Use 5 to 12 processes per case and direction.
    #[arg(long, conflicts_with = "thorough")]
    pub quick: bool,
    /// Use 20 to 40 processes per case and direction.
    #[arg(long)]
    pub thorough: bool,
    /// Measure so many rounds, which are judged from 5 on [default: all; 63 above 64 hosts].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Name the runs: `fleet judge` takes all runs of a label [default: fleet- and 6 characters].
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    pub label: Option<String>,
    #[command(flatten)]
    pub gather: GatherArguments,
    #[command(flatten)]
    pub output: FleetOutput,
}

#[derive(Debug, Args)]
pub struct FarEndArguments {
    #[arg(long)]
    pub listen: IpAddr,
    #[arg(long)]
    pub token_file: PathBuf,
}
