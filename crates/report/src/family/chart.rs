//! The curves of one metric as a chart of letters: one letter per curve, so that curves can be
//! distinguished without colour and in every font.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{bare, unit_for};
use fathom_record::{Host, Record, State};

use super::Curve;
use crate::case::{axis_name, case, position};
use crate::columns::Setting;
use crate::paint::{FAINT, paint_lines};
use crate::wrap::{glued, width_of, wrapped};

/// On narrower lines only the bars of each curve are printed.
pub(crate) const WIDTH_MIN: usize = 100;
/// Lines of a chart at most.
const LINES: usize = 14;
/// Lines of the value axis at most.
const HEIGHT: usize = 10;
/// Columns for the labels of the value axis.
const LEFT: usize = 12;
/// Columns between points at most; further apart, the shape is lost.
const PITCH: usize = 7;
/// The value axis is logarithmic from this ratio of the largest to the smallest value.
const LINEAR_MAX: f64 = 4.0;
/// The parameter whose axis gets marks at the cache sizes.
const WORKING_SET: &str = "set_bytes";

/// The data caches of a machine, by level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches(Vec<(u32, u64)>);

impl Caches {
    pub(crate) fn from_host(host: &Host) -> Self {
        let data = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
        let mut caches: Vec<(u32, u64)> = data.map(|it| (it.level, it.size_bytes)).collect();
        caches.sort_unstable();
        caches.dedup_by_key(|(level, _)| *level);
        Self(caches)
    }
}

struct ChartPoint {
    at: f64,
    value: f64,
    noisy: bool,
}

/// The chart of curves over one axis. Empty if the line is too narrow, or with fewer than two
/// numbers.
pub(crate) fn chart(
    curves: &[&Curve],
    records: &[Record],
    caches: &Caches,
    setting: &Setting<'_>,
) -> String {
    let Some(first) = curves.first().filter(|_| setting.columns.line >= WIDTH_MIN) else {
        return String::new();
    };
    let letters = b'a'..=b'z';
    let drawn: Vec<(char, Vec<ChartPoint>)> = letters
        .map(char::from)
        .zip(curves.iter().map(|curve| points(curve, records, setting)))
        .collect();
    let all = || drawn.iter().flat_map(|(_, points)| points);
    if all().count() < 2 {
        return String::new();
    }
    let positions: Vec<i64> = positions(curves, records);
    let legend = legend(curves, drawn.len(), all().any(|point| point.noisy));
    let unit = records[first.members[0]].unit;
    let (low, high) = all().fold((f64::INFINITY, 0f64), |(low, high), point| {
        (low.min(point.value), high.max(point.value))
    });
    let (divisor, symbol) = unit_for(low, unit);
    let by = |scale: &ChartScale| if scale.logarithmic { ", both on log scales" } else { "" };
    let scale = |height| ChartScale::between(low / divisor, high / divisor, height);
    let title = |scale: &ChartScale| {
        let (metric, axis) = (&records[first.members[0]].metric, axis_name(&first.axis));
        let words = format!("{metric} in {symbol} over {axis}{}: {legend}", by(scale));
        wrapped(&words, setting.columns.line, "    ", "    ")
    };
    // One line each for the axis, its labels and the caches.
    let words = title(&scale(HEIGHT));
    let height = LINES.saturating_sub(words.lines().count() + 3).clamp(4, HEIGHT);
    let scale = scale(height);
    let mut canvas = Canvas::from_positions(&positions, &scale, setting.columns.line);
    let marks: Vec<(u32, u64)> =
        caches.0.iter().filter(|_| first.axis == WORKING_SET).copied().collect();
    canvas.mark(&marks);
    for (letter, points) in &drawn {
        points.iter().for_each(|point| canvas.put(*letter, point, divisor));
    }
    let text = canvas.text(&first.axis, symbol);
    text + &paint_lines(FAINT, &words)
}

