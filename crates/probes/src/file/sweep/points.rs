//! The points of a sweep: how many blocks each reads in its time, and the passes over all of them
//! forth and back.

use std::time::Duration;

use fathom_analysis::statistics;
use fathom_fileio::Source;
use fathom_fileio::path_info::Direct;
use fathom_metric::{Event, ProcedureError, Recorder};
use fathom_record::{Fact, Params, Unit};

use super::dd::Dd;
use crate::file::by_hand::size;
use crate::file::cache_state;
use crate::file::options::StateName;
use crate::file::passes::{ReadConfig, Pass, PassSeries};

/// The block and the bytes from which the cost of a byte is told.
const LARGE: usize = 1 << 20;
const LARGE_BYTES: u64 = 16 << 20;
/// Calls from which the cost of a call is told.
const CALLS: u64 = 4096;
/// A pass may take so many times what it should, and what getting buffers and threads takes on a
/// busy machine; then it is ended.
const PATIENCE: u32 = 10;
const BEGINNING: Duration = Duration::from_millis(250);
/// What direct reads ask for where nobody says.
const ALIGNMENT: usize = 4096;

/// What is to be read.
pub(super) struct SweepConfig {
    pub(super) blocks: Vec<usize>,
    pub(super) states: Vec<StateName>,
    pub(super) threads: Vec<u16>,
    pub(super) each: Duration,
    pub(super) passes: u32,
}

impl SweepConfig {
    /// How much it is, for so many files.
    pub(super) fn words(&self, files: usize) -> String {
        let points = files * self.blocks.len() * self.states.len() * self.threads.len();
        let ms = self.each.as_millis();
        format!("{points} points, each {} times for about {ms} ms", self.passes)
    }

    /// The longest that a pass may take.
    fn limit(&self) -> Duration {
        self.each * PATIENCE + BEGINNING
    }
}

/// What a call and a byte cost, roughly: from it follows how many blocks a point reads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    call_ns: f64,
    byte_ns: f64,
}

impl Cost {
    /// From the time of a call with two blocks.
    fn of((small, small_ns): (usize, f64), (large, large_ns): (usize, f64)) -> Self {
        if large <= small {
            return Self { call_ns: 0.0, byte_ns: small_ns / small as f64 };
        }
        let byte_ns = ((large_ns - small_ns) / (large - small) as f64).max(0.0);
        Self { call_ns: (small_ns - byte_ns * small as f64).max(0.0), byte_ns }
    }

    /// Bytes of so many calls with this block as take about so long.
    fn bytes(self, block: usize, threads: u16, each: Duration) -> u64 {
        let one = (self.call_ns + self.byte_ns * block as f64).max(1.0);
        let calls = (each.as_nanos() as f64 * f64::from(threads) / one).max(1.0);
        (calls as u64).saturating_mul(block as u64)
    }
}

/// The points of a sweep, read forth and back.
pub(super) struct Sweeper<'a> {
    pub(super) plan: &'a SweepConfig,
    pub(super) dd: Option<&'a Dd>,
}

/// One point, and what dd gave on it in bytes a second, a value for each pass.
type Point = (PassSeries, Vec<f64>);

impl Sweeper<'_> {
    /// Reads all points of a file in all states; false where a person stopped it.
    pub(super) fn of(
        &self,
        recorder: &mut dyn Recorder,
        source: &Source,
        more: &Params,
    ) -> Result<bool, ProcedureError> {
        for name in &self.plan.states {
            let mut left_out = Vec::new();
            let (taken, goes_on) = self.take(recorder, source, *name, &mut left_out)?;
            for why in left_out {
                let text = format!("{} left out: {why}", state_word(*name));
                recorder.event(Event::Warning(&text));
            }
            self.record(recorder, source, more, &taken);
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the points, a curve for each number of threads.
    fn record(&self, recorder: &mut dyn Recorder, source: &Source, more: &Params, taken: &[Point]) {
        let taken: Vec<&Point> = taken.iter().filter(|(one, _)| !one.passes.is_empty()).collect();
        for curve in taken.chunk_by(|(a, _), (b, _)| a.config.threads == b.config.threads) {
            for (series, of_dd) in curve {
                let dd = statistics::median(of_dd);
                let mut facts = Vec::new();
                if let (Some(dd), Some(rate)) = (self.dd, dd) {
                    facts.push(Fact::text("dd is", dd.words()));
                    facts.push(Fact::quantity("dd", rate, Unit::BytesPerSecond));
                }
                series.record(recorder, source, more, facts);
            }
            recorder.show();
        }
    }

    /// Reads all points of a file in one state, and what had to be left out; false where a person
    /// stopped it.
    fn take(
        &self,
        recorder: &mut dyn Recorder,
        source: &Source,
        name: StateName,
        left_out: &mut Vec<String>,
    ) -> Result<(Vec<Point>, bool), ProcedureError> {
        let blocks = admitted(source, self.plan, name, left_out);
        let cost = match begin(recorder, source, self.plan, name, &blocks) {
            Ok(cost) => cost,
            // A file system need not have direct reads; the other states are there all the same.
            Err(BeginError::Failed(error)) if name != StateName::Direct => return Err(error),
            Err(error) => {
                left_out.push(error.to_string());
                return Ok((Vec::new(), !recorder.stop().is_by_person()));
            }
        };
        let file = source.info().size.unwrap_or(u64::MAX);
        let mut taken: Vec<Point> = Vec::new();
        for threads in &self.plan.threads {
            for block in &blocks {
                let config = ReadConfig { threads: *threads, ..ReadConfig::whole(*block, name) };
                let bytes = cost.bytes(*block, *threads, self.plan.each);
                taken.push((PassSeries::new(config.bounded(bytes, file)), Vec::new()));
            }
        }
        let goes_on = self.passes(recorder, source, &mut taken)?;
        Ok((taken, goes_on))
    }

    /// Forth and back through the points, as often as asked; false where a person stopped it.
    fn passes(
        &self,
        recorder: &mut dyn Recorder,
        source: &Source,
        taken: &mut [Point],
    ) -> Result<bool, ProcedureError> {
        let all = u64::from(self.plan.passes) * taken.len() as u64;
        let limit = Some(self.plan.limit());
        let mut done = 0;
        for number in 0..self.plan.passes {
            let mut order: Vec<usize> = (0..taken.len()).collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (series, of_dd) = &mut taken[at];
                let what = format!("blocks of {}", size(series.config.block as u64));
                recorder.event(Event::Progress { done, all, what: &what });
                if !series.pass(recorder, source, limit)? {
                    return Ok(false);
                }
                if let Some(dd) = self.dd.filter(|_| series.config.threads == 1) {
                    of_dd.extend(dd.read(recorder, source, &series.config)?);
                }
                done += 1;
            }
        }
        Ok(true)
    }
}

