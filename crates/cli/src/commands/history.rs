//! `fathom history`: one metric over time.

use std::collections::BTreeMap;

use anyhow::bail;
use fathom_analysis::compare::{Comparison, compare_to_all};
use fathom_analysis::history::{self, CaseRecords, History};
use fathom_engine::{CaseSelector, matches};
use fathom_measure::host;
use fathom_record::host::name_with_id;
use fathom_record::{Document, Params, is_own};
use fathom_report::compare::moved;
use fathom_report::history::render;
use fathom_store::{HostName, Store, StoreError};

use super::compare::{SEED, noise};
use super::stored_run::{self, ID_DIGITS_MIN};
use crate::arguments::HistoryArguments;
use crate::exit::{Status, UsageError};
use crate::remedy::with_remedy;
use crate::terminal;

/// Runs before a change that the first one after it is compared with.
const RUNS_BEFORE: usize = 5;

pub(super) fn history(arguments: &HistoryArguments) -> anyhow::Result<Status> {
    let word = super::selector(&arguments.metric)?;
    let registered = registered(&word)?;
    let store = stored_run::open_store(&arguments.store)?;
    let (host, label) = (arguments.host.as_deref(), arguments.label.as_deref());
    let HistoryFound { all, damaged, not_stored } = find(&store, &word, registered, host, label)?;
    let skipped = |error: &StoreError| terminal::warn(&format!("skipped: {}", with_remedy(error)));
    damaged.iter().for_each(skipped);
    for id in not_stored {
        terminal::warn(&format!("`{}` measures {id}", crate::remedy::measuring(&word, &id)));
    }
    let printed = super::print_list(arguments.json, "histories", &all, |layout| {
        let moved = at_newest_change(&store, &all).map(|it| moved(&it, layout));
        render(&all, layout) + &moved.unwrap_or_default()
    })?;
    let is_empty = all.iter().all(|history| history.series.is_empty());
    Ok(if is_empty && printed == Status::Success { Status::Incomplete } else { printed })
}

/// The first run after the newest change beside the last ones before it.
fn at_newest_change(store: &Store, all: &[History]) -> Option<Comparison> {
    let all = all.iter().flat_map(|history| &history.series);
    let changes = all.flat_map(|series| series.changes.iter().map(move |it| (series, it)));
    let (series, change) = changes.max_by(|a, b| a.1.started.cmp(&b.1.started))?;
    let at = series.points.iter().position(|point| point.run == change.after_run)?;
    let before = &series.points[(at + 1).saturating_sub(RUNS_BEFORE)..=at];
    // The runs may have other metrics, which say more than this one.
    let read = |run: &String| stored_run::of_store(store, run, false).ok();
    let before: Vec<Document> = before.iter().filter_map(|point| read(&point.run)).collect();
    let after = read(&change.run).filter(|_| !before.is_empty())?;
    let noise = noise(&before, &after, Some(store));
    Some(compare_to_all(&before.iter().collect::<Vec<_>>(), &after, &noise, SEED))
}

/// The registry's metrics that a selector names; none if it names those of other programs.
pub(super) fn registered(word: &CaseSelector) -> Result<Vec<String>, UsageError> {
    let named = match is_own(&word.name) {
        true => Vec::new(),
        false => super::metrics_named(vec![word.name.clone()])?,
    };
    Ok(named.iter().map(|entry| entry.about().id.to_owned()).collect())
}

/// Histories, one per metric and host.
pub(super) struct HistoryFound {
    pub(super) all: Vec<History>,
    /// Runs that could not be read.
    pub(super) damaged: Vec<StoreError>,
    /// Metrics of which no stored run has a selected case.
    not_stored: Vec<String>,
}

