//! Curves and rows of points as SVG: points with their intervals, predictions as dashes in a band
//! of their limits, a legend below the axes.

use std::fmt::Write as _;

use fathom_record::Unit;
use fathom_record::quantity::{binary_size, quantity};

use super::block::escaped;

/// A point of a curve, with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaperPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// The middle of what was predicted.
    pub(super) predicted: Option<f64>,
    /// The limits of what was predicted, if there are two.
    pub(super) limits: Option<[f64; 2]>,
    pub(super) is_noisy: bool,
}

impl PaperPoint {
    /// Every number on the axis of the values.
    fn values(&self) -> impl Iterator<Item = f64> + use<> {
        let ends = self.interval.into_iter().chain(self.limits).flatten();
        ends.chain(self.predicted).chain([self.y])
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PaperCurve {
    pub(super) name: String,
    /// By ascending x.
    pub(super) points: Vec<PaperPoint>,
}

/// The axes of a drawing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axes {
    pub(super) title: String,
    pub(super) x_title: String,
    /// Plain numbers without one.
    pub(super) x_unit: Option<Unit>,
    pub(super) unit: Unit,
}

/// At the beginning of every figure.
pub(super) const MARK: &str = r#"role="img" font-family="system-ui, sans-serif" font-size="13""#;
const WIDTH: f64 = 720.0;
/// Left, top, right and bottom of the axes.
const PLOT: [f64; 4] = [96.0, 14.0, 700.0, 330.0];
const LEGEND_LINE: f64 = 20.0;
/// Wong, Nature Methods 8, 2011: distinguished by all kinds of sight.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#007a5c", "#a8568a", "#8a6d00", "#1c1c20"];
/// Corners around the point of each colour, which print without it; none: a circle.
const CORNERS: [&[[f64; 2]]; 6] = [
    &[],
    &[[-3.2, -3.2], [3.2, -3.2], [3.2, 3.2], [-3.2, 3.2]],
    &[[0.0, -4.4], [4.0, 3.0], [-4.0, 3.0]],
    &[[0.0, -4.6], [4.6, 0.0], [0.0, 4.6], [-4.6, 0.0]],
    &[[0.0, 4.4], [4.0, -3.0], [-4.0, -3.0]],
    &[[-4.4, 0.0], [3.0, -4.0], [3.0, 4.0]],
];
/// So many curves have a colour and a shape of their own.
pub(super) const CURVES_MAX: usize = COLOURS.len();
/// From this ratio on an axis is logarithmic.
const LOGARITHMIC_MIN: f64 = 20.0;
/// Marks of the axis at the bottom are at least so far apart.
const MARK_WIDTH: f64 = 56.0;
const INK: &str = "#1c1c20";
/// Height of a row of points, and the width of its name.
const ROW: f64 = 22.0;
const NAMES: f64 = 340.0;
/// Letters of a name that have room.
const NAME_MAX: usize = 54;

/// Where numbers are on an axis.
struct PaperScale {
    ends: [f64; 2],
    at: [f64; 2],
    is_log: bool,
}

impl PaperScale {
    fn from_values(values: &[f64], at: [f64; 2], begins_at_0: bool) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_log = low > 0.0 && high / low >= LOGARITHMIC_MIN;
        let ends = match is_log {
            true => [low / 1.1, high * 1.1],
            false if begins_at_0 && low >= 0.0 => [0.0, 1.08 * high],
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

    /// Both ends of a range; what a logarithm cannot reach ends with the axis.
    fn places(&self, ends: [f64; 2]) -> [f64; 2] {
        ends.map(|end| self.place(if self.is_log { end.max(self.ends[0]) } else { end }))
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
pub(super) fn draw(axes: &Axes, curves: &[PaperCurve]) -> String {
    let [left, top, right, bottom] = PLOT;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x: Vec<f64> = points().map(|point| point.x).collect();
    let x = PaperScale::from_values(&x, [left + 12.0, right - 12.0], false);
    let y = PaperScale::from_values(&values(points()), [bottom, top], true);
    let lines = curves.len() as f64 + f64::from(u8::from(has_prediction(points())));
    let mut svg = opening(&axes.title, bottom + 58.0 + LEGEND_LINE * lines);
    for mark in y.marks(is_binary(Some(axes.unit))) {
        let at = y.place(mark);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            escaped(&tick(mark, Some(axes.unit)))
        );
    }
    svg += &x_axis(axes, &x, [left, right], bottom);
    let _ = writeln!(svg, "<path d=\"M{left} {top}V{bottom}\" stroke=\"{INK}\"/>");
    let each = || curves.iter().zip(COLOURS).zip(CORNERS);
    svg += &curves
        .iter()
        .zip(COLOURS)
        .map(|(it, colour)| band(it, colour, &x, &y))
        .collect::<String>();
    svg += &each()
        .map(|((curve, colour), shape)| drawn(curve, colour, shape, &x, &y))
        .collect::<String>();
    for (at, ((curve, colour), shape)) in each().enumerate() {
        let on = bottom + 62.0 + LEGEND_LINE * at as f64;
        svg += &legend_line(on, colour, "", &curve.name);
        svg += &(marker(shape, [97.0, on - 4.0], colour, false) + "\n");
    }
    if has_prediction(points()) {
        let on = bottom + 62.0 + LEGEND_LINE * curves.len() as f64;
        svg += &(legend_line(on, INK, DASHES, PREDICTED) + "\n");
    }
    svg + "</svg>\n"
}

/// Points below each other, each after its name, on one axis of values.
pub(super) fn draw_rows(axes: &Axes, rows: &[(String, PaperPoint)]) -> String {
    let [_, top, right, _] = PLOT;
    let points = || rows.iter().map(|(_, point)| point);
    let bottom = top + ROW * rows.len() as f64 + 6.0;
    let x = PaperScale::from_values(&values(points()), [NAMES + 12.0, right - 24.0], true);
    let legend = f64::from(u8::from(has_prediction(points())));
    let mut svg = opening(&axes.title, bottom + 52.0 + LEGEND_LINE * legend);
    svg += &x_axis(axes, &x, [NAMES, right], bottom);
    let colour = COLOURS[0];
    for (at, (name, point)) in rows.iter().enumerate() {
        let on = top + ROW * (at as f64 + 0.5);
        let _ = write!(
            svg,
            "<path d=\"M{NAMES} {on:.1}H{right}\" stroke=\"#eee\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\" font-size=\"12\">{}</text>",
            NAMES - 8.0,
            on + 4.0,
            escaped(&crate::wrap::cut(name, NAME_MAX))
        );
        if let Some([low, high]) = point.limits.map(|ends| x.places(ends)) {
            let _ = write!(
                svg,
                "<rect x=\"{low:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" \
                 fill=\"{colour}\" fill-opacity=\"0.14\"/>",
                on - 7.0,
                high - low
            );
        }
        if let Some(value) = point.predicted {
            let _ = write!(
                svg,
                "<path d=\"M{:.1} {:.1}v14\" stroke=\"{colour}\"{DASHES}/>",
                x.place(value),
                on - 7.0
            );
        }
        if let Some([low, high]) = point.interval.map(|ends| x.places(ends)) {
            let _ = write!(svg, "<path d=\"M{low:.1} {on:.1}H{high:.1}\" stroke=\"{colour}\"/>");
        }
        svg += &(marker(&[], [x.place(point.y), on], colour, point.is_noisy) + "\n");
    }
    if legend > 0.0 {
        svg += &(legend_line(bottom + 56.0, INK, DASHES, PREDICTED) + "\n");
    }
    svg + "</svg>\n"
}

const DASHES: &str = " stroke-dasharray=\"5 4\"";
const PREDICTED: &str = "predicted (dashed), with the limits of the prediction (band)";

fn opening(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         {MARK} fill=\"{INK}\">\n<title>{}\
         </title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escaped(title)
    )
}

/// All values of points; those above 0 if all points are, since a logarithm ends there.
fn values<'p>(points: impl Iterator<Item = &'p PaperPoint> + Clone) -> Vec<f64> {
    let has_room = points.clone().all(|point| point.y > 0.0);
    points.flat_map(PaperPoint::values).filter(|it| !has_room || *it > 0.0).collect()
}

fn has_prediction<'p>(mut points: impl Iterator<Item = &'p PaperPoint>) -> bool {
    points.any(|point| point.predicted.is_some() || point.limits.is_some())
}

