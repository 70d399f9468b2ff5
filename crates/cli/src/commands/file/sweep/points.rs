//! The points of a sweep: how many blocks each reads in its time, and the passes over all of them
//! forth and back.

use std::time::Duration;

use fathom_fileio::Source;
use fathom_fileio::subject::Direct;
use fathom_record::{Params, Record};

use super::super::read::Pass;
use super::super::series::{Manner, Series};
use super::super::session::{Session, size};
use super::super::state;
use super::dd::Dd;
use crate::arguments::file::StateName;

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
pub(super) struct Plan {
    pub(super) blocks: Vec<usize>,
    pub(super) states: Vec<StateName>,
    pub(super) threads: Vec<u16>,
    pub(super) each: Duration,
    pub(super) passes: u32,
}

impl Plan {
    /// How much it is, for so many files.
    pub(super) fn told(&self, files: usize) -> String {
        let points = files * self.blocks.len() * self.states.len() * self.threads.len();
        let ms = self.each.as_millis();
        format!("{points} points, each {} times for about {ms} ms", self.passes)
    }

    /// The longest that a pass may take.
    fn limit(&self) -> Duration {
        self.each * PATIENCE + BEGINNING
    }
}

/// One point.
pub(super) struct Point {
    pub(super) series: Series,
    pub(super) record: Record,
    /// What dd gave on it, in bytes a second, a value for each pass.
    pub(super) dd: Vec<f64>,
}

/// All points of a file in one state.
pub(super) struct State {
    pub(super) name: StateName,
    pub(super) points: Vec<Point>,
    /// What was left out, and why.
    pub(super) left_out: Vec<String>,
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

/// Reads all points of a file in one state; false where a person stopped it.
///
/// # Errors
/// Where the file cannot be read.
pub(super) fn take(
    session: &mut Session,
    source: &Source,
    plan: &Plan,
    name: StateName,
    dd: Option<&Dd>,
    more: &Params,
) -> anyhow::Result<(State, bool)> {
    let mut state = State { name, points: Vec::new(), left_out: Vec::new() };
    let blocks = admitted(source, plan, name, &mut state.left_out);
    let cost = match begin(session, source, plan, name, &blocks) {
        Ok(Ok(cost)) => cost,
        Ok(Err(why)) => {
            state.left_out.push(why);
            return Ok((state, !session.stop().is_by_person()));
        }
        // A file system need not have direct reads; the other states are there all the same.
        Err(error) if name == StateName::Direct => {
            state.left_out.push(error.to_string());
            return Ok((state, true));
        }
        Err(error) => return Err(error),
    };
    let file = source.subject().size.unwrap_or(u64::MAX);
    let mut taken: Vec<(Series, Vec<f64>)> = Vec::new();
    for threads in &plan.threads {
        for block in &blocks {
            let manner = Manner { threads: *threads, ..Manner::whole(*block, name) };
            let manner = manner.bounded(cost.bytes(*block, *threads, plan.each), file);
            taken.push((Series::new(manner), Vec::new()));
        }
    }
    let goes_on = passes(session, source, plan, dd, &mut taken)?;
    for (series, dd) in taken.into_iter().filter(|(series, _)| !series.passes.is_empty()) {
        let record = series.record(session, source, more);
        state.points.push(Point { series, record, dd });
    }
    Ok((state, goes_on))
}

/// The blocks with which the file can be read in this state.
fn admitted(
    source: &Source,
    plan: &Plan,
    name: StateName,
    left_out: &mut Vec<String>,
) -> Vec<usize> {
    let alignment = match (name, source.subject().direct) {
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

/// Whether the file can be had in this state at all, and what reading it costs.
fn begin(
    session: &Session,
    source: &Source,
    plan: &Plan,
    name: StateName,
    blocks: &[usize],
) -> anyhow::Result<Result<Cost, String>> {
    let Some(small) = blocks.first().copied() else {
        return Ok(Err("no block is left".to_owned()));
    };
    let bytes = source.subject().size.unwrap_or(0);
    if let Some(available) = session.host().memory.available_bytes
        && name == StateName::Warm
        && bytes > available
    {
        let (bytes, available) = (size(bytes), size(available));
        return Ok(Err(format!("{bytes} are more than the available memory, {available}")));
    }
    if name == StateName::Warm {
        // A file that does not stay in memory would be read anew for each point, for nothing.
        let found = state::prepare(source, name, None, session.stop().now())?;
        if let Some(verdict) = state::not_as_asked(source, name, &found) {
            return Ok(Err(verdict.reasons.into_iter().map(|reason| reason.text).collect()));
        }
    }
    let file = source.subject().size.unwrap_or(u64::MAX);
    let call_ns = |block: usize, bytes: u64| {
        let mut series = Series::new(Manner::whole(block, name).bounded(bytes, file));
        series.pass(session, source, Some(plan.limit()))?;
        let ns = |pass: &Pass| pass.outcome.ns / pass.outcome.calls.max(1) as f64;
        Ok::<_, anyhow::Error>(series.passes.first().map(|pass| (block, ns(pass))))
    };
    let of_small = call_ns(small, small as u64 * CALLS)?;
    let of_large = call_ns(LARGE.max(small), LARGE_BYTES)?;
    match of_small.zip(of_large) {
        Some((of_small, of_large)) => Ok(Ok(Cost::of(of_small, of_large))),
        None => Ok(Err("stopped before its first pass".to_owned())),
    }
}

/// Forth and back through the points, as often as asked; false where a person stopped it.
fn passes(
    session: &Session,
    source: &Source,
    plan: &Plan,
    dd: Option<&Dd>,
    taken: &mut [(Series, Vec<f64>)],
) -> anyhow::Result<bool> {
    let bar = session.bar(u64::from(plan.passes) * taken.len() as u64);
    let limit = Some(plan.limit());
    for number in 0..plan.passes {
        let mut order: Vec<usize> = (0..taken.len()).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let (series, of_dd) = &mut taken[at];
            if !series.pass(session, source, limit)? {
                bar.finish_and_clear();
                return Ok(false);
            }
            if let Some(dd) = dd.filter(|_| series.manner.threads == 1) {
                of_dd.extend(dd.read(session, source, &series.manner)?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(true)
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
