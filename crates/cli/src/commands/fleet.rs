//! `fathom fleet`: hosts judged by each other.

use std::collections::BTreeMap;

use fathom_analysis::fleet::{Limits, judge};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_report::Layout;
use fathom_report::fleet::render;

use super::stored_run;
use crate::arguments::fleet::{FleetCommand, FleetRuns};
use crate::exit::{Status, usage_error};

pub(super) fn fleet(command: &FleetCommand) -> anyhow::Result<Status> {
    let (arguments, numbers) = match command {
        FleetCommand::Judge(runs) => (runs, true),
        FleetCommand::Facts(runs) => (runs, false),
    };
    let runs = runs(arguments, numbers)?;
    let abouts = REGISTRY.entries().iter().map(Entry::about);
    let limits: Limits = abouts.map(|about| (about.id, about.noise_limit)).collect();
    let judgement = judge(&runs.iter().collect::<Vec<_>>(), &limits);
    let status = super::print(arguments.json, &judgement, |layout| {
        render(&judgement, &Layout { all: arguments.all, ..*layout })
    })?;
    Ok(match status {
        Status::Success if judgement.is_any_odd() => Status::Incomplete,
        Status::Success if !judgement.is_any_judged(numbers) => Status::Undecided,
        status => status,
    })
}

/// The named runs, without what is not judged: a thousand of them are held at once.
fn runs(arguments: &FleetRuns, numbers: bool) -> anyhow::Result<Vec<Document>> {
    let mut names: BTreeMap<String, &String> = BTreeMap::new();
    let mut runs = Vec::new();
    for name in &arguments.runs {
        let mut run = stored_run::document(name, false, &arguments.store)?;
        let id = &run.run.id;
        if let Some(first) = names.insert(id.clone(), name) {
            usage_error!("fleet: run {id} is named twice: {first} and {name}");
        }
        match numbers {
            true => run.records.iter_mut().for_each(|record| record.samples = None),
            false => run.records.clear(),
        }
        runs.push(run);
    }
    Ok(runs)
}
