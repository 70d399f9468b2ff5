//! `fathom file cache`: the effect of the page cache on a file, read three times from cold.
//! file.cache.speedup: the time of the first read ÷ that of the second.

use std::path::PathBuf;

use clap::Parser;

use super::by_hand::{self, ByHandResult, size};
use super::cache_state;
use super::options::{Blocks, SizeRange, StateName, TemporaryOptions, blocks, file_sizes};
use super::passes::{Pass, PassSeries, ReadConfig};
use super::temporary::{Temporary, TemporaryFolder, announce};
use crate::file::BASE;
use crate::file::state::fits_in_memory;
use crate::prelude::*;

/// Reads per round: cold, second and third.
const READS: usize = 3;
const TOLERANCE: f64 = 0.30;

pub const SPEEDUP: ByHand = ByHand(ABOUT, predict);

const ABOUT: About = About {
    id: "file.cache.speedup",
    title: "speedup of the second read",
    unit: Unit::Ratio,
    better: Better::Neither,
    timed: "reading a file after eviction, and again: the first time ÷ the second, in each round",
    not_timed: "eviction, reading pages back that were reclaimed between the reads, verification",
    model: "the measured first read ÷ (calls × os.syscall{call=read1} + bytes ÷ memory.bandwidth)",
    source: "the second read copies from the page cache what the first fetched from the device: \
             Linux mm/filemap.c",
    pitfalls: &[
        "a file that does not stay cached is read from the device each time: its residency is \
         checked before each read, and pages that the kernel reclaimed meanwhile are read back",
        "in a virtual machine the host may cache the file: the first read is cold only in the \
         guest",
    ],
    parameters: &[
        Parameter::new("block", "bytes", "bytes per call"),
        Parameter::new("file_bytes", "bytes", "size of the file"),
    ],
    needs: &["os.syscall", "memory.bandwidth", "file.read.throughput"],
    requires: "a file on a device",
    noise_limit: 0.20,
    ..BASE
};

fn predict(params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
    let read = Params::one("call", "read1");
    let call = earlier("os.syscall", &read, known)?;
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram");
    let dram = dram.and("page", "huge");
    let bandwidth = earlier("memory.bandwidth", &dram, known)?;
    let first = params.clone().and("state", "cold").and("threads", 1).and("way", "read");
    let first = first.and("read", 1);
    let rate = earlier("file.read.throughput", &first, known)?;
    let integer = |name| params.integer(name).unwrap_or(1) as f64;
    let (bytes, block) = (integer("file_bytes"), integer("block"));
    let first_ns = 1e9 * bytes / rate;
    let second_ns = bytes / block * call + 1e9 * bytes / bandwidth;
    let formula = "bytes ÷ first read ÷ (calls × os.syscall + bytes ÷ memory.bandwidth)";
    let ratio = Prediction::sum(first_ns / second_ns, 0.0, TOLERANCE, formula, ABOUT.source);
    let name = format!("file.read.throughput{first}");
    Ok(ratio
        .without_parts()
        .with_result(&name, rate, Unit::BytesPerSecond)
        .with_quantity("calls", bytes / block, Unit::Ratio, Origin::calculated("bytes ÷ block"))
        .with_result(&format!("os.syscall{read}"), call, Unit::Nanoseconds)
        .with_quantity("bytes", bytes, Unit::Bytes, Origin::Case)
        .with_result(&format!("memory.bandwidth{dram}"), bandwidth, Unit::BytesPerSecond)
        .if_below("the copy from the page cache has more overhead than the model")
        .if_above("the second read comes from the CPU caches"))
}

const EXAMPLES: &str = "\
Examples:
  fathom file cache FILE                               effect of the page cache on this file
  fathom file cache FILE --blocks 4K..1M --rounds 12
  fathom file cache --sizes 10MiB,1GiB --folder /data

Each round evicts the file, without root, and reads it three times. The residency before each read
is shown; a round with a read in another state is repeated. Caching matters from the smallest block
on whose second read is 1.5 times as fast as the first.";

/// Measure the effect of the page cache: read a file three times from cold.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("folder", |it| it.conflicts_with("file")))]
#[command(mut_arg("yes", |it| it.conflicts_with("file")))]
pub struct CommandCache {
    /// File to read.
    #[arg(required_unless_present = "sizes", conflicts_with = "sizes")]
    file: Option<PathBuf>,
    /// Use temporary files of these sizes instead.
    #[arg(long, value_name = "LIST", value_parser = file_sizes)]
    sizes: Option<SizeRange>,
    /// List of block sizes.
    #[arg(long, value_name = "LIST", default_value = "4K,64K,1M", value_parser = blocks)]
    blocks: Blocks,
    /// Number of rounds; with 12 or more the results have a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    #[command(flatten)]
    temporary: TemporaryOptions,
}

