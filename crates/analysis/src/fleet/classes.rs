//! Cases that share a resource as one number of each host: what slows the resource slows all of
//! them, and their errors are mostly their own.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{Better, MetricId, Params};

use super::HOSTS_MIN;
use super::rows::{AnalysisRow, EFFECT_MIN, FleetJudged, FleetSubject};
use super::series::{FALSE_DISCOVERY_RATE, PRIOR_FREEDOM_MAX, SeriesSide, spread};
use crate::classes::{class, names};
use crate::statistics::{median, qn_freedom, student_limit};

/// Fewer cases are not judged together.
const TOGETHER_MIN: usize = 5;
/// The variance of a median ÷ that of a mean, of normal values.
const MEDIAN_VARIANCE: f64 = 1.57;
/// The class of all cases.
pub(super) const ALL: &str = "all";
/// The resource that mostly decides a case.
fn class_of(subject: &FleetSubject) -> &str {
    class(&subject.metric, &subject.params).unwrap_or(subject.metric.group())
}

/// Whether a case is of a class.
pub(super) fn is_of(subject: &FleetSubject, of: &MetricId) -> bool {
    of.as_str() == ALL || class_of(subject) == of.as_str()
}

/// Of each class with enough cases, and of all, how much slower each host is over the cases. A host
/// with less than half of the cases has no number.
pub(super) fn together(rows: &[AnalysisRow<'_>], members: usize) -> Vec<FleetJudged> {
    let directed = rows.iter().filter(|row| row.better() != Better::Neither);
    let rows: Vec<&AnalysisRow<'_>> = directed.filter(|row| row.sides.len() >= HOSTS_MIN).collect();
    let mut classes: BTreeMap<&str, Vec<&AnalysisRow<'_>>> = BTreeMap::new();
    for row in &rows {
        classes.entry(class_of(&row.subject)).or_default().push(row);
    }
    if classes.len() > 1 {
        classes.insert(ALL, rows);
    }
    classes.retain(|_, rows| rows.len() >= TOGETHER_MIN);
    let of_class = |(class, rows): (&str, Vec<&AnalysisRow<'_>>)| {
        let sides = factors(&rows, members);
        let (metric, params) = (MetricId::new(class), Params::none());
        let subject = FleetSubject { metric, params, far: None, cases: Some(rows.len()) };
        (sides.len() >= HOSTS_MIN).then_some((subject, sides, EFFECT_MIN))
    };
    classes.into_iter().filter_map(of_class).collect()
}

fn factors(rows: &[&AnalysisRow<'_>], members: usize) -> Vec<SeriesSide> {
    // What differs little between hosts and is certain says most of each; but a case in which most
    // hosts are equal, such as a size of a cache, does not decide for all others.
    let deviation = |row: &&AnalysisRow<'_>| {
        let errors: Vec<f64> = row.sides.iter().map(|side| side.own).collect();
        spread(&row.sides).map_or(0.0, |it| it.qn).hypot(median(&errors).unwrap_or(0.0))
    };
    let deviations: Vec<f64> = rows.iter().map(deviation).collect();
    let least = median(&deviations).unwrap_or(0.0).max(f64::MIN_POSITIVE.sqrt());
    let mut slower: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); members];
    for (row, deviation) in rows.iter().zip(deviations) {
        let sign = if row.better() == Better::Higher { -1.0 } else { 1.0 };
        let middle = spread(&row.sides).map_or(0.0, |it| it.middle);
        let weight = (deviation.max(least) / least).powi(-2);
        for side in &row.sides {
            slower[side.member].push((sign * (side.ln - middle), weight, side.own));
        }
    }
    // Cases of one visit share its error; metrics have visits of their own.
    let visits = rows.iter().map(|row| row.subject.metric.as_str()).collect::<BTreeSet<_>>().len();
    let side = |(member, all): (usize, Vec<(f64, f64, f64)>)| {
        let own: Vec<f64> = all.iter().map(|it| it.2).collect();
        let own = median(&own)? / (visits as f64).sqrt();
        let is_enough = 2 * all.len() >= rows.len();
        is_enough.then_some(SeriesSide { member, ln: middle_mean(all)?, own })
    };
    slower.into_iter().enumerate().filter_map(side).collect()
}

/// The weighted mean of the middle third: more certain than a median, and a third of the weight on
/// each side can be anywhere.
fn middle_mean(mut all: Vec<(f64, f64, f64)>) -> Option<f64> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = all.iter().map(|it| it.1).sum::<f64>();
    let (mut below, mut sum) = (0.0, 0.0);
    for (value, weight, _) in &all {
        let [from, to] = [below, below + weight].map(|at| at.clamp(whole / 3.0, whole * 2.0 / 3.0));
        sum += value * (to - from);
        below += weight;
    }
    (whole > 0.0).then(|| sum / (whole / 3.0))
}

/// The smallest difference that is mostly found of one host among so many, in all of so many
/// metrics, whose intervals have this half width (a share). `None` for fewer hosts than judge each
/// other.
#[must_use]
pub fn visible(hosts: usize, half_width: f64, metrics: usize) -> Option<f64> {
    /// Nine times in ten.
    const POWER: f64 = 1.28;
    if hosts < HOSTS_MIN || metrics == 0 {
        return None;
    }
    // The usual interval over processes is one of 95 %.
    let deviation =
        half_width / 1.96 / (metrics as f64).sqrt() * (1.0 + MEDIAN_VARIANCE / hosts as f64).sqrt();
    // Of two sides, hosts, two families, and the classes beside the one that shows it.
    let tests = (4 * hosts * (names().count() + 1)) as f64;
    let freedom = qn_freedom(hosts - 1) + PRIOR_FREEDOM_MAX;
    let limit = student_limit(FALSE_DISCOVERY_RATE / tests, freedom)?;
    Some(EFFECT_MIN.max(((limit + POWER) * deviation).exp_m1()))
}
