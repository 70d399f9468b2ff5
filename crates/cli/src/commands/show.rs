//! `fathom show`: a stored run, or the list of runs.

use fathom_engine::{CaseSelector, matches};
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_report::{Layout, RunListing};
use fathom_store::RunRow;

use super::{reference, stored_run};
use crate::arguments::ShowArguments;
use crate::exit::{OrUsage, Status, usage_error};
use crate::terminal;

pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let output = &arguments.output;
    if arguments.runs {
        let rows = stored_run::open_store(&output.store)?.runs()?;
        let listings: Vec<RunListing> = rows.into_iter().map(listing).collect();
        return super::print(output.json, &listings, |layout| {
            fathom_report::runs(&listings, layout)
        });
    }
    if arguments.classic {
        return reference::classic(arguments);
    }
    let (run, selectors) = names(&arguments.names)?;
    let mut document = stored_run::document(run, output.samples, &output.store)?;
    if !selectors.is_empty() {
        select(&mut document, &selectors)?;
    }
    if output.json {
        return super::print_text(&fathom_report::document_json(&document));
    }
    if arguments.markdown {
        return super::print_text(&fathom_report::markdown::documents(&[document]));
    }
    let (protocol, cycles, all) = (document.run.protocol, arguments.cycles, arguments.all);
    let layout = Layout { width: terminal::width(), cycles, protocol, all };
    super::print_text(&fathom_report::show(&document, &layout))
}

/// The run, and what to show of it. A first name that is a metric or a group stands for the latest
/// run.
fn names(names: &[String]) -> anyhow::Result<(&str, Vec<CaseSelector>)> {
    let parse = |text: &String| CaseSelector::parse(text).or_usage();
    let is_metric = |selector: &CaseSelector| {
        REGISTRY.entries().iter().any(|entry| matches(entry.about().id, &selector.name))
    };
    let (run, selectors) = match names {
        [] => ("latest", names),
        [first, ..] if parse(first).is_ok_and(|it| is_metric(&it)) => ("latest", names),
        [first, others @ ..] => (first.as_str(), others),
    };
    let selectors = selectors.iter().map(parse).collect::<Result<Vec<CaseSelector>, _>>()?;
    if let Some(unknown) = selectors.iter().find(|selector| !is_metric(selector)) {
        usage_error!("show: no metric or group `{}`; `fathom list` lists them", unknown.name);
    }
    Ok((run, selectors))
}

/// Leaves the selected records.
fn select(document: &mut Document, selectors: &[CaseSelector]) -> anyhow::Result<()> {
    document.records.retain(|record| {
        let selects = |it: &CaseSelector| {
            matches(record.metric.as_str(), &it.name) && it.selects(&record.params)
        };
        selectors.iter().any(selects)
    });
    let texts: Vec<String> = selectors.iter().map(|selector| selector.text.clone()).collect();
    if document.records.is_empty() {
        let (run, texts) = (&document.run.id, texts.join(" "));
        anyhow::bail!("run {run} has no results of {texts}; `fathom show {run}` shows what it has");
    }
    // The view of a run of these metrics.
    document.run.asked = texts;
    Ok(())
}

fn listing(row: RunRow) -> RunListing {
    let RunRow { id, label, started, state, effort, kernel, counts, asked, procedure, .. } = row;
    let (host, host_id) = (row.host_name, row.host_id);
    RunListing {
        id,
        label,
        started,
        state,
        effort,
        host,
        host_id,
        kernel,
        asked,
        procedure,
        counts,
    }
}
