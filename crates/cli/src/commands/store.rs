//! `fathom store`: frees space, edits, copies, checks, forwards.

use std::ffi::OsStr;

use anyhow::bail;
use fathom_measure::clock;
use fathom_record::{Run, RunState};
use fathom_store::{Keep, OldRun, Place, Store, StoreError, Taken};
use serde_json::json;

use super::spool::Spool;
use super::{counted, scratch_folder, stored_run};
use crate::arguments::StoreArguments;
use crate::arguments::store::{
    EditArguments, Kept, PruneArguments, StoreCommand, StoreCommandArguments,
};
use crate::exit::{Status, usage_error};
use crate::live::timestamp_of;
use crate::remedy::with_remedy;
use crate::terminal::{self, PERCENT_BAR, TerminalOutput};

pub(super) fn store(arguments: &StoreCommandArguments) -> anyhow::Result<Status> {
    match &arguments.command {
        StoreCommand::Prune(prune) => self::prune(prune, arguments.json),
        StoreCommand::Edit(edit) => self::edit(edit, arguments.json),
        StoreCommand::Check(check) => self::check(&check.store, arguments.json),
        StoreCommand::Forward(forward) => self::forward(&forward.store, arguments.json),
    }
}

/// Relabels or deletes a run.
fn edit(arguments: &EditArguments, json: bool) -> anyhow::Result<Status> {
    let place = stored_run::store_place(&arguments.store)?;
    // Opening it for writing would create it.
    let store = stored_run::announced(Store::open_existing(&place)?);
    let id = stored_run::find(&store, &arguments.run)?;
    let run = store.document(&id, false)?.run;
    match run.state {
        RunState::Running => bail!("store edit: run {id} is in progress"),
        RunState::Unknown => bail!(
            "store edit: run {id} began in another PID namespace, or on another host: whether it \
             is in progress can only be known there"
        ),
        RunState::Complete | RunState::Interrupted => {}
    }
    drop(store);
    let mut store = Store::open(&place)?;
    let label = if arguments.delete { run.label.clone() } else { arguments.label.clone() };
    if arguments.delete {
        store.delete_run(&id)?;
    } else {
        store.update_run(&Run { label: label.clone(), ..run })?;
    }
    let fields = json!({ "run": id, "label": label, "deleted": arguments.delete });
    super::print(json, &fields, |_| match &label {
        _ if arguments.delete => format!("Deleted run {id}.\n"),
        Some(label) => format!("Run {id} has the label {label}.\n"),
        None => format!("Run {id} has no label.\n"),
    })
}

