//! The number of each host in chosen cases, for a drawing.

use fathom_record::{Better, Counts, Document, Protocol, State, Typical, Unit};
use serde::Serialize;

use super::numbers::{Row, rows, subject};
use super::{Fleet, Limits, Member, Subject};
use crate::compare::RunRecord;
use crate::display_value::DisplayValue;
use crate::typical;

/// A case of a group: the number of each host, in the order of the hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Strip {
    pub subject: Subject,
    pub unit: Unit,
    pub better: Better,
    /// Valid and noisy numbers.
    pub numbers: Vec<Option<f64>>,
    /// Absent where a host has not measured it.
    pub states: Vec<Option<State>>,
    /// Of the valid numbers.
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
/// of its hosts; none of which no two hosts have a valid number.
#[must_use]
pub fn strips<'a>(
    runs: &[&'a Document],
    choose: &dyn Fn(usize, &[&Document]) -> Vec<Subject>,
) -> Vec<Drawing<'a>> {
    let fleet = Fleet::of(runs);
    let of_group = |(at, (_, group)): (usize, &(_, Vec<usize>))| {
        let here = fleet.here(group);
        let newest: Vec<&'a Document> = here.iter().map(|member| member.runs[0]).collect();
        let rows = rows(&here, &Limits::new());
        let row = |subject: &Subject| rows.iter().find(|row| row.subject == *subject);
        let chosen = choose(at, &newest);
        let counts = |member: &&Member<'_>| {
            let records = member.runs.iter().flat_map(|run| &run.records);
            Counts::of(records.map(|record| record.verdict.state))
        };
        Drawing {
            counts: here.iter().map(counts).collect(),
            strips: chosen.iter().filter_map(|subject| strip(row(subject)?, &here)).collect(),
            runs: newest,
        }
    };
    fleet.groups.iter().enumerate().map(of_group).collect()
}

fn strip(row: &Row<'_>, here: &[&Member<'_>]) -> Option<Strip> {
    let (_, first) = row.found.first()?;
    let of_host = |(at, member): (usize, &&Member<'_>)| {
        let found = newest(member, &row.subject);
        // As it was compared: in the stratum that all hosts have.
        let valid = row.sides.iter().find(|side| side.member == at).map(|side| side.ln.exp());
        let noisy = || DisplayValue::of(found?.record, Protocol::Median).number();
        (valid.or_else(noisy), found.map(|it| it.record.verdict.state))
    };
    let (numbers, states) = here.iter().enumerate().map(of_host).unzip();
    Some(Strip {
        subject: row.subject.clone(),
        unit: first.record.unit,
        better: first.record.better,
        numbers,
        states,
        median: row.median()?,
        typical: typical::of(first.record, &first.run.host),
    })
}

fn newest<'a>(member: &Member<'a>, wanted: &Subject) -> Option<RunRecord<'a>> {
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
