//! `fathom fleet` on the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use fathom_fleet::MEMBERS_MAX;
use fathom_http::host_and_port;
use fathom_load::{LoadOptions, LoadOrder, is_shared};
use fathom_metric::notation::{NotationError, time};

use super::by_hand::{self, OutputArguments, Word as _, new_label};
use super::{EffortArguments, OutputFile, StoreArguments};

const RUN_EXAMPLES: &str = "\
Examples:
  fathom fleet run --quick --hosts 'node[01-40]' --push   copy this program by ssh, measure, judge
  fathom fleet run memory --hosts hosts.txt --at-once 4   four hosts at a time
  salloc -N 12 fathom fleet run --quick                   the nodes of a Slurm allocation, by srun
  fathom fleet run network --together --hosts a,b,c,d,e   all start at the same moment
  fathom fleet run os --members 8 --listen 10.0.0.1       wait for members that others start:
  mpirun -N 1 --bind-to none -x FATHOM_TOKEN fathom fleet member --join 10.0.0.1
  fathom fleet judge fleet-k3x9qa                         judge the runs of a label again

Each host measures for itself, and delivers its run to the store of this one. Members connect to
this host and prove a one-time token, or that of FATHOM_TOKEN. The runs are readable on the network:
there is no TLS. Ctrl-C ends all members, and keeps what was delivered. The jobs for Kubernetes are
in docs/recipes/kubernetes-fleet.yml.

Exit status: 0 no host is odd, 3 a host is odd or missing (`--allow-missing`), 5 undecided: no group
has 5 hosts, or enough valid numbers; 1 failure, such as no run delivered, 2 usage error, 130
interrupted.";

const LOAD_EXAMPLES: &str = "\
Examples:
  fathom fleet load http://server/f --hosts 'node[1-4]' --clients 8..64 --time 60s
                                          8 to 64 clients, split over four hosts
  fathom fleet load http://server/f --hosts hosts --rate 1000..16000
                                          up to 16000 requests/s of all hosts together
  fathom fleet load http://server/f --hosts a,b --rate 500 --fail-if 'p99>50ms'
  fathom fleet load http://server/f --members 4 --listen 10.0.0.1
                                          wait for members that others start

Clients and rates are those of all members together, and are split evenly. All begin each window at
the same time by one plan; counts and histograms of response times are added up, and judged as
those of one load. The merged run and the share of each member are stored under one label. Only the
first member reads the figures of the server.

Exit status: as of `fathom load`.";

const PAIRS_EXAMPLES: &str = "\
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

Exit status: 0 no host and no link is odd, 3 one is odd or missing, or a pair was not measured, 5
undecided: too few hosts or valid numbers; 1 failure, 2 usage error, 130 interrupted.";

const MEMBER_EXAMPLES: &str = "\
Examples:
  fathom fleet member --join 10.0.0.1:3285 --token-file token
  FATHOM_TOKEN=… fathom fleet member --join head:3285

`fathom fleet run` starts members by ssh and srun itself. The coordinator can only ask for metrics
of this program, which run in a process of their own and write nothing but their test files. Its
place and name are those of the engine that starts it: SLURM_PROCID and SLURMD_NODENAME,
OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX; FATHOM_HOST names the host.

Exit status: 0 sent away by the coordinator, 1 failure, 2 usage error, 130 interrupted.";

const JUDGE_EXAMPLES: &str = "\
Examples:
  fathom fleet judge nightly           judge the hosts of all runs with this label
  for host in $(cat hosts); do ssh $host fathom run --quick --json > $host.json; done
  fathom fleet judge *.json            judge these hosts by each other
  fathom fleet judge db1 db2 db3 db4 db5   by the latest stored run of each (fathom import *.json)
  fathom fleet judge --facts --hosts 'node[01-40]'   kernel, governor, memory, links alone, without
                                       a measurement
  fathom fleet judge --facts nightly   the same of stored runs, or of files
  fathom fleet judge *.json --all      list every odd number, fact and host
  fathom fleet judge *.json --json | jq -r '.groups[].odd[].host'   print the names of odd hosts

Hosts of the same hardware judge each other, where there are at least 5. A host is odd by a number
that differs by more than 3 % and the metric's noise limit, and not by chance among all hosts and
cases; by a fact that 80 % of its group have otherwise, such as the kernel or the governor; and
where cases fail or are invalid that 80 % can measure, or it is noisy or slow to answer and its
peers are not. What is slow on all hosts, only prediction and typical range show.

