//! A run compared with published figures, for the terminal.

use std::collections::BTreeMap;

use fathom_analysis::reference::{Beside, Figure, Missing, Reference, Row};
use fathom_record::quantity::{NOTHING, bare, quantity_within, range_within};
use fathom_record::{State, Unit};

use crate::case::{case, named};
use crate::cells::Grid;
use crate::layout::Layout;
use crate::opening::labelled;
use crate::paint::{FAINT, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, clean, glued, width_of, wrapped};

const WIDEST: usize = 140;
/// Width from which a name is on the line of its figures.
const WIDE: usize = 110;

pub fn known(references: &[Reference]) -> String {
    let names = references.iter().map(|one| format!("`{}` ({})", one.name, one.title));
    names.collect::<Vec<String>>().join(", ")
}

/// The study, the rows with both figures, notes, and the figures without a counterpart in the run.
pub fn render(beside: &Beside, layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut text = labelled("study", &format!("{}: {}", beside.reference, beside.title), line);
    text += &labelled("", &clean(&beside.machine), line);
    text += &labelled("how", &clean(&beside.protocol), line);
    text += &beside.note.as_deref().map_or(String::new(), |note| labelled("note", note, line));
    let run = format!("run {} on {}, {}, {}", beside.run, beside.host, beside.cpu, beside.started);
    text += &labelled("here", &clean(&run), line);
    text.push('\n');
    let (with, without): (Vec<&Row>, Vec<&Row>) =
        beside.rows.iter().partition(|row| row.here.is_some());
    if !with.is_empty() {
        text += &header(line);
        with.iter().for_each(|row| text += &row_lines(row, line));
        text += &paint_lines(FAINT, &wrapped(FOOT, line, "", "  "));
        text += &remarks(&with, line);
        text.push('\n');
    }
    text += &wrapped(&matched_count(&with, &without), line, "", "");
    text += &unmatched(&without, line);
    text
}

const FOOT: &str = "±: standard deviation; published figures have no confidence interval, so no \
    significance is given; ratio: here ÷ published; ~: noisy";

/// Name, predicted and measured there, deviation, predicted and measured here, ratio.
fn grid(line: usize) -> Grid<7> {
    let figures = if line < 80 { [10, 10, 6, 11, 10, 6] } else { [12, 11, 7, 13, 12, 7] };
    let [a, b, c, d, e, f] = figures.map(Some);
    Grid::new(line, 1, 0, &[0], [None, a, b, c, d, e, f])
}

fn header(line: usize) -> String {
    let grid = grid(line);
    let name = if grid.width(0) < "metric".len() { "" } else { "metric" };
    let titles = [name, "predicted", "published", "±", "predicted", "here", "ratio"];
    grid.line(titles, [STRONG; 7])
}

fn row_lines(row: &Row, line: usize) -> String {
    let Some(here) = &row.here else { return String::new() };
    let mark = if here.state == State::Noisy { "~" } else { "" };
    let mut name = clean(&format!("{mark}{}", named(&row.published.metric, &here.params)));
    let mut text = String::new();
    let grid = grid(line);
    if line < WIDE || width_of(&name) > grid.width(0) {
        text = wrapped(&name, line, "", "    ");
        name = String::new();
    }
    let unit = row.published.unit;
    let [low, high] = here.predicted;
    let deviation = row.published.sd_percent.map_or(String::new(), spread);
    let mut texts = [
        name,
        row.published.predicted.as_ref().map_or_else(nothing, |one| match one {
            Figure::Range(_) => figure(one, unit, usize::MAX),
            _ => figure(one, unit, grid.width(1)),
        }),
        figure(&row.published.measured, unit, grid.width(2)),
        deviation,
        range_within(low, high, unit, grid.width(4)),
        quantity_within(here.measured, unit, grid.width(5)),
        row.ratio.map_or_else(nothing, ratio),
    ];
    for (column, text) in texts.iter_mut().enumerate() {
        if width_of(text) > grid.width(column) {
            "see below".clone_into(text);
        }
    }
    text + &grid.line(texts.each_ref().map(String::as_str), [PLAIN; 7])
}

