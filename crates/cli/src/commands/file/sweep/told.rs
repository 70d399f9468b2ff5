//! The curves of a sweep as tables, and as a drawing where the terminal is wide enough.

use fathom_analysis::statistics;
use fathom_record::{Agreement, Record, Unit};
use fathom_report::{binary_size, by_hand, percent, range};

use super::super::MIB;
use super::super::curve::{self, Point as Place};
use super::super::read::name_of;
use super::super::session::Session;
use super::points::{Point, State};
use crate::arguments::file::StateName;

/// The name of a state.
pub(super) fn word(name: StateName) -> &'static str {
    match name {
        StateName::Warm => "warm",
        StateName::Cold => "cold",
        StateName::Direct => "direct",
        StateName::AsIs => "as it is",
    }
}

/// The number of a record, where it may be believed.
pub(super) fn number(record: &Record) -> Option<f64> {
    record.summary.as_ref().filter(|_| record.verdict.shows_number()).map(|one| one.median)
}

/// The numbers of threads of a state, and the points of each.
pub(super) fn curves(state: &State) -> Vec<(u16, Vec<&Point>)> {
    let mut curves: Vec<(u16, Vec<&Point>)> = Vec::new();
    for point in &state.points {
        let threads = point.series.manner.threads;
        match curves.iter_mut().find(|(known, _)| *known == threads) {
            Some((_, points)) => points.push(point),
            None => curves.push((threads, vec![point])),
        }
    }
    curves
}

/// Blocks with their speeds.
pub(super) fn places(points: &[&Point]) -> Vec<Place> {
    let place = |point: &&Point| Some((point.series.manner.block as u64, number(&point.record)?));
    points.iter().filter_map(place).collect()
}

/// Prints the tables of a state.
pub(super) fn say(session: &mut Session, state: &State) {
    for why in &state.left_out {
        session.say_facts(&[(word(state.name), format!("left out: {why}"))]);
    }
    for (threads, points) in curves(state) {
        let text = table(state.name, threads, &points);
        session.say(&text);
    }
}

/// Draws all curves of a file together, where there is room.
pub(super) fn draw(session: &mut Session, states: &[State]) {
    let points = states.iter().flat_map(|state| &state.points);
    let records: Vec<Record> = points.map(|point| point.record.clone()).collect();
    let text = by_hand::drawing(&records, session.host(), session.width());
    session.say(&text);
}

/// Which columns a table has besides.
#[derive(Clone, Copy)]
struct Columns {
    width: bool,
    dd: bool,
    predicted: bool,
}

/// One curve: a line for each block.
fn table(name: StateName, threads: u16, points: &[&Point]) -> String {
    let way = points.first().map_or("", |point| name_of(point.series.manner.way()));
    let plural = if threads == 1 { "" } else { "s" };
    let mut text = format!("\n{}, {threads} thread{plural}, by {way}\n", word(name));
    let columns = Columns {
        width: points.iter().any(|point| half_width(&point.record).is_some()),
        dd: points.iter().any(|point| !point.dd.is_empty()),
        predicted: points.iter().any(|point| point.record.prediction.is_some()),
    };
    let mut head = format!("{:>10}{:>12}", "block", "MiB/s");
    if columns.width {
        head += &format!("{:>8}", "±");
    }
    head += &format!("{:>12}{:>14}", "seconds", "bytes");
    if columns.dd {
        head += &format!("{:>12}{:>10}", "dd MiB/s", "ours ÷ dd");
    }
    if columns.predicted {
        head += "  predicted";
    }
    text += &(head + "\n");
    let believed: Vec<&Point> =
        points.iter().copied().filter(|point| number(&point.record).is_some()).collect();
    let quickest: Vec<f64> = believed.iter().map(|point| point.series.quickest()).collect();
    let dips = curve::dips(&places(points), &quickest);
    for point in points {
        text += line(point, &dips, columns).trim_end();
        text.push('\n');
    }
    text + &remarks(points, columns)
}

/// What is said beneath a table: why points are noisy, and why nothing was predicted.
fn remarks(points: &[&Point], columns: Columns) -> String {
    let mut text = String::new();
    let noisy: Vec<&Record> =
        points.iter().map(|point| &point.record).filter(|one| is_noisy(one)).collect();
    if let Some(reason) = noisy.first().and_then(|record| record.verdict.reasons.first()) {
        let said = format!("~ noisy, {} of {}: {}", noisy.len(), points.len(), reason.text);
        text += &wrapped(&said);
    }
    let none = points.iter().find_map(|point| point.record.no_model.as_ref());
    if let Some(none) = none.filter(|_| !columns.predicted) {
        text += &wrapped(&format!("no model: {}", none.0));
    }
    text
}

/// In lines as wide as the terminal.
fn wrapped(text: &str) -> String {
    fathom_report::paragraph(text, crate::terminal::width(), "", "  ")
}

fn is_noisy(record: &Record) -> bool {
    record.verdict.state == fathom_record::State::Noisy
}

fn half_width(record: &Record) -> Option<f64> {
    record.summary.as_ref().and_then(|summary| summary.relative_half_width())
}

fn line(point: &Point, dips: &[u64], columns: Columns) -> String {
    let block = point.series.manner.block as u64;
    let record = &point.record;
    let mut text = format!("{:>10}", binary_size(block as i64));
    let Some((rate, pass)) = number(record).zip(point.series.middle()) else {
        let why = record.verdict.reasons.first().map_or("", |reason| reason.text.as_str());
        return format!("{text}{:>12}  {}: {why}", "–", record.verdict.state.word());
    };
    let mark = if is_noisy(record) { "~" } else { "" };
    text += &format!("{:>12}", format!("{mark}{}", figure(rate / MIB)));
    if columns.width {
        text += &format!("{:>8}", half_width(record).map_or("–".to_owned(), percent));
    }
    text += &format!("{:>12.6}{:>14}", pass.bytes() as f64 / rate, pass.bytes());
    if columns.dd {
        text += &match statistics::median(&point.dd) {
            Some(dd) => format!("{:>12}{:>10.2}", figure(dd / MIB), rate / dd),
            None => format!("{:>12}{:>10}", "–", "–"),
        };
    }
    if let Some(prediction) = &record.prediction {
        let word = match record.agreement {
            Some(Agreement::Agrees) => ", agrees",
            Some(Agreement::Differs) => ", differs",
            _ => "",
        };
        let within = range(prediction.low, prediction.high, Unit::BytesPerSecond);
        text += &format!("  {within}{word}");
    }
    if dips.contains(&block) {
        text += "  dips";
    }
    text
}

/// Three figures at least, and no more decimals than that takes.
fn figure(value: f64) -> String {
    match value {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small if small >= 1.0 => format!("{small:.2}"),
        tiny => format!("{tiny:.3}"),
    }
}