Exit status: 0 no host is odd, 3 a host is odd (or missing, of members that are asked), 5
undecided: no group has 5 hosts, or enough valid numbers; 1 failure, 2 usage error.";

#[derive(Debug, Args)]
pub struct FleetArguments {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Measure many hosts, and judge them by each other.
    #[command(after_help = RUN_EXAMPLES)]
    Run(FleetRunArguments),
    /// Measure a server under load from many hosts at once, as one load.
    Load(Box<FleetLoadArguments>),
    /// Measure the network between each two of many hosts: bad hosts and bad links apart.
    #[command(after_help = PAIRS_EXAMPLES)]
    Pairs(FleetPairsArguments),
    /// Judge hosts by each other: odd numbers, odd facts, and what is slow on all of them.
    #[command(after_help = JUDGE_EXAMPLES)]
    Judge(JudgeArguments),
    /// Join a coordinator and measure what it asks for.
    // The coordinator starts it, or prints how.
    #[command(hide = true, after_help = MEMBER_EXAMPLES)]
    Member(MemberArguments),
    /// Serve the other members of a coordinator.
    #[command(hide = true)]
    FarEnd(FarEndArguments),
}

#[derive(Debug, Args)]
pub struct FleetRunArguments {
    /// Metrics, groups or cases, as in `fathom run` [default: all].
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    /// Skip metrics that only predictions need.
    #[arg(long, requires = "metrics")]
    pub only: bool,
    #[command(flatten)]
    pub effort: EffortArguments,
    /// Name the runs: `fleet judge` takes all runs of a label [default: fleet- and 6 characters].
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    pub label: Option<String>,
    /// Start all at the same moment, to share power, storage and network.
    #[arg(long)]
    pub together: bool,
    /// Measure on at most N hosts at a time [default: all].
    #[arg(long, value_name = "N", conflicts_with = "together")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub at_once: Option<u16>,
    #[command(flatten)]
    pub gather: GatherArguments,
    #[command(flatten)]
    pub missing: MissingArguments,
    #[command(flatten)]
    pub output: FleetOutput,
}

#[derive(Debug, Args)]
struct LoadOwnArguments {
    /// Name the runs [default: fleet- and 6 characters].
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    label: Option<String>,
    #[command(flatten)]
    gather: GatherArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug)]
pub struct FleetLoadArguments {
    /// With the conditions of the whole.
    pub load: LoadOptions,
    /// `Err`: an option that is not for several members.
    pub order: Result<LoadOrder, String>,
    pub label: Option<String>,
    pub gather: GatherArguments,
    pub output: OutputArguments,
}

