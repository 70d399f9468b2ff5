//! `fathom file calls`: the cost of system calls on a cached file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fathom_fileio::loops::{Call, CallLoop};
use fathom_fileio::residency::{self, Residency};
use fathom_metric::notation::{NotationError, counts};
use fathom_record::{Activity, State, system_cause};
use rustix::io::Errno;

use super::by_hand::{self, ByHandResult, checked, printable};
use super::cache_state;
use super::options::{CommandCounts, StateName, block, sorted};
use super::temporary::{Temporary, TemporaryFolder};
use crate::prelude::*;

/// Bytes of the temporary file: several times the L2 cache, and quickly written.
const BYTES: u64 = 16 << 20;
/// Calls per value, and between two checks of the stop flag.
const SLICE: u64 = 100_000;
/// Untimed calls before the passes of a call.
const WARM_UP: u64 = 1000;
/// Most calls of a pass over blocks.
const PASS_MAX: u64 = 100_000;
const BLOCK: u64 = 4096;
const CALLS_MAX: u64 = 100_000_000_000;

const EXAMPLES: &str = "\
Examples:
  fathom file calls                        on a temporary file of 16 MiB, in a few seconds
  fathom file calls FILE --calls 1e4..1e8  does the cost depend on the number of calls?
  fathom file calls --blocks 1,512,64K     compare reads with seeks

The data is not processed, so only the cost of the calls is timed. A range such as 1e4..1e8 goes by
powers of ten.";

/// Measure the cost of system calls on a cached file.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Calls {
    /// File, read into the page cache first [default: a temporary file].
    file: Option<PathBuf>,
    /// List of the numbers of calls per pass.
    #[arg(long, value_name = "COUNTS", default_value = "1e4..1e6", value_parser = numbers)]
    calls: CommandCounts,
    /// Block sizes for comparing reads with seeks.
    #[arg(long, value_name = "SIZES", default_value = "1,4,4K", value_delimiter = ',')]
    #[arg(value_parser = block)]
    blocks: Vec<usize>,
    /// Number of passes. Each 100,000 calls give a value, and 12 values a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Folder of the temporary file [default: $FATHOM_FOLDER, or /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER", conflicts_with = "file")]
    folder: Option<PathBuf>,
}

fn numbers(text: &str) -> ByHandResult<CommandCounts, NotationError> {
    let mut all = counts(text)?;
    sorted(&mut all);
    match all.iter().all(|count| (1..=CALLS_MAX).contains(count)) {
        true => Ok(CommandCounts(all)),
        false => Err(NotationError::new(text, format!("passes of 1 to {CALLS_MAX} calls"))),
    }
}

/// All passes of one call.
#[derive(Clone)]
struct CallRow {
    call: Call,
    params: Params,
    /// For each number of calls, the time per call of each slice.
    slices: Vec<(u64, Vec<f64>)>,
    made: u64,
    /// Calls with the right result.
    good: u64,
}

impl CallRow {
    fn new(call: Call, params: Params, counts: &[u64]) -> Self {
        let slices = counts.iter().map(|count| (*count, Vec::new())).collect();
        Self { call, params, slices, made: 0, good: 0 }
    }

    /// The slices of the pass with the most calls.
    fn most(&self) -> Option<&(u64, Vec<f64>)> {
        self.slices.iter().rfind(|(_, values)| !values.is_empty())
    }

    fn median(&self) -> Option<f64> {
        statistics::median(&self.most()?.1)
    }

    /// Reads and seeks by the number of calls: each number is a case of its own.
    fn by_count(&self) -> Vec<Self> {
        let is_compared = matches!(self.params.text("call"), Some("read1" | "lseek"));
        let several = self.slices.iter().filter(|_| is_compared && self.slices.len() > 1);
        let one = |(count, values): &(u64, Vec<f64>)| Self {
            params: self.params.clone().and("calls", *count as i64),
            slices: vec![(*count, values.clone())],
            ..self.clone()
        };
        several.map(one).collect()
    }

    /// Runs one pass for each number of calls, until stopped.
    fn passes(
        &mut self,
        source: &PathInfoSource,
        clock: &Clock,
        stop: &AtomicBool,
    ) -> ByHandResult<(), Errno> {
        // The results of the call before were stored: the kernel's code is in no cache.
        CallLoop::new(self.call, source.file())?.repeat(WARM_UP)?;
        for (calls, values) in &mut self.slices {
            let mut again = CallLoop::new(self.call, source.file())?;
            let mut made = 0;
            while made < *calls && !stop.load(Ordering::Relaxed) {
                let slice = (*calls - made).min(SLICE);
                let begin = clock.start();
                self.good += again.repeat(slice)?;
                values.push(clock.ns(begin, clock.stop()) / slice as f64);
                made += slice;
            }
            self.made += made;
        }
        Ok(())
    }
}

