//! `fathom check`: the numbers of a run beside limits of the user, and its host beside its group.

use anyhow::bail;
use fathom_analysis::fleet::judge_host;
use fathom_measure::{clock, host};
use fathom_record::Document;
use fathom_report::health::{self, Health};

use super::limits::CommandLimits;
use super::{group, stored_run};
use crate::arguments::CheckArguments;
use crate::exit::Status;
use crate::live::timestamp_of;
use crate::{remedy, terminal};

/// One line, and the exit status of a monitoring plugin. A failure is "unknown".
pub(super) fn check(arguments: &CheckArguments) -> anyhow::Result<Status> {
    let (state, text) = health(arguments)
        .unwrap_or_else(|error| (health::HealthState::Unknown, unknown_line(&error)));
    let status = state.status();
    let fields = serde_json::json!({
        "state": state.word(), "exit_status": status, "line": text.trim_end(),
    });
    Ok(match super::print(arguments.json, &fields, |_| text) {
        Ok(Status::Success) => Status::Health(status),
        Ok(_) => Status::Health(3),
        Err(error) => {
            terminal::warn(&remedy::line(&error));
            Status::Health(3)
        }
    })
}

fn unknown_line(error: &anyhow::Error) -> String {
    format!("FATHOM UNKNOWN - {}\n", health::plugin_line(&remedy::line(error)))
}

/// The answer where there can be none, such as for a file that cannot be written.
pub(super) fn unknown(error: &anyhow::Error) -> anyhow::Result<Status> {
    super::print_text(&unknown_line(error))?;
    Ok(Status::Health(health::HealthState::Unknown.status()))
}

fn health(arguments: &CheckArguments) -> anyhow::Result<(health::HealthState, String)> {
    let limits = arguments.limits.as_deref().map(CommandLimits::read).transpose()?;
    let names = arguments.against.iter().map(String::as_str);
    let run_name = arguments.run.as_deref().unwrap_or("latest");
    stored_run::open_for(names.chain([run_name]), &arguments.store, |_| ())?;
    let document = run(arguments)?;
    let mut checks = Vec::new();
    checks.extend(limits.map(|limits| Health::of_limits(&limits.judgement(&document))));
    if !arguments.against.is_empty() {
        let peers = group::judged(&arguments.against, &arguments.store)?;
        let judgement = judge_host(&document, &peers, &group::noise_limits());
        checks.push(Health::of_host(&judgement, &document));
    }
    Ok(health::line(&checks, &document, arguments.verbose))
}

/// Clocks of hosts may differ so much.
const CLOCKS_APART_NS: u64 = 300 * 1_000_000_000;

/// The run in question: recent enough, and of this host if none is named.
fn run(arguments: &CheckArguments) -> anyhow::Result<Document> {
    let name = match &arguments.run {
        Some(run) => run,
        None => stored_run::latest_battery(&arguments.store)?,
    };
    let document = stored_run::document(name, false, &arguments.store)?;
    let own = host::read();
    if arguments.run.is_none() && document.host.identity() != own.identity() {
        bail!("the store has no results of this host; `fathom run` measures it");
    }
    if document.run.started > timestamp_of(clock::wall_ns().saturating_add(CLOCKS_APART_NS)) {
        bail!("run {} is of {}: that is in the future", document.run.id, document.run.started);
    }
    if let Some(age) = arguments.max_age {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let run = &document.run;
        if run.started < timestamp_of(clock::wall_ns().saturating_sub(age_ns)) {
            bail!("run {} is of {}, older than --max-age; `fathom run`", run.id, run.started);
        }
    }
    Ok(document)
}
