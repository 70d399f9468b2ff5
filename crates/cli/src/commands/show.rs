//! `fathom show`: a stored run, or the list of runs.

use fathom_engine::{CaseSelector, matches};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Record};
use fathom_report::{Layout, RunListing};
use fathom_store::RunRow;

use super::{RUNS_SEARCHED, reference, stored_run};
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
    let mut document = match run {
        None if !selectors.is_empty() => newest_with(&selectors, arguments)?,
        run => {
            let run = run.unwrap_or("latest");
            let document = stored_run::document(run, output.samples, &output.store)?;
            select(document, &selectors)?
        }
    };
    if output.json {
        return super::print_text(&fathom_report::document_json(&document));
    }
    if arguments.markdown {
        return super::print_text(&fathom_report::markdown::documents(&[document]));
    }
    if !selectors.is_empty() {
        // Shown as a run of these metrics would be.
        document.run.asked = texts(&selectors);
        document.run.planned = document.records.len() as u64;
    }
    let (protocol, cycles, all) = (document.run.protocol, arguments.cycles, arguments.all);
    let layout = Layout { width: terminal::width(), cycles, protocol, all };
    super::print_text(&fathom_report::show(&document, &layout))
}

/// The named run, if any, and what to show of it: the first name may be a metric or a group.
fn names(names: &[String]) -> anyhow::Result<(Option<&str>, Vec<CaseSelector>)> {
    let parse = |text: &String| CaseSelector::parse(text).or_usage();
    let is_metric = |selector: &CaseSelector| {
        REGISTRY.entries().iter().any(|entry| matches(entry.about().id, &selector.name))
    };
    let (run, selectors) = match names {
        [first, ..] if parse(first).is_ok_and(|it| is_metric(&it)) => (None, names),
        [first, others @ ..] => (Some(first.as_str()), others),
        [] => (None, names),
    };
    let selectors = selectors.iter().map(parse).collect::<Result<Vec<CaseSelector>, _>>()?;
    if let Some(unknown) = selectors.iter().find(|selector| !is_metric(selector)) {
        usage_error!("show: no metric or group `{}`; `fathom list` lists them", unknown.name);
    }
    Ok((run, selectors))
}

/// The selected results of the newest run that has any.
fn newest_with(selectors: &[CaseSelector], arguments: &ShowArguments) -> anyhow::Result<Document> {
    let store = stored_run::open_store(&arguments.output.store)?;
    for row in store.runs()?.into_iter().take(RUNS_SEARCHED) {
        let document = store.document(&row.id, arguments.output.samples)?;
        if document.records.iter().any(|record| is_selected(record, selectors)) {
            return select(document, selectors);
        }
    }
    let texts = texts(selectors).join(" ");
    anyhow::bail!("no stored run has results of {texts}; `fathom run {texts}` measures them")
}

fn is_selected(record: &Record, selectors: &[CaseSelector]) -> bool {
    selectors
        .iter()
        .any(|it| matches(record.metric.as_str(), &it.name) && it.selects(&record.params))
}

fn texts(selectors: &[CaseSelector]) -> Vec<String> {
    selectors.iter().map(|selector| selector.text.clone()).collect()
}

/// The document with the selected records only; whole without selectors.
fn select(mut document: Document, selectors: &[CaseSelector]) -> anyhow::Result<Document> {
    if selectors.is_empty() {
        return Ok(document);
    }
    document.records.retain(|record| is_selected(record, selectors));
    if document.records.is_empty() {
        let (run, texts) = (&document.run.id, texts(selectors).join(" "));
        anyhow::bail!("run {run} has no results of {texts}; `fathom show {run}` shows what it has");
    }
    Ok(document)
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
