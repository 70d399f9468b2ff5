//! `fathom history`: one metric over time.

use fathom_analysis::history;
use fathom_measure::host;
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Host, Params, Protocol};
use fathom_report::history::render;

use super::stored;
use crate::arguments::HistoryArguments;
use crate::exit::{OrUsage, Status, Usage};
use crate::remedy::in_full;
use crate::terminal;
use fathom_engine::{Asked, Plan, PlanError};

pub(super) fn history(arguments: &HistoryArguments) -> anyhow::Result<Status> {
    let word = Asked::parse(&arguments.metric).or_usage()?;
    let asked = vec![word.name.clone()];
    let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 0, &Host::default())
        .or_usage()?;
    let store = stored::open(&arguments.store)?;
    let host = arguments.host.clone().unwrap_or_else(stored::this_host);
    let mut all = Vec::new();
    for entry in plan.metrics(false) {
        let id = entry.about().id;
        let (runs, damaged) = store.history(id).or_usage()?;
        damaged.iter().for_each(|error| terminal::warn(&format!("left out: {}", in_full(error))));
        let selects = |params: &Params| word.selects(params);
        let is_kept = runs.iter().flat_map(|run| &run.headlines).any(|one| selects(&one.params));
        if word.is_of_some_cases() && !is_kept {
            may_be_asked(&word, entry)?;
        }
        all.push(history::history(id, &host, &runs, &selects));
    }
    super::print(arguments.json, &all, |layout| render(&all, layout))
}

/// Whether there are such cases at all, where no kept run has them: as `fathom run` says it.
fn may_be_asked(word: &Asked, entry: &Entry) -> Result<(), Usage> {
    let (effort, protocol) = (Effort::Thorough, Protocol::Median);
    match Plan::new(&REGISTRY, vec![word.text.clone()], effort, protocol, 0, &host::read()) {
        // What has a command of its own has the cases that one asks it for.
        Err(PlanError::NoSuchCase { .. }) if matches!(entry, Entry::ByHand(_)) => Ok(()),
        checked => checked.map(drop).or_usage(),
    }
}
