//! `fathom file read`: reads a file block by block.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fathom_fileio::path_info::FileKind;
use fathom_fileio::read::{ReadOutcome, ReadRequest, Way};
use fathom_fileio::residency;
use fathom_metric::notation::time;
use fathom_record::quantity::{NOTHING, binary_size};

use super::by_hand::{self, ByHandResult, amount, printable, size, sum_facts, threads};
use super::cache_state;
use super::cap::Cap;
use super::options::{DropName, StateName, block, block_count};
use super::passes::{Pass, checks, empty_passes, invalid_verdict, nothing_read, rates};
use crate::file::model::way_name;
use crate::prelude::*;

/// Up to this many passes are shown one per line.
const LINES: usize = 10;
/// Without data for this time a read ends, unless a time limit is given.
const PATIENCE: Duration = Duration::from_secs(5);
/// The verdict on such a read.
const WAITED: &str = "the time includes a wait for data that did not come";

/// Queue depth per thread.
const DEPTH: u32 = 16;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WayName {
    /// pread(2), a buffer per thread.
    Pread,
    /// mmap(2).
    Mmap,
    /// pread(2) with O_DIRECT.
    Direct,
    /// io_uring with O_DIRECT.
    Ring,
    /// Sequential read(2).
    Read,
}

const EXAMPLES: &str = "\
Examples:
  fathom file read FILE                             the whole file in blocks of 1 MiB
  fathom file read FILE --block 64K                 the whole file in blocks of 64 KiB
  fathom file read FILE --block 1 --count 1000000   a million calls of one byte
  fathom file read FILE --block 1M --state cold --repeat 5
  fathom file read FILE --block 256K --threads 2 --way mmap
  fathom file read /dev/vda --block 1M --count 1000 --state direct

XOR-32 is the exclusive or of the little-endian words of 4 bytes, the last padded with zeroes. The
position sum, Σ (i + 1) · word i modulo 2^64, also detects reordered words.";

/// Read a file block by block, and compare its rate with a model.
#[derive(Clone, Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Read {
    /// File or block device.
    file: PathBuf,
    /// Block size.
    #[arg(long, short, value_name = "SIZE", value_parser = block, default_value = "1MiB")]
    block: usize,
    /// Blocks to read [default: the whole file].
    #[arg(long, short = 'n', value_name = "N", value_parser = block_count)]
    count: Option<u64>,
    /// Cache state of the file.
    #[arg(long, value_enum, default_value_t = StateName::AsIs)]
    state: StateName,
    /// How to read [default: read; pread with several threads; direct with `--state direct`].
    #[arg(long, value_enum, value_name = "WAY")]
    way: Option<WayName>,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Queue depth per thread, with `--way ring` [default: 16].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: Option<u32>,
    /// Number of passes; with 12 or more the result has a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// End after this time, and report what was read.
    #[arg(long, value_name = "TIME", value_parser = time)]
    time_limit: Option<Duration>,
    /// Continue after unreadable ranges, and report each.
    #[arg(long)]
    keep_going: bool,
    /// Drop caches of the whole machine before each pass, which slows all processes. Needs root.
    #[arg(long, value_enum, value_name = "WHAT")]
    drop_caches: Option<DropName>,
}

impl Procedure for Read {
    fn asked(&self) -> String {
        let times = self.count.map_or(String::new(), |count| format!(" × {count}"));
        format!("{}, {}{times}", printable(&self.file), binary_size(self.block as i64))
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> ByHandResult<()> {
        if self.depth.is_some() && self.way != Some(WayName::Ring) {
            return Err(ProcedureError::usage("--depth: only with --way ring"));
        }
        let source = PathInfoSource::open(&self.file).map_err(ProcedureError::failed)?;
        self.for_source(&source).0.state_and_way(&source).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let source = PathInfoSource::open(&self.file).map_err(ProcedureError::failed)?;
        let (read, note) = self.for_source(&source);
        read.measure(recorder, &source, note)
    }
}

impl Read {
    /// Without a stable size, as in /proc, a file is generated as it is read: by one thread, once.
    /// With a note if more was requested.
    fn for_source(&self, source: &PathInfoSource) -> (Self, Option<String>) {
        let mut read = self.clone();
        let is_generated = source.info().size.is_none() && source.info().kind == FileKind::Regular;
        if !is_generated || (read.threads, read.repeat) == (1, 1) {
            return (read, None);
        }
        (read.threads, read.repeat) = (1, 1);
        let note = "read by 1 thread in 1 pass: the kernel generates the file when it is read, \
                    and each read may have other content";
        (read, Some(note.to_owned()))
    }

