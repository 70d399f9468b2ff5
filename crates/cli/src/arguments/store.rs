//! `fathom store` on the command line.

use std::time::Duration;

use clap::{Args, Subcommand};
use fathom_metric::notation::NotationError;

use super::StoreArguments;
use super::by_hand::new_label;

const EXAMPLES: &str = "\
Examples:
  fathom store prune --keep 100             print what pruning all but the last 100 runs frees
  fathom store prune --keep 90d --samples   delete the raw samples of runs older than 90 days
  fathom store prune --keep 1000 --runs     delete all runs but the last 1000

Without raw samples everything is kept but the samples in JSON and in the page of `fathom report`.
Always kept: labelled and running runs, the last complete run of each command and of all metrics,
and the last number of each case of `fathom run`.";

const CHECK_EXAMPLES: &str = "\
Examples:
  fathom store check                        check the default store
  fathom store check --store postgres://ada@db/team

Exit status: 0 no damage, 3 damage, which is listed, 1 failure, 2 usage error.";

const FORWARD_EXAMPLES: &str = "\
Examples:
  fathom store forward --store postgres://ada@db/team

A measuring command stores its results in a file in the user's data directory first. They are sent
at its end; what could not be sent then is sent by the next command with the same store, or by this
one.";

#[derive(Debug, Args)]
pub struct StoreCommandArguments {
    #[command(subcommand)]
    pub command: StoreCommand,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Print what old runs occupy, and delete their raw samples or the runs.
    Prune(PruneArguments),
    /// Give a stored run another label, or delete it.
    Edit(EditArguments),
    /// Read everything in a store against its checksums.
    Check(StoreCheckArguments),
    /// Send results that a measuring command could not send to its database.
    // The next command with this store does it, too.
    #[command(hide = true)]
    Forward(ForwardArguments),
}

const EDIT_EXAMPLES: &str = "\
Examples:
  fathom store edit latest --label before-upgrade
  fathom store edit 0195c3 --no-label
  fathom store edit 0195c3 --delete";

#[derive(Debug, Args)]
#[command(after_help = EDIT_EXAMPLES)]
#[command(group(clap::ArgGroup::new("change").required(true)))]
pub struct EditArguments {
    /// Run: id or prefix, label, `latest` or `latest~N`.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Give it this label.
    #[arg(long, value_name = "TEXT", value_parser = new_label, group = "change")]
    pub label: Option<String>,
    /// Take its label away, so that `store prune` may delete it.
    #[arg(long, group = "change")]
    pub no_label: bool,
    /// Delete it with all its results.
    #[arg(long, group = "change")]
    pub delete: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct StoreCheckArguments {
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = FORWARD_EXAMPLES)]
pub struct ForwardArguments {
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PruneArguments {
    /// Keep the last N runs, or those younger than an age: 36h, 90d, 52w.
    #[arg(long, value_name = "N|AGE", value_parser = keep)]
    pub keep: Kept,
    /// Delete the raw samples of the others.
    #[arg(long, conflicts_with = "runs")]
    pub samples: bool,
    /// Delete the others, with their raw samples.
    #[arg(long)]
    pub runs: bool,
    #[command(flatten)]
    pub store: StoreArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Newest(u32),
    Younger(Duration),
}

fn keep(text: &str) -> Result<Kept, NotationError> {
    let wrong = || NotationError::new(text, "a number of runs, or an age such as 36h, 90d or 52w");
    if let Ok(number) = text.parse() {
        return Ok(Kept::Newest(number));
    }
    spelt_age(text).map(Kept::Younger).ok_or_else(wrong)
}

/// An age such as `36h`.
pub(super) fn age(text: &str) -> Result<Duration, NotationError> {
    spelt_age(text).ok_or_else(|| NotationError::new(text, "an age such as 36h, 90d or 52w"))
}

fn spelt_age(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = digits.parse().ok()?;
    let hours = match &text[digits.len()..] {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => return None,
    };
    Some(Duration::from_secs(u64::from(number) * hours * 3_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_runs_are_a_number_or_an_age() {
        assert_eq!(keep("100"), Ok(Kept::Newest(100)));
        assert_eq!(keep("2d"), Ok(Kept::Younger(Duration::from_secs(172_800))));
        assert_eq!(keep("1w"), Ok(Kept::Younger(Duration::from_secs(604_800))));
        for wrong in ["", "d", "-1", "1.5d", "3 d", "3m", "3days"] {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }
}
