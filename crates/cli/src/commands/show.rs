//! `fathom show`: a stored run, or the list of runs.

use std::collections::BTreeSet;

use fathom_engine::{CaseSelector, matches};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Params, is_own};
use fathom_report::{Layout, RunListing, Trends};
use fathom_store::{CaseSearch, RunRow, StoredCase};

use super::limits::{self, CommandLimits};
use super::{counted, reference, stored_run, trends};
use crate::arguments::ShowArguments;
use crate::arguments::by_hand::is_metric;
use crate::exit::{Status, usage_error};
use crate::remedy::measuring;
use crate::terminal;

pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let output = &arguments.output;
    if arguments.runs {
        let rows = stored_run::open_store(&output.store)?.runs()?;
        let listings: Vec<RunListing> = rows.into_iter().map(listing).collect();
        return super::print_list(output.json, "runs", &listings, |layout| {
            fathom_report::runs(&listings, layout)
        });
    }
    if arguments.classic {
        return reference::classic(arguments);
    }
    let (run, selectors) = names(arguments)?;
    stored_run::open_for([run.unwrap_or("latest")], &output.store, |store| {
        let _ = stored_run::metrics(store);
    })?;
    let (whole, others) = match run {
        None if !selectors.is_empty() => newest_with(&selectors, arguments)?,
        None => stored_run::latest_and_others(output.samples, &output.store, trends::read)?,
        Some(run) => (stored_run::document(run, output.samples, &output.store)?, Vec::new()),
    };
    let mut document = part(&whole, &selectors)?;
    let besides = fathom_report::besides(&whole, &document.records);
    if arguments.noisy {
        let layout =
            Layout { width: terminal::width(), cycles: arguments.cycles, ..Layout::default() };
        return super::print_text(&fathom_report::noisy(&document, &layout));
    }
    if let Some(path) = &arguments.limits {
        return beside_limits(&CommandLimits::read(path)?, &document, output.json);
    }
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
    if output.brief {
        return super::print_text(&fathom_report::brief(&document, terminal::width(), true));
    }
    let (protocol, cycles, all) = (document.run.protocol, arguments.cycles, arguments.all);
    let layout = Layout { width: terminal::width(), cycles, protocol, all };
    let trends = match fathom_report::has_overview(&document.run, &layout) {
        true => trends::trends_of(
            &document,
            layout.width,
            stored_run::open_store(&output.store).ok().as_deref(),
        ),
        false => Trends::default(),
    };
    let mut text = fathom_report::show_with(&document, &layout, &trends, besides.as_deref());
    text += &fathom_report::kept(&document, layout.width);
    super::print_text(&(text + &fathom_report::others(&document, &others, &layout)))
}

fn beside_limits(
    limits: &CommandLimits,
    document: &Document,
    json: bool,
) -> anyhow::Result<Status> {
    let judgement = limits.judgement(document);
    let printed = super::print(json, &judgement, |layout| {
        fathom_report::limits::judgement(&judgement, layout)
    })?;
    Ok(if printed == Status::Success { limits::status(judgement.answer) } else { printed })
}

/// The named run, if any, and what to show of it: the first name may be a metric or a group.
fn names(arguments: &ShowArguments) -> anyhow::Result<(Option<&str>, Vec<CaseSelector>)> {
    let ShowArguments { names, run, .. } = arguments;
    let parse = |text: &String| super::selector(text);
    let (run, selectors) = match names.as_slice() {
        _ if run.is_some() => (run.as_deref(), names.as_slice()),
        [first, ..] if parse(first).is_ok_and(|it| is_metric(&it.name)) => (None, names.as_slice()),
        [first, others @ ..] => (Some(first.as_str()), others),
        [] => (None, &[][..]),
    };
    let selectors = selectors.iter().map(parse).collect::<Result<Vec<CaseSelector>, _>>()?;
    if let Some(unknown) = selectors.iter().find(|selector| !is_metric(&selector.name)) {
        usage_error!("show: no metric or group `{}`; `fathom list` lists them", unknown.name);
    }
    Ok((run, selectors))
}

