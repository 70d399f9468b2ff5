//! `fathom file calls`: what a call on a cached file costs, where nobody looks at the bytes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fathom_analysis::statistics;
use fathom_fileio::Source;
use fathom_fileio::loops::{Call, Loop};
use fathom_fileio::residency::{self, Residency};
use fathom_measure::Clock;
use fathom_metric::notation::{NotationError, counts};
use fathom_metric::{Ending, Event, Measured, Procedure, ProcedureError, Recorder, observed};
use fathom_record::{Cause, Disturbance, Fact, Params, State, Unit, Verdict};
use rustix::io::Errno;

use super::by_hand::{self, checked, shown};
use super::conditions;
use super::options::{Counts, StateName, block};
use super::temporary::{Folder, Temporary};

/// Bytes of the temporary file: some times a second-level cache, and soon made.
const BYTES: u64 = 16 << 20;
/// Calls that give a value, and lie between two looks at who wants to stop.
const SLICE: u64 = 100_000;
/// A pass over blocks has no more calls, however large the file is.
const PASS_MAX: u64 = 100_000;
const BLOCK: u64 = 4096;
/// More calls than anybody waits for.
const CALLS_MAX: u64 = 100_000_000_000;

const EXAMPLES: &str = "\
Examples:
  fathom file calls                        on a temporary file of 16 MiB, in some seconds
  fathom file calls FILE --calls 1e4..1e8  does the rate depend on how many there are?
  fathom file calls --blocks 1,512,64K     a pass that reads against one that only seeks

Nobody looks at what is read, so a call's own cost is all that there is. Counts may be written as
1e4..1e8, which goes by tens.";

/// What a call on a cached file costs, by itself and by the number of calls.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Calls {
    /// The file, which is read into memory first; a temporary one where none is named.
    file: Option<PathBuf>,
    /// How many calls make a pass, a list.
    #[arg(long, value_name = "COUNTS", default_value = "1e4..1e6", value_parser = numbers)]
    calls: Counts,
    /// The blocks of the passes that read against those that seek.
    #[arg(long, value_name = "SIZES", default_value = "1,4,4K", value_delimiter = ',')]
    #[arg(value_parser = block)]
    blocks: Vec<usize>,
    /// Passes. Each 100,000 calls of them give a value, and 12 values an interval.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Where a temporary file may lie [default: /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER", conflicts_with = "file")]
    folder: Option<PathBuf>,
}

fn numbers(text: &str) -> Result<Counts, NotationError> {
    let mut all = counts(text)?;
    all.sort_unstable();
    all.dedup();
    match all.iter().all(|count| (1..=CALLS_MAX).contains(count)) {
        true => Ok(Counts(all)),
        false => Err(NotationError::new(text, format!("passes of 1 to {CALLS_MAX} calls"))),
    }
}

/// All passes of one call.
struct Row {
    call: Call,
    /// Its name, and the block where it is one of a pair.
    params: Params,
    /// What a call took in each slice, by the number of calls of the pass.
    slices: Vec<(u64, Vec<f64>)>,
    made: u64,
    /// Those that did what they were to do.
    done: u64,
}

impl Row {
    fn new(call: Call, params: Params, counts: &[u64]) -> Self {
        let slices = counts.iter().map(|count| (*count, Vec::new())).collect();
        Self { call, params, slices, made: 0, done: 0 }
    }

    /// The most calls of a pass that was begun, and what each of them took.
    fn most(&self) -> Option<&(u64, Vec<f64>)> {
        self.slices.iter().rfind(|(_, values)| !values.is_empty())
    }

    fn median(&self) -> Option<f64> {
        statistics::median(&self.most()?.1)
    }