impl Args for FleetLoadArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        let of_load = by_hand::ByHandLoad::command().options();
        let of_load = of_load.get_arguments().map(|argument| {
            let id = argument.get_id().as_str();
            let shown = argument.clone();
            match id {
                "urls" => shown.value_name("PATTERN").help(
                    "Paths to request, such as /f{0..9999} [default: the list of `fathom serve`, \
                     else the path of the URL]",
                ),
                "target" => shown.help("URL of the server, or of a file on it").value_name("URL"),
                "clients" => shown.help(
                    "Numbers of closed-loop clients of all members: a list, or a range with every \
                     number in it [default: 1, 2, 4 and 8 a member; none with --rate]",
                ),
                id => shown.hide(!is_shared(id)),
            }
        });
        let with_load = of_load.fold(command, clap::Command::arg);
        LoadOwnArguments::augment_args(with_load.after_help(LOAD_EXAMPLES))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FleetLoadArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let LoadOwnArguments { label, gather, output } =
            LoadOwnArguments::from_arg_matches(matches)?;
        let load = LoadOptions::from_arg_matches(matches)?;
        Ok(Self { load, order: LoadOrder::from_matches(matches), label, gather, output })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub struct FleetPairsArguments {
    /// Metrics or cases that have a far host [default: the round trip of a byte and the bandwidth,
    /// network.tcp.rtt and network.tcp.bandwidth].
    #[arg(value_name = "METRIC")]
    pub metrics: Vec<String>,
    #[command(flatten)]
    pub effort: EffortArguments,
    /// Measure so many rounds, which are judged from 5 on [default: all; 63 above 64 hosts].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Measure at most N pairs of a round at a time [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub at_once: Option<u16>,
    /// Name the runs: `fleet judge` takes all runs of a label [default: fleet- and 6 characters].
    #[arg(long, value_name = "TEXT", value_parser = new_label)]
    pub label: Option<String>,
    #[command(flatten)]
    pub gather: GatherArguments,
    #[command(flatten)]
    pub missing: MissingArguments,
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

// How members come.
#[derive(Debug, Args)]
pub struct GatherArguments {
    /// Start members on these hosts by ssh: a list such as a,b,node[01-40], or a file of them.
    #[arg(long, value_name = "FILE|LIST", value_parser = NonEmptyStringValueParser::new())]
    pub hosts: Option<String>,
    /// Copy this program to a temporary folder of each host, which is removed at the end [default:
    /// run `fathom` there].
    #[arg(long)]
    pub push: bool,
    /// Wait for N members that others start, and print how.
    #[arg(long, value_name = "N", conflicts_with_all = ["hosts", "push"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MEMBERS_MAX as i64))]
    pub members: Option<u32>,
    /// Listen for members on this address [default: the one that reaches the hosts; with --members
    /// 127.0.0.1].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listen)]
    pub listen: Option<SocketAddr>,
    /// Wait so long for all members; those that have joined then begin [default: 2min; with
    /// --members 10min].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub join_time: Option<Duration>,
    /// Accept several members on one machine.
    #[arg(long)]
    pub same_host: bool,
}

// A load says itself which shares are missing.
#[derive(Debug, Args)]
pub struct MissingArguments {
    /// Accept N hosts that do not join or are lost, which are exit status 3 otherwise.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub allow_missing: usize,
}

#[derive(Debug, Args)]
pub struct FleetOutput {
    /// List every odd number, fact, host and reason.
    #[arg(long, short, conflicts_with = "json")]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Debug, Args)]
pub struct JudgeArguments {
    /// Runs, at least one of each host: ids or prefixes, labels (all their runs), host names (their
    /// latest run) or JSON files. Of several runs of a host, each case is of the newest.
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    #[arg(required_unless_present = "facts")]
    #[arg(conflicts_with_all = ["hosts", "push", "members", "listen", "join_time", "same_host"])]
    #[arg(conflicts_with = "allow_missing")]
    pub runs: Vec<String>,
    /// Judge facts alone: kernel, governor, memory, links. Without runs, members are asked, as by
    /// `fleet run`.
    #[arg(long)]
    pub facts: bool,
    #[command(flatten)]
    pub gather: GatherArguments,
    #[command(flatten)]
    pub missing: MissingArguments,
    #[command(flatten)]
    pub output: FleetOutput,
    #[command(flatten)]
    pub file: OutputFile,
}

#[derive(Debug, Args)]
pub struct MemberArguments {
    /// Join the coordinator here.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = coordinator)]
    pub join: (String, u16),
    /// Prove the token in this file [default: that of $FATHOM_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Try so long to connect: longer for a coordinator that begins after this.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = time)]
    pub connect_time: Duration,
    /// What the coordinator calls this host.
    #[arg(long, hide = true)]
    pub node: Option<String>,
}

fn coordinator(text: &str) -> Result<(String, u16), NotationError> {
    let parts = host_and_port(text, fathom_fleet::PORT).filter(|(_, port)| *port > 0);
    let wrong =
        || NotationError::new(text, "HOST or HOST:PORT of a coordinator, such as head:3285");
    parts.map(|(host, port)| (host.to_owned(), port)).ok_or_else(wrong)
}

/// An address, with a port or without. A name could be of another host.
fn listen(text: &str) -> Result<SocketAddr, NotationError> {
    let parts = host_and_port(text, fathom_fleet::PORT);
    let address = parts.and_then(|(host, port)| Some((host.parse::<IpAddr>().ok()?, port)));
    let expected = "an address of this machine, such as 10.0.0.1, 0.0.0.0:3285 or [::]:0";
    address.map(SocketAddr::from).ok_or_else(|| NotationError::new(text, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_ports() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1:3285"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("::1", "[::1]:3285"),
            ("[::]:9", "[::]:9"),
        ] {
            assert_eq!(listen(text).unwrap().to_string(), expected);
        }
        for wrong in ["", "head", "head:1", "3285", "10.0.0.1:x", "[::1"] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
        assert_eq!(coordinator("head").unwrap(), ("head".to_owned(), 3285));
        assert_eq!(coordinator("[::1]:80").unwrap(), ("::1".to_owned(), 80));
        for wrong in ["", "head:", "head:0", "-o x", "a b"] {
            assert!(coordinator(wrong).is_err(), "{wrong}");
        }
    }
}