fn points(curve: &Curve, records: &[Record], setting: &Setting<'_>) -> Vec<ChartPoint> {
    let point = |index: &usize| {
        let record = &records[*index];
        let value = DisplayValue::from_record(record, setting.protocol)
            .number()
            .filter(|value| *value > 0.0)?;
        let at = record.params.integer(&curve.axis)? as f64;
        Some(ChartPoint { at, value, noisy: record.verdict.state == State::Noisy })
    };
    curve.members.iter().filter_map(point).collect()
}

/// Every position on the axis, with or without a number.
fn positions(curves: &[&Curve], records: &[Record]) -> Vec<i64> {
    let of = |curve: &&Curve| {
        let at = |index: &usize| records[*index].params.integer(&curve.axis);
        curve.members.iter().filter_map(at).collect::<Vec<i64>>()
    };
    let mut positions: Vec<i64> = curves.iter().flat_map(of).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

fn legend(curves: &[&Curve], drawn: usize, noisy: bool) -> String {
    let name = |(at, curve): (usize, &&Curve)| {
        let letter = char::from(b'a' + at as u8);
        match curve.fixed.is_empty() {
            true => format!("{letter} each point"),
            false => format!("{letter} {}", case(&curve.fixed)),
        }
    };
    let names = curves.iter().take(drawn).enumerate().map(name);
    let mut parts: Vec<String> = names.map(|name| glued(&name)).collect();
    if noisy {
        parts.push(glued("capital: noisy"));
    }
    if drawn < curves.len() {
        parts.push(glued(&format!("{} more curves not drawn", curves.len() - drawn)));
    }
    parts.join(", ")
}

/// The value axis, in the unit printed beside it.
struct ChartScale {
    logarithmic: bool,
    /// The lowest line: an exponent of two, or a multiple of the step.
    low: f64,
    /// Lines per labelled step.
    lines_per_step: f64,
    step: f64,
    lines: usize,
}

impl ChartScale {
    fn between(low: f64, high: f64, height: usize) -> Self {
        let room = (height - 1) as f64;
        if high / low >= LINEAR_MAX {
            let (bottom, top) = (low.log2().floor(), high.log2().ceil());
            let octaves = top - bottom;
            // Whole lines per octave, or whole octaves per line.
            let (step, lines_per_step) = match room / octaves {
                many if many >= 1.0 => (1.0, many.floor()),
                few => ((1.0 / few).ceil(), 1.0),
            };
            let lines = ((octaves / step).ceil() * lines_per_step) as usize + 1;
            return Self { logarithmic: true, low: bottom, lines_per_step, step, lines };
        }
        let raw = ((high - low) / (room - 1.0)).max(high * 1e-3);
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power);
        let step = step.into_iter().find(|step| *step >= raw * (1.0 - 1e-9)).unwrap_or(raw);
        let (bottom, top) = ((low / step).floor(), (high / step).ceil());
        let lines = (top - bottom) as usize + 1;
        Self { logarithmic: false, low: bottom, lines_per_step: 1.0, step, lines }
    }

    /// The line of a value, counted from the bottom.
    fn line(&self, value: f64) -> usize {
        let steps = match self.logarithmic {
            true => (value.log2() - self.low) / self.step,
            false => value / self.step - self.low,
        };
        ((steps * self.lines_per_step).round().max(0.0) as usize).min(self.lines - 1)
    }

    /// The label of a line; `None` between the steps.
    fn label(&self, line: usize) -> Option<String> {
        let steps = line as f64 / self.lines_per_step;
        let value = match self.logarithmic {
            true => (self.low + steps * self.step).exp2(),
            false => (self.low + steps) * self.step,
        };
        let text =
            if value >= 1.0 && value.fract() == 0.0 { format!("{value:.0}") } else { bare(value) };
        (steps.fract() == 0.0).then_some(text)
    }
}

/// The letters of the chart, and the columns of axis positions.
struct Canvas<'a> {
    scale: &'a ChartScale,
    positions: &'a [i64],
    cells: Vec<Vec<char>>,
    heads: Vec<(usize, String)>,
    width: usize,
    /// Columns between neighbouring positions at least.
    pitch: usize,
}

