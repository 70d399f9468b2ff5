//! The number of each host in chosen cases, for a drawing.

use fathom_record::{Better, Counts, Document, Protocol, State, Typical, Unit};
use serde::Serialize;

use super::rows::{AnalysisRow, cases, rows, subject};
use super::{Fleet, FleetLimits, FleetMember, FleetSubject};
use crate::compare::RunRecord;
use crate::display_value::DisplayValue;
use crate::statistics::median;
use crate::typical;

/// A case of a group: the number of each host, in the order of the hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Strip {
    pub subject: FleetSubject,
    pub unit: Unit,
    pub better: Better,
    /// Valid and noisy numbers.
    pub numbers: Vec<Option<f64>>,
    /// Absent where a host has not measured it.
    pub states: Vec<Option<State>>,
    /// Of the valid numbers; of all without two of these.
    pub median: f64,
    /// The range of published machines with this CPU.
    pub typical: Option<Typical>,
}

/// What can be drawn of a group.
#[derive(Debug)]
pub struct Drawing<'a> {
    /// The newest run of each host, in the order of the hosts.
    pub runs: Vec<&'a Document>,
    /// The records of all its runs by state.
    pub counts: Vec<Counts>,
    pub strips: Vec<Strip>,
}

/// The cases of each group that `choose` names by the index of the group and the newest run of each
/// of its hosts; none without a number.
#[must_use]
pub fn strips<'a>(
    runs: &[&'a Document],
    choose: &dyn Fn(usize, &[&Document]) -> Vec<FleetSubject>,
) -> Vec<Drawing<'a>> {
    let fleet = Fleet::from_runs(runs);
    let of_group = |(at, (_, group)): (usize, &(_, Vec<usize>))| {
        let here = fleet.here(group);
        let newest: Vec<&'a Document> = here.iter().map(|member| member.runs[0]).collect();
        let rows = rows(&cases(&here), &FleetLimits::new());
        let row = |subject: &FleetSubject| rows.iter().find(|row| row.subject == *subject);
        let chosen = choose(at, &newest);
        let counts = |member: &&FleetMember<'_>| {
            let records = member.runs.iter().flat_map(|run| &run.records);
            Counts::from_states(records.map(|record| record.verdict.state))
        };
        Drawing {
            counts: here.iter().map(counts).collect(),
            strips: chosen.iter().filter_map(|it| strip(it, row(it), &here)).collect(),
            runs: newest,
        }
    };
    fleet.groups.iter().enumerate().map(of_group).collect()
}

/// `None` without a number. `row` has the valid ones.
fn strip(
    subject: &FleetSubject,
    row: Option<&AnalysisRow<'_>>,
    here: &[&FleetMember<'_>],
) -> Option<Strip> {
    let found: Vec<Option<RunRecord<'_>>> = here.iter().map(|it| newest(it, subject)).collect();
    // As it was compared: in the stratum that all hosts have.
    let valid = |at: usize| Some(row?.sides.iter().find(|side| side.member == at)?.ln.exp());
    let noisy =
        |one: &RunRecord<'_>| DisplayValue::from_record(one.record, Protocol::Median).number();
    let number =
        |(at, one): (usize, &Option<RunRecord<'_>>)| valid(at).or_else(|| noisy(one.as_ref()?));
    let numbers: Vec<Option<f64>> = found.iter().enumerate().map(number).collect();
    let known: Vec<f64> = numbers.iter().flatten().copied().collect();
    let first = found.iter().flatten().find(|one| noisy(one).is_some())?;
    Some(Strip {
        subject: subject.clone(),
        unit: first.record.unit,
        better: first.record.better,
        states: found.iter().map(|one| Some(one.as_ref()?.record.verdict.state)).collect(),
        median: row.and_then(AnalysisRow::median).or_else(|| median(&known))?,
        typical: typical::typical_of(first.record, &first.run.host),
        numbers,
    })
}

fn newest<'a>(member: &FleetMember<'a>, wanted: &FleetSubject) -> Option<RunRecord<'a>> {
    let of_run = |run: &&'a Document| {
        let run: &'a Document = run;
        let records = run.records.iter().rev().map(|record| RunRecord { record, run });
        let is_case = |it: &RunRecord<'_>| {
            (&it.record.metric, &it.record.params) == (&wanted.metric, &wanted.params)
        };
        records.filter(is_case).find(|it| subject(*it) == *wanted)
    };
    member.runs.iter().find_map(of_run)
}
