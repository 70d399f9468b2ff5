//! Families among the cases of one metric, detected by their parameters: curves over one integer
//! parameter, and matrices over two.
//!
//! A family is printed in a few lines instead of a row per case. Every problem of a case is still
//! printed: see [`points`].

mod chart;
mod curve;
mod matrix;
mod points;

pub(crate) use chart::{Caches, chart};
pub(crate) use curve::curve_lines;
pub(crate) use matrix::matrix_lines;
pub(crate) use points::Printed;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{ParamValue, Params};

use crate::case::size_name;

/// This many cases that differ only in one integer parameter are a curve.
pub(crate) const POINTS_MIN: usize = 8;
/// Up to this many pairs have rows of their own.
const PAIRS_AS_ROWS: usize = 8;
/// The parameters of a matrix.
const PAIR: [&str; 2] = ["a", "b"];
/// This many pairs are worth a grid.
const PAIRS_MIN: usize = 3;

/// The rows and curves of one metric, in the order of the first case of each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FamilyPart {
    /// Index of one case.
    Row(usize),
    Curve(Curve),
}

/// Cases that differ only in one integer parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// The name of that parameter.
    pub(crate) axis: String,
    /// The other parameters, equal for all cases.
    pub(crate) fixed: Params,
    /// Indices of the cases, sorted by the axis.
    pub(crate) members: Vec<usize>,
}

/// Whether a case can belong to a family.
pub(crate) fn may_belong(params: &Params) -> bool {
    params.0.values().any(|value| matches!(value, ParamValue::Integer(_)))
}

/// Whether the cases are pairs of CPUs, and enough for a grid.
pub(crate) fn is_matrix(cases: &[&Params]) -> bool {
    let pair = |params: &&Params| {
        params.0.len() == PAIR.len() && PAIR.iter().all(|name| params.integer(name).is_some())
    };
    cases.len() >= PAIRS_MIN && cases.iter().all(pair)
}

pub(crate) fn has_rows(pairs: usize) -> bool {
    pairs <= PAIRS_AS_ROWS
}

/// Whether any case has no row of its own.
pub(crate) fn has_any(cases: &[&Params]) -> bool {
    !curves(cases).is_empty() || (is_matrix(cases) && !has_rows(cases.len()))
}

pub(crate) fn parts(cases: &[&Params]) -> Vec<FamilyPart> {
    let curves = curves(cases);
    let within = |index: usize| curves.iter().position(|curve| curve.members.contains(&index));
    let mut printed = BTreeSet::new();
    let mut parts = Vec::new();
    for index in 0..cases.len() {
        match within(index) {
            None => parts.push(FamilyPart::Row(index)),
            Some(at) if printed.insert(at) => parts.push(FamilyPart::Curve(curves[at].clone())),
            Some(_) => {}
        }
    }
    parts
}

/// The curves over the parameter that covers the most cases.
pub(crate) fn curves(cases: &[&Params]) -> Vec<Curve> {
    let integers = |params: &Params| {
        let integer = |(name, value): (&String, &ParamValue)| {
            matches!(value, ParamValue::Integer(_)).then(|| name.clone())
        };
        params.0.iter().filter_map(integer).collect::<Vec<_>>()
    };
    let axes: BTreeSet<String> = cases.iter().flat_map(|params| integers(params)).collect();
    let over = axes.into_iter().map(|axis| curves_over(cases, &axis));
    let covered =
        |curves: &Vec<Curve>| -> usize { curves.iter().map(|curve| curve.members.len()).sum() };
    let is_size = |curves: &Vec<Curve>| curves.iter().any(|one| size_name(&one.axis).is_some());
    let weight = |curves: &Vec<Curve>| (covered(curves), is_size(curves), Reverse(curves.len()));
    over.max_by_key(weight).unwrap_or_default()
}

fn curves_over(cases: &[&Params], axis: &str) -> Vec<Curve> {
    let mut groups: BTreeMap<Params, Vec<(i64, usize)>> = BTreeMap::new();
    for (index, params) in cases.iter().enumerate() {
        if let Some(at) = params.integer(axis) {
            let mut fixed = (*params).clone();
            fixed.0.remove(axis);
            groups.entry(fixed).or_default().push((at, index));
        }
    }
    let curve = |(fixed, mut points): (Params, Vec<(i64, usize)>)| {
        points.sort_unstable();
        let distinct = points.windows(2).all(|pair| pair[0].0 != pair[1].0);
        // The axis is logarithmic: it has no zero.
        let positive = points.iter().all(|(at, _)| *at > 0);
        (distinct && positive && points.len() >= POINTS_MIN).then(|| Curve {
            axis: axis.to_owned(),
            fixed,
            members: points.into_iter().map(|(_, index)| index).collect(),
        })
    };
    groups.into_iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(sizes: i64, strides: i64) -> Vec<Params> {
        let case = |size: i64, stride: i64| {
            Params::one("set_bytes", 1024i64 << size).and("stride_bytes", 32i64 << stride)
        };
        let sizes = 0..sizes;
        sizes.flat_map(|size| (0..strides).map(move |stride| case(size, stride))).collect()
    }

    fn parts_of(cases: &[Params]) -> Vec<FamilyPart> {
        parts(&cases.iter().collect::<Vec<_>>())
    }

    #[test]
    fn grid_is_curves_over_its_longer_side() {
        let parts = parts_of(&grid(18, 6));
        assert_eq!(parts.len(), 6);
        for part in parts {
            let FamilyPart::Curve(curve) = part else { panic!("{part:?}") };
            assert_eq!((curve.axis.as_str(), curve.members.len()), ("set_bytes", 18));
            assert!(curve.fixed.integer("stride_bytes").is_some());
        }
    }

    #[test]
    fn curve_has_eight_points_and_none_at_zero() {
        let args = |range: std::ops::Range<i64>| -> Vec<Params> {
            range.map(|args| Params::one("args", args)).collect()
        };
        assert_eq!(parts_of(&args(1..8)).len(), 7);
        assert_eq!(parts_of(&args(1..9)).len(), 1);
        assert_eq!(parts_of(&args(0..8)).len(), 8);
    }

    #[test]
    fn curve_is_sorted_and_other_rows_keep_their_place() {
        let mut cases: Vec<Params> = grid(9, 1).into_iter().rev().collect();
        cases.insert(4, Params::one("kind", "other"));
        let parts = parts_of(&cases);
        assert_eq!(parts.len(), 2);
        let FamilyPart::Curve(curve) = &parts[0] else { panic!("{parts:?}") };
        assert_eq!(curve.members, [9, 8, 7, 6, 5, 3, 2, 1, 0]);
        assert_eq!(parts[1], FamilyPart::Row(4));
    }

    #[test]
    fn matrix_has_exactly_two_integer_parameters() {
        let pair = |a: i64, b: i64| Params::one("a", a).and("b", b);
        let pairs = [pair(0, 1), pair(0, 2), pair(1, 2)];
        assert!(is_matrix(&pairs.iter().collect::<Vec<_>>()));
        assert!(!is_matrix(&pairs[..2].iter().collect::<Vec<_>>()));
        let more = [pair(0, 1), pair(0, 2), pair(1, 2).and("line", 1)];
        assert!(!is_matrix(&more.iter().collect::<Vec<_>>()));
    }
}