/// The axis at the bottom, with its marks and its title.
fn x_axis(axes: &Axes, x: &PaperScale, [left, right]: [f64; 2], bottom: f64) -> String {
    let mut svg = String::new();
    let mut last = f64::NEG_INFINITY;
    for mark in x.marks(is_binary(axes.x_unit)) {
        let at = x.place(mark);
        if at - last < MARK_WIDTH {
            continue;
        }
        last = at;
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {bottom}v5\" stroke=\"{INK}\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            escaped(&tick(mark, axes.x_unit))
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {bottom}H{right}\" stroke=\"{INK}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        bottom + 38.0,
        escaped(&axes.x_title)
    );
    svg
}

/// Whether round numbers of a unit are powers of two.
fn is_binary(unit: Option<Unit>) -> bool {
    matches!(unit, Some(Unit::Bytes | Unit::BytesPerSecond))
}

/// The text of a mark, in no more digits than it needs.
fn tick(value: f64, unit: Option<Unit>) -> String {
    let text = match unit {
        None => format!("{value:.3}"),
        Some(_) if value == 0.0 => "0".to_owned(),
        Some(Unit::Bytes) => binary_size(value as i64),
        Some(unit) => quantity(value, unit),
    };
    let (number, symbol) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {symbol}").trim_end().to_owned()
}

