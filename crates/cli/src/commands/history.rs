//! `fathom history`: one metric over time.

use std::collections::BTreeMap;

use anyhow::bail;
use fathom_analysis::history;
use fathom_measure::host;
use fathom_probes::REGISTRY;
use fathom_record::host::name_with_id;
use fathom_record::{Effort, Host, Params, Protocol};
use fathom_report::history::render;
use fathom_store::{RunRow, Store};

use super::stored::{self, ID_DIGITS_MIN};
use crate::arguments::HistoryArguments;
use crate::exit::{OrUsage, Status};
use crate::remedy::in_full;
use crate::terminal;
use fathom_engine::{CaseSelector, Plan};

pub(super) fn history(arguments: &HistoryArguments) -> anyhow::Result<Status> {
    let word = CaseSelector::parse(&arguments.metric).or_usage()?;
    let asked = vec![word.name.clone()];
    let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 0, &Host::default())
        .or_usage()?;
    let store = stored::open(&arguments.store)?;
    let hosts = hosts(&store, arguments.host.as_deref())?;
    let mut all = Vec::new();
    for entry in plan.metrics(false) {
        let id = entry.about().id;
        let (runs, damaged) = store.history(id)?;
        damaged.iter().for_each(|error| terminal::warn(&format!("left out: {}", in_full(error))));
        let selects = |params: &Params| word.selects(params);
        let is_kept = runs.iter().flat_map(|run| &run.headlines).any(|one| selects(&one.params));
        if word.has_parameters() && !is_kept {
            super::may_be_asked(&word, entry)?;
        }
        all.extend(hosts.iter().map(|host| history::history(id, host, &runs, &selects)));
    }
    let printed = super::print(arguments.json, &all, |layout| render(&all, layout))?;
    let is_empty = all.iter().all(|history| history.series.is_empty());
    Ok(if is_empty && printed == Status::Done { Status::Incomplete } else { printed })
}

/// What the hosts are known by whose histories are asked for: this one, or all of that name or id.
fn hosts(store: &Store, word: Option<&str>) -> anyhow::Result<Vec<String>> {
    let runs = store.runs()?;
    let this = host::read();
    let found: Vec<String> = match word {
        Some(word) => stored::hosts_of(&runs, word).into_keys().collect(),
        None if runs.iter().any(|row| row.host() == this.identity()) => {
            vec![this.identity().to_owned()]
        }
        None => Vec::new(),
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let known: BTreeMap<&str, &RunRow> = runs.iter().map(|row| (row.host(), row)).collect();
    if known.is_empty() {
        bail!("history: the store has no runs; `fathom run` makes one");
    }
    let named = |row: &&RunRow| {
        let same = known.values().filter(|other| other.host_name == row.host_name);
        let id = row.host_id.as_deref().filter(|_| same.count() > 1);
        name_with_id(&row.host_name, id)
    };
    let listed: Vec<String> = known.values().map(named).collect();
    let (host, listed) = (word.unwrap_or(&this.name), listed.join(", "));
    bail!(
        "history: the store has no run of host {host}, but of {listed}; choose one with --host, \
         by its name or by {ID_DIGITS_MIN} digits or more of its id"
    )
}
