//! The points of a sweep: how many blocks each reads, and the passes over all points in alternating
//! order.

use std::time::Duration;

use fathom_fileio::path_info::Direct;
use fathom_record::quantity::counted;

use super::dd::Dd;
use crate::commands::by_hand::{ByHandResult, size};
use crate::commands::cache_state;
use crate::commands::options::StateName;
use crate::commands::passes::{Pass, PassSeries, ReadConfig};
use crate::prelude::*;

/// Block and bytes of the calibration of the cost per byte.
const LARGE: usize = 1 << 20;
const LARGE_BYTES: u64 = 16 << 20;
/// Calls of the calibration of the cost per call.
const CALLS: u64 = 4096;
/// Time limit of a pass: a multiple of its target, plus startup on a busy machine.
const LIMIT_FACTOR: u32 = 10;
const STARTUP: Duration = Duration::from_millis(250);
/// Alignment of direct I/O if it is not reported.
const ALIGNMENT: usize = 4096;

pub(super) struct SweepConfig {
    pub(super) blocks: Vec<usize>,
    pub(super) states: Vec<StateName>,
    pub(super) threads: Vec<u16>,
    pub(super) each: Duration,
    pub(super) passes: u32,
}

impl SweepConfig {
    pub(super) fn describe(&self, files: usize) -> String {
        let points = files * self.blocks.len() * self.states.len() * self.threads.len();
        let ms = self.each.as_millis();
        let points = counted(points, "point");
        let passes = counted(self.passes as usize, "time");
        format!("{points}, each {passes} for about {ms} ms")
    }

    /// Time limit of a pass.
    fn limit(&self) -> Duration {
        self.each * LIMIT_FACTOR + STARTUP
    }
}

/// Rough cost per call and byte, which determines how many blocks a point reads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    call_ns: f64,
    byte_ns: f64,
}

impl Cost {
    /// From the time of a call with a small and a large block.
    fn between((small, small_ns): (usize, f64), (large, large_ns): (usize, f64)) -> Self {
        if large <= small {
            return Self { call_ns: 0.0, byte_ns: small_ns / small as f64 };
        }
        let byte_ns = ((large_ns - small_ns) / (large - small) as f64).max(0.0);
        Self { call_ns: (small_ns - byte_ns * small as f64).max(0.0), byte_ns }
    }

    /// Bytes of the calls with this block that take about `each`.
    fn bytes(self, block: usize, threads: u16, each: Duration) -> u64 {
        let one = (self.call_ns + self.byte_ns * block as f64).max(1.0);
        let calls = (each.as_nanos() as f64 * f64::from(threads) / one).max(1.0);
        (calls as u64).saturating_mul(block as u64)
    }
}

pub(super) struct Sweeper<'a> {
    pub(super) config: &'a SweepConfig,
    pub(super) dd: Option<&'a Dd>,
    /// The number of this file, and of all.
    pub(super) file: [usize; 2],
}

/// One point, and the bytes per second of dd in each pass.
type Point = (PassSeries, Vec<f64>);

impl Sweeper<'_> {
    /// Sweeps a file in all states. Returns false if the user stopped it.
    pub(super) fn sweep_file(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        more: &Params,
    ) -> ByHandResult<bool> {
        for (number, state) in self.config.states.iter().enumerate() {
            let mut skipped = Vec::new();
            let (points, goes_on) =
                self.sweep_state(recorder, source, (number, more), &mut skipped)?;
            for why in skipped {
                let text = format!("{} skipped: {why}", state.name());
                recorder.event(Event::Warning(&text));
            }
            self.record(recorder, source, more, &points);
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records the points, one curve per number of threads.
    fn record(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        more: &Params,
        points: &[Point],
    ) {
        let points: Vec<&Point> = points.iter().filter(|(one, _)| !one.passes.is_empty()).collect();
        for curve in points.chunk_by(|(a, _), (b, _)| a.config.threads == b.config.threads) {
            for (series, dd_rates) in curve {
                let mut facts = Vec::new();
                if let (Some(dd), Some(rate)) = (self.dd, statistics::median(dd_rates)) {
                    facts.push(Fact::text("dd is", dd.describe()));
                    facts.push(Fact::quantity("dd", rate, Unit::BytesPerSecond));
                }
                series.record(recorder, source, more, facts);
            }
            recorder.show();
        }
    }

    /// Sweeps a file in one state. Returns false if the user stopped it.
    fn sweep_state(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        (number, more): (usize, &Params),
        skipped: &mut Vec<String>,
    ) -> ByHandResult<(Vec<Point>, bool)> {
        let state = self.config.states[number];
        let blocks = usable_blocks(source, self.config, state, skipped);
        let cost = match calibrate(recorder, source, self.config, state, &blocks) {
            Ok(cost) => cost,
            // Without direct I/O the other states are still swept.
            Err(StateError::Failed(error)) if state != StateName::Direct => return Err(error),
            Err(error) => {
                skipped.push(error.to_string());
                return Ok((Vec::new(), !recorder.stop().is_by_person()));
            }
        };
        let file = source.info().size.unwrap_or(u64::MAX);
        let mut points: Vec<Point> = Vec::new();
        for threads in &self.config.threads {
            for block in &blocks {
                let config = ReadConfig { threads: *threads, ..ReadConfig::whole(*block, state) };
                let bytes = cost.bytes(*block, *threads, self.config.each);
                points.push((PassSeries::new(config.bounded(bytes, file)), Vec::new()));
            }
        }
        let goes_on = self.passes(recorder, source, (number, more), &mut points)?;
        Ok((points, goes_on))
    }

    /// Reads all points in each pass, backwards in every second one, so that drift looks like noise
    /// and not like a curve. Returns false if the user stopped it.
    fn passes(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        (number, more): (usize, &Params),
        points: &mut [Point],
    ) -> ByHandResult<bool> {
        let [file, files] = self.file;
        let states = self.config.states.len();
        let one = u64::from(self.config.passes) * points.len() as u64;
        let (before, all) = ((file * states + number) as u64 * one, (files * states) as u64 * one);
        let limit = Some(self.config.limit());
        let mut done = 0;
        for number in 0..self.config.passes {
            let mut order: Vec<usize> = (0..points.len()).collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (series, dd_rates) = &mut points[at];
                let what = format!("blocks of {}", size(series.config.block as u64));
                recorder.event(Event::Progress { done: before + done, all, what: &what });
                if !series.pass(recorder, source, limit)? {
                    return Ok(false);
                }
                if let Some(dd) = self.dd.filter(|_| series.config.threads == 1) {
                    dd_rates.extend(dd.read(recorder, source, &series.config)?);
                }
                done += 1;
            }
            recorder.draft(&mut |recorder| self.record(recorder, source, more, points));
        }
        Ok(true)
    }
}