impl Procedure for Calls {
    fn asked(&self) -> String {
        by_hand::printable_list(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> ByHandResult<()> {
        match &self.file {
            Some(_) => self.named().map(|_| ()),
            None => TemporaryFolder::on_device(self.folder.as_deref())?.check(self.bytes()),
        }
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let Some(source) = self.source(recorder)? else { return Ok(Ending::Stopped) };
        let before = residency::warm(source.file(), recorder.stop().now())?;
        recorder.event(Event::Progress { done: 0, all: 1, what: "calling" });
        let mut rows = self.rows(&source);
        let (count, mut sum) = (rows.len(), None);
        // Interleaved, so that a disturbance affects all calls alike.
        for at in (0..self.repeat).flat_map(|_| 0..count) {
            let (clock, stop) = (recorder.clock(), recorder.stop().now());
            let row = &mut rows[at];
            let (done, counted) = observed(recorder.cpu(), || row.passes(&source, clock, stop));
            done.map_err(|error| {
                let (path, cause) =
                    (&source.info().path, system_cause(&error.into(), Activity::Read));
                ProcedureError::failed(format!("read {}: {cause}", printable(path)))
            })?;
            by_hand::add(&mut sum, counted);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let disturbance = sum.clone().unwrap_or_default();
            recorder.draft(&mut |recorder| {
                for one in std::iter::once(rows[at].clone()).chain(rows[at].by_count()) {
                    record_row(recorder, &source, &before, &one, &disturbance, Vec::new());
                }
            });
        }
        self.record(recorder, &source, &before, &rows, &sum.unwrap_or_default());
        Ok(Ending::Done)
    }
}

impl Calls {
    /// Bytes of the temporary file.
    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|&block| block as u64).fold(BYTES, u64::max)
    }

    /// The given file; it must be at least as large as the largest block.
    fn named(&self) -> ByHandResult<Option<PathInfoSource>> {
        let Some(path) = &self.file else { return Ok(None) };
        let source = PathInfoSource::open(path).map_err(ProcedureError::failed)?;
        let block = self.blocks.iter().map(|&block| block as u64).fold(BLOCK, u64::max);
        match source.info().size.unwrap_or(0) {
            bytes if bytes >= block => Ok(Some(source)),
            bytes => Err(ProcedureError::failed(format!(
                "{} has {bytes} bytes, less than a block of {block}: name a larger file, or none \
                 for a temporary one",
                printable(path)
            ))),
        }
    }

    /// The given file, or a temporary one. `None` if stopped.
    fn source(&self, recorder: &mut dyn Recorder) -> ByHandResult<Option<PathInfoSource>> {
        if let Some(source) = self.named()? {
            return Ok(Some(source));
        }
        let folder = TemporaryFolder::on_device(self.folder.as_deref())?;
        let size = by_hand::size(self.bytes());
        recorder.confirm(&format!("reads a file of {size} in {}", folder.describe()), false);
        let mut file = Temporary::new(&folder)?;
        let is_complete = file.resize(self.bytes(), recorder)?;
        Ok(is_complete.then(|| file.into_source()))
    }

    /// The named calls, then for each block a pair of read and lseek.
    fn rows(&self, source: &PathInfoSource) -> Vec<CallRow> {
        let named = Call::NAMED
            .map(|(name, call)| CallRow::new(call, Params::one("call", name), &self.calls.0));
        let end = source.info().size.unwrap_or(0);
        let pair = |&block: &usize| {
            let calls = [(end / block as u64).min(PASS_MAX)];
            let params = |call: &str| Params::one("call", call).and("block", block as i64);
            [
                CallRow::new(Call::Read(block), params("read"), &calls),
                CallRow::new(Call::Seek(block as u64), params("lseek"), &calls),
            ]
        };
        named.into_iter().chain(self.blocks.iter().flat_map(pair)).collect()
    }

    /// Records the named calls, then the pairs.
    fn record(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        before: &Residency,
        rows: &[CallRow],
        disturbance: &Disturbance,
    ) {
        let (named, pairs) = rows.split_at(Call::NAMED.len());
        for row in named {
            let count = |(count, values): &(u64, Vec<f64>)| {
                let each = statistics::median(values)?;
                Some(Fact::quantity(&format!("{count} calls"), each, Unit::Nanoseconds))
            };
            let facts = row.slices.iter().filter_map(count).collect();
            record_row(recorder, source, before, row, disturbance, facts);
        }
        recorder.show();
        for row in named.iter().flat_map(CallRow::by_count) {
            record_row(recorder, source, before, &row, disturbance, Vec::new());
        }
        recorder.show();
        for pair in pairs.chunks_exact(2) {
            record_row(recorder, source, before, &pair[0], disturbance, Vec::new());
            let ratio = pair[1].median().zip(pair[0].median()).map(|(seek, read)| seek / read);
            let ratio = ratio.map(|ratio| Fact::quantity("lseek ÷ read", ratio, Unit::Ratio));
            let facts = ratio.into_iter().collect();
            record_row(recorder, source, before, &pair[1], disturbance, facts);
        }
    }
}

/// Records one call, by its passes with the most calls.
fn record_row(
    recorder: &mut dyn Recorder,
    source: &PathInfoSource,
    before: &Residency,
    row: &CallRow,
    disturbance: &Disturbance,
    mut facts: Vec<Fact>,
) {
    let Some((count, values)) = row.most() else { return };
    let (made, good) = (row.made, row.good);
    let wrong = || {
        let text = format!("wrong result of {} of {made} calls", made - good);
        Verdict::because(State::Invalid, Cause::WrongWork, text)
    };
    if let Some(each) = statistics::median(values) {
        facts.push(Fact::quantity("time", each * *count as f64, Unit::Nanoseconds));
        facts.push(Fact::quantity("rate", 1e9 / each, Unit::PerSecond));
    }
    recorder.record(Measured {
        metric: "file.call",
        params: row.params.clone(),
        values: values.clone(),
        disturbance: vec![disturbance.clone()],
        checks: checked(vec![
            ("file", cache_state::describe_file(source)),
            ("calls", format!("{good} of {made}")),
            ("calls in a pass", count.to_string()),
            ("in memory before", cache_state::describe(before)),
        ]),
        verdict: (good != made)
            .then(wrong)
            .or_else(|| cache_state::wrong_state(source, StateName::Warm, before)),
        doubts: cache_state::doubts(source, StateName::Warm, before),
        facts,
        ..Measured::default()
    });
}