impl Procedure for CommandCache {
    fn asked(&self) -> String {
        by_hand::printable_list(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> ByHandResult<()> {
        match self.named()? {
            Some(_) => Ok(()),
            None => {
                let largest = self.sizes().last().copied().unwrap_or_default();
                TemporaryFolder::choose(self.temporary.folder.as_deref())?.check(largest)
            }
        }
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        if let Some(source) = self.named()? {
            self.measure_file(recorder, &source, 0)?;
            return Ok(by_hand::ending(&[source]));
        }
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        let times = (self.blocks.0.len() * READS) as u64 * u64::from(self.rounds);
        let read = size(self.sizes().iter().sum::<u64>().saturating_mul(times));
        let largest = self.sizes().last().copied().unwrap_or_default();
        let what = format!("and reads {read}");
        if !announce(recorder, &folder, largest, &what, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let mut file = Temporary::new(&folder)?;
        for (number, bytes) in self.sizes().iter().enumerate() {
            if !file.resize(*bytes, recorder)?
                || !self.measure_file(recorder, file.source(), number)?
            {
                break;
            }
        }
        Ok(Ending::Done)
    }
}

impl CommandCache {
    fn sizes(&self) -> &[u64] {
        self.sizes.as_ref().map_or(&[], |sizes| &sizes.0)
    }

    /// The given file, which must not be empty.
    fn named(&self) -> ByHandResult<Option<PathInfoSource>> {
        self.file.as_deref().map(by_hand::open_with_pages).transpose()
    }

    /// Measures one file with all blocks. Returns false if the user stopped it.
    fn measure_file(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        number: usize,
    ) -> ByHandResult<bool> {
        let mut speedups = Vec::new();
        let mut goes_on = true;
        for (at, block) in self.blocks.0.iter().enumerate() {
            let at = number * self.blocks.0.len() + at;
            let (reads, on) = self.rounds(recorder, source, (at, *block))?;
            goes_on = on;
            if let Some(reads) = reads {
                // Printed after the reads of all blocks.
                recorder.draft(&mut |recorder| _ = speedup(recorder, source, &reads));
                speedups.push(speedup(recorder, source, &reads));
            }
            if !goes_on {
                break;
            }
        }
        recorder.show();
        for speedup in speedups {
            recorder.record(speedup);
        }
        recorder.show();
        Ok(goes_on)
    }

    /// The complete rounds with one block, and false if the user stopped it.
    fn rounds(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        (at, block): (usize, usize),
    ) -> ByHandResult<(Option<[PassSeries; READS]>, bool)> {
        // Reclaim takes pages of an idle file within seconds: the cache is made complete again.
        let states = [StateName::Cold, StateName::Warm, StateName::Warm];
        let fits = fits_in_memory(source.info().size.unwrap_or(0));
        let mut retries = if fits { self.rounds } else { 0 };
        let mut reads = states.map(|state| PassSeries::new(ReadConfig::whole(block, state)));
        let mut goes_on = true;
        let mut round = 0;
        while round < self.rounds {
            // The bar is of all blocks, also of several files.
            let done = u64::from(self.rounds) * at as u64 + u64::from(round);
            let all =
                u64::from(self.rounds) * (self.blocks.0.len() * self.sizes().len().max(1)) as u64;
            let what = format!("blocks of {}", size(block as u64));
            recorder.event(Event::Progress { done, all, what: &what });
            for series in &mut reads {
                goes_on = goes_on && series.pass(recorder, source, None)?;
            }
            if !goes_on {
                break;
            }
            if retries == 0 || reads.iter().all(|series| series.is_last_right(source)) {
                round += 1;
            } else {
                retries -= 1;
                reads.iter_mut().for_each(PassSeries::drop_last);
            }
        }
        let whole = reads.iter().map(|series| series.passes.len()).min().unwrap_or(0);
        reads.iter_mut().for_each(|series| series.passes.truncate(whole));
        Ok(((whole > 0).then_some(reads), goes_on))
    }
}

/// Records the reads of a block. Returns the speedup, to be recorded after the reads of all blocks.
fn speedup(
    recorder: &mut dyn Recorder,
    source: &PathInfoSource,
    reads: &[PassSeries; READS],
) -> Measured {
    let mut records: Vec<Record> = Vec::new();
    for (number, series) in (1..).zip(reads) {
        let state = Fact::text("in memory before", series.describe_state());
        records.push(series.record(recorder, source, &Params::one("read", number), vec![state]));
    }
    let file_bytes = records[0].params.integer("file_bytes").unwrap_or(0);
    let params = Params::one("block", reads[0].config.block as i64).and("file_bytes", file_bytes);
    let ns = |series: &PassSeries| -> Vec<f64> {
        series.passes.iter().map(|pass: &Pass| pass.outcome.ns).collect()
    };
    let ratios = ns(&reads[0]).into_iter().zip(ns(&reads[1])).map(|(first, second)| first / second);
    let both = reads[0].disturbance.as_ref().zip(reads[1].disturbance.as_ref());
    let disturbance = both.map(|(one, two)| one.plus(two));
    let invalid = records[..2].iter().find(|record| !record.verdict.shows_number());
    // Holes are no device: the first read of a sparse file is not cold.
    let mut doubts = cache_state::doubts(source, StateName::Cold, &reads[0].passes[0].before);
    let mut passes = reads[..2].iter().flat_map(|series| &series.passes);
    doubts.extend(passes.find_map(|pass| too_short(pass.outcome.ns, 0.0)));
    Measured {
        metric: ABOUT.id,
        params,
        values: ratios.collect(),
        disturbance: disturbance.into_iter().collect(),
        verdict: invalid.map(|record| record.verdict.clone()),
        doubts,
        ..Measured::default()
    }
}
