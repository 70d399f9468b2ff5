//! Bench: commands of the user, timed as a procedure (`fathom bench`).
//!
//! [`request`] is what was asked; [`check`] checks it as a whole before anything starts, and
//! expands its parameters ([`scan`]) into [`case`]s; [`child`] makes one run in a fresh process,
//! a hook with the [`terminal`];
//! [`stage`] makes the runs in random turns with their hooks; [`plan`] has their number;
//! [`records`] makes records of them, and [`gate`] the answer to `--fail-on`.

mod case;
mod certify;
mod check;
mod child;
#[cfg(test)]
mod counting;
mod expected;
mod fields;
mod file;
mod gate;
mod hooks;
mod options;
mod plan;
mod procedure;
mod records;
mod request;
mod scan;
mod script;
mod stage;
mod terminal;
mod turns;
mod words;

use fathom_metric::Command;

pub use options::BenchOptions;
pub use request::{
    BenchInvocation, BenchOutput, BenchSettings, CommandLine, Request, ScanParameter, UndecidedAs,
};

/// The operations of a command whose price a metric is part of (`--cost`).
pub fn priced_by(metric: &str) -> Vec<String> {
    fathom_cost::operations_of(metric)
}

/// The results that prices are made of, such as `os.poll{fds=10}`.
pub fn price_results() -> impl Iterator<Item = &'static str> {
    fathom_cost::results()
}

/// The command, for the registry. Its metrics are outside the registry: each is a command.
pub const COMMAND: Command = Command::for_procedure::<BenchOptions>("bench", &[]);
