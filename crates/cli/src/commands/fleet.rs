//! `fathom fleet`: many hosts measured and judged by each other.

mod engine;
mod far_end;
mod folding;
mod gather;
mod gathering;
mod known_hosts;
mod listening;
mod load;
mod member;
mod order;
mod pairs;
mod run;
mod summary;

use std::collections::BTreeMap;

use fathom_analysis::fleet::{Judgement, judge};
use fathom_analysis::side_by_side::{SideBySide, side_by_side};
use fathom_record::{Document, Host, Prediction, Record};
use fathom_report::Layout;
use fathom_report::fleet::render;
use serde::Serialize;

use super::compare::SIDES_MAX;
use super::{group, stored_run};
use crate::arguments::StoreArguments;
use crate::arguments::fleet::{FleetCommand, FleetOutput};
use crate::exit::{Status, usage_error};

pub(super) fn fleet(command: &FleetCommand) -> anyhow::Result<Status> {
    match command {
        FleetCommand::Run(arguments) => run::run(arguments),
        FleetCommand::Load(arguments) => load::load(arguments),
        FleetCommand::Pairs(arguments) => pairs::pairs(arguments),
        FleetCommand::FarEnd(arguments) => far_end::serve(arguments),
        FleetCommand::Judge(judge) if judge.runs.is_empty() => run::facts(judge),
        FleetCommand::Judge(judge) => of_runs(&judge.runs, &judge.output, !judge.facts),
        FleetCommand::Member(arguments) => member::member(arguments),
    }
}

fn of_runs(names: &[String], output: &FleetOutput, numbers: bool) -> anyhow::Result<Status> {
    let runs = runs(names, &output.store, numbers)?;
    let newest = newest_of_hosts(&runs);
    let judgement = judgement(&runs);
    // Too few to judge each other's numbers.
    let is_table = numbers && runs.iter().all(|run| run.far.is_empty());
    let is_table = is_table && (2..=SIDES_MAX).contains(&newest.len());
    let side_by_side = is_table.then(|| side_by_side(&newest));
    let judged = JudgedFleet { judgement: &judgement, side_by_side };
    let status = super::print(output.json, &judged, |layout| {
        let layout = Layout { all: output.all, ..*layout };
        let sides = judged.side_by_side.as_ref();
        let sides =
            sides.map(|it| fathom_report::side_by_side::render(it, &newest, &layout) + "\n");
        sides.unwrap_or_default() + &render(&judgement, &layout)
    })?;
    Ok(of_judgement(&judgement, numbers, status))
}

#[derive(Serialize)]
struct JudgedFleet<'j> {
    #[serde(flatten)]
    judgement: &'j Judgement,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_by_side: Option<SideBySide>,
}

/// The newest run of each host, by their names.
fn newest_of_hosts(runs: &[Document]) -> Vec<&Document> {
    let mut newest: BTreeMap<&str, &Document> = BTreeMap::new();
    for run in runs {
        let known = newest.entry(run.host.identity()).or_insert(run);
        if run.run.id > known.run.id {
            *known = run;
        }
    }
    let mut newest: Vec<&Document> = newest.into_values().collect();
    newest.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    newest
}

fn judgement(runs: &[Document]) -> Judgement {
    judge(&runs.iter().collect::<Vec<_>>(), &group::noise_limits())
}

/// The status of a command that printed a judgement.
fn of_judgement(judgement: &Judgement, numbers: bool, printed: Status) -> Status {
    match printed {
        Status::Success if judgement.is_any_odd() => Status::Incomplete,
        Status::Success if !judgement.is_any_judged(numbers) => Status::Undecided,
        status => status,
    }
}

/// The named runs, without what is not judged.
fn runs(names: &[String], store: &StoreArguments, numbers: bool) -> anyhow::Result<Vec<Document>> {
    let mut found: BTreeMap<String, &String> = BTreeMap::new();
    let mut runs = Vec::new();
    for name in names {
        for run in stored_run::documents_of_group(name, false, store)? {
            let id = &run.run.id;
            if let Some(first) = found.insert(id.clone(), name) {
                usage_error!("fleet: run {id} is named twice: {first} and {name}");
            }
            let records = if numbers { run.records } else { Vec::new() };
            runs.push(bare(Document { records, ..run }));
        }
    }
    Ok(runs)
}

/// A run without what no judgement looks at: a thousand of them are held at once.
fn bare(run: Document) -> Document {
    let mut run = run;
    run.host.origins.clear();
    for far in &mut run.far {
        let Host { name, id, emulation, .. } = std::mem::take(&mut far.host);
        far.host = Host { name, id, emulation, ..Host::default() };
    }
    let bare = |record: Record| {
        let Record { metric, params, unit, better, summary, facts, .. } = record;
        let Record { typical, not_judged, .. } = record;
        let mut verdict = record.verdict;
        verdict.reasons.iter_mut().for_each(|reason| reason.text = String::new());
        let prediction = record.prediction.map(|prediction| Prediction {
            formula: String::new(),
            inputs: Vec::new(),
            source: String::new(),
            if_above: String::new(),
            if_below: String::new(),
            ..prediction
        });
        Record {
            summary,
            prediction,
            typical,
            not_judged,
            verdict,
            facts,
            ..Record::new(metric, params, "", unit, better)
        }
    };
    run.records = run.records.into_iter().map(bare).collect();
    run
}
