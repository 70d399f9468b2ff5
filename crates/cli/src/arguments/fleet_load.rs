//! `fathom fleet load` on the command line: the options of `fathom load` that members share, and how
//! members come.

use clap::{ArgMatches, Args, FromArgMatches};
use fathom_load::{Load, LoadOrder, is_shared};

use super::by_hand::{self, OutputArguments, Word as _, new_label};
use super::fleet::GatherArguments;

pub const EXAMPLES: &str = "\
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

#[derive(Debug, Args)]
struct OwnArguments {
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
    pub load: Load,
    /// `Err`: an option that is not for several members.
    pub order: Result<LoadOrder, String>,
    pub label: Option<String>,
    pub gather: GatherArguments,
    pub output: OutputArguments,
}

impl Args for FleetLoadArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        let of_load = by_hand::Load::command().options();
        let of_load = of_load.get_arguments().map(|argument| {
            let id = argument.get_id().as_str();
            let shown = argument.clone();
            match id {
                "target" => shown.help("URL of the server, or of a file on it").value_name("URL"),
                "clients" => shown.help(
                    "Numbers of closed-loop clients of all members: a list, or a range with every \
                     number in it [default: 1, 2, 4 and 8 a member; none with --rate]",
                ),
                id => shown.hide(!is_shared(id)),
            }
        });
        let with_load = of_load.fold(command, clap::Command::arg);
        OwnArguments::augment_args(with_load.after_help(EXAMPLES))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FleetLoadArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let OwnArguments { label, gather, output } = OwnArguments::from_arg_matches(matches)?;
        let load = Load::from_arg_matches(matches)?;
        Ok(Self { load, order: LoadOrder::of(matches), label, gather, output })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
