//! What all hosts of a group have in common: slower than predicted, or than is typical.

use fathom_record::{
    Basis, Better, Class, Interval, MetricId, Params, Position, Prediction, Summary, Typical, Unit,
    Verdict,
};
use serde::Serialize;

use super::rows::AnalysisRow;
use super::{FleetMember, HOSTS_MIN};
use crate::compare::RunRecord;
use crate::evidence::not_judged;
use crate::statistics::{median, median_interval};
use crate::typical;

/// A case in which a group as a whole is slow. Peers cannot show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uniform {
    pub metric: MetricId,
    pub params: Params,
    pub unit: Unit,
    pub better: Better,
    /// Hosts with a valid number.
    pub hosts: usize,
    /// The median of the hosts and its interval.
    pub median: f64,
    pub interval: [f64; 2],
    /// Its place among published machines, if it is worse than their range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typical: Option<Typical>,
    /// The prediction, if the interval is on its worse side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Missed>,
}

/// A prediction that a group misses. Its inputs are of each host, so that hosts differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missed {
    /// Measured ÷ predicted value, or ÷ the bound: the median of the hosts and its interval.
    pub ratio: f64,
    pub interval: [f64; 2],
    /// Hosts whose own number misses it in this direction.
    pub hosts: usize,
    /// Whether the prediction is a value.
    pub is_value: bool,
}

/// What the group is slow in as a whole, in the order of the cases.
pub(super) fn uniform(rows: &[AnalysisRow<'_>], members: &[&FleetMember<'_>]) -> Vec<Uniform> {
    rows.iter().filter_map(|row| of_row(row, members)).collect()
}

fn of_row(row: &AnalysisRow<'_>, members: &[&FleetMember<'_>]) -> Option<Uniform> {
    let (first, one) = row.found.first()?;
    let record = one.record;
    // Of the hosts whose number says something of them.
    let is_judged = |at: usize| {
        row.found.iter().any(|(member, it)| *member == at && not_judged(it.record).is_none())
    };
    let sides = row.sides.iter().filter(|side| is_judged(side.member));
    let values: Vec<f64> = sides.map(|side| side.ln.exp()).collect();
    if values.len() < HOSTS_MIN || record.better == Better::Neither {
        return None;
    }
    let (middle, (interval, level)) = (median(&values)?, median_interval(&values)?);
    let mut of_group = record.clone();
    let [low, high] = interval;
    of_group.summary = Some(Summary {
        median: middle,
        interval: Some(Interval { low, high, level, basis: Basis::Processes }),
        stratum: row.stratum,
        ..Summary::default()
    });
    (of_group.verdict, of_group.not_judged) = (Verdict::default(), None);
    let typical = typical::typical_of(&of_group, members[*first].host());
    let typical = typical.filter(|it| it.position == Position::Worse);
    let predicted = missed(row, record.better == Better::Lower);
    (typical.is_some() || predicted.is_some()).then(|| Uniform {
        metric: record.metric.clone(),
        params: record.params.clone(),
        unit: record.unit,
        better: record.better,
        hosts: values.len(),
        median: middle,
        interval,
        typical,
        predicted,
    })
}

/// The prediction in units of itself, since its inputs are of each host.
fn missed<'a>(row: &AnalysisRow<'a>, is_lower_better: bool) -> Option<Missed> {
    // What follows from the same family says nothing of the machine.
    let says = |it: &&Prediction| it.class() != Class::SelfConsistency;
    let of_host = |one: &RunRecord<'a>| {
        let prediction = one.record.prediction.as_ref().filter(says)?;
        let scale = prediction.value.or(prediction.high).or(prediction.low)?;
        let measured = one.estimate(prediction.stratum)?.median;
        (scale > 0.0).then(|| (prediction, measured / scale, scale))
    };
    let found = row.found.iter().map(|(_, one)| one);
    let all: Vec<(&Prediction, f64, f64)> = found.filter_map(of_host).collect();
    if all.len() < HOSTS_MIN {
        return None;
    }
    let middle = |of: &dyn Fn(&Prediction) -> Option<f64>| {
        let limits: Vec<f64> =
            all.iter().filter_map(|(it, _, scale)| Some(of(it)? / scale)).collect();
        median(&limits)
    };
    let (low, high) = (middle(&|it| it.low), middle(&|it| it.high));
    let uncertainty = median(&all.iter().map(|(it, ..)| it.uncertainty).collect::<Vec<f64>>())?;
    let of_group = Prediction { low, high, uncertainty, ..all[0].0.clone() };
    let ratios: Vec<f64> = all.iter().map(|(_, ratio, _)| *ratio).collect();
    let (ratio, (interval, _)) = (median(&ratios)?, median_interval(&ratios)?);
    let is_beyond = |ratio: f64| match is_lower_better {
        true => high.is_some_and(|high| ratio > high),
        false => low.is_some_and(|low| ratio < low),
    };
    let is_missed = of_group.agreement(Some(interval)).fails() && is_beyond(ratio);
    is_missed.then(|| Missed {
        ratio,
        interval,
        hosts: ratios.iter().filter(|ratio| is_beyond(**ratio)).count(),
        is_value: of_group.value.is_some(),
    })
}
