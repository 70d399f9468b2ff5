//! The number of each host in chosen cases, for a drawing.

use std::collections::BTreeMap;

use fathom_record::{Better, Counts, Document, State, Typical, Unit};
use serde::Serialize;

use super::rows::{AnalysisRow, cases, rows};
use super::runs::{FleetEntry, FleetRun};
use super::{Fleet, FleetLimits, FleetMember, FleetRuns, FleetSubject};
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
    let kept: FleetRuns = runs.iter().copied().collect();
    let documents: BTreeMap<&str, &'a Document> =
        runs.iter().map(|run| (run.run.id.as_str(), *run)).collect();
    let fleet = Fleet::from_runs(&kept.runs);
    let of_group = |(at, (_, group)): (usize, &(_, Vec<usize>))| {
        let here = fleet.here(group);
        let newest = here.iter().map(|member| documents[&*member.runs[0].head.run.id]);
        let newest: Vec<&'a Document> = newest.collect();
        let rows = rows(&cases(&here), &FleetLimits::new());
        let row = |subject: &FleetSubject| rows.iter().find(|row| row.subject == *subject);
        let chosen = choose(at, &newest);
        let counts =
            |member: &&FleetMember<'_>| Counts::from_states(member.entries().map(|it| it.state));
        let typical = |(run, entry): (&FleetRun, &FleetEntry)| {
            let at = run.entries.iter().position(|it| std::ptr::eq(it, entry))?;
            let document = documents[&*run.head.run.id];
            typical::typical_of(document.records.get(at)?, &document.host)
        };
        let strip = |subject| strip(subject, row(subject), &here, &typical);
        Drawing {
            counts: here.iter().map(counts).collect(),
            strips: chosen.iter().filter_map(strip).collect(),
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
    typical: &dyn Fn((&FleetRun, &FleetEntry)) -> Option<Typical>,
) -> Option<Strip> {
    let found: Vec<Option<(&FleetRun, &FleetEntry)>> =
        here.iter().map(|it| newest(it, subject)).collect();
    // As it was compared: in the stratum that all hosts have.
    let valid = |at: usize| Some(row?.sides.iter().find(|side| side.member == at)?.ln.exp());
    let numbers = found.iter().enumerate();
    let numbers: Vec<Option<f64>> =
        numbers.map(|(at, one)| valid(at).or_else(|| one.as_ref()?.1.shown)).collect();
    let known: Vec<f64> = numbers.iter().flatten().copied().collect();
    let first = *found.iter().flatten().find(|(_, entry)| entry.shown.is_some())?;
    Some(Strip {
        subject: subject.clone(),
        unit: first.1.case.unit,
        better: first.1.case.better,
        states: found.iter().map(|one| Some(one.as_ref()?.1.state)).collect(),
        median: row.and_then(AnalysisRow::median).or_else(|| median(&known))?,
        typical: typical(first),
        numbers,
    })
}

fn newest<'a>(
    member: &FleetMember<'a>,
    wanted: &FleetSubject,
) -> Option<(&'a FleetRun, &'a FleetEntry)> {
    let is_case = |entry: &&FleetEntry| {
        (&entry.case.metric, &entry.case.params) == (&wanted.metric, &wanted.params)
            && entry.case.subject() == *wanted
    };
    member.runs.iter().find_map(|run| Some((*run, run.entries.iter().rev().find(is_case)?)))
}