/// The histories of the selected cases of the [`registered`] metrics, or of those outside the
/// registry, on a host, or on each host of a label.
pub(super) fn find(
    store: &Store,
    word: &CaseSelector,
    registered: Vec<String>,
    host: Option<&str>,
    label: Option<&str>,
) -> anyhow::Result<HistoryFound> {
    let metrics = match is_own(&word.name) {
        true => own_metrics(store, &word.name)?,
        false => registered,
    };
    let is_of_any = host.is_none() && stored_run::is_import(&word.name);
    let of_all = match label {
        Some(label) => hosts_of_label(store, label)?,
        None if is_of_any => BTreeMap::new(),
        None => hosts(store, host)?,
    };
    let mut found = HistoryFound { all: Vec::new(), damaged: Vec::new(), not_stored: Vec::new() };
    for id in metrics {
        let (mut runs, damaged) = store.history(&id)?;
        found.damaged.extend(damaged);
        if label.is_some() {
            runs.retain(|run| run.run.label.as_deref() == label);
        }
        let hosts =
            if is_of_any && label.is_none() { stored_run::hosts_of(&runs) } else { of_all.clone() };
        let selects = |params: &Params| word.selects(params);
        let is_stored = runs.iter().flat_map(|run| &run.headlines).any(|one| selects(&one.params));
        if word.has_parameters() && !is_stored {
            if is_own(&id) {
                bail!("history: no stored run has {}", word.text);
            }
            super::check_cases_exist(word)?;
        }
        let records = if is_own(&id) { store.own_records(&id)? } else { CaseRecords::new() };
        let of_host = |(host, name): (&String, &String)| {
            let mut one = history::history(&id, host, &runs, &selects).with_others(&records);
            // Without a run of the metric only the store knows the name.
            if one.host == *host && host != name {
                one.host = name_with_id(name, Some(host));
            }
            one
        };
        found.all.extend(hosts.iter().map(of_host));
        if !is_stored {
            found.not_stored.push(id);
        }
    }
    Ok(found)
}

/// The stored metrics outside the registry that have this name, or are in this group.
fn own_metrics(store: &Store, name: &str) -> anyhow::Result<Vec<String>> {
    let group = name.split('.').next().unwrap_or(name);
    let mut metrics = store.metrics_of(group)?;
    metrics.retain(|id| matches(id, name));
    if metrics.is_empty() {
        bail!("history: no stored run has results of {name}; `fathom show --runs` lists the runs");
    }
    Ok(metrics)
}

/// The hosts that have a run with this label.
fn hosts_of_label(store: &Store, label: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut runs = store.runs()?;
    runs.retain(|run| run.label.as_deref() == Some(label));
    if runs.is_empty() {
        bail!("history: no stored run has the label {label}; `fathom show --runs` lists the runs");
    }
    Ok(runs.iter().map(|run| (run.host().to_owned(), run.host_name.clone())).collect())
}

/// The identities and names of the selected hosts: all with this name or id, or the default host.
fn hosts(store: &Store, word: Option<&str>) -> anyhow::Result<BTreeMap<String, String>> {
    let stored = store.host_names()?;
    let hosts = match word {
        Some(word) => stored_run::hosts_named(&stored, word),
        None if stored.is_empty() => BTreeMap::new(),
        None => stored_run::hosts_named(&stored, &stored_run::default_host(store)?),
    };
    if !hosts.is_empty() {
        return Ok(hosts);
    }
    let this = host::read();
    // Of a renamed one its first name.
    let known = stored.iter().rev().map(|it| (it.identity(), it));
    let known: BTreeMap<&str, &HostName> = known.collect();
    if known.is_empty() {
        bail!("history: the store has no runs; `fathom run` creates one");
    }
    let named = |host: &&HostName| {
        let same = known.values().filter(|other| other.name == host.name);
        name_with_id(&host.name, host.id.as_deref().filter(|_| same.count() > 1))
    };
    let listed: Vec<String> = known.values().map(named).collect();
    let (host, listed) = (word.unwrap_or(&this.name), listed.join(", "));
    bail!(
        "history: the store has no run of host {host}; it has runs of {listed}; select one with \
         --host, by its name or at least {ID_DIGITS_MIN} digits of its id"
    )
}
