//! `fathom file read`: block by block, as often as asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fathom_fileio::read::{Outcome, Request, Way};
use fathom_fileio::{Source, residency};
use fathom_metric::notation::{count, time};
use fathom_metric::{Ending, Measured, Procedure, ProcedureError, Recorder};
use fathom_record::quantity::{NOTHING, quantity};
use fathom_record::{Cause, Disturbance, Fact, Params, Reason, Unit};

use super::by_hand::{self, amount, name_of, shown, size, sum_facts, threads};
use super::cap::Cap;
use super::conditions;
use super::options::{DropName, StateName, block};
use super::passes::{Pass, changed, checks, rates, spoilt};

/// So many passes have a line each.
const LINES: usize = 10;

/// A way of reading, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WayName {
    /// pread(2) into a buffer of each thread's.
    Pread,
    /// Mapped pages.
    Mmap,
    /// pread(2) past the page cache.
    Direct,
    /// io_uring past the page cache.
    Ring,
    /// read(2), one after another, as the simplest of programs does it.
    Read,
}

const EXAMPLES: &str = "\
Examples:
  fathom file read FILE --block 64K                 all of it, in blocks of 64 KiB
  fathom file read FILE --block 1 --count 1000000   a million calls of a byte each
  fathom file read FILE --block 1M --state cold --repeat 5
  fathom file read FILE --block 256K --threads 2 --way mmap
  fathom file read /dev/vda --block 1M --count 1000 --state direct

XOR-32 is the exclusive or of the little-endian words of 4 bytes, the last padded with zeroes. The
position sum, Σ (i + 1) · word i modulo 2^64, sees what XOR cannot: words in another order.";

/// Read a file block by block, add it up, and say how fast, from where, and whether it should.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Read {
    /// The file, or a block device.
    file: PathBuf,
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: usize,
    /// Read so many blocks; the whole file where it is not given.
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// From memory, from the device, or as the file is found.
    #[arg(long, value_enum, default_value_t = StateName::AsIs)]
    state: StateName,
    /// How it is read [default: read; pread with several threads; direct with `--state direct`].
    #[arg(long, value_enum, value_name = "WAY")]
    way: Option<WayName>,
    /// Threads that read it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Reads of each thread that are under way at once, with `--way ring`.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Passes; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// End after this time, and tell what was read by then.
    #[arg(long, value_name = "TIME", value_parser = time)]
    time_limit: Option<Duration>,
    /// Go on behind a place that cannot be read, and tell every such place.
    #[arg(long)]
    keep_going: bool,
    /// Drop caches of the whole machine before each pass: every program becomes slower for it.
    /// Needs root.
    #[arg(long, value_enum, value_name = "WHAT")]
    drop_caches: Option<DropName>,
}