    fn measure(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        note: Option<String>,
    ) -> ByHandResult<Ending> {
        let (state, way) = self.state_and_way(source)?;
        let limit = recorder.stop().after(self.time_limit, source.info().size.is_none())?;
        let what = format!("reading {}", source.info().size.map_or_else(String::new, size));
        let record = |recorder: &mut dyn Recorder, passes: &[Pass], disturbance| {
            let cap = cap(self, source, way, passes);
            let measured = self.measured(source, (state, way), passes, cap.as_ref());
            let facts = self.facts(recorder, source, way, passes, &measured);
            let facts = facts.into_iter().chain(cap.iter().flat_map(Cap::facts));
            let note = note.iter().map(|note| Fact::text("note", note));
            let facts = facts.chain(note).collect();
            recorder.record(Measured { facts, disturbance: vec![disturbance], ..measured });
        };
        let (mut passes, disturbance) = by_hand::repeated(
            recorder,
            (self.repeat, &what),
            |recorder, _| self.pass(recorder, source, state, way).map(Some),
            |pass| pass.outcome.stopped || is_bad(pass),
            record,
        )?;
        drop(limit);
        // The facts describe the last pass: drop one that was stopped before it read anything.
        if passes.len() > 1 {
            passes.pop_if(|last| last.outcome.stopped && last.outcome.sum.bytes == 0);
        }
        record(recorder, &passes, disturbance);
        Ok(if passes.iter().any(is_bad) { Ending::Faulty } else { Ending::Done })
    }

    /// Resolves the defaults of --state and --way, which depend on each other.
    fn state_and_way(&self, source: &PathInfoSource) -> ByHandResult<(StateName, Way)> {
        by_hand::check_length(self.block, self.count.unwrap_or(0))?;
        let past_cache = matches!(self.way, Some(WayName::Direct | WayName::Ring));
        let state = match (self.state, past_cache) {
            (StateName::AsIs, true) => StateName::Direct,
            (StateName::Cold | StateName::Warm, true) => {
                let text = "--way direct and ring bypass the page cache: --state cold and warm do \
                            not apply";
                return Err(ProcedureError::usage(text));
            }
            (state, _) => state,
        };
        // No calls past the end of the file.
        let blocks = source.info().size.map(|bytes| bytes.div_ceil(self.block as u64));
        let count = self.count.map(|count| blocks.map_or(count, |blocks| count.min(blocks)));
        let way = match (self.way, state, self.threads) {
            (Some(WayName::Direct), ..) | (None, StateName::Direct, _) => Way::Direct,
            (Some(WayName::Ring), ..) => Way::Ring { depth: self.depth.unwrap_or(DEPTH) },
            (Some(_), StateName::Direct, _) => {
                let text = "--state direct needs --way direct or ring";
                return Err(ProcedureError::usage(text));
            }
            (Some(WayName::Mmap), ..) => Way::Map,
            (Some(WayName::Pread), ..) => Way::Pread,
            (Some(WayName::Read), _, 2..) => {
                return Err(ProcedureError::usage(
                    "--way read is sequential: use --threads 1, or --way pread",
                ));
            }
            (None, _, 2..) => Way::Pread,
            (Some(WayName::Read) | None, ..) => Way::Calls { count },
        };
        if self.count.is_none() && source.info().kind == FileKind::Character {
            let path = printable(&self.file);
            let text = format!("{path} has no end: needs a number of blocks, such as --count 1000");
            return Err(ProcedureError::failed(text));
        }
        Ok((state, way))
    }

    /// Prepares the state and reads the file once.
    fn pass(
        &self,
        recorder: &dyn Recorder,
        source: &PathInfoSource,
        state: StateName,
        way: Way,
    ) -> ByHandResult<(Pass, Disturbance)> {
        let stop = recorder.stop().now();
        let before = cache_state::prepare(source, state, self.drop_caches, stop)?;
        let range = match (way, self.count) {
            (Way::Calls { .. }, _) | (_, None) => None,
            (_, Some(count)) => Some(0..self.block as u64 * count),
        };
        let request = ReadRequest {
            way,
            range,
            origin: None,
            block: self.block,
            threads: usize::from(self.threads),
            keep_going: self.keep_going,
            stop,
            look: None,
            // A time limit says how long to wait.
            patience: self.time_limit.is_none().then_some(PATIENCE),
        };
        let (pass, counted) = Pass::read(recorder, source, &request, before)?;
        Ok((pass, by_hand::without_own_waits(counted, request.threads)))
    }

