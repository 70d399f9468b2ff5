//! `fathom compare --typical`: the numbers of a run beside those of published machines.

use fathom_analysis::typical::{self, TypicalMachine};
use fathom_record::{Host, Record, matches};

use super::stored_run;
use crate::arguments::CompareArguments;
use crate::arguments::by_hand::is_metric;
use crate::exit::{Status, UsageError, usage_error};

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<Status> {
    let (metrics, runs): (Vec<&String>, Vec<&String>) =
        arguments.runs.iter().partition(|name| is_metric(name));
    let run = match runs.as_slice() {
        [] => stored_run::latest_battery(&arguments.store)?,
        [run] => run,
        runs => usage_error!("compare --typical: one run, {} named", runs.len()),
    };
    let mut document = stored_run::document(run, false, &arguments.store)?;
    if !metrics.is_empty() {
        let is_named =
            |record: &Record| metrics.iter().any(|name| matches(record.metric.as_str(), name));
        document.records.retain(is_named);
    }
    let like = like(arguments.like.as_deref(), &document.host)?;
    let beside = typical::beside(&document, like);
    let status = super::print(arguments.json, &beside, |layout| {
        fathom_report::typical::beside(&beside, &document, layout)
    })?;
    Ok(if beside.rows.is_empty() { Status::Incomplete } else { status })
}

/// The named machine type, or that of the host, where its firmware says it.
fn like(name: Option<&str>, host: &Host) -> Result<Option<&'static TypicalMachine>, UsageError> {
    match name {
        Some(name) => typical::find(name).map(Some).map_err(|error| {
            UsageError(format!("--like: {error}; `fathom list types WORD` lists them"))
        }),
        None => Ok(host.machine_type.as_deref().and_then(|name| typical::find(name).ok())),
    }
}
