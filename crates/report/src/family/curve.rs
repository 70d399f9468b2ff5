//! A curve in the table: one row, its shape below, and remarks on its points.

use fathom_record::Record;

use super::Curve;
use super::points::{Points, Printed};
use crate::case::{axis_name, case, position};
use crate::columns::{Setting, family_row};
use crate::remarks::INDENT;
use crate::shown::family::ShownFamily;
use crate::spark;
use crate::wrap::{glued, wrapped};

/// Bars of a curve at most; with more points, each bar is the mean of a stretch.
const BARS: usize = 32;

/// The lines of one curve of a metric.
pub(crate) fn curve_lines(
    curve: &Curve,
    records: &[Record],
    setting: &Setting<'_>,
    printed: &mut Printed,
) -> String {
    let members: Vec<&Record> = curve.members.iter().map(|at| &records[*at]).collect();
    let name = |record: &&Record| {
        let at = record.params.integer(&curve.axis).unwrap_or_default();
        position(&curve.axis, at)
    };
    let names: Vec<String> = members.iter().map(name).collect();
    let from_to = match (names.first(), names.last()) {
        (Some(first), Some(last)) => format!("{} {first}…{last}", axis_name(&curve.axis)),
        _ => String::new(),
    };
    let label = if curve.fixed.is_empty() { from_to.clone() } else { case(&curve.fixed) };
    let family = ShownFamily { members: &members, protocol: setting.protocol };
    let mut text = family_row(&label, &family, setting);
    let bars = spark::curve(&family.numbers().collect::<Vec<_>>(), BARS);
    let points = Points { records: members, names, noun: "points", ordered: true };
    let mut words = String::new();
    if !curve.fixed.is_empty() {
        words = glued(&from_to) + "  ";
    }
    words += &format!("{} {}", glued(&bars), points.counts());
    text += &wrapped(&words, setting.columns.line, INDENT, INDENT);
    text + &points.remarks(setting, printed)
}
