//! Findings over several records: what a call and a byte cost, from which block on a speed is
//! nearly the best, where threads begin to pay, and from where on caching matters.

use fathom_analysis::curve::{self, Fit, Point};
use fathom_record::{Host, Record, Unit};

use super::{drawing, facts};
use fathom_record::quantity::{binary_size, percent, quantity};

/// A second-level cache where none is known: the smallest of today.
const CACHE: u64 = 512 << 10;
/// Caching matters from here on: the second read is so many times as fast as the first.
const MATTERS: f64 = 1.5;
/// Curves are those of this metric over this parameter.
const METRIC: &str = "file.read.throughput";
pub(super) const AXIS: &str = "block";

/// One curve: the records that differ in the block alone.
struct Curve<'r> {
    state: &'r str,
    threads: i64,
    records: Vec<&'r Record>,
}

impl Curve<'_> {
    /// Blocks with their speeds, where these may be shown.
    fn points(&self) -> Vec<Point> {
        self.records.iter().filter_map(|record| point(record)).collect()
    }

    fn name(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{}, {} thread{plural}", self.state, self.threads)
    }
}

/// What the curves among these records tell, drawn where there is room; empty where there is none.
pub fn findings(records: &[Record], host: &Host, width: usize) -> String {
    let mut text = String::new();
    let mut lines: Vec<(&str, String)> = Vec::new();
    for of_file in by_file(records) {
        let curves = curves(&of_file);
        for curve in &curves {
            lines.extend(cost(curve, host).map(|text| ("cost", text)));
            lines.extend(nearly_best(curve).map(|text| ("best", text)));
        }
        let mut states: Vec<&str> = curves.iter().map(|curve| curve.state).collect();
        states.dedup();
        lines.extend(
            states.iter().filter_map(|state| threads(state, &curves)).map(|text| ("threads", text)),
        );
        let drawn: Vec<Record> = of_file.into_iter().cloned().collect();
        text += &drawing(&drawn, host, width);
    }
    lines.extend(caching(records).map(|text| ("caching", text)));
    if !lines.is_empty() {
        text += "\n";
    }
    text + &facts(&lines, width)
}

/// The reads of each file, of sweeps alone: of a read by hand there is no curve.
fn by_file(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut files: Vec<Vec<&Record>> = Vec::new();
    let key = |record: &Record| {
        let params = &record.params;
        ["file_bytes", "file", "again"].map(|name| params.0.get(name).cloned())
    };
    let is_point = |record: &&Record| {
        record.metric.as_str() == METRIC && record.params.integer("read").is_none()
    };
    for record in records.iter().filter(is_point) {
        match files.iter_mut().find(|file| key(file[0]) == key(record)) {
            Some(file) => file.push(record),
            None => files.push(vec![record]),
        }
    }
    files.retain(|file| file.len() > 1);
    files
}

/// The curves of a file, in the order in which they were read.
fn curves<'r>(records: &[&'r Record]) -> Vec<Curve<'r>> {
    let mut curves: Vec<Curve<'r>> = Vec::new();
    for record in records {
        let state = record.params.text("state").unwrap_or_default();
        let threads = record.params.integer("threads").unwrap_or(1);
        let known = curves.iter_mut().find(|one| (one.state, one.threads) == (state, threads));
        match known {
            Some(curve) => curve.records.push(record),
            None => curves.push(Curve { state, threads, records: vec![record] }),
        }
    }
    curves
}

/// A block and its speed.
pub(super) fn point(record: &Record) -> Option<Point> {
    let block = record.params.integer(AXIS)? as u64;
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number())?;
    (record.metric.as_str() == METRIC).then_some((block, summary.median))
}