/// The latest battery of the default host that has any of the selected results, else the newest
/// run, and the selected results that only other runs have.
fn newest_with(
    selectors: &[CaseSelector],
    arguments: &ShowArguments,
) -> anyhow::Result<(Document, Vec<Document>)> {
    let store = stored_run::open_store(&arguments.output.store)?;
    let all = stored_run::metrics(&store)?;
    let ids = all.iter().map(String::as_str);
    let ids: Vec<&str> =
        ids.filter(|id| selectors.iter().any(|it| matches(id, &it.name))).collect();
    let is_import = selectors.iter().all(|it| stored_run::is_import(&it.name));
    let last = match ids.first().filter(|_| is_import) {
        Some(id) => store.history(id)?.0.pop(),
        None => None,
    };
    let host = match &last {
        Some(run) => run.host.identity().to_owned(),
        None => stored_run::default_host(&store)?,
    };
    let all = CaseSearch::on_host(&host);
    // A run that was interrupted, or failed, is shown where no other has a number.
    let mut cases = store.newest_cases(ids.iter().copied(), all)?;
    cases.extend(store.newest_cases(ids.iter().copied(), all.whole())?);
    let selected = |it: &&StoredCase| is_selected(&it.metric, &it.params, selectors);
    let newest = cases.iter().rev().filter(selected);
    let is_battery = |it: &&StoredCase| it.procedure.is_none();
    let Some(newest) = newest.clone().find(is_battery).or_else(|| newest.clone().next()) else {
        let texts = texts(selectors).join(" ");
        let of_word = |word: &CaseSelector| {
            let id = ids.iter().find(|id| matches(id, &word.name) && !is_own(id))?;
            // A group is named as it is.
            let case = if word.name == **id { id } else { &word.name.as_str() };
            Some(REGISTRY.command_of(id).map_or_else(|| measuring(word, case), |it| it.line()))
        };
        let commands: BTreeSet<String> = selectors.iter().filter_map(of_word).collect();
        let commands = commands.into_iter().collect::<Vec<String>>().join("`, `");
        let remedy = match commands.as_str() {
            "" => "`fathom show --runs` lists the runs".to_owned(),
            commands => format!("measure them with `{commands}`"),
        };
        anyhow::bail!("no stored run has results of {texts}; {remedy}")
    };
    let newer = store.runs_after(&newest.run)?;
    if newer > 0 {
        let (texts, runs) = (texts(selectors).join(" "), counted(newer, "newer run"));
        terminal::warn(&format!("{} is the last run with {texts}; passed over {runs}", newest.run));
    }
    let whole = stored_run::of_store(&store, &newest.run, arguments.output.samples)?;
    let is_wanted = |metric: &str, params: &Params| is_selected(metric, params, selectors);
    let others = stored_run::others(&store, &part(&whole, selectors)?, is_wanted)?;
    Ok((whole, others))
}

fn is_selected(metric: &str, params: &Params, selectors: &[CaseSelector]) -> bool {
    selectors.iter().any(|it| matches(metric, &it.name) && it.selects(params))
}

fn texts(selectors: &[CaseSelector]) -> Vec<String> {
    selectors.iter().map(|selector| selector.text.clone()).collect()
}

/// The document with the selected records only; whole without selectors.
fn part(whole: &Document, selectors: &[CaseSelector]) -> anyhow::Result<Document> {
    let mut document = whole.clone();
    if selectors.is_empty() {
        return Ok(document);
    }
    document.records.retain(|it| is_selected(it.metric.as_str(), &it.params, selectors));
    if document.records.is_empty() {
        let (run, texts) = (&document.run.id, texts(selectors).join(" "));
        anyhow::bail!("run {run} has no results of {texts}; `fathom show {run}` shows what it has");
    }
    Ok(document)
}

pub(super) fn listing(row: RunRow) -> RunListing {
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