/// The name of a state.
fn state_word(name: StateName) -> &'static str {
    match name {
        StateName::Warm => "warm",
        StateName::Cold => "cold",
        StateName::Direct => "direct",
        StateName::AsIs => "as it is",
    }
}

/// The blocks with which the file can be read in this state.
fn admitted(
    source: &Source,
    plan: &SweepConfig,
    name: StateName,
    left_out: &mut Vec<String>,
) -> Vec<usize> {
    let alignment = match (name, source.info().direct) {
        (StateName::Direct, Direct::Aligned { offset, .. }) => offset as usize,
        (StateName::Direct, _) => ALIGNMENT,
        _ => 1,
    };
    let fits = |block: &&usize| block.is_multiple_of(alignment);
    let blocks: Vec<usize> = plan.blocks.iter().filter(fits).copied().collect();
    if blocks.len() < plan.blocks.len() {
        left_out.push(format!("blocks that are no multiple of {alignment} bytes"));
    }
    blocks
}

/// Why the file cannot be read in a state.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error("no block is left")]
    NoBlock,
    #[error("{} are more than the available memory, {}", size(*.bytes), size(*.available))]
    NoMemory { bytes: u64, available: u64 },
    #[error("{0}")]
    NotAsAsked(String),
    #[error("stopped before its first pass")]
    Stopped,
    #[error(transparent)]
    Failed(#[from] ProcedureError),
}

/// What reading the file in this state costs.
fn begin(
    recorder: &dyn Recorder,
    source: &Source,
    plan: &SweepConfig,
    name: StateName,
    blocks: &[usize],
) -> Result<Cost, BeginError> {
    let Some(small) = blocks.first().copied() else {
        return Err(BeginError::NoBlock);
    };
    let bytes = source.info().size.unwrap_or(0);
    if let Some(available) = recorder.host().memory.available_bytes
        && name == StateName::Warm
        && bytes > available
    {
        return Err(BeginError::NoMemory { bytes, available });
    }
    if name == StateName::Warm {
        // A file that does not stay in memory would be read anew for each point, for nothing.
        let found = cache_state::prepare(source, name, None, recorder.stop().now())?;
        if let Some(verdict) = cache_state::wrong_state(source, name, &found) {
            let reasons = verdict.reasons.into_iter().map(|reason| reason.text);
            return Err(BeginError::NotAsAsked(reasons.collect()));
        }
    }
    let file = source.info().size.unwrap_or(u64::MAX);
    let call_ns = |block: usize, bytes: u64| {
        let mut series = PassSeries::new(ReadConfig::whole(block, name).bounded(bytes, file));
        series.pass(recorder, source, Some(plan.limit()))?;
        let ns = |pass: &Pass| pass.outcome.ns / pass.outcome.calls.max(1) as f64;
        Ok::<_, ProcedureError>(series.passes.first().map(|pass| (block, ns(pass))))
    };
    let of_small = call_ns(small, small as u64 * CALLS)?;
    let of_large = call_ns(LARGE.max(small), LARGE_BYTES)?;
    let both = of_small.zip(of_large).ok_or(BeginError::Stopped)?;
    Ok(Cost::of(both.0, both.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_reads_as_many_blocks_as_its_time_allows() {
        // 200 ns a call and a nanosecond for 8 bytes.
        let cost = Cost::of((1, 200.125), (1 << 20, 200.0 + 131_072.0));
        assert!((cost.call_ns - 200.0).abs() < 1e-6 && (cost.byte_ns - 0.125).abs() < 1e-9);
        let each = Duration::from_millis(60);
        let calls = |block: usize, threads| cost.bytes(block, threads, each) / block as u64;
        assert_eq!(calls(1, 1), 299_812);
        assert_eq!(calls(1, 2), 599_625);
        assert_eq!(calls(1 << 20, 1), 457);
        assert_eq!(calls(1 << 30, 1), 1, "one block at least");
    }

    #[test]
    fn two_blocks_alike_and_a_large_one_that_is_quicker_cost_something_all_the_same() {
        let alike = Cost::of((1 << 20, 1000.0), (1 << 20, 1000.0));
        assert_eq!(alike.call_ns, 0.0);
        let quicker = Cost::of((4096, 1000.0), (1 << 20, 900.0));
        assert_eq!(quicker, Cost { call_ns: 1000.0, byte_ns: 0.0 });
        assert!(quicker.bytes(4096, 1, Duration::from_millis(1)) == 1000 * 4096);
    }
}