/// The blocks that suit the alignment of direct I/O.
fn usable_blocks(
    source: &PathInfoSource,
    config: &SweepConfig,
    state: StateName,
    skipped: &mut Vec<String>,
) -> Vec<usize> {
    let alignment = match (state, source.info().direct) {
        (StateName::Direct, Direct::Aligned { offset, .. }) => offset as usize,
        (StateName::Direct, _) => ALIGNMENT,
        _ => 1,
    };
    let fits = |block: &&usize| block.is_multiple_of(alignment);
    let blocks: Vec<usize> = config.blocks.iter().filter(fits).copied().collect();
    if blocks.len() < config.blocks.len() {
        skipped.push(format!("blocks that are not a multiple of {alignment} bytes"));
    }
    blocks
}

/// Why a file is not swept in a state.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("{0}")]
    Skipped(String),
    #[error(transparent)]
    Failed(#[from] ProcedureError),
}

/// Measures the cost of reading the file in this state.
fn calibrate(
    recorder: &dyn Recorder,
    source: &PathInfoSource,
    config: &SweepConfig,
    state: StateName,
    blocks: &[usize],
) -> ByHandResult<Cost, StateError> {
    let skipped = |why: &str| StateError::Skipped(why.to_owned());
    let small = *blocks.first().ok_or_else(|| skipped("no usable block"))?;
    let file = source.info().size.unwrap_or(0);
    if state == StateName::Warm {
        if let Some(available) = recorder.host().memory.available_bytes.filter(|it| file > *it) {
            let (file, available) = (size(file), size(available));
            return Err(skipped(&format!("{file} exceed the available memory, {available}")));
        }
        // A file that does not stay cached would be read again for each point.
        let found = cache_state::prepare(source, state, None, recorder.stop().now())?;
        if let Some(verdict) = cache_state::wrong_state(source, state, &found) {
            let reasons = verdict.reasons.into_iter().map(|reason| reason.text);
            return Err(StateError::Skipped(reasons.collect()));
        }
    }
    let call_ns = |block: usize, bytes: u64| {
        let mut series = PassSeries::new(ReadConfig::whole(block, state).bounded(bytes, file));
        series.pass(recorder, source, Some(config.limit()))?;
        let ns = |pass: &Pass| pass.outcome.ns / pass.outcome.calls.max(1) as f64;
        Ok::<_, ProcedureError>(series.passes.first().map(|pass| (block, ns(pass))))
    };
    let of_small = call_ns(small, small as u64 * CALLS)?;
    let of_large = call_ns(LARGE.max(small), LARGE_BYTES)?;
    let both = of_small.zip(of_large).ok_or_else(|| skipped("stopped before its first pass"))?;
    Ok(Cost::between(both.0, both.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_point_follow_from_its_time() {
        // 200 ns per call, 0.125 ns per byte.
        let cost = Cost::between((1, 200.125), (1 << 20, 200.0 + 131_072.0));
        assert!((cost.call_ns - 200.0).abs() < 1e-6 && (cost.byte_ns - 0.125).abs() < 1e-9);
        let each = Duration::from_millis(60);
        let calls = |block: usize, threads| cost.bytes(block, threads, each) / block as u64;
        assert_eq!(calls(1, 1), 299_812);
        assert_eq!(calls(1, 2), 599_625);
        assert_eq!(calls(1 << 20, 1), 457);
        assert_eq!(calls(1 << 30, 1), 1, "one block at least");
    }

    #[test]
    fn degenerate_calibrations_give_a_cost() {
        let equal = Cost::between((1 << 20, 1000.0), (1 << 20, 1000.0));
        assert_eq!(equal.call_ns, 0.0);
        let faster = Cost::between((4096, 1000.0), (1 << 20, 900.0));
        assert_eq!(faster, Cost { call_ns: 1000.0, byte_ns: 0.0 });
        assert_eq!(faster.bytes(4096, 1, Duration::from_millis(1)), 1000 * 4096);
    }
}
