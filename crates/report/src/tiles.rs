//! The results that a page begins with: the ten that everybody knows, each with its history.

use std::cmp::Reverse;

use fathom_analysis::history::{Change, HistorySeries};
use fathom_record::quantity::signed_percent;
use fathom_record::{Document, MetricId, Params, Record, State, Stratum};
use serde::Serialize;

use crate::wrap::glued;

/// Older runs than these are left out of a history.
const RUNS_MAX: usize = 60;

/// A result that a page begins with.
struct Wanted {
    title: &'static str,
    metric: &'static str,
    params: &'static [(&'static str, &'static str)],
    /// Of several such cases the one with the largest value of this parameter.
    largest: &'static str,
}

const fn wanted(
    title: &'static str,
    metric: &'static str,
    params: &'static [(&'static str, &'static str)],
    largest: &'static str,
) -> Wanted {
    Wanted { title, metric, params, largest }
}

/// In the order of the page. Of two with one title the first with a number is used.
const TILES: [Wanted; 11] = [
    wanted("Core frequency", "cpu.frequency", &[], ""),
    wanted("Memory latency", "memory.latency.dram", &[], ""),
    wanted("Copy bandwidth", "memory.bandwidth", &[("op", "copy"), ("level", "dram")], "threads"),
    wanted("System call", "os.syscall", &[("call", "getppid")], ""),
    wanted("Page fault", "memory.fault", &[("kind", "anonymous")], ""),
    wanted("Process switch", "os.switch.process", &[("set_bytes", "0")], ""),
    wanted("vfork + exec", "os.process.vfork_exec", &[("part", "total")], ""),
    wanted(
        "Cached file read",
        "file.read.throughput",
        &[("state", "warm"), ("way", "read"), ("threads", "1")],
        "block",
    ),
    wanted(
        RANDOM_READ,
        "file.read.latency",
        &[("order", "random"), ("state", "direct")],
        "file_bytes",
    ),
    wanted(
        RANDOM_READ,
        "file.read.latency",
        &[("order", "random"), ("state", "cold")],
        "file_bytes",
    ),
    wanted("Write + fsync", "file.fsync", &[("bytes", "4096")], ""),
];
const RANDOM_READ: &str = "Random 4 KiB read";

/// A result that a page begins with.
#[derive(Serialize)]
pub(crate) struct Tile {
    pub(crate) title: String,
    /// The index of its record.
    pub(crate) record: usize,
    /// Whether to print the reads per second as well.
    iops: bool,
    trend: Option<TileTrend>,
}

/// The values of a case in the stored runs of its host, oldest first.
#[derive(Serialize)]
struct TileTrend {
    stratum: Stratum,
    points: Vec<TilePoint>,
    /// The newest lasting change.
    change: Option<TileStep>,
}

#[derive(Serialize)]
struct TilePoint {
    run: String,
    started: String,
    value: f64,
    state: State,
}

#[derive(Serialize)]
struct TileStep {
    started: String,
    ratio: f64,
    worse: Option<bool>,
}

/// The metrics of which a page has tiles.
pub fn metrics() -> impl Iterator<Item = &'static str> {
    TILES.iter().map(|tile| tile.metric)
}

/// The records of the tiles of a run: their histories are worth showing.
pub fn records(document: &Document) -> Vec<&Record> {
    chosen(&document.records).into_iter().map(|(_, at)| &document.records[at]).collect()
}