/// t = calls × c + bytes ÷ b of one thread in a warm file, beside what the model knows of both.
fn cost(curve: &Curve<'_>, host: &Host) -> Option<String> {
    if (curve.state, curve.threads) != ("warm", 1) {
        return None;
    }
    let second = host.cpu.caches.iter().find(|cache| cache.level == 2);
    // Half of it: what is copied comes through the cache beside it.
    let most = second.map_or(CACHE, |cache| cache.size_bytes) / 2;
    let mut within = curve.points();
    within.retain(|(block, _)| *block <= most);
    let Fit { call_ns, bandwidth, off, points } = curve::fit(&within)?;
    let bandwidth = match bandwidth {
        Some(bandwidth) => quantity(bandwidth, Unit::BytesPerSecond),
        None => "a bandwidth too large to measure".to_owned(),
    };
    let call = quantity(call_ns, Unit::Nanoseconds);
    let text = format!(
        "t = calls × {call} + bytes ÷ {bandwidth}, warm by one thread, over the {points} blocks up \
         to {}, half of the second level; the worst lies {} off. Larger blocks leave that cache, \
         and cold ones are read ahead of: neither lies on this line",
        binary_size(most as i64),
        percent(off)
    );
    let inputs = curve.records[0].prediction.iter().flat_map(|prediction| &prediction.inputs);
    let beside: Vec<String> = inputs
        .filter(|input| input.name.starts_with("file.call") || input.name.contains("op=read"))
        .filter_map(|input| {
            Some(format!("{} = {}", input.name, quantity(input.value, input.unit?)))
        })
        .collect();
    match beside.as_slice() {
        [] => Some(text),
        beside => Some(format!("{text}. Beside it: {}", beside.join(", "))),
    }
}

/// From which block on a curve has nearly its best.
fn nearly_best(curve: &Curve<'_>) -> Option<String> {
    let points = curve.points();
    if points.len() < 2 {
        return None;
    }
    let ((from, to), (at, rate)) = (curve::knee(&points)?, curve::best(&points)?);
    let is_last = points.last().is_some_and(|(block, _)| *block == to);
    let nearly = match (is_last, from == to) {
        (true, _) => format!("from {} on one has 95 % of it", binary_size(from as i64)),
        (_, true) => "no other block has 95 % of it".to_owned(),
        _ => {
            let (from, to) = (binary_size(from as i64), binary_size(to as i64));
            format!("from {from} to {to} one has 95 % of it")
        }
    };
    let (rate, at) = (quantity(rate, Unit::BytesPerSecond), binary_size(at as i64));
    Some(format!("{}: {rate} with {at}; {nearly}", curve.name()))
}

/// From which block on threads pay, and the best number of them.
fn threads(state: &str, curves: &[Curve<'_>]) -> Option<String> {
    let of_state = || curves.iter().filter(|curve| curve.state == state);
    let one = of_state().find(|curve| curve.threads == 1)?.points();
    let mut text = Vec::new();
    let mut best = curve::best(&one).map(|(block, rate)| (rate, 1, block));
    for curve in of_state().filter(|curve| curve.threads > 1) {
        let (threads, many) = (curve.threads, curve.points());
        text.push(match curve::pays_from(&one, &many) {
            Some(from) => format!("{threads} threads pay from {} on", binary_size(from as i64)),
            None => format!("{threads} threads do not pay up to the largest block"),
        });
        let their = curve::best(&many).map(|(block, rate)| (rate, threads, block));
        best = [best, their].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    }
    let (rate, number, block) = best.filter(|_| !text.is_empty())?;
    let plural = if number == 1 { "" } else { "s" };
    let (block, rate) = (binary_size(block as i64), quantity(rate, Unit::BytesPerSecond));
    text.push(format!("best: {number} thread{plural} with {block}, {rate}"));
    Some(format!("{state}: {}", text.join("; ")))
}

/// From which block on a second read is so much faster that caching matters; none where it was not
/// measured.
fn caching(records: &[Record]) -> Option<String> {
    let ratio = |record: &Record| {
        let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number())?;
        let of_cache = record.metric.as_str() == "file.cache.speedup";
        of_cache.then_some((record.params.integer(AXIS)?, summary.median))
    };
    let ratios: Vec<(i64, f64)> = records.iter().filter_map(ratio).collect();
    let (largest, _) = ratios.last()?;
    let small = ratios.iter().rev().take_while(|(_, ratio)| *ratio >= MATTERS);
    Some(match small.last() {
        Some((block, _)) => format!(
            "matters from {} on: the second read is at least {MATTERS} × as fast as the first",
            binary_size(*block)
        ),
        None if ratios.iter().any(|(_, ratio)| *ratio >= MATTERS) => {
            "differs from block to block: see the ratios".to_owned()
        }
        None => format!(
            "does not matter up to {}: no second read is {MATTERS} × as fast as the first",
            binary_size(*largest)
        ),
    })
}
