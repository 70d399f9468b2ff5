//! Findings over several records: cost per call and per byte, the block size of the best rate, from
//! which block size threads pay off, and from which caching matters.

use fathom_analysis::curve::{self, CurveFit, LinePoint};
use fathom_record::{Host, Record, State, Unit};

use super::{drawing, facts};
use crate::case::counted;
use crate::distinct::grouped;
use fathom_record::quantity::{binary_size, percent, quantity};

/// L2 size if unknown: the smallest of current CPUs.
const CACHE: u64 = 512 << 10;
/// Caching matters if the second read is this many times as fast as the first.
const MATTERS: f64 = 1.5;
/// The metric of the curves, and the parameter of their axis.
const METRIC: &str = "file.read.throughput";
pub(super) const AXIS: &str = "block";

/// Records that differ only in the block size.
struct FindingCurve<'r> {
    state: &'r str,
    threads: i64,
    records: Vec<&'r Record>,
}

impl FindingCurve<'_> {
    /// Block sizes and rates of records with a number.
    fn points(&self) -> Vec<LinePoint> {
        self.records.iter().filter_map(|record| point(record)).collect()
    }

    fn name(&self) -> String {
        format!("{}, {}", self.state, counted(self.threads as usize, "thread"))
    }
}

/// The findings from the curves among these records, with a chart if it fits.
pub fn findings(records: &[Record], host: &Host, width: usize) -> String {
    let of_files = by_file(records).into_iter();
    let drawn = of_files.map(|of_file| of_file.into_iter().cloned().collect::<Vec<Record>>());
    let mut text: String = drawn.map(|drawn| drawing(&drawn, host, width)).collect();
    let lines = sentences(records, host);
    if !lines.is_empty() {
        text += "\n";
    }
    text + &facts(&lines, width)
}

/// The findings from the curves among these records, with their labels.
pub(crate) fn sentences(records: &[Record], host: &Host) -> Vec<(&'static str, String)> {
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
    }
    lines.extend(caching(records).map(|text| ("caching", text)));
    lines
}

/// The reads of each file in sweeps; single reads by hand form no curve.
fn by_file(records: &[Record]) -> Vec<Vec<&Record>> {
    let key = |record: &Record| {
        let params = &record.params;
        ["file_bytes", "file", "again"].map(|name| params.0.get(name).cloned())
    };
    let is_point = |record: &&Record| {
        record.metric.as_str() == METRIC && record.params.integer("read").is_none()
    };
    let files = grouped(records.iter().filter(is_point).map(|record| (key(record), record)));
    files.into_iter().map(|(_, file)| file).filter(|file| file.len() > 1).collect()
}

/// The curves of a file, in the order read.
fn curves<'r>(records: &[&'r Record]) -> Vec<FindingCurve<'r>> {
    let key = |record: &&'r Record| {
        let state = record.params.text("state").unwrap_or_default();
        (state, record.params.integer("threads").unwrap_or(1))
    };
    let curves = grouped(records.iter().map(|record| (key(record), *record))).into_iter();
    curves.map(|((state, threads), records)| FindingCurve { state, threads, records }).collect()
}

/// Block size and rate.
pub(super) fn point(record: &Record) -> Option<LinePoint> {
    let block = record.params.integer(AXIS)? as u64;
    let summary = record.shown_summary()?;
    (record.metric.as_str() == METRIC).then_some((block, summary.median))
}

/// t = calls × c + bytes ÷ b for one thread on a warm file, and the model's values of both.
fn cost(curve: &FindingCurve<'_>, host: &Host) -> Option<String> {
    if (curve.state, curve.threads) != ("warm", 1) {
        return None;
    }
    let second = host.cpu.caches.iter().find(|cache| cache.level == 2);
    // Half of it, because copied data passes through the cache beside its source.
    let most = second.map_or(CACHE, |cache| cache.size_bytes) / 2;
    let mut within = curve.points();
    within.retain(|(block, _)| *block <= most);
    let CurveFit { call_ns, bandwidth, off, points } = curve::fit(&within)?;
    let bandwidth = match bandwidth {
        Some(bandwidth) => quantity(bandwidth, Unit::BytesPerSecond),
        None => "a bandwidth too high to measure".to_owned(),
    };
    let call = quantity(call_ns, Unit::Nanoseconds);
    let is_within = |one: &&&Record| point(one).is_some_and(|(block, _)| block <= most);
    let noisy = noisy(curve.records.iter().filter(is_within));
    let text = format!(
        "t = calls × {call} + bytes ÷ {bandwidth}, warm, one thread, fitted over {points} block \
         sizes{noisy} up to {}, half the L2 cache; largest deviation {}. Not valid for larger \
         blocks, which exceed that cache, nor for cold files, which are read ahead",
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
        beside => Some(format!("{text}. Model: {}", beside.join(", "))),
    }
}