/// Copies runs into another store, the oldest first.
pub(super) fn copy(from: &StoreArguments, to: &OsStr) -> anyhow::Result<Status> {
    let (from, to) = (stored_run::store_place(from)?, Place::parse(to)?);
    if from == to {
        usage_error!("export --to: {from} is on both sides");
    }
    let from = stored_run::announced(Store::open_existing(&from)?);
    let runs = from.runs()?;
    let mut to = stored_run::announced(Store::open(&to)?);
    let mut output = TerminalOutput::new();
    let (mut new, mut known, mut in_progress, mut failed) = (0, 0, 0, 0);
    for (done, row) in runs.iter().rev().enumerate() {
        let label = format!("run {}", row.id);
        output.progress(PERCENT_BAR, done as f64 / runs.len() as f64, &label);
        if matches!(row.state, RunState::Running | RunState::Unknown) {
            in_progress += 1;
            continue;
        }
        match to.take(&from, &row.id) {
            Ok((Taken::Known, _)) => known += 1,
            Ok(_) => new += 1,
            Err(error @ (StoreError::Damaged { .. } | StoreError::NotStorable { .. })) => {
                output.clear_bar();
                terminal::warn(&format!("not copied: {}", with_remedy(&error)));
                failed += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    output.clear_bar();
    let rest = [
        (known, "there before"),
        (in_progress, "in progress: not copied"),
        (failed, "damaged: not copied"),
    ];
    let rest = rest.iter().filter(|(count, _)| *count > 0);
    let rest: String = rest.map(|(count, what)| format!("; {count} {what}")).collect();
    let status = super::print_done(&format!("Copied {}{rest}.\n", counted(new, "run")))?;
    Ok(if failed > 0 { Status::Failed } else { status })
}

/// Reads everything, and lists the damage.
fn check(arguments: &StoreArguments, json: bool) -> anyhow::Result<Status> {
    let place = stored_run::store_place(arguments)?;
    let store = stored_run::announced(Store::open_existing(&place)?);
    let mut damage = store.damage()?;
    let runs = store.runs()?;
    let mut output = TerminalOutput::new();
    let mut records = 0;
    for (done, row) in runs.iter().rev().enumerate() {
        let label = format!("run {}", row.id);
        output.progress(PERCENT_BAR, done as f64 / runs.len() as f64, &label);
        let checked = store.check(row)?;
        records += checked.records;
        damage.extend(checked.damage.iter().map(ToString::to_string));
    }
    output.clear_bar();
    let what = format!("{} with {}", counted(runs.len(), "run"), counted(records, "intact record"));
    let lines: String = damage.iter().map(|line| format!("{line}\n")).collect();
    let found = match damage.len() {
        0 => "no damage".to_owned(),
        number => counted(number, "damaged part"),
    };
    let fields = json!({
        "store": place.to_string(), "runs": runs.len(), "intact_records": records, "damage": damage,
    });
    let status = super::print(json, &fields, |_| format!("{lines}{place}: {what}; {found}.\n"))?;
    Ok(if damage.is_empty() { status } else { Status::Incomplete })
}

/// Sends what is in the spool of a database.
fn forward(arguments: &StoreArguments, json: bool) -> anyhow::Result<Status> {
    // Beside a run it is another process of the same program. Without it the name is that.
    let _ = rustix::thread::set_name(c"fathom-forward");
    let place = stored_run::store_place(arguments)?;
    let Place::Database(address) = &place else {
        bail!("store forward: {place} is a file, in which results are stored at once");
    };
    let sent = Spool::for_address(address, arguments.no_migrate)?.send()?;
    let in_progress = match sent.in_progress {
        0 => String::new(),
        number => format!("; {number} in progress"),
    };
    let runs = counted(sent.ended, "run");
    let fields = json!({
        "store": place.to_string(), "sent": sent.ended, "in_progress": sent.in_progress,
        "failed": sent.failed,
    });
    let status =
        super::print(json, &fields, |_| format!("Sent {runs} to {place}{in_progress}.\n"))?;
    Ok(if sent.failed > 0 { Status::Failed } else { status })
}

fn prune(prune: &PruneArguments, json: bool) -> anyhow::Result<Status> {
    let place = stored_run::store_place(&prune.store)?;
    // Opening it for writing would create it.
    let store = stored_run::announced(Store::open_existing(&place)?);
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
    let is_kept = old.is_empty() || !(prune.samples || prune.runs);
    text += &match is_kept {
        true => "Nothing was deleted.\n".to_owned(),
        false => deleted(prune, &old, Store::open(&place)?)?,
    };
    let fields = json!({
        "runs_not_kept": old.len(),
        "samples_bytes": old.iter().map(|run| run.samples_bytes).sum::<u64>(),
        "bytes": old.iter().map(|run| run.bytes).sum::<u64>(),
        "deleted": match is_kept {
            true => "nothing",
            false if prune.runs => "runs",
            false => "samples",
        },
    });
    super::print(json, &fields, |_| text)
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
    let sampled = old.iter().filter(|run| run.samples_bytes > 0).count();
    let (what, count) = if prune.runs { ("", old.len()) } else { ("the raw samples of ", sampled) };
    if count == 0 {
        return Ok("Nothing was deleted.\n".to_owned());
    }
    let freed = store.prune(old, prune.runs)?;
    let runs = counted(count, "run");
    Ok(match freed {
        0 => format!("Deleted {what}{runs}; later runs use the space.\n"),
        bytes => format!("Deleted {what}{runs}: {} freed.\n", scratch_folder::size(bytes)),
    })
}
