//! Curves and matrices in a comparison: cases of one metric with one word share a line.

use std::collections::BTreeMap;

use fathom_analysis::compare::{Compared, ComparisonCase, ComparisonWord};
use fathom_record::{MetricId, Params};

use crate::case::{axis_name, case, named, position};
use crate::family::{self, Curve};

pub(super) enum FamilyLine<'a> {
    One(&'a Compared),
    /// Cases of one family with the same word.
    Many(Many<'a>),
}

pub(super) struct Many<'a> {
    pub(super) name: String,
    pub(super) members: Vec<&'a Compared>,
}

impl Many<'_> {
    /// From the lowest to the highest limit of all intervals.
    pub(super) fn hull(&self) -> Option<[f64; 2]> {
        let intervals = self.members.iter().filter_map(|row| row.interval);
        intervals.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }
}

/// The smallest group of cases with one metric and one word that shares a line.
const GROUP_MIN: usize = 3;

/// A line for each row if `all`. Otherwise one line for the cases of a metric with the same word,
/// in the place of the first of them.
pub(super) fn lines(rows: &[Compared], all: bool) -> Vec<FamilyLine<'_>> {
    if all {
        return rows.iter().map(FamilyLine::One).collect();
    }
    let mut groups: BTreeMap<(ComparisonWord, &MetricId), Vec<&Compared>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.word, &row.metric)).or_default().push(row);
    }
    let mut lines = Vec::new();
    for row in rows {
        match groups.get(&(row.word, &row.metric)) {
            Some(members) if members.len() < GROUP_MIN => lines.push(FamilyLine::One(row)),
            Some(members) if std::ptr::eq(members[0], row) => {
                lines.push(FamilyLine::Many(Many {
                    name: common_name(members),
                    members: members.clone(),
                }));
            }
            _ => {}
        }
    }
    lines
}

/// The metric and the parameters that all members share.
fn common_name(members: &[&Compared]) -> String {
    let mut common = members[0].params.clone();
    common.0.retain(|name, value| members.iter().all(|row| row.params.0.get(name) == Some(value)));
    named(&members[0].metric, &common)
}

/// The names of cases; one name per family.
pub(super) fn names(cases: &[ComparisonCase]) -> Vec<String> {
    let mut names = Vec::new();
    for of_metric in cases.chunk_by(|a, b| a.metric == b.metric) {
        let params: Vec<&Params> = of_metric.iter().map(|case| &case.params).collect();
        let families = families(&params);
        let covered: Vec<usize> =
            families.iter().flat_map(|(_, members)| members.clone()).collect();
        for (name, members) in families {
            names.push(format!("{} {name} ({} cases)", of_metric[0].metric, members.len()));
        }
        let others = (0..of_metric.len()).filter(|at| !covered.contains(at));
        names.extend(others.map(|at| named(&of_metric[at].metric, &of_metric[at].params)));
    }
    names
}

/// The families among the cases of one metric: name and member indices.
fn families(cases: &[&Params]) -> Vec<(String, Vec<usize>)> {
    if family::is_matrix(cases) {
        let all = || (0..cases.len()).collect();
        let rows = family::has_rows(cases.len());
        return if rows { Vec::new() } else { vec![("a, b".to_owned(), all())] };
    }
    let name = |curve: &Curve| {
        let at = |index: Option<&usize>| {
            let at = index.and_then(|index| cases[*index].integer(&curve.axis));
            position(&curve.axis, at.unwrap_or_default())
        };
        let (from, to) = (at(curve.members.first()), at(curve.members.last()));
        let axis = format!("{} {from}…{to}", axis_name(&curve.axis));
        if curve.fixed.is_empty() { axis } else { format!("{} {axis}", case(&curve.fixed)) }
    };
    family::curves(cases).into_iter().map(|curve| (name(&curve), curve.members)).collect()
}