impl<'a> Canvas<'a> {
    fn from_positions(positions: &'a [i64], scale: &'a ChartScale, line: usize) -> Self {
        let octaves = |from: i64, to: i64| (to as f64 / from as f64).log2();
        let whole = octaves(positions[0], positions[positions.len() - 1]).max(1e-9);
        let nearest =
            positions.windows(2).map(|pair| octaves(pair[0], pair[1])).fold(whole, f64::min);
        // The last position has room for as many letters as the others.
        let room = (line - LEFT) as f64 / (whole / nearest + 1.0);
        let pitch = room.min(PITCH as f64).max(1.0).floor();
        let width = ((whole / nearest * pitch).round() as usize).min(line - LEFT - 1) + 1;
        let pitch = pitch as usize;
        let cells = vec![vec![' '; line - LEFT]; scale.lines];
        Self { scale, positions, cells, heads: Vec::new(), width, pitch }
    }

    fn column(&self, at: f64) -> usize {
        let (first, last) =
            (self.positions[0] as f64, self.positions[self.positions.len() - 1] as f64);
        let share = (at / first).log2() / (last / first).log2().max(1e-9);
        (share * (self.width - 1) as f64).round() as usize
    }

    /// A dotted line at the size of each cache.
    fn mark(&mut self, caches: &[(u32, u64)]) {
        let (first, last) =
            (self.positions[0] as f64, self.positions[self.positions.len() - 1] as f64);
        for (level, size) in caches {
            let size = *size as f64;
            if size < first || size > last {
                continue;
            }
            let column = self.column(size);
            self.cells.iter_mut().for_each(|line| line[column] = ':');
            self.heads.push((column, format!("L{level}")));
        }
    }

    /// Puts a letter at its point, or beside it if the cell is taken.
    fn put(&mut self, letter: char, point: &ChartPoint, divisor: f64) {
        let column = self.column(point.at);
        let line = &mut self.cells[self.scale.line(point.value / divisor)];
        let end = (column + self.pitch.saturating_sub(1).max(1)).min(line.len());
        let letter = if point.noisy { letter.to_ascii_uppercase() } else { letter };
        match line[column..end].iter().position(|cell| [' ', ':'].contains(cell)) {
            Some(free) => line[column + free] = letter,
            None => line[end - 1] = '*',
        }
    }

    fn text(&self, axis: &str, symbol: &str) -> String {
        let mut text = String::new();
        let heads = self.heads.iter().map(|(column, name)| (*column, name.clone()));
        text += format!("{symbol:>width$} {}", row_of(heads), width = LEFT - 2).trim_end();
        text.push('\n');
        for line in (0..self.scale.lines).rev() {
            let label = self.scale.label(line).unwrap_or_default();
            let cells: String = self.cells[line].iter().collect();
            text += format!("{label:>width$} |{cells}", width = LEFT - 2).trim_end();
            text.push('\n');
        }
        let mut rule = vec!['-'; self.width];
        let mut labels: Vec<(usize, String)> = Vec::new();
        let mut free = 0;
        let last = self.positions.len() - 1;
        for (nth, at) in self.positions.iter().enumerate() {
            let (column, name) = (self.column(*at as f64), position(axis, *at));
            rule[column] = '+';
            let end = column + width_of(&name);
            let of_two = at.count_ones() == 1 || nth == last;
            if of_two && column >= free && LEFT - 1 + end <= LEFT + self.cells[0].len() {
                labels.push((column, name));
                free = end + 2;
            }
        }
        let rule: String = rule.into_iter().collect();
        text += &format!("{:>width$} -{rule}\n", "", width = LEFT - 2);
        text += format!("{:>width$} {}", "", row_of(labels), width = LEFT - 2).trim_end();
        text + "\n"
    }
}

/// Words at their columns, one column right of the axis; overlapping words are dropped.
fn row_of(words: impl IntoIterator<Item = (usize, String)>) -> String {
    let mut row = String::new();
    for (column, word) in words {
        let at = column + 1;
        if width_of(&row) <= at {
            row += &" ".repeat(at - width_of(&row));
            row += &word;
        }
    }
    row
}
