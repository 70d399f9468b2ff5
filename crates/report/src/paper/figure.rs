//! Curves as SVG: points with their intervals, predictions as dashes, a legend below the axes.

use std::fmt::Write as _;

use fathom_record::Unit;
use fathom_record::quantity::{binary_size, quantity};

use super::block::escaped;

/// A point of a curve, with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// The middle of what was predicted.
    pub(super) predicted: Option<f64>,
    pub(super) is_noisy: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    /// By ascending x.
    pub(super) points: Vec<Point>,
}

/// The axes of a drawing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axes {
    pub(super) title: String,
    pub(super) x_title: String,
    pub(super) x_is_size: bool,
    pub(super) unit: Unit,
}

const WIDTH: f64 = 720.0;
const PLOT: [f64; 4] = [84.0, 14.0, 700.0, 330.0];
const LEGEND_LINE: f64 = 20.0;
/// Wong, Nature Methods 8, 2011: distinguished by all kinds of sight.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#007a5c", "#a8568a", "#8a6d00", "#1c1c20"];
/// So many curves have a colour of their own.
pub(super) const CURVES_MAX: usize = COLOURS.len();
/// From this ratio on an axis is logarithmic.
const LOGARITHMIC_MIN: f64 = 20.0;

/// Where numbers are on an axis.
struct Scale {
    ends: [f64; 2],
    at: [f64; 2],
    is_log: bool,
}

impl Scale {
    fn of(values: &[f64], at: [f64; 2], may_begin_at_0: bool) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_log = low > 0.0 && high / low >= LOGARITHMIC_MIN;
        let ends = match is_log {
            true => [low / 1.1, high * 1.1],
            false if may_begin_at_0 && low >= 0.0 => [0.0, 1.08 * high],
            false => [low - 0.03 * (high - low), high + 0.03 * (high - low)],
        };
        let ends = if ends[0] < ends[1] { ends } else { [ends[0] - 1.0, ends[1] + 1.0] };
        Self { ends, at, is_log }
    }

    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_log { value.ln() } else { value };
        let [low, high] = self.ends.map(scale);
        let share = (scale(value) - low) / (high - low);
        self.at[0] + share * (self.at[1] - self.at[0])
    }

    /// Numbers for marks: round ones, or powers.
    fn marks(&self, is_size: bool) -> Vec<f64> {
        let [low, high] = self.ends;
        if !self.is_log {
            let rough = (high - low) / 5.0;
            let power = 10f64.powf(rough.log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
            let step = match is_size {
                true => 2f64.powf(rough.log2().ceil()),
                false => step.into_iter().find(|step| *step >= rough).unwrap_or(rough),
            };
            let first = (low / step).ceil();
            return (0..9)
                .map(|at| (first + f64::from(at)) * step)
                .filter(|it| *it <= high)
                .collect();
        }
        let base: f64 = if is_size { 2.0 } else { 10.0 };
        let (first, last) = (low.log(base).ceil() as i32, high.log(base).floor() as i32);
        let each = ((last - first) / 7 + 1).max(1);
        let powers = (first..=last).filter(|power| (power - first) % each == 0);
        let marks: Vec<f64> = powers.map(|power| base.powi(power)).collect();
        if marks.len() > 2 {
            return marks;
        }
        let fine =
            (first - 1..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|it| it * 10f64.powi(power)));
        fine.filter(|it| (low..=high).contains(it)).collect()
    }
}

