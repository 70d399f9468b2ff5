//! `fathom store prune`: frees space.

use fathom_measure::clock;
use fathom_store::{Keep, OldRun, Store};

use super::{counted, scratch_folder, stored_run};
use crate::arguments::store::{Kept, PruneArguments, StoreCommand, StoreCommandArguments};
use crate::exit::Status;
use crate::live::timestamp_of;

pub(super) fn store(arguments: &StoreCommandArguments) -> anyhow::Result<Status> {
    let StoreCommand::Prune(prune) = &arguments.command;
    let path = stored_run::store_path(&prune.store)?;
    // Opening it for writing would create it.
    let store = stored_run::announced(Store::open_existing(&path)?);
    let keep = match prune.keep {
        Kept::Newest(runs) => Keep::Newest(runs),
        Kept::Younger(age) => {
            let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            Keep::Since(timestamp_of(clock::wall_ns().saturating_sub(age_ns)))
        }
    };
    let old = store.old_runs(&keep)?;
    drop(store);
    let mut text = announcement(&old);
    if old.is_empty() || !(prune.samples || prune.runs) {
        text += "Nothing was deleted.\n";
    } else {
        text += &deleted(prune, &old, Store::open(&path)?)?;
    }
    super::print_text(&text)
}

/// What the runs occupy, and what deletes it.
fn announcement(old: &[OldRun]) -> String {
    let size = |of: fn(&OldRun) -> u64| scratch_folder::size(old.iter().map(of).sum());
    let sampled = old.iter().filter(|run| run.samples_bytes > 0).count();
    format!(
        "Always kept: labelled and running runs, the last complete run of each command and of all\n\
         metrics, and the last number of each case of `fathom run`\n\
         Not kept: {}\n  raw samples of {}: {}  (--samples)\n  everything else: {}  (--runs)\n",
        counted(old.len(), "run"),
        counted(sampled, "run"),
        size(|run| run.samples_bytes),
        size(|run| run.bytes),
    )
}

fn deleted(prune: &PruneArguments, old: &[OldRun], mut store: Store) -> anyhow::Result<String> {
    let freed = store.prune(old, prune.runs)?;
    let what = if prune.runs { "" } else { "the raw samples of " };
    let runs = counted(old.len(), "run");
    Ok(match freed {
        0 => format!("Deleted {what}{runs}; later runs use the space.\n"),
        bytes => format!("Deleted {what}{runs}: {} freed.\n", scratch_folder::size(bytes)),
    })
}