/// The limits of the predictions along a curve, as an area.
fn band(curve: &PaperCurve, colour: &str, x: &PaperScale, y: &PaperScale) -> String {
    let mut svg = String::new();
    for run in curve.points.chunk_by(|a, b| a.limits.is_some() == b.limits.is_some()) {
        let all = run.iter().filter_map(|it| Some((x.place(it.x), y.places(it.limits?))));
        let mut all: Vec<(f64, [f64; 2])> = all.collect();
        if let [(at, ends)] = all[..] {
            all = vec![(at - 5.0, ends), (at + 5.0, ends)];
        }
        let high = all.iter().map(|(at, [_, high])| (at, high));
        let low = all.iter().rev().map(|(at, [low, _])| (at, low));
        let corners: Vec<String> =
            high.chain(low).map(|(at, on)| format!("{at:.1},{on:.1}")).collect();
        if !corners.is_empty() {
            let _ = writeln!(
                svg,
                "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.1\"/>",
                corners.join(" ")
            );
        }
    }
    svg
}

/// A line with its points and intervals, and dashes where it was predicted.
fn drawn(
    curve: &PaperCurve,
    colour: &str,
    shape: &[[f64; 2]],
    x: &PaperScale,
    y: &PaperScale,
) -> String {
    let path = |of: &dyn Fn(&PaperPoint) -> Option<f64>| {
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
        let _ =
            writeln!(svg, "<path d=\"{predicted}\" fill=\"none\" stroke=\"{colour}\"{DASHES}/>");
    }
    for point in &curve.points {
        let at = x.place(point.x);
        if let Some([low, high]) = point.interval.map(|ends| y.places(ends)) {
            let _ = write!(svg, "<path d=\"M{at:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>");
        }
        svg += &(marker(shape, [at, y.place(point.y)], colour, point.is_noisy) + "\n");
    }
    svg
}

