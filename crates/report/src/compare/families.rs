//! Curves and matrices in a comparison: their unchanged or inconclusive cases share one line. A
//! changed case has a line of its own.

use std::collections::BTreeMap;

use fathom_analysis::compare::{Case, Compared, Word};
use fathom_record::{MetricId, Params};

use crate::case::{axis_name, case, named, position};
use crate::family::{self, Curve};

pub(super) enum Line<'a> {
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

/// The rows in their order, a family in the place of its first row.
pub(super) fn lines(rows: &[Compared]) -> Vec<Line<'_>> {
    let quiet = |row: &Compared| matches!(row.word, Word::Unchanged | Word::Inconclusive);
    let mut groups: BTreeMap<(Word, &MetricId), Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| quiet(row)) {
        groups.entry((row.word, &row.metric)).or_default().push(index);
    }
    let mut firsts: BTreeMap<usize, Many<'_>> = BTreeMap::new();
    let mut covered = vec![false; rows.len()];
    for ((_, metric), group) in groups {
        let cases: Vec<&Params> = group.iter().map(|index| &rows[*index].params).collect();
        for (name, members) in families(&cases) {
            let members: Vec<usize> = members.into_iter().map(|at| group[at]).collect();
            members.iter().for_each(|index| covered[*index] = true);
            let first = members.iter().copied().min().unwrap_or_default();
            let members = members.iter().map(|index| &rows[*index]).collect();
            firsts.insert(first, Many { name: format!("{metric} {name}"), members });
        }
    }
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        match firsts.remove(&index) {
            Some(many) => lines.push(Line::Many(many)),
            None if !covered[index] => lines.push(Line::One(row)),
            None => {}
        }
    }
    lines
}

/// The names of cases; one name per family.
pub(super) fn names(cases: &[Case]) -> Vec<String> {
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
