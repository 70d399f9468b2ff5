//! The cases of a group of hosts, and their numbers.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Better, Host, Interval, MetricId, Params, Protocol, State, Stratum, Unit};
use serde::Serialize;

use super::series::{SeriesSide, spread};
use super::{BETWEEN, FleetLimits, FleetMember, key};
use crate::compare::{RunRecord, stratum_of};
use crate::display_value::DisplayValue;
use crate::statistics::{median_interval, standard_error};

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
    pub(super) found: Vec<(usize, RunRecord<'a>)>,
    pub(super) sides: Vec<SeriesSide>,
    pub(super) stratum: Stratum,
    pub(super) effect_min: f64,
    noisy: usize,
}

impl AnalysisRow<'_> {
    pub(super) fn better(&self) -> Better {
        self.found[0].1.record.better
    }

    /// The fewest processes behind the numbers of some members.
    pub(super) fn processes(&self, members: [usize; 2]) -> usize {
        let found = self.found.iter().filter(|(member, _)| members.contains(member));
        let counts = found.filter_map(|(_, one)| one.estimate(self.stratum));
        counts.map(|it| it.process_medians.len()).min().unwrap_or(0)
    }

    /// Of the valid numbers.
    pub(super) fn median(&self) -> Option<f64> {
        Some(spread(&self.sides)?.middle.exp())
    }

    pub(super) fn case(&self) -> FleetCase {
        let first = self.found[0].1.record;
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

/// The records of one case by member, in any state.
pub(super) type FleetFound<'a> = Vec<(usize, RunRecord<'a>)>;

/// All cases. Of a host with several runs the newest that has the case. Numbers to two
/// far hosts are two cases, though both may have one name; to hosts that measure to others
/// themselves they are no cases of a host: hosts and links are taken apart.
pub(super) fn cases<'a>(members: &[&FleetMember<'a>]) -> Vec<FleetFound<'a>> {
    let mut cases: BTreeMap<(&MetricId, &Params, &str), FleetFound<'a>> = BTreeMap::new();
    let calls = |member: &&&FleetMember<'_>| member.runs.iter().any(|run| !run.far.is_empty());
    let callers: BTreeSet<(&str, &str)> =
        members.iter().filter(calls).map(|member| key(member.host())).collect();
    for (index, member) in members.iter().enumerate() {
        for run in &member.runs {
            for record in run.records.iter().rev() {
                let far = run.far_host(&record.params);
                let is_between = far.is_some_and(|far| callers.contains(&key(far)))
                    && BETWEEN.contains(&record.metric.as_str());
                if is_between {
                    continue;
                }
                let far = far.map_or("", Host::identity);
                let found = cases.entry((&record.metric, &record.params, far)).or_default();
                if found.last().is_none_or(|(last, _)| *last != index) {
                    found.push((index, RunRecord { record, run }));
                }
            }
        }
    }
    cases.into_values().collect()
}

/// The rows of all cases.
pub(super) fn rows<'a>(cases: &[FleetFound<'a>], limits: &FleetLimits) -> Vec<AnalysisRow<'a>> {
    let row = |found: &FleetFound<'a>| {
        let limit = limits.get(found[0].1.record.metric.as_str()).copied().unwrap_or(0.0);
        row(subject(found[0].1), found.clone(), EFFECT_MIN.max(limit))
    };
    cases.iter().filter_map(row).collect()
}

pub(super) fn subject(one: RunRecord<'_>) -> FleetSubject {
    let RunRecord { record, run } = one;
    let far = run.far_host(&record.params);
    FleetSubject {
        metric: record.metric.clone(),
        params: record.params.clone(),
        far: far.map(|far| name_with_id(&far.name, far.id.as_deref())),
        cases: None,
    }
}

/// `None` if no host has a number.
fn row(
    subject: FleetSubject,
    mut found: FleetFound<'_>,
    effect_min: f64,
) -> Option<AnalysisRow<'_>> {
    found.retain(|(_, one)| {
        let is_number = matches!(
            DisplayValue::from_record(one.record, Protocol::Median),
            DisplayValue::Number(_)
        );
        is_number && !one.record.verdict.is_emulated() && one.record.on_cliff().is_none()
    });
    let of_all = found.len();
    found.retain(|(_, one)| one.record.verdict.state == State::Valid);
    let noisy = of_all - found.len();
    let first = found.first()?.1.record;
    found.retain(|(_, one)| (one.record.unit, one.record.better) == (first.unit, first.better));
    let stratum = stratum_of(&found.iter().map(|(_, one)| *one).collect::<Vec<_>>());
    let side = |(member, one): &(usize, RunRecord<'_>)| {
        let it = one.estimate(stratum)?;
        let (ln, own) = logarithm(it.median, it.interval, &it.process_medians)?;
        Some(SeriesSide { member: *member, ln, own })
    };
    let sides = found.iter().filter_map(side).collect();
    Some(AnalysisRow { subject, sides, stratum, noisy, effect_min, found })
}

/// The logarithm of a number and its standard error, by the interval over process medians; `None`
/// without an interval, or for a number that is not positive.
pub(super) fn logarithm(
    number: f64,
    interval: Option<Interval>,
    process_medians: &[f64],
) -> Option<(f64, f64)> {
    let (limits, level) = match interval {
        Some(interval) => (interval.limits(), interval.level),
        None => median_interval(process_medians)?,
    };
    let (ln, own) = (number.ln(), standard_error(limits.map(f64::ln), level)?);
    (ln.is_finite() && own.is_finite()).then_some((ln, own))
}
