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

use fathom_analysis::fleet::{FleetRuns, Judgement, judge};
use fathom_analysis::side_by_side::{SideBySide, side_by_side};
use fathom_record::Document;
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
    let (runs, newest) = runs(names, &output.store, numbers)?;
    let mut newest: Vec<&Document> = newest.iter().flat_map(BTreeMap::values).collect();
    newest.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    let judgement = judge(&runs, &group::noise_limits());
    let side_by_side = (newest.len() > 1).then(|| side_by_side(&newest));
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

/// The status of a command that printed a judgement.
fn of_judgement(judgement: &Judgement, numbers: bool, printed: Status) -> Status {
    match printed {
        Status::Success if judgement.is_any_odd() => Status::Incomplete,
        Status::Success if !judgement.is_any_judged(numbers) => Status::Undecided,
        status => status,
    }
}

/// The newest run of each host, while they are few enough to stand side by side.
type FewHosts = Option<BTreeMap<String, Document>>;

/// The named runs as they are judged: of a thousand only few are held whole.
fn runs(
    names: &[String],
    store: &StoreArguments,
    numbers: bool,
) -> anyhow::Result<(FleetRuns, FewHosts)> {
    let mut found: BTreeMap<String, &String> = BTreeMap::new();
    // A table is of numbers of single hosts.
    let (mut runs, mut newest) = (FleetRuns::default(), numbers.then(BTreeMap::new));
    for name in names {
        stored_run::each_of_group(name, false, store, &mut |mut run| {
            let id = &run.run.id;
            if let Some(first) = found.insert(id.clone(), name) {
                usage_error!("fleet: run {id} is named twice: {first} and {name}");
            }
            if !numbers {
                run.records.clear();
            }
            runs.push(&run);
            newest = newest.take().filter(|_| run.far.is_empty());
            if let Some(hosts) = &mut newest {
                let known = hosts.entry(run.host.identity().to_owned()).or_insert(run.clone());
                if run.run.id > known.run.id {
                    *known = run;
                }
            }
            newest = newest.take().filter(|hosts| hosts.len() <= SIDES_MAX);
            Ok(())
        })?;
    }
    Ok((runs, newest))
}