impl Procedure for Read {
    fn asked(&self) -> String {
        shown(&self.file)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> Result<(), ProcedureError> {
        let source = Source::open(&self.file).map_err(ProcedureError::failed)?;
        self.state_and_way(&source).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let source = Source::open(&self.file).map_err(ProcedureError::failed)?;
        let (state, way) = self.state_and_way(&source)?;
        let limit = recorder.stop().after(self.time_limit, source.subject().size.is_none());
        let what = format!("reading {}", source.subject().size.map_or_else(String::new, size));
        let (mut passes, disturbance) = by_hand::repeated(
            recorder,
            (self.repeat, &what),
            |recorder, _| self.pass(recorder, &source, state, way).map(Some),
            |pass| pass.outcome.stopped || !pass.outcome.faults.is_empty(),
        )?;
        drop(limit);
        // A pass that was stopped before it read anything hides those before it.
        if passes.len() > 1 {
            passes.pop_if(|last| last.outcome.stopped && last.outcome.sum.bytes == 0);
        }
        let cap = cap(self, &source, way, &passes);
        let measured = self.measured(&source, (state, way), &passes, cap.as_ref());
        let facts = self.facts(recorder, &source, way, &passes, &measured);
        let facts = facts.into_iter().chain(cap.iter().flat_map(Cap::facts)).collect();
        recorder.record(Measured { facts, disturbance, ..measured });
        let is_faulty = passes.iter().any(|pass| !pass.outcome.faults.is_empty());
        Ok(if is_faulty { Ending::Faulty } else { Ending::Done })
    }
}

impl Read {
    /// What was asked for, in terms of each other.
    fn state_and_way(&self, source: &Source) -> Result<(StateName, Way), ProcedureError> {
        by_hand::check_length(self.block, self.count.unwrap_or(0))?;
        let past_cache = matches!(self.way, Some(WayName::Direct | WayName::Ring));
        let state = match (self.state, past_cache) {
            (StateName::AsIs, true) => StateName::Direct,
            (StateName::Cold | StateName::Warm, true) => {
                let text = "--way direct and ring read past the page cache, where nothing is cold \
                            or warm; leave out --state";
                return Err(ProcedureError::usage(text));
            }
            (state, _) => state,
        };
        // Calls behind the end read nothing.
        let blocks = source.subject().size.map(|bytes| bytes.div_ceil(self.block as u64));
        let count = self.count.map(|count| blocks.map_or(count, |blocks| count.min(blocks)));
        let way = match (self.way, state, self.threads) {
            (Some(WayName::Direct), ..) | (None, StateName::Direct, _) => Way::Direct,
            (Some(WayName::Ring), ..) => Way::Ring { depth: self.depth },
            (Some(_), StateName::Direct, _) => {
                let text = "--state direct reads past the page cache: give --way direct or ring, \
                            or none";
                return Err(ProcedureError::usage(text));
            }
            (Some(WayName::Mmap), ..) => Way::Map,
            (Some(WayName::Pread), ..) => Way::Pread,
            (Some(WayName::Read), _, 2..) => {
                return Err(ProcedureError::usage(
                    "--way read is one call after another: give --threads 1, or pread",
                ));
            }
            (None, _, 2..) => Way::Pread,
            (Some(WayName::Read) | None, ..) => Way::Calls { count },
        };
        if self.count.is_none() && source.subject().kind == fathom_fileio::subject::Kind::Character
        {
            let path = shown(&self.file);
            return Err(ProcedureError::usage(format!(
                "{path} has no end: say how many blocks, as --count 1000"
            )));
        }
        Ok((state, way))
    }

    /// Brings the file into its state and reads it once.
    fn pass(
        &self,
        recorder: &dyn Recorder,
        source: &Source,
        state: StateName,
        way: Way,
    ) -> Result<(Pass, Disturbance), ProcedureError> {
        let stop = recorder.stop().now();
        let before = conditions::prepare(source, state, self.drop_caches, stop)?;
        let range = match (way, self.count) {
            (Way::Calls { .. }, _) | (_, None) => None,
            (_, Some(count)) => Some(0..self.block as u64 * count),
        };
        let request = Request {
            way,
            range,
            origin: None,
            block: self.block,
            threads: usize::from(self.threads),
            keep_going: self.keep_going,
            stop,
        };
        let (pass, counted) = Pass::read(recorder, source, &request, before)?;
        Ok((pass, by_hand::without_own_waits(counted, request.threads)))
    }