/// The tiles of a run, with the histories of [`records`].
pub(crate) fn tiles(records: &[Record], histories: &[Option<HistorySeries>]) -> Vec<Tile> {
    let tile = |(at, (title, record)): (usize, (&'static str, usize))| {
        let trend = histories.get(at).and_then(Option::as_ref).and_then(TileTrend::from_series);
        Tile { title: title.to_owned(), record, iops: title == RANDOM_READ, trend }
    };
    chosen(records).into_iter().enumerate().map(tile).collect()
}

/// The titles and cases of the tiles of several runs: of each title the case that most of them
/// have.
pub(crate) fn headlines(documents: &[&Document]) -> Vec<(&'static str, MetricId, Params)> {
    let mut counts: Vec<(&'static str, &Record, usize)> = Vec::new();
    for document in documents {
        for (title, at) in chosen(&document.records) {
            let record = &document.records[at];
            let is_case = |(_, other, _): &&mut (_, &Record, _)| {
                (&other.metric, &other.params) == (&record.metric, &record.params)
            };
            match counts.iter_mut().find(is_case) {
                Some((_, _, count)) => *count += 1,
                None => counts.push((title, record, 1)),
            }
        }
    }
    let place = |title: &str| TILES.iter().position(|wanted| wanted.title == title);
    counts.sort_by_key(|(title, _, count)| (place(title), Reverse(*count)));
    counts.dedup_by_key(|(title, ..)| *title);
    let case = |(title, record, _): (&'static str, &Record, usize)| {
        (title, record.metric.clone(), record.params.clone())
    };
    counts.into_iter().map(case).collect()
}

/// The title and the index of the record of each tile.
fn chosen(records: &[Record]) -> Vec<(&'static str, usize)> {
    let mut chosen: Vec<(&'static str, usize)> = Vec::new();
    let shows_number = |at: usize| records[at].verdict.shows_number();
    for wanted in &TILES {
        let Some(at) = wanted.find(records) else { continue };
        match chosen.iter_mut().find(|(title, _)| *title == wanted.title) {
            Some((_, other)) if shows_number(at) && !shows_number(*other) => *other = at,
            Some(_) => {}
            None => chosen.push((wanted.title, at)),
        }
    }
    chosen
}

impl Wanted {
    fn find(&self, records: &[Record]) -> Option<usize> {
        let fits = |record: &Record| {
            let has = |(name, value): &(&str, &str)| {
                record.params.0.get(*name).is_some_and(|own| own.to_string() == *value)
            };
            record.metric.as_str() == self.metric && self.params.iter().all(has)
        };
        let fitting = records.iter().enumerate().filter(|(_, record)| fits(record));
        fitting.max_by_key(|(_, record)| record.params.integer(self.largest)).map(|(at, _)| at)
    }
}

impl Tile {
    /// Whether stored runs have it.
    pub(crate) fn has_history(&self) -> bool {
        self.trend.is_some()
    }

    /// Its newest change in the stored runs, and whether it is worse.
    pub(crate) fn change(&self) -> Option<(String, Option<bool>)> {
        let TileStep { started, ratio, worse } = self.trend.as_ref()?.change.as_ref()?;
        let size = glued(&signed_percent(*ratio));
        let direction = match worse {
            Some(true) => ", worse",
            Some(false) => ", better",
            None => "",
        };
        let since = started.get(..10).unwrap_or(started);
        Some((format!("{} {size} since {since}{direction}", self.title), *worse))
    }
}

impl TileTrend {
    /// `None` with fewer than two values.
    fn from_series(series: &HistorySeries) -> Option<Self> {
        let points = series.points.iter().rev().filter_map(|point| {
            let (run, started) = (point.run.clone(), point.started.clone());
            Some(TilePoint { run, started, value: point.value?, state: point.state })
        });
        let mut points: Vec<TilePoint> = points.take(RUNS_MAX).collect();
        points.reverse();
        let step = |change: &Change| TileStep {
            started: change.started.clone(),
            ratio: change.ratio,
            worse: change.worse,
        };
        let change = series.changes.last().map(step);
        (points.len() > 1).then_some(Self { stratum: series.stratum, points, change })
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Verdict;

    use super::*;

    fn record(metric: &str, params: Params) -> Record {
        Record { metric: MetricId::new(metric), params, ..Record::default() }
    }

    #[test]
    fn tile_uses_largest_case_and_page_order() {
        let copy = Params::one("op", "copy").and("level", "dram");
        let records = [
            record("os.syscall", Params::one("call", "getppid")),
            record("memory.bandwidth", copy.clone().and("threads", 1)),
            record("memory.bandwidth", copy.clone().and("threads", 8)),
            record("memory.bandwidth", copy.and("threads", 2)),
            record("cpu.call", Params::none()),
        ];
        assert_eq!(chosen(&records), [("Copy bandwidth", 2), ("System call", 0)]);
    }

    #[test]
    fn cold_read_replaces_unavailable_direct_read() {
        let read = |state: &str| {
            let params = Params::one("order", "random").and("state", state);
            record("file.read.latency", params)
        };
        let mut records = [read("direct"), read("cold")];
        assert_eq!(chosen(&records), [(RANDOM_READ, 0)]);
        records[0].verdict = Verdict { state: State::Unavailable, reasons: Vec::new() };
        assert_eq!(chosen(&records), [(RANDOM_READ, 1)]);
    }
}