/// The best rate of a curve, and the block sizes with nearly that rate.
fn nearly_best(curve: &FindingCurve<'_>) -> Option<String> {
    let points = curve.points();
    if points.len() < 2 {
        return None;
    }
    let ((from, to), (at, rate)) = (curve::knee(&points)?, curve::best(&points)?);
    let is_last = points.last().is_some_and(|(block, _)| *block == to);
    let nearly = match (is_last, from == to) {
        (true, _) => format!("95 % of it from {}", binary_size(from as i64)),
        (_, true) => "no other block size has 95 % of it".to_owned(),
        _ => {
            let (from, to) = (binary_size(from as i64), binary_size(to as i64));
            format!("95 % of it from {from} to {to}")
        }
    };
    let (rate, at) = (quantity(rate, Unit::BytesPerSecond), binary_size(at as i64));
    let noisy = noisy(&curve.records);
    Some(format!("{}: {rate} at {at}; {nearly}{noisy}", curve.name()))
}

/// How many of the points from which a conclusion is drawn are noisy.
fn noisy<'r>(records: impl IntoIterator<Item = &'r &'r Record>) -> String {
    let is_noisy = |one: &&&Record| one.verdict.state == State::Noisy;
    match records.into_iter().filter(is_noisy).count() {
        0 => String::new(),
        count => format!(" ({} noisy)", counted(count, "point")),
    }
}

/// The block size from which threads pay off, and the best number of them.
fn threads(state: &str, curves: &[FindingCurve<'_>]) -> Option<String> {
    let of_state = || curves.iter().filter(|curve| curve.state == state);
    let one = of_state().find(|curve| curve.threads == 1)?.points();
    let mut text = Vec::new();
    let mut best = curve::best(&one).map(|(block, rate)| (rate, 1, block));
    for curve in of_state().filter(|curve| curve.threads > 1) {
        let (threads, many) = (curve.threads, curve.points());
        text.push(match curve::pays_from(&one, &many) {
            Some(from) => format!("{threads} threads pay off from {}", binary_size(from as i64)),
            None => format!("{threads} threads do not pay off at the largest block size"),
        });
        let their = curve::best(&many).map(|(block, rate)| (rate, threads, block));
        best = [best, their].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    }
    let (rate, number, block) = best.filter(|_| !text.is_empty())?;
    let (block, rate) = (binary_size(block as i64), quantity(rate, Unit::BytesPerSecond));
    let noisy = noisy(of_state().flat_map(|curve| &curve.records));
    text.push(format!("best: {} with {block}, {rate}{noisy}", counted(number as usize, "thread")));
    Some(format!("{state}: {}", text.join("; ")))
}

/// The block size from which the second read is so much faster that caching matters; `None` if it
/// was not measured.
fn caching(records: &[Record]) -> Option<String> {
    let ratio = |record: &Record| {
        let summary = record.shown_summary()?;
        let of_cache = record.metric.as_str() == "file.cache.speedup";
        of_cache.then_some((record.params.integer(AXIS)?, summary.median))
    };
    let ratios: Vec<(i64, f64)> = records.iter().filter_map(ratio).collect();
    let (largest, _) = ratios.last()?;
    let small = ratios.iter().rev().take_while(|(_, ratio)| *ratio >= MATTERS);
    let text = match small.last() {
        Some((block, _)) => format!(
            "matters from {}: the second read is at least {MATTERS} × as fast as the first",
            binary_size(*block)
        ),
        None if ratios.iter().any(|(_, ratio)| *ratio >= MATTERS) => {
            "no clear block size: see the ratios".to_owned()
        }
        None => format!(
            "does not matter up to {}: no second read is {MATTERS} × as fast as the first",
            binary_size(*largest)
        ),
    };
    let used: Vec<&Record> = records.iter().filter(|record| ratio(record).is_some()).collect();
    Some(text + &noisy(&used))
}