    fn measured(
        &self,
        source: &Source,
        (state, way): (StateName, Way),
        passes: &[Pass],
        cap: Option<&Cap>,
    ) -> Measured {
        let last = &passes[passes.len() - 1];
        let states: Vec<&str> = passes.iter().map(|pass| pass.before.state.word()).collect();
        let word = match state {
            StateName::Direct => "direct",
            _ => by_hand::state_of_all(&states),
        };
        let params = Params::one("block", self.block as i64)
            .and("state", word)
            .and("threads", i64::from(self.threads))
            .and("way", name_of(way))
            .and("file_bytes", last.outcome.sum.bytes as i64);
        let params = match way {
            Way::Ring { depth } => params.and("depth", i64::from(depth)),
            _ => params,
        };
        let verdict = spoilt(passes, source, state).or_else(|| by_hand::nothing_done(last.bytes()));
        let values = rates(passes);
        let remarks = cap.and_then(|cap| cap.reached(&values)).into_iter().collect();
        let mut doubts = conditions::doubts(source, state, &passes[0].before);
        doubts.extend(passes.iter().find_map(changed));
        doubts.extend(by_hand::other_states(&states).filter(|_| state != StateName::Direct));
        doubts.extend(by_hand::too_short(passes.iter().map(|pass| pass.outcome.ns)));
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

    /// What was read, pass by pass where they are few, and what stands beside the last.
    fn facts(
        &self,
        recorder: &dyn Recorder,
        source: &Source,
        way: Way,
        passes: &[Pass],
        measured: &Measured,
    ) -> Vec<Fact> {
        let last = &passes[passes.len() - 1];
        let Outcome { sum, ns, calls, fallbacks, .. } = &last.outcome;
        let blocks = sum.bytes.div_ceil(self.block as u64);
        let by = format!("; by {}, {}", name_of(way), threads(self.threads.into()));
        let mut facts = vec![
            Fact::text("file", conditions::place(source)),
            Fact::text("read", amount(blocks, self.block, sum.bytes) + &by),
        ];
        let has_number = measured.verdict.is_none();
        if (2..=LINES).contains(&passes.len()) {
            facts.extend(
                (1..).zip(passes).map(|(number, pass)| pass_fact(number, pass, has_number)),
            );
        }
        if passes.len() > 1 {
            let text = format!("{}; what follows is of the last", passes.len());
            facts.push(Fact::text("passes", text));
        }
        let guest = conditions::in_guest(recorder.host(), last.before.state);
        facts.push(Fact::text("before", conditions::proof(&last.before) + guest));
        facts.push(Fact::quantity("time", *ns, Unit::Nanoseconds));
        facts.push(Fact::quantity("calls", 1e9 * *calls as f64 / ns, Unit::PerSecond));
        facts.extend(sum_facts(*sum));
        let device = last.device_bytes;
        facts.extend(device.map(|bytes| Fact::quantity("from devices", bytes as f64, Unit::Bytes)));
        if *fallbacks > 0 {
            let text = format!("{fallbacks} of {calls} calls of another kind");
            facts.push(Fact::text("beside", text));
        }
        let fault = |fault| Fact::text("unreadable", by_hand::fault_words(fault));
        facts.extend(last.outcome.faults.iter().map(fault));
        let ended = last.outcome.ended_at;
        facts.extend(ended.map(|at| Fact::text("ended", format!("the file ends at byte {at}"))));
        if last.outcome.stopped {
            facts.push(Fact::text("stopped", format!("after {} bytes", sum.bytes)));
        }
        facts
    }
}

/// What the control group allows, where the passes went to the device at all.
fn cap(read: &Read, source: &Source, way: Way, passes: &[Pass]) -> Option<Cap> {
    let is_past_cache = matches!(way, Way::Direct | Way::Ring { .. });
    let is_warm = |pass: &Pass| pass.before.state == residency::State::Warm;
    if !is_past_cache && passes.iter().all(is_warm) {
        return None;
    }
    Cap::on_reads(source.file(), is_past_cache.then_some(read.block))
}

/// One pass in a line.
fn pass_fact(number: u32, pass: &Pass, has_number: bool) -> Fact {
    let rate = match has_number {
        true => quantity(pass.rate(), Unit::BytesPerSecond),
        false => NOTHING.to_owned(),
    };
    let word = match pass.outcome.bypass {
        Some(_) => "direct".to_owned(),
        None => pass.before.state.word().to_uppercase(),
    };
    let seconds = pass.seconds();
    Fact::text("pass", format!("{number}: {word}, {seconds:.6} s, {rate}"))
}
