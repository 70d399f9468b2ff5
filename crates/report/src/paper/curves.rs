//! Curves among the cases of a metric: those that differ in one number only.

use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::statistics::line;
use fathom_record::quantity::{percent, quantity};
use fathom_record::{ParamValue, Params, Protocol, Record, State};

use super::block::{Block, Figure};
use super::figure::{Axes, CURVES_MAX, Curve, Point, draw};
use crate::case::{axis_name, case, size_name};

/// Fewer points are read from a table.
const POINTS_MIN: usize = 4;
/// The name of the only curve.
const MEASURED: &str = "measured";
/// A line that explains less is not printed.
const R_SQUARED_MIN: f64 = 0.5;

/// The figures of a metric's records, and the equations of their lines.
pub(super) fn figures(records: &[&Record]) -> Vec<Block> {
    let Some(first) = records.first() else { return Vec::new() };
    let Some((axis, curves)) = curves(records) else { return Vec::new() };
    let metric = first.metric.as_str();
    let is_size = size_name(&axis).is_some();
    let mut blocks = Vec::new();
    for (at, some) in curves.chunks(CURVES_MAX).enumerate() {
        let part = if curves.len() > CURVES_MAX { format!("-{}", at + 1) } else { String::new() };
        let axes = Axes {
            title: format!("{} by {}", first.title, axis_name(&axis)),
            x_title: if is_size { format!("{}, bytes", axis_name(&axis)) } else { axis.clone() },
            x_is_size: is_size,
            unit: first.unit,
        };
        let is_noisy = some.iter().flat_map(|curve| &curve.points).any(|point| point.is_noisy);
        let hollow = if is_noisy { "; hollow: noisy" } else { "" };
        let caption = format!("{} (`{metric}`) by {}{hollow}", first.title, axis_name(&axis));
        let svg = draw(&axes, some);
        let name = format!("{metric}{part}");
        blocks.push(Block::Figure(Figure { name, caption, svg }));
    }
    if !is_size {
        let lines: Vec<String> =
            curves.iter().filter_map(|it| equation(it, &axis, first)).collect();
        blocks.extend((!lines.is_empty()).then_some(Block::List(lines)));
    }
    blocks
}

/// `form=register: 1.200 ns + 0.300 ns × args, r² = 0.98`, of the valid numbers.
fn equation(curve: &Curve, axis: &str, record: &Record) -> Option<String> {
    let valid = curve.points.iter().filter(|it| !it.is_noisy);
    let (x, y): (Vec<f64>, Vec<f64>) = valid.map(|it| (it.x, it.y)).unzip();
    let line = line(&x, &y).filter(|line| line.r_squared >= R_SQUARED_MIN)?;
    let [start, slope] = [line.intercept, line.slope].map(|it| quantity(it, record.unit));
    let name = if curve.name == MEASURED { String::new() } else { format!("{}: ", curve.name) };
    Some(format!("{name}{start} + {slope} × {axis}, r² = {:.3}", line.r_squared))
}

/// The cases by the parameter that most of them differ in.
fn curves(records: &[&Record]) -> Option<(String, Vec<Curve>)> {
    let integers = |record: &&Record| {
        let integer = |(name, value): (&String, &ParamValue)| {
            matches!(value, ParamValue::Integer(_)).then(|| name.clone())
        };
        record.params.0.iter().filter_map(integer).collect::<Vec<String>>()
    };
    let axes: BTreeSet<String> = records.iter().flat_map(integers).collect();
    let over = axes.into_iter().map(|axis| {
        let curves = curves_over(records, &axis);
        (axis, curves)
    });
    let points = |curves: &[Curve]| curves.iter().map(|curve| curve.points.len()).sum::<usize>();
    let all: Vec<(String, Vec<Curve>)> = over.filter(|(_, curves)| !curves.is_empty()).collect();
    all.into_iter().max_by_key(|(_, curves)| (points(curves), usize::MAX - curves.len()))
}

fn curves_over(records: &[&Record], axis: &str) -> Vec<Curve> {
    let mut groups: BTreeMap<Params, Vec<Point>> = BTreeMap::new();
    for record in records {
        let mut rest = record.params.clone();
        rest.0.remove(axis);
        let at = record.params.integer(axis);
        if let Some(point) = at.and_then(|at| point(at as f64, record)) {
            groups.entry(rest).or_default().push(point);
        }
    }
    let common = common(groups.keys());
    let curve = |(rest, mut points): (Params, Vec<Point>)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points.dedup_by(|a, b| a.x == b.x);
        let differs = rest.0.into_iter().filter(|(name, _)| !common.contains(name)).collect();
        let name = match case(&Params(differs)).trim_matches(['{', '}']) {
            "" => MEASURED.to_owned(),
            differs => differs.to_owned(),
        };
        (points.len() >= POINTS_MIN).then_some(Curve { name, points })
    };
    groups.into_iter().filter_map(curve).collect()
}

/// The parameters in which no two curves differ.
fn common<'p>(all: impl Iterator<Item = &'p Params>) -> BTreeSet<String> {
    let all: Vec<&Params> = all.collect();
    let Some(first) = all.first() else { return BTreeSet::new() };
    let same = |(name, value): &(&String, &ParamValue)| {
        all.iter().all(|other| other.0.get(*name) == Some(*value))
    };
    first.0.iter().filter(same).map(|(name, _)| name.clone()).collect()
}

fn point(x: f64, record: &Record) -> Option<Point> {
    let DisplayValue::Number(y) = DisplayValue::of(record, Protocol::Median) else { return None };
    let interval = record.summary.as_ref().and_then(|summary| summary.interval);
    let predicted = record.prediction.as_ref().and_then(|it| it.value);
    let is_noisy = record.verdict.state == State::Noisy;
    Some(Point { x, y, interval: interval.map(|it| it.limits()), predicted, is_noisy })
}

/// How noisy a metric's cases are, if any is: `3 of 8 cases are noisy`.
pub(super) fn noise(records: &[&Record]) -> Option<String> {
    let noisy = records.iter().filter(|it| it.verdict.state == State::Noisy).count();
    (noisy > 0).then(|| {
        let share = percent(noisy as f64 / records.len() as f64);
        format!("{noisy} of {} cases are noisy ({share})", records.len())
    })
}
