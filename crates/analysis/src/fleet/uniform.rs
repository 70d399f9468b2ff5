//! What all hosts of a group have in common: slower than predicted, or than is typical.

use fathom_record::{
    BETWEEN_LEVELS, Basis, Better, Fact, Interval, MetricId, Params, Position, Prediction, Record,
    Summary, Typical, Unit,
};
use serde::Serialize;

use super::rows::AnalysisRow;
use super::runs::EntryPrediction;
use super::{FleetMember, HOSTS_MIN};
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
    let first = row.found.first()?;
    let case = &first.entry.case;
    // Of the hosts whose number says something of them.
    let is_judged = |at: usize| row.found.iter().any(|it| it.member == at && it.entry.is_judged);
    let sides = row.sides.iter().filter(|side| is_judged(side.member));
    let values: Vec<f64> = sides.map(|side| side.ln.exp()).collect();
    if values.len() < HOSTS_MIN || case.better == Better::Neither {
        return None;
    }
    let (middle, (interval, level)) = (median(&values)?, median_interval(&values)?);
    let (metric, params) = (case.metric.clone(), case.params.clone());
    let mut of_group = Record::new(metric, params, "", case.unit, case.better);
    of_group.facts.extend(first.entry.is_on_edge.then(|| Fact::text(BETWEEN_LEVELS, "")));
    let [low, high] = interval;
    of_group.summary = Some(Summary {
        median: middle,
        interval: Some(Interval { low, high, level, basis: Basis::Processes }),
        stratum: row.stratum,
        ..Summary::default()
    });
    let typical = typical::typical_of(&of_group, members[first.member].host());
    let typical = typical.filter(|it| it.position == Position::Worse);
    let predicted = missed(row, case.better == Better::Lower);
    (typical.is_some() || predicted.is_some()).then(|| Uniform {
        metric: of_group.metric,
        params: of_group.params,
        unit: case.unit,
        better: case.better,
        hosts: values.len(),
        median: middle,
        interval,
        typical,
        predicted,
    })
}

/// The prediction in units of itself, since its inputs are of each host.
fn missed(row: &AnalysisRow<'_>, is_lower_better: bool) -> Option<Missed> {
    let all: Vec<&EntryPrediction> =
        row.found.iter().filter_map(|one| one.entry.prediction.as_deref()).collect();
    if all.len() < HOSTS_MIN {
        return None;
    }
    let middle = |of: &dyn Fn(&EntryPrediction) -> Option<f64>| {
        let limits: Vec<f64> = all.iter().filter_map(|it| Some(of(it)? / it.scale)).collect();
        median(&limits)
    };
    let (low, high) = (middle(&|it| it.low), middle(&|it| it.high));
    let uncertainty = median(&all.iter().map(|it| it.uncertainty).collect::<Vec<f64>>())?;
    let value = all[0].value;
    let of_group = Prediction { value, low, high, uncertainty, ..Prediction::default() };
    let ratios: Vec<f64> = all.iter().map(|it| it.ratio).collect();
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
        is_value: value.is_some(),
    })
}