fn nothing() -> String {
    NOTHING.to_owned()
}

fn figure(figure: &Figure, unit: Unit, width: usize) -> String {
    match figure {
        Figure::Number(number) => quantity_within(*number, unit, width),
        Figure::Range([low, high]) => range_within(Some(*low), Some(*high), unit, width),
        Figure::Words(words) => words.clone(),
    }
}

/// `± 9 %`, with two decimals below one percent.
fn spread(percent: f64) -> String {
    match percent {
        percent if percent < 0.095 => format!("± {percent:.2} %"),
        percent if percent < 0.95 => format!("± {} %", (percent * 100.0).round() / 100.0),
        percent => format!("± {percent:.0} %"),
    }
}

fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => nothing(),
        ratio if !(0.000_5..9_999.5).contains(&ratio) => format!("{ratio:.1e}"),
        ratio => bare(ratio),
    }
}

/// Notes on the published figures: each once, with its metric.
fn remarks(rows: &[&Row], line: usize) -> String {
    let mut text = String::new();
    let mut printed: Vec<String> = Vec::new();
    for row in rows {
        let published = &row.published;
        let expected = match &published.predicted {
            Some(Figure::Words(words)) => Some(format!("predicted there: {words}")),
            // A range that does not fit its column is printed here in full.
            Some(range @ Figure::Range(_)) => {
                let whole = figure(range, published.unit, usize::MAX);
                (width_of(&whole) > grid(line).width(1))
                    .then(|| format!("predicted there: {whole}"))
            }
            _ => None,
        };
        let parts = [published.protocol.clone(), published.note.clone(), expected];
        for part in parts.into_iter().flatten() {
            let remark = format!("{}: {part}", published.metric);
            if !printed.contains(&remark) {
                text += &wrapped(&remark, line, "  ", "    ");
                printed.push(remark);
            }
        }
    }
    text
}

fn matched_count(with: &[&Row], without: &[&Row]) -> String {
    let mut figures: Vec<_> = with.iter().map(|row| &row.published).collect();
    figures.dedup();
    let all = figures.len() + without.len();
    let found = figures.len();
    format!("{found} of {all} published figures have a counterpart in this run.")
}

/// The figures without a counterpart, by reason.
fn unmatched(rows: &[&Row], line: usize) -> String {
    let mut by_reason: BTreeMap<(String, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let metric = row.published.metric.as_str();
        let why = row.missing.as_ref().map_or_else(String::new, |why| reason(why, metric));
        by_reason.entry((why, metric)).or_default().push(row);
    }
    let mut text = String::new();
    for ((why, metric), rows) in by_reason {
        let figures: Vec<String> = rows.iter().map(|row| published_figure(row)).collect();
        text += &wrapped(&format!("{metric}: {why}: {}", figures.join(", ")), line, "  ", "    ");
    }
    text
}

/// `to=loopback 135.4 µs ± 2 %`.
fn published_figure(row: &Row) -> String {
    let published = &row.published;
    let mut text = String::new();
    if !published.params.is_empty() {
        text += &case(&published.params);
        text.push(' ');
    }
    let mut value = figure(&published.measured, published.unit, usize::MAX);
    if let Some(sd) = published.sd_percent {
        value += &format!(" {}", spread(sd));
    }
    // Keep a value on one line; a name can be broken.
    text + &glued(&value)
}

fn reason(missing: &Missing, metric: &str) -> String {
    match missing {
        Missing::NotMeasured => "not measured by this version".to_owned(),
        Missing::Unlike(why) => format!("different work: {why}"),
        Missing::NotInRun => format!("no such case in this run (`fathom explain {metric}`)"),
        Missing::NoNumber(why) => format!("{why} in this run"),
        Missing::OtherUnit(units) => units.clone(),
    }
}
