//! The cases of a group of hosts, and their numbers.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Better, MetricId, Params, State, Stratum, Unit};
use serde::Serialize;

use super::runs::{EntryCase, FleetEntry, FleetRun};
use super::series::{SeriesSide, spread};
use super::{BETWEEN, FleetLimits, FleetMember, key};
use crate::compare::stratum_of;

/// Smaller effects are not odd.
pub(super) const EFFECT_MIN: f64 = 0.03;

/// A case, or the cases of a resource together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetSubject {
    /// The metric, or the resource, such as `cache and memory`.
    pub metric: MetricId,
    /// The parameters of a case.
    pub params: Params,
    /// The far host, where the case has two ends, with its id because names are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    /// How many cases together; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<usize>,
}

impl EntryCase {
    pub(super) fn subject(&self) -> FleetSubject {
        let far = self.far.as_ref().map(|far| name_with_id(&far.name, far.id.as_deref()));
        FleetSubject { metric: self.metric.clone(), params: self.params.clone(), far, cases: None }
    }
}

/// A case of the group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetCase {
    pub metric: MetricId,
    pub params: Params,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    pub unit: Unit,
    pub better: Better,
    /// Hosts with a valid number, which alone are compared.
    pub valid: usize,
    /// Hosts with a noisy number.
    pub noisy: usize,
    /// The median of the valid numbers.
    pub median: Option<f64>,
    /// How much hosts differ (Qn), as a share.
    pub spread: Option<f64>,
}

/// A subject, its numbers, and the least effect.
pub(super) type FleetJudged = (FleetSubject, Vec<SeriesSide>, f64);

/// One case of all members that have a valid number.
pub(super) struct AnalysisRow<'a> {
    pub(super) subject: FleetSubject,
    pub(super) found: FleetFound<'a>,
    pub(super) sides: Vec<SeriesSide>,
    pub(super) stratum: Stratum,
    pub(super) effect_min: f64,
    noisy: usize,
}

impl AnalysisRow<'_> {
    pub(super) fn better(&self) -> Better {
        self.found[0].entry.case.better
    }

    /// The fewest processes behind the numbers of some members.
    pub(super) fn processes(&self, members: [usize; 2]) -> usize {
        let found = self.found.iter().filter(|one| members.contains(&one.member));
        let counts = found.filter_map(|one| one.entry.number(self.stratum));
        counts.map(|it| it.processes as usize).min().unwrap_or(0)
    }

    /// Of the valid numbers.
    pub(super) fn median(&self) -> Option<f64> {
        Some(spread(&self.sides)?.middle.exp())
    }

    pub(super) fn case(&self) -> FleetCase {
        let first = &self.found[0].entry.case;
        let spread = spread(&self.sides);
        FleetCase {
            metric: first.metric.clone(),
            params: first.params.clone(),
            far: self.subject.far.clone(),
            unit: first.unit,
            better: first.better,
            valid: self.sides.len(),
            noisy: self.noisy,
            median: spread.map(|it| it.middle.exp()),
            spread: spread.map(|it| it.qn.exp_m1()),
        }
    }
}

/// The record of a case of a member, in any state.
#[derive(Clone, Copy)]
pub(super) struct MemberEntry<'a> {
    pub(super) member: usize,
    pub(super) entry: &'a FleetEntry,
    pub(super) run: &'a FleetRun,
}

/// Those of one case.
pub(super) type FleetFound<'a> = Vec<MemberEntry<'a>>;

/// All cases. Of a host with several runs the newest that has the case. Numbers to two
/// far hosts are two cases, though both may have one name; to hosts that measure to others
/// themselves they are no cases of a host: hosts and links are taken apart.
pub(super) fn cases<'a>(members: &[&FleetMember<'a>]) -> Vec<FleetFound<'a>> {
    let mut cases: BTreeMap<(&MetricId, &Params, &str), FleetFound<'a>> = BTreeMap::new();
    let calls = |member: &&&FleetMember<'_>| member.runs.iter().any(|run| run.calls);
    let callers: BTreeSet<(&str, &str)> =
        members.iter().filter(calls).map(|member| key(member.host())).collect();
    for (index, member) in members.iter().enumerate() {
        for run in &member.runs {
            for entry in run.entries.iter().rev() {
                let case = &*entry.case;
                let is_between = case.far.as_ref().is_some_and(|far| callers.contains(&far.key()))
                    && BETWEEN.contains(&case.metric.as_str());
                if is_between {
                    continue;
                }
                let key = (&case.metric, &case.params, case.far_identity());
                let found = cases.entry(key).or_default();
                if found.last().is_none_or(|last| last.member != index) {
                    found.push(MemberEntry { member: index, entry, run });
                }
            }
        }
    }
    cases.into_values().collect()
}

/// The rows of all cases.
pub(super) fn rows<'a>(cases: &[FleetFound<'a>], limits: &FleetLimits) -> Vec<AnalysisRow<'a>> {
    let row = |found: &FleetFound<'a>| {
        let case = &found[0].entry.case;
        let limit = limits.get(case.metric.as_str()).copied().unwrap_or(0.0);
        row(case.subject(), found.clone(), EFFECT_MIN.max(limit))
    };
    cases.iter().filter_map(row).collect()
}

/// `None` if no host has a number.
fn row(
    subject: FleetSubject,
    mut found: FleetFound<'_>,
    effect_min: f64,
) -> Option<AnalysisRow<'_>> {
    found.retain(|one| one.entry.is_number);
    let of_all = found.len();
    found.retain(|one| one.entry.state == State::Valid);
    let noisy = of_all - found.len();
    let first = &found.first()?.entry.case;
    let is_alike = |one: &MemberEntry<'_>| {
        (one.entry.case.unit, one.entry.case.better) == (first.unit, first.better)
    };
    found.retain(is_alike);
    let stratum = stratum_of(found.iter().map(|one| (one.entry.stratum, &one.run.head)));
    let side = |one: &MemberEntry<'_>| {
        let (ln, own) = one.entry.number(stratum)?.ln?;
        Some(SeriesSide { member: one.member, ln, own })
    };
    let sides = found.iter().filter_map(side).collect();
    Some(AnalysisRow { subject, sides, stratum, noisy, effect_min, found })
}