    /// Makes the calls of every pass once; the rest is left out where it is told to stop.
    fn passes(&mut self, source: &Source, clock: &Clock, stop: &AtomicBool) -> Result<(), Errno> {
        for (asked, values) in &mut self.slices {
            let mut again = Loop::new(self.call, source.file())?;
            let mut made = 0;
            while made < *asked && !stop.load(Ordering::Relaxed) {
                let slice = (*asked - made).min(SLICE);
                let begin = clock.start();
                self.done += again.repeat(slice)?;
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
        by_hand::all_shown(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> Result<(), ProcedureError> {
        match &self.file {
            Some(_) => self.named().map(|_| ()),
            None => Folder::on_device(self.folder.as_deref())?.check(self.bytes()),
        }
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let Some(source) = self.source(recorder)? else { return Ok(Ending::Stopped) };
        let before = residency::warm(source.file(), recorder.stop().now())?;
        recorder.event(Event::Progress { done: 0, all: 1, what: "calling" });
        let (clock, stop) = (recorder.clock(), recorder.stop().now());
        let mut rows = self.rows(&source);
        let mut take = || -> Result<(), Errno> {
            // Each round over all calls, so that a slow moment falls on all alike.
            for _ in 0..self.repeat {
                rows.iter_mut().try_for_each(|row| row.passes(&source, clock, stop))?;
            }
            Ok(())
        };
        let (timed, disturbance) = observed(recorder.cpu(), &mut take);
        timed.map_err(|error| {
            ProcedureError::failed(format!("read {}: {error}", shown(&source.subject().path)))
        })?;
        self.record(recorder, &source, &before, &rows, &disturbance);
        Ok(Ending::Done)
    }
}

impl Calls {
    /// Bytes of the temporary file.
    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|&block| block as u64).fold(BYTES, u64::max)
    }

    /// The file that was named, which has a block of each size.
    fn named(&self) -> Result<Option<Source>, ProcedureError> {
        let Some(path) = &self.file else { return Ok(None) };
        let source = Source::open(path).map_err(ProcedureError::failed)?;
        let block = self.blocks.iter().map(|&block| block as u64).fold(BLOCK, u64::max);
        match source.subject().size.unwrap_or(0) {
            bytes if bytes >= block => Ok(Some(source)),
            bytes => Err(ProcedureError::failed(format!(
                "{} has {bytes} bytes, and blocks of {block} are read of it: name a larger file, \
                 or none for a temporary one",
                shown(path)
            ))),
        }
    }

    /// The named file, or a temporary one; none where it was told to stop.
    fn source(&self, recorder: &mut dyn Recorder) -> Result<Option<Source>, ProcedureError> {
        if let Some(source) = self.named()? {
            return Ok(Some(source));
        }
        let folder = Folder::on_device(self.folder.as_deref())?;
        let text = format!("reads a file of {} in {}", by_hand::size(self.bytes()), folder.words());
        recorder.confirm(&text, false);
        let mut file = Temporary::new(&folder)?;
        let is_made = file.resize(self.bytes(), recorder)?;
        Ok(is_made.then(|| file.into_source()))
    }

    /// The calls with names, then for each block a pass that reads beside one that only seeks.
    fn rows(&self, source: &Source) -> Vec<Row> {
        let named = Call::NAMED
            .map(|(name, call)| Row::new(call, Params::one("call", name), &self.calls.0));
        let end = source.subject().size.unwrap_or(0);
        let pair = |&block: &usize| {
            let calls = [(end / block as u64).min(PASS_MAX)];
            let params = |call: &str| Params::one("call", call).and("block", block as i64);
            [
                Row::new(Call::Read(block), params("read"), &calls),
                Row::new(Call::Seek(block as u64), params("lseek"), &calls),
            ]
        };
        named.into_iter().chain(self.blocks.iter().flat_map(pair)).collect()
    }

    /// Keeps what became of each call, those with names apart from the pairs.
    fn record(
        &self,
        recorder: &mut dyn Recorder,
        source: &Source,
        before: &Residency,
        rows: &[Row],
        disturbance: &Disturbance,
    ) {
        let (named, pairs) = rows.split_at(Call::NAMED.len());
        for row in named {
            let count = |(count, values): &(u64, Vec<f64>)| {
                let each = statistics::median(values)?;
                Some(Fact::quantity(&format!("{count} calls"), each, Unit::Nanoseconds))
            };
            let facts = row.slices.iter().filter_map(count).collect();
            keep(recorder, source, before, row, disturbance, facts);
        }
        recorder.show();
        for pair in pairs.chunks_exact(2) {
            keep(recorder, source, before, &pair[0], disturbance, Vec::new());
            let ratio = pair[1].median().zip(pair[0].median()).map(|(seek, read)| seek / read);
            let ratio = ratio.map(|ratio| Fact::quantity("lseek ÷ read", ratio, Unit::Ratio));
            keep(recorder, source, before, &pair[1], disturbance, ratio.into_iter().collect());
        }
    }
}

/// Keeps what became of one call, by the passes with the most calls; nothing where none was made.
fn keep(
    recorder: &mut dyn Recorder,
    source: &Source,
    before: &Residency,
    row: &Row,
    disturbance: &Disturbance,
    mut facts: Vec<Fact>,
) {
    let Some((count, values)) = row.most() else { return };
    let (made, done) = (row.made, row.done);
    let wrong = || {
        let text = format!("{} of {made} calls did not do what they were to do", made - done);
        Verdict::because(State::Invalid, Cause::WrongWork, text)
    };
    let rate = statistics::median(values).map(|each| 1e9 / each);
    facts.extend(rate.map(|rate| Fact::quantity("rate", rate, Unit::PerSecond)));
    recorder.record(Measured {
        metric: "file.call",
        params: row.params.clone(),
        values: values.clone(),
        disturbance: disturbance.clone(),
        checks: checked(vec![
            ("file", conditions::place(source)),
            ("calls", format!("{done} of {made}")),
            ("calls in a pass", count.to_string()),
            ("in memory before", conditions::proof(before)),
        ]),
        verdict: (done != made)
            .then(wrong)
            .or_else(|| conditions::not_as_asked(source, StateName::Warm, before)),
        doubts: conditions::doubts(source, StateName::Warm, before),
        facts,
        ..Measured::default()
    });
}
