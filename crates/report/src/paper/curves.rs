//! Curves among cases: those that differ in one number only; and cases as rows.

use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::statistics::line;
use fathom_record::quantity::quantity;
use fathom_record::{ParamValue, Params, Protocol, Record, State, Unit, fact};

use super::block::{Block, PaperFigure};
use super::figure::{Axes, CURVES_MAX, PaperCurve, PaperPoint, draw, draw_rows};
use super::names::{self, common};
use crate::case::{axis_name, size_name};
use crate::distinct::distinct;

/// Fewer points are read from a table.
pub(super) const POINTS_MIN: usize = 4;
/// Of a command that is about curves, and rows of a figure.
pub(super) const FEW_POINTS_MIN: usize = 3;
/// Of a figure that a chapter names.
const NAMED_POINTS_MIN: usize = 2;
/// The name of the only curve.
pub(super) const MEASURED: &str = "measured";
/// A line that explains less is not printed.
const R_SQUARED_MIN: f64 = 0.5;
/// The facts with the equation of a line: now, and in earlier versions.
const LINES: [&str; 2] = [fact::LINE, "fit"];

/// A figure that a chapter names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drawn {
    /// The cases of these metrics over a parameter.
    Over(&'static str, &'static [&'static str]),
    /// Each case of these metrics.
    Rows(&'static str, &'static [&'static str]),
}

impl Drawn {
    pub(super) fn has(&self, metric: &str) -> bool {
        let (Self::Over(_, metrics) | Self::Rows(_, metrics)) = self;
        metrics.contains(&metric)
    }
}

/// What a curve is of: a metric's title, and the parameters that its points share.
type Key<'r> = (&'r str, Params);

/// The figures of a metric's records, and the equations of their lines unless these are stated.
pub(super) fn figures(records: &[&Record], is_stated: bool, points_min: usize) -> Vec<Block> {
    let Some(first) = records.first() else { return Vec::new() };
    let Some((axis, curves)) = curves(records, points_min) else { return Vec::new() };
    let title = format!("{} (`{}`)", first.title, first.metric);
    let mut blocks = over(&curves, &axis, first.unit, first.metric.as_str(), &title);
    if !is_stated && size_name(&axis).is_none() {
        let lines: Vec<String> =
            curves.iter().filter_map(|it| equation(it, &axis, first.unit)).collect();
        blocks.extend((!lines.is_empty()).then_some(Block::List(lines)));
    }
    blocks
}

/// A figure that a chapter names, if there are enough points.
pub(super) fn named_figure(all: &[&Record], drawn: Drawn) -> Vec<Block> {
    let of = |metrics: &[&str]| -> Vec<&Record> {
        all.iter().copied().filter(|it| metrics.contains(&it.metric.as_str())).collect()
    };
    match drawn {
        Drawn::Over(axis, metrics) => {
            let records = of(metrics);
            let Some(first) = records.first() else { return Vec::new() };
            let mut curves = curves_over(&records, axis, 1);
            if !curves.iter().any(|it| it.points.len() >= NAMED_POINTS_MIN) {
                return Vec::new();
            }
            // A single point is shown beside few curves.
            if curves.len() > CURVES_MAX {
                curves.retain(|it| it.points.len() >= NAMED_POINTS_MIN);
            }
            let name = format!("{}-{}", metrics[0], axis_name(axis));
            let titles: BTreeSet<&str> = records.iter().map(|it| it.title.as_str()).collect();
            let title = titles.into_iter().collect::<Vec<&str>>().join(", ");
            over(&curves, axis, first.unit, &name, &title)
        }
        Drawn::Rows(title, metrics) => {
            let records = of(metrics);
            let common = common(records.iter().map(|it| &it.params));
            let one_title = records.iter().all(|it| it.title == records[0].title);
            let name_of = |record: &Record| {
                let words = names::words(&record.params, &common);
                match (one_title, words.is_empty()) {
                    (true, _) => words,
                    (false, true) => record.title.clone(),
                    (false, false) => format!("{}, {words}", record.title),
                }
            };
            rows(&records, &name_of, title, &format!("{}-cases", metrics[0]))
        }
    }
}

/// Figures of up to [`CURVES_MAX`] curves each.
pub(super) fn over(
    curves: &[PaperCurve],
    axis: &str,
    unit: Unit,
    name: &str,
    title: &str,
) -> Vec<Block> {
    let is_size = size_name(axis).is_some();
    let figure = |(at, some): (usize, &[PaperCurve])| {
        let part = if curves.len() > CURVES_MAX { format!("-{}", at + 1) } else { String::new() };
        let axes = Axes {
            title: format!("{title} by {}", names::axis(axis)).replace('`', ""),
            x_title: names::axis(axis).to_owned(),
            x_unit: is_size.then_some(Unit::Bytes),
            unit,
        };
        let caption = format!("{title} by {}{}", names::axis(axis), hollow(some));
        figure(format!("{name}{part}"), caption, draw(&axes, some))
    };
    curves.chunks(CURVES_MAX).enumerate().map(figure).collect()
}

pub(super) fn figure(name: String, caption: String, svg: String) -> Block {
    Block::Figure(PaperFigure { name, caption, svg })
}

/// What a hollow point means, if one is.
pub(super) fn hollow(curves: &[PaperCurve]) -> &'static str {
    let is_noisy = curves.iter().flat_map(|curve| &curve.points).any(|point| point.is_noisy);
    if is_noisy { "; hollow: noisy" } else { "" }
}

/// Cases below each other.
pub(super) fn rows(
    records: &[&Record],
    name_of: &dyn Fn(&Record) -> String,
    title: &str,
    name: &str,
) -> Vec<Block> {
    let row = |record: &&Record| Some((name_of(record), point(0.0, record)?));
    let rows: Vec<(String, PaperPoint)> = records.iter().filter_map(row).collect();
    if rows.len() < FEW_POINTS_MIN {
        return Vec::new();
    }
    let is_noisy = rows.iter().any(|(_, point)| point.is_noisy);
    let caption = format!("{title}{}", if is_noisy { "; hollow: noisy" } else { "" });
    let unit = records[0].unit;
    let (title, x_title) = (title.to_owned(), String::new());
    let axes = Axes { title, x_title, x_unit: Some(unit), unit };
    vec![figure(name.to_owned(), caption, draw_rows(&axes, &rows))]
}

/// Whether a fact is of a line, whose equation has all of it.
pub(super) fn is_of_line(name: &str) -> bool {
    LINES.contains(&name) || [fact::INTERCEPT, fact::R_SQUARED].contains(&name)
}

/// The equations that the records have, of lines that explain the numbers.
pub(super) fn stated_lines(records: &[&Record]) -> Vec<String> {
    lines_of(records).into_iter().filter(|it| it.1).map(|it| it.0).collect()
}

/// What is said where no line explains the numbers.
pub(super) fn unexplained(records: &[&Record]) -> Option<String> {
    let lines = lines_of(records);
    (!lines.is_empty() && lines.iter().all(|(_, explains)| !explains))
        .then(|| format!("No linear fit is shown: r² < {R_SQUARED_MIN}."))
}

/// Each equation, and whether its line explains the numbers.
fn lines_of(records: &[&Record]) -> Vec<(String, bool)> {
    let of = |record: &&Record| {
        let line = LINES.iter().find_map(|name| record.text_of(name))?;
        let r_squared = record.quantity_of(fact::R_SQUARED);
        Some((line.to_owned(), r_squared.is_none_or(|it| it >= R_SQUARED_MIN)))
    };
    distinct(records.iter().filter_map(of))
}

/// `in a register: 1.200 ns + 0.300 ns × args, r² = 0.98`, of the valid numbers.
fn equation(curve: &PaperCurve, axis: &str, unit: Unit) -> Option<String> {
    let valid = || curve.points.iter().filter(|it| !it.is_noisy);
    if valid().count() < POINTS_MIN {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = valid().map(|it| (it.x, it.y)).unzip();
    let line = line(&x, &y).filter(|line| line.r_squared >= R_SQUARED_MIN)?;
    let [start, slope] = [line.intercept, line.slope].map(|it| quantity(it, unit));
    let name = if curve.name == MEASURED { String::new() } else { format!("{}: ", curve.name) };
    let axis = names::axis(axis);
    Some(format!("{name}{start} + {slope} × {axis}, r² = {:.3}", line.r_squared))
}

/// The curves over the parameter that has the most points, and its name.
fn curves(records: &[&Record], points_min: usize) -> Option<(String, Vec<PaperCurve>)> {
    let integers = |record: &&Record| {
        let is_integer =
            |(_, value): &(&String, &ParamValue)| matches!(value, ParamValue::Integer(_));
        record.params.0.iter().filter(is_integer).map(|it| it.0.clone()).collect::<Vec<_>>()
    };
    let axes: BTreeSet<String> = records.iter().flat_map(integers).collect();
    let over = axes.into_iter().map(|axis| {
        let curves = curves_over(records, &axis, points_min);
        (axis, curves)
    });
    let points =
        |curves: &[PaperCurve]| curves.iter().map(|curve| curve.points.len()).sum::<usize>();
    let all: Vec<(String, Vec<PaperCurve>)> =
        over.filter(|(_, curves)| !curves.is_empty()).collect();
    all.into_iter().max_by_key(|(_, curves)| (points(curves), usize::MAX - curves.len()))
}

fn curves_over(records: &[&Record], axis: &str, points_min: usize) -> Vec<PaperCurve> {
    let at = |record: &Record| point(record.params.integer(axis)? as f64, record);
    let mut curves = grouped(records, axis, &at);
    curves.retain(|it| it.points.len() >= points_min);
    curves
}

/// The points of records as curves, each of records that differ in one parameter only.
pub(super) fn grouped(
    records: &[&Record],
    axis: &str,
    point: &dyn Fn(&Record) -> Option<PaperPoint>,
) -> Vec<PaperCurve> {
    let mut groups: BTreeMap<Key<'_>, Vec<PaperPoint>> = BTreeMap::new();
    for record in records {
        let mut rest = record.params.clone();
        rest.0.remove(axis);
        if let Some(point) = point(record) {
            groups.entry((record.title.as_str(), rest)).or_default().push(point);
        }
    }
    let common = common(groups.keys().map(|(_, params)| params));
    let one_title =
        groups.keys().all(|(title, _)| Some(title) == groups.keys().next().map(|it| &it.0));
    let curve = |((title, rest), mut points): (Key<'_>, Vec<PaperPoint>)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points.dedup_by(|a, b| a.x == b.x);
        let words = names::words(&rest, &common);
        let name = match (one_title, words.as_str()) {
            (true, "") => MEASURED.to_owned(),
            (true, words) => words.to_owned(),
            (false, "") => title.to_owned(),
            (false, words) => format!("{title}, {words}"),
        };
        PaperCurve { name, points }
    };
    groups.into_iter().map(curve).collect()
}

pub(super) fn point(x: f64, record: &Record) -> Option<PaperPoint> {
    let DisplayValue::Number(y) = DisplayValue::from_record(record, Protocol::Median) else {
        return None;
    };
    let interval = record.summary.as_ref().and_then(|summary| summary.interval);
    let prediction = record.prediction.as_ref();
    let limits = prediction.and_then(|it| Some([it.low?, it.high?]));
    Some(PaperPoint {
        x,
        y,
        interval: interval.map(|it| it.limits()),
        predicted: prediction.and_then(|it| it.value),
        limits,
        is_noisy: record.verdict.state == State::Noisy,
    })
}