    fn measured(
        &self,
        source: &PathInfoSource,
        (state, way): (StateName, Way),
        passes: &[Pass],
        cap: Option<&Cap>,
    ) -> Measured {
        let last = &passes[passes.len() - 1];
        let states: Vec<&str> = passes.iter().map(|pass| pass.before.state.name()).collect();
        let state_name = match state {
            StateName::Direct => "direct",
            _ => by_hand::state_of_all(&states),
        };
        let params = Params::one("block", self.block as i64)
            .and("state", state_name)
            .and("threads", i64::from(self.threads))
            .and("way", way_name(way))
            .and("file_bytes", last.outcome.sum.bytes as i64);
        let params = match way {
            Way::Ring { depth } => params.and("depth", i64::from(depth)),
            _ => params,
        };
        let verdict = invalid_verdict(passes, source, state).or_else(|| nothing_read(passes));
        let waited = passes.iter().any(|pass| pass.outcome.has_no_data).then_some(WAITED);
        let waited = waited
            .map(|text| Verdict::because(fathom_record::State::Invalid, Cause::TooShort, text));
        let verdict = verdict.or(waited);
        let values = rates(passes);
        let remarks = cap.and_then(|cap| cap.reached(&values)).into_iter().collect();
        let mut doubts = cache_state::doubts(source, state, &passes[0].before);
        doubts.extend(empty_passes(passes));
        doubts.extend(by_hand::other_states(&states).filter(|_| state != StateName::Direct));
        doubts.extend(passes.iter().find_map(|pass| too_short(pass.outcome.ns, 0.0)));
        if passes.iter().any(|pass| pass.outcome.sum.xor != passes[0].outcome.sum.xor)
            && !passes.iter().any(|pass| pass.outcome.stopped)
        {
            let text = "the passes read different content";
            doubts.push(Reason::new(Cause::WrongWork, text));
        }
        Measured {
            metric: "file.read.throughput",
            params,
            values,
            checks: checks(source, last),
            verdict,
            doubts,
            remarks,
            prediction: cap.and_then(|cap| cap.prediction(last.outcome.sum.bytes)),
            ..Measured::default()
        }
    }

    /// A few passes one by one, and the details of the last.
    fn facts(
        &self,
        recorder: &dyn Recorder,
        source: &PathInfoSource,
        way: Way,
        passes: &[Pass],
        measured: &Measured,
    ) -> Vec<Fact> {
        let last = &passes[passes.len() - 1];
        let ReadOutcome { sum, ns, calls, fallbacks, .. } = &last.outcome;
        let blocks = sum.bytes.div_ceil(self.block as u64);
        let by = format!("; by {}, {}", way_name(way), threads(self.threads.into()));
        let mut facts = vec![
            Fact::text("file", cache_state::describe_file(source)),
            Fact::text("read", amount(blocks, self.block, sum.bytes) + &by),
        ];
        let has_number = measured.verdict.is_none();
        if (2..=LINES).contains(&passes.len()) {
            facts.extend(
                (1..).zip(passes).map(|(number, pass)| pass_fact(number, pass, has_number)),
            );
        }
        if passes.len() > 1 {
            facts.push(Fact::text("passes", format!("{}; details of the last:", passes.len())));
        }
        let guest = cache_state::in_guest(recorder.host(), last.before.state);
        facts.push(Fact::text("before", cache_state::describe(&last.before) + guest));
        facts.push(Fact::quantity("time", *ns, Unit::Nanoseconds));
        if passes.len() > 1 {
            // The record's is the median of all.
            facts.push(Fact::quantity("speed", last.rate(), Unit::BytesPerSecond));
        }
        if last.outcome.changed.is_none() {
            // One call of io_uring takes many.
            let what = if matches!(way, Way::Ring { .. }) { "reads" } else { "calls" };
            facts.push(Fact::quantity(what, 1e9 * *calls as f64 / ns, Unit::PerSecond));
            facts.extend(sum_facts(*sum));
        }
        let device = last.device_bytes;
        facts.extend(device.map(|bytes| Fact::quantity("from devices", bytes as f64, Unit::Bytes)));
        if *fallbacks > 0 {
            facts.push(Fact::text("fallbacks", format!("{fallbacks} of {calls} calls")));
        }
        let fault = |fault| Fact::text("unreadable", by_hand::describe_fault(fault));
        facts.extend(last.outcome.faults.iter().map(fault));
        let ended = last.outcome.ended_at;
        facts.extend(ended.map(|at| Fact::text("ended", format!("the file ends at byte {at}"))));
        if last.outcome.stopped {
            let why = if last.outcome.has_no_data {
                let wait_s = PATIENCE.as_secs();
                format!(": no data for {wait_s} s; --time-limit sets how long to wait")
            } else {
                String::new()
            };
            facts.push(Fact::text("stopped", format!("after {} bytes{why}", sum.bytes)));
        }
        facts
    }
}

/// Whether the pass is no read of one content: unreadable ranges, or a changed file.
fn is_bad(pass: &Pass) -> bool {
    !pass.outcome.faults.is_empty() || pass.outcome.changed.is_some()
}

/// The I/O limits of the control group, unless all passes read from the page cache.
fn cap(read: &Read, source: &PathInfoSource, way: Way, passes: &[Pass]) -> Option<Cap> {
    let is_warm = |pass: &Pass| pass.before.state == residency::ResidencyState::Warm;
    if !way.is_direct() && passes.iter().all(is_warm) {
        return None;
    }
    Cap::on_reads(source.file(), way.is_direct().then_some(read.block))
}

fn pass_fact(number: u32, pass: &Pass, has_number: bool) -> Fact {
    let rate =
        if has_number { quantity(pass.rate(), Unit::BytesPerSecond) } else { NOTHING.to_owned() };
    let state = match pass.outcome.bypass {
        Some(_) => "direct".to_owned(),
        None => pass.before.state.name().to_uppercase(),
    };
    let seconds = pass.seconds();
    Fact::text("pass", format!("{number}: {state}, {seconds:.6} s, {rate}"))
}