/// A drawing of up to [`CURVES_MAX`] curves, each with a point.
pub(super) fn draw(axes: &Axes, curves: &[Curve]) -> String {
    let [left, top, right, bottom] = PLOT;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x: Vec<f64> = points().map(|point| point.x).collect();
    let ends = |point: &Point| point.interval.into_iter().flatten().chain(point.predicted);
    let y: Vec<f64> = points().flat_map(|point| ends(point).chain([point.y])).collect();
    // An interval of a small number may reach below 0, which a logarithm cannot.
    let has_room = points().all(|point| point.y > 0.0);
    let y: Vec<f64> = y.into_iter().filter(|it| !has_room || *it > 0.0).collect();
    let x = Scale::of(&x, [left + 12.0, right - 12.0], false);
    let y = Scale::of(&y, [bottom, top], true);
    let lines = curves.len() as f64 + f64::from(u8::from(has_prediction(curves)));
    let height = bottom + 58.0 + LEGEND_LINE * lines;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#1c1c20\">\n<title>{}\
         </title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escaped(&axes.title)
    );
    for mark in y.marks(axes.unit == Unit::Bytes) {
        let at = y.place(mark);
        let text = if mark == 0.0 { "0".to_owned() } else { escaped(&quantity(mark, axes.unit)) };
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{text}</text>",
            left - 8.0,
            at + 4.0
        );
    }
    for mark in x.marks(axes.x_is_size) {
        let at = x.place(mark);
        let text = if axes.x_is_size { binary_size(mark as i64) } else { round(mark) };
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#1c1c20\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            escaped(&text)
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#1c1c20\"/><text \
         x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        bottom + 40.0,
        escaped(&axes.x_title)
    );
    for (curve, colour) in curves.iter().zip(COLOURS) {
        svg += &drawn(curve, colour, &x, &y);
    }
    svg += &legend(curves, bottom + 62.0);
    svg + "</svg>\n"
}

fn has_prediction(curves: &[Curve]) -> bool {
    curves.iter().flat_map(|curve| &curve.points).any(|point| point.predicted.is_some())
}

fn round(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A line with its points and intervals, and dashes where it was predicted.
fn drawn(curve: &Curve, colour: &str, x: &Scale, y: &Scale) -> String {
    let path = |of: &dyn Fn(&Point) -> Option<f64>| {
        let mut path = String::new();
        let mut is_on = false;
        for point in &curve.points {
            match of(point) {
                Some(value) if !y.is_log || value > 0.0 => {
                    let letter = if is_on { 'L' } else { 'M' };
                    let _ = write!(path, "{letter}{:.1} {:.1}", x.place(point.x), y.place(value));
                    is_on = true;
                }
                _ => is_on = false,
            }
        }
        path
    };
    let measured = path(&|point| Some(point.y));
    let predicted = path(&|point| point.predicted);
    let mut svg = format!(
        "<path d=\"{measured}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>\n"
    );
    if !predicted.is_empty() {
        let _ = writeln!(
            svg,
            "<path d=\"{predicted}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"5 4\"/>"
        );
    }
    for point in &curve.points {
        let (at, on) = (x.place(point.x), y.place(point.y));
        if let Some([low, high]) = point.interval {
            let low = if y.is_log { low.max(y.ends[0]) } else { low };
            let (low, high) = (y.place(low), y.place(high));
            let _ = write!(svg, "<path d=\"M{at:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>");
        }
        let fill = if point.is_noisy { "#fff" } else { colour };
        let _ = writeln!(
            svg,
            "<circle cx=\"{at:.1}\" cy=\"{on:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"/>"
        );
    }
    svg
}

/// One line each, below the axes, where they cover nothing.
fn legend(curves: &[Curve], top: f64) -> String {
    let line = |(at, dash, colour, name): (usize, &str, &str, &str)| {
        let on = top + LEGEND_LINE * at as f64;
        format!(
            "<path d=\"M84 {:.1}h26\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>\
             <text x=\"118\" y=\"{on:.1}\">{}</text>\n",
            on - 4.0,
            escaped(name)
        )
    };
    let curves_lines = curves.iter().zip(COLOURS).enumerate();
    let mut text: String =
        curves_lines.map(|(at, (curve, colour))| line((at, "", colour, &curve.name))).collect();
    if has_prediction(curves) {
        let dash = " stroke-dasharray=\"5 4\"";
        text += &line((curves.len(), dash, "#1c1c20", "predicted (dashed)"));
    }
    text
}
