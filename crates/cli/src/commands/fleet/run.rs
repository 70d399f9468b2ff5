//! `fathom fleet run` and `fathom fleet judge --facts` of members: gathers runs, and judges them.

use anyhow::bail;
use fathom_analysis::fleet::{judge, visible};
use fathom_analysis::statistics::median;
use fathom_engine::Plan;
use fathom_far::nonce;
use fathom_fleet::{FleetWork, RunOrder};
use fathom_measure::host;
use fathom_probes::REGISTRY;
use fathom_record::quantity::percent;
use fathom_record::{Document, Host, Protocol, Record, Run, SCHEMA_VERSION};
use fathom_report::Layout;
use fathom_report::fleet::render;

use super::engine::EngineSource;
use super::gather::{GatherRequest, Gathered, gather};
use super::of_judgement;
use super::summary::FleetSummary;
use crate::arguments::fleet::{FleetOutput, FleetRunArguments, JudgeArguments};
use crate::commands::{group, named, setup, stored_run};
use crate::exit::{OrUsage as _, Status};
use crate::live::timestamp;
use crate::terminal;

pub(in super::super) fn run(arguments: &FleetRunArguments) -> anyhow::Result<Status> {
    let effort = arguments.effort.effort();
    let metrics = named(&arguments.metrics);
    // What is wrong on any machine is so here, before anything is started.
    let (asked, host) = (metrics.clone(), host::read());
    let plan = Plan::new(&REGISTRY, asked, effort, Protocol::Median, 0, &host);
    let plan = plan.and_then(|plan| plan.without_by_hand(&REGISTRY)).or_usage()?;
    announce(arguments, plan.units.len())?;
    let work = FleetWork::Run(RunOrder { metrics, effort, only: arguments.only });
    let label = arguments.label.clone().map_or_else(random_label, Ok)?;
    let gathered = gather(&GatherRequest {
        gather: &arguments.gather,
        store: Some(&arguments.output.store),
        label: label.clone(),
        procedure: None,
        together: arguments.together,
        at_once: arguments.at_once.map_or(usize::MAX, usize::from),
        rounds: &|_| 1,
        work: &|_, _, _| Some(work.clone()),
        delivered: &|_| {},
    })?;
    let output = (&arguments.output, arguments.missing.allow_missing);
    finish(&gathered, FleetSummary::from_gathered(&gathered, Some(&label)), output, true)
}

/// Intervals of a short run on shared cores, and how many metrics share a resource.
const HALF_WIDTH: f64 = 0.06;
const OF_RESOURCE: usize = 4;

/// Says which differences such a run shows, before it takes its time.
fn announce(arguments: &FleetRunArguments, metrics: usize) -> anyhow::Result<()> {
    let hosts = EngineSource::from_arguments(&arguments.gather)?.members();
    let store = &arguments.output.store;
    let latest = stored_run::latest_battery(store);
    let latest = latest.and_then(|name| stored_run::document(name, false, store)).ok();
    let earlier = latest.as_ref().and_then(half_width);
    let width = earlier.unwrap_or(HALF_WIDTH);
    let from = |metrics| visible(hosts, width, metrics).map(percent);
    let (Some(all), Some(resource)) = (from(metrics), from(metrics.min(OF_RESOURCE))) else {
        return Ok(());
    };
    let source = if earlier.is_some() { "of the last run here" } else { "as on shared cores" };
    terminal::warn(&format!(
        "with {hosts} hosts: differences from {all} in all {metrics} metrics, from {resource} in \
         those of one resource (intervals of ± {}, {source})",
        percent(width)
    ));
    Ok(())
}

/// The median half width of the intervals of a run, as a share.
fn half_width(run: &Document) -> Option<f64> {
    let width = |record: &Record| {
        let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number())?;
        let [low, high] = summary.interval?.limits();
        Some((high - low) / 2.0 / summary.median).filter(|share| share.is_finite())
    };
    median(&run.records.iter().filter_map(width).collect::<Vec<f64>>())
}

pub(super) fn facts(arguments: &JudgeArguments) -> anyhow::Result<Status> {
    let mut gathered = gather(&GatherRequest {
        gather: &arguments.gather,
        store: None,
        label: String::new(),
        procedure: None,
        together: false,
        at_once: usize::MAX,
        rounds: &|_| 1,
        work: &|_, _, _| Some(FleetWork::Facts),
        delivered: &|_| {},
    })?;
    for it in gathered.outcome.members.iter().filter(|it| it.lost.is_none()) {
        gathered.judged.push(&facts_of(&it.member.host));
    }
    let output = (&arguments.output, arguments.missing.allow_missing);
    finish(&gathered, FleetSummary::from_gathered(&gathered, None), output, false)
}

/// Prints who came and the judgement.
pub(super) fn finish(
    gathered: &Gathered,
    summary: FleetSummary,
    (output, allow_missing): (&FleetOutput, usize),
    numbers: bool,
) -> anyhow::Result<Status> {
    if gathered.judged.is_empty() {
        if gathered.outcome.is_stopped {
            terminal::warn(&summary.words());
            return Ok(Status::Interrupted);
        }
        bail!("{}", summary.whole_words());
    }
    let judgement = judge(&gathered.judged, &group::noise_limits());
    let printed = crate::commands::print(output.json, &summary.with(&judgement), |layout| {
        let layout = Layout { all: output.all, ..*layout };
        summary.screen(&layout)
            + &render(&judgement, &layout)
            + &summary.foot(allow_missing, &layout)
    })?;
    Ok(match of_judgement(&judgement, numbers, printed) {
        Status::OutputClosed => Status::OutputClosed,
        _ if gathered.outcome.is_stopped => Status::Interrupted,
        _ if gathered.has_failed => Status::Failed,
        Status::Success | Status::Undecided
            if summary.is_any_pair_missing() || summary.missing() > allow_missing =>
        {
            Status::Incomplete
        }
        status => status,
    })
}

/// `fleet-3fa08c`: short enough to be typed, and no two of them are alike.
pub(super) fn random_label() -> anyhow::Result<String> {
    Ok(format!("fleet-{}", &nonce()?[..6]))
}

/// The facts of a host as a run without results.
fn facts_of(host: &Host) -> Document {
    let run = Run { id: setup::run_id(), started: timestamp(), ..Run::default() };
    let (tool, far, records) = (setup::tool(), Vec::new(), Vec::new());
    Document { schema: SCHEMA_VERSION, tool, run, host: host.clone(), far, records }
}
