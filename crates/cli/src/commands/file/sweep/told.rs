//! The curves of a sweep as tables, and as a drawing where the terminal is wide enough.

use fathom_record::{Agreement, Record, Unit, statistics};
use fathom_report::{binary_size, by_hand, percent, range};

use super::super::curve::{self, Point as Place};
use super::super::read::name_of;
use super::super::session::Session;
use super::points::{Point, State};
use crate::arguments::file::StateName;

const MIB: f64 = 1_048_576.0;

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

/// One curve: a line for each block.
fn table(name: StateName, threads: u16, points: &[&Point]) -> String {
    let way = points.first().map_or("", |point| name_of(point.series.manner.way()));
    let plural = if threads == 1 { "" } else { "s" };
    let mut text = format!("\n{}, {threads} thread{plural}, by {way}\n", word(name));
    let has_dd = points.iter().any(|point| !point.dd.is_empty());
    let is_predicted = points.iter().any(|point| point.record.prediction.is_some());
    let mut head =
        format!("{:>10}{:>12}{:>8}{:>12}{:>14}", "block", "MiB/s", "±", "seconds", "bytes");
    if has_dd {
        head += &format!("{:>12}{:>10}", "dd MiB/s", "ours/dd");
    }
    if is_predicted {
        head += "  predicted";
    }
    text += &(head + "\n");
    let dips = curve::dips(&places(points));
    for point in points {
        text += line(point, &dips, has_dd, is_predicted).trim_end();
        text.push('\n');
    }
    if !is_predicted && let Some(none) = points.iter().find_map(|one| one.record.no_model.as_ref())
    {
        text += &format!("no model: {}\n", none.0);
    }
    text
}

fn line(point: &Point, dips: &[u64], has_dd: bool, is_predicted: bool) -> String {
    let block = point.series.manner.block as u64;
    let record = &point.record;
    let mut text = format!("{:>10}", binary_size(block as i64));
    let Some(rate) = number(record) else {
        let why = record.verdict.reasons.first().map_or("", |reason| reason.text.as_str());
        return format!("{text}{:>12}  {}: {why}", "–", record.verdict.state.word());
    };
    let noisy = if record.verdict.state == fathom_record::State::Noisy { "~" } else { "" };
    let width = record.summary.as_ref().and_then(|summary| summary.relative_half_width());
    text += &format!(
        "{:>12}{:>8}{:>12.6}{:>14}",
        format!("{noisy}{}", figure(rate / MIB)),
        width.map_or("–".to_owned(), percent),
        point.series.seconds().unwrap_or_default(),
        point.series.bytes()
    );
    if has_dd {
        text += &match statistics::median(&point.dd) {
            Some(dd) => format!("{:>12}{:>10.2}", figure(dd / MIB), rate / dd),
            None => format!("{:>12}{:>10}", "–", "–"),
        };
    }
    if is_predicted && let Some(prediction) = &record.prediction {
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