/// A point; hollow if it is noisy.
fn marker(shape: &[[f64; 2]], [x, y]: [f64; 2], colour: &str, is_hollow: bool) -> String {
    let fill = if is_hollow { "#fff" } else { colour };
    let style = format!("fill=\"{fill}\" stroke=\"{colour}\"");
    if shape.is_empty() {
        return format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\" {style}/>");
    }
    let corner = |[dx, dy]: &[f64; 2]| format!("{:.1},{:.1}", x + dx, y + dy);
    let corners: Vec<String> = shape.iter().map(corner).collect();
    format!("<polygon points=\"{}\" {style}/>", corners.join(" "))
}

/// A line of the legend, below the axes, where it covers nothing.
fn legend_line(on: f64, colour: &str, dashes: &str, name: &str) -> String {
    format!(
        "<path d=\"M84 {:.1}h26\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}/><text \
         x=\"118\" y=\"{on:.1}\">{}</text>",
        on - 4.0,
        escaped(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes = Axes {
        title: String::new(),
        x_title: String::new(),
        x_unit: None,
        unit: Unit::Nanoseconds,
    };

    fn point(x: f64, y: f64, limits: Option<[f64; 2]>) -> PaperPoint {
        let predicted = limits.map(|[low, high]| f64::midpoint(low, high));
        PaperPoint { x, y, interval: None, predicted, limits, is_noisy: false }
    }

    fn curve(points: Vec<PaperPoint>) -> PaperCurve {
        PaperCurve { name: "one".to_owned(), points }
    }

    /// The numbers of the attributes with this name.
    fn numbers(svg: &str, name: &str) -> Vec<f64> {
        let name = format!(" {name}=\"");
        let values = svg.split(&name).skip(1);
        let values = values.flat_map(|it| it.split('"').next().unwrap_or("").split([' ', ',']));
        values.filter_map(|it| it.parse().ok()).collect()
    }

    #[test]
    fn limits_of_predictions_are_within_the_axes() {
        for high in [9.0, 9000.0] {
            let points = vec![point(1.0, 2.0, Some([1.0, high])), point(2.0, 3.0, None)];
            let svg = draw(&AXES, &[curve(points)]);
            let corners = numbers(&svg, "points");
            let [left, top, right, bottom] = PLOT;
            assert_eq!(corners.len(), 8, "{svg}");
            for corner in corners.chunks(2) {
                assert!((left..right).contains(&corner[0]), "{corner:?}");
                assert!((top..bottom).contains(&corner[1]), "{corner:?}");
            }
            let rows = [("one".to_owned(), point(0.0, 2.0, Some([1.0, high])))];
            let svg = draw_rows(&AXES, &rows);
            let (_, band) = svg.split_once("<rect x=").expect("a band");
            let [width, x] = ["width", "x"].map(|name| numbers(&format!(" x={band}"), name)[0]);
            assert!(x > NAMES && x + width < right, "{svg}");
        }
    }

    #[test]
    fn curves_differ_without_colour() {
        let one = || curve(vec![point(1.0, 2.0, None), point(2.0, 3.0, None)]);
        let mut svg = draw(&AXES, &[one(), one()]);
        COLOURS.iter().for_each(|colour| svg = svg.replace(colour, ""));
        // Two points and one in the legend of each.
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        assert_eq!(svg.matches("<polygon").count(), 3, "{svg}");
    }

    #[test]
    fn marks_do_not_overlap() {
        let points = [2e3, 9e5].map(|y| (String::new(), point(0.0, y, None)));
        let axes = Axes { x_unit: Some(Unit::Nanoseconds), ..AXES };
        let svg = draw_rows(&axes, &points);
        let paths = svg.split("<path d=\"M").map(|it| it.split('"').next().unwrap_or(""));
        let marks = paths.filter(|it| it.ends_with("v5")).filter_map(|it| it.split(' ').next());
        let places: Vec<f64> = marks.filter_map(|it| it.parse().ok()).collect();
        assert!(places.len() > 3, "{svg}");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= MARK_WIDTH), "{places:?}");
    }
}
