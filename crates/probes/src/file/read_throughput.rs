//! file.read.throughput: bytes a second of a file that is read block by block and added up.

use std::cell::RefCell;

use fathom_fileio::read::{Bypass, Outcome, ReadError, Request, Way};
use fathom_fileio::residency::Residency;
use fathom_fileio::traffic;
use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work, affinity};
use fathom_record::{
    Better, Effort, Host, NoModel, NotSelected, Params, Prediction, Stratum, Unit,
};

use super::LARGE_BYTES;
use super::held::Large;
use super::model::{self, Kind};
use super::state::{State, TRIES, words};
use fathom_metric::{About, Case, Disk, Inputs, Needs, Parameter, Probe, Sizes};

/// file.read.throughput.
pub struct ReadThroughput;

static ABOUT: About = About {
    id: "file.read.throughput",
    title: "file read",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading a file, or the first so many blocks of it (in a run: the next 16 MiB of a file \
            of 64 MiB), with the XOR-32 and the position sum of its content: from when all \
            threads are ready until the last has ended",
    not_timed: "opening the file, getting buffers, the look at what of it is in memory, and \
                putting it there or out of there",
    model: "warm, by read or pread: bytes ÷ (calls × file.call{call=read1} ÷ threads + 2 × bytes ÷ \
            memory.bandwidth{op=copy} + bytes ÷ (threads × memory.bandwidth{op=read} of the cache \
            that holds the buffer)), ± 30 %; mmap: an order, ≤ memory.bandwidth{op=read}. Cold: \
            an order, ≤ warm. Direct: none without a figure of the device",
    source: "Linux mm/filemap.c: filemap_read copies from the page cache, folio by folio; the rate \
             of a copy counts the bytes read and those written; then the block is summed from a \
             cache",
    pitfalls: &[
        "a file that is partly in memory has two speeds: what of it is there is counted by \
         cachestat and mincore before each pass, and said as COLD, MIXED, WARM or UNKNOWN; \
         a pass that was asked for cold and was not is invalid",
        "holes and reserved space that was never written are read without a device: what share of \
         the file is data is looked up first, and said where it is not all",
        "in a guest, cold means that the guest's memory holds nothing of it: the host's may",
        "a program that does not look at what it reads measures a copy; each block is summed \
         while it is in the core's cache, and in a run the sums are held against those of what \
         was written",
        "a file that fits the last-level cache is read from there the second time: in a run each \
         pass reads another part of a file that is larger",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call; never rounded" },
        Parameter {
            name: "state",
            values: "cold, warm, mixed, unknown, direct",
            meaning: "what of the file was in memory when it was begun; past the page cache",
        },
        Parameter { name: "threads", values: "1, 2, …", meaning: "each reads parts of its own" },
        Parameter {
            name: "way",
            values: "read, pread, mmap, direct, ring",
            meaning: "calls one after another; by offset; mapped; O_DIRECT; io_uring, O_DIRECT",
        },
        Parameter {
            name: "file_bytes",
            values: "bytes",
            meaning: "read in all; of sweeps and caches, the size of the file",
        },
    ],
    needs: &["file.call", "memory.bandwidth"],
    ..super::OF_RUNS
};

/// Bytes of a pass.
const PASS_BYTES: i64 = 16 << 20;
const SMOKE_BYTES: i64 = 256 << 10;

impl Probe for ReadThroughput {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        match (case.params.text("state"), case.params.integer("threads")) {
            (Some("warm"), Some(1)) => Ok(Stratum::CoreAtFullSpeed),
            (Some("warm"), _) => Err(NotSelected::SecondCpu),
            _ => Err(NotSelected::Device),
        }
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(Disk { large: LARGE_BYTES, own: 0 }), far: None }
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case> {
        let all = host.cpu.allowed.len().max(2) as i64;
        let mut kinds = vec![
            (4 << 10, "warm", 1, "read"),
            (64 << 10, "warm", 1, "read"),
            (1 << 20, "warm", 1, "read"),
            (256 << 10, "warm", all, "pread"),
            (1 << 20, "cold", 1, "read"),
            (1 << 20, "direct", 1, "direct"),
        ];
        if sizes.effort != Effort::Quick {
            kinds.push((256 << 10, "warm", all, "mmap"));
            kinds.push((1 << 20, "direct", 1, "ring"));
        }
        let (bytes, most) = match sizes.smoke {
            true => (SMOKE_BYTES, 64 << 10),
            false => (PASS_BYTES, i64::MAX),
        };
        let case = |(block, state, threads, way): (i64, &str, i64, &str)| {
            let params = Params::one("block", block.min(most)).and("state", state);
            let params = params.and("threads", threads).and("way", way).and("file_bytes", bytes);
            // A warm-up and 12 passes, at 1 GB/s and at 5; and a share of warming the whole file.
            let cost_ns = if state == "warm" { 80e6 } else { 240e6 };
            Case { params, cost_ns }
        };
        kinds.into_iter().map(case).collect()
    }

    fn predict(&self, case: &Case, host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        match Kind::of(&case.params) {
            Some(kind) => model::read(kind, &case.params, host, known),
            None => Err(NoModel::no_such_case(&case.params)),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let files = sampler.files()?;
        let kinds: Vec<Option<Kind>> = cases.iter().map(|case| Kind::of(&case.params)).collect();
        let part = kinds.iter().flatten().map(|kind| kind.bytes).max().unwrap_or(0);
        let large = Large::open(&files, part)?;
        let cpus = sampler.cpus().to_vec();
        let home = sampler.settings().cpu;
        // One state after another: the file is brought from memory to the device once a visit.
        for state in State::ALL {
            let mut passes = Vec::new();
            for (index, (case, kind)) in cases.iter().zip(&kinds).enumerate() {
                match kind.map(|kind| (kind, kind.state, kind.way)) {
                    Some((kind, Some(its), Some(way))) if kind.bytes == part => {
                        if its == state {
                            let pass = Pass::new(&large, (kind, state, way), (&cpus, home));
                            passes.push((index, RefCell::new(pass)));
                        }
                    }
                    _ => {
                        let text = format!("{} is no such case", case.params);
                        sampler.fault(index, Fault::Failed(text));
                    }
                }
            }
            let works = passes.iter().map(|(index, pass)| {
                Work::single(vec![*index], |clock, values| {
                    values[0] = pass.borrow_mut().take(clock)?;
                    Ok(())
                })
            });
            let works: Vec<Work<'_>> = works.collect();
            if works.is_empty() {
                continue;
            }
            sampler.run(works);
            for (index, pass) in passes {
                pass.into_inner().tell(index, sampler);
            }
        }
        Ok(())
    }
}

/// One case's passes over the large file, part by part.
struct Pass<'v> {
    large: &'v Large,
    kind: Kind,
    state: State,
    way: Way,
    /// All CPUs of the visit, and the one it is pinned to: threads inherit the pin.
    cpus: &'v [u32],
    home: u32,
    taken: usize,
    /// Passes that were taken again, since the file was not all in memory behind them.
    again: u32,
    before: Option<Residency>,
    bytes: u64,
    fetched: Option<u64>,
}

impl<'v> Pass<'v> {
    fn new(
        large: &'v Large,
        (kind, state, way): (Kind, State, Way),
        (cpus, home): (&'v [u32], u32),
    ) -> Self {
        Self {
            large,
            kind,
            state,
            way,
            cpus,
            home,
            taken: 0,
            again: 0,
            before: None,
            bytes: 0,
            fetched: Some(0),
        }
    }

    /// Takes a pass in its state: bytes a second.
    fn take(&mut self, clock: &Clock) -> Result<f64, Fault> {
        let file = self.large.file();
        for _ in 0..TRIES {
            self.before = Some(self.state.prepare(file)?);
            let fetched = traffic::fetched();
            let outcome = self.read(clock)?;
            let more = traffic::since(fetched);
            self.fetched = self.fetched.zip(more).map(|(sum, more)| sum + more);
            self.bytes += outcome.sum.bytes;
            if self.state.has_held(file, more) {
                return Ok(1e9 * outcome.sum.bytes as f64 / outcome.ns);
            }
            self.again += 1;
        }
        Err(self.state.unheld())
    }

    /// Reads the next part, and holds it against what was written.
    fn read(&mut self, clock: &Clock) -> Result<Outcome, Fault> {
        let (at, expected) = self.large.part(self.taken);
        self.taken += 1;
        let Kind { block, threads, bytes, .. } = self.kind;
        let range = Some(at..at + bytes);
        let request = Request { range, block, threads, ..Request::whole(self.way) };
        let outcome = {
            let _spread = (threads > 1).then(|| Spread::over(self.cpus, self.home));
            fathom_fileio::read(&self.large.source, &request, clock)
        };
        let outcome = outcome.map_err(|error| match error {
            ReadError::Unavailable { .. } => Fault::Unavailable(error.to_string(), None),
            _ => Fault::Failed(error.to_string()),
        })?;
        if let Some(fault) = outcome.faults.first() {
            let error = std::io::Error::from_raw_os_error(fault.error);
            return Err(Fault::Failed(format!("read at byte {}: {error}", fault.at)));
        }
        if outcome.sum != expected {
            return Err(Fault::WrongWork(format!(
                "what was read is not what was written: {:?} at byte {at}, not {expected:?}",
                outcome.sum
            )));
        }
        if outcome.bypass == Some(Bypass::Buffered) {
            return Err(State::Direct.unheld());
        }
        Ok(outcome)
    }

    /// Hands what was verified to the sampler.
    fn tell(self, index: usize, sampler: &mut Sampler) {
        let Some(before) = self.before else { return };
        let held = match self.state {
            State::Warm => format!(", before and after each pass; {} taken again", self.again),
            State::Cold => ", before each pass".to_owned(),
            State::Direct => ", before and after each pass: nothing went by it".to_owned(),
        };
        sampler.check(index, "in memory", true, words(&before) + &held);
        let text = format!("XOR-32, position sum and bytes of {} passes as written", self.taken);
        sampler.check(index, "content", true, text);
        let fetched = self.fetched.map_or("untold".to_owned(), |bytes| bytes.to_string());
        let text = format!("{fetched} from devices for {} of the program's", self.bytes);
        sampler.check(index, "bytes", true, text);
    }
}

/// The calling thread, and with it those that it starts, may run on all CPUs of the visit, until
/// this is gone.
struct Spread(u32);

impl Spread {
    fn over(cpus: &[u32], home: u32) -> Self {
        // Where it is refused the threads share one CPU, and the number shows it.
        let _ = affinity::pin_to(cpus);
        Self(home)
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        let _ = affinity::pin(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn threads_may_run_everywhere_and_the_pin_is_put_back() {
        let all = affinity::allowed();
        smoke::pinned(|cpu| {
            let spread = Spread::over(&all, cpu);
            assert_eq!(affinity::allowed(), all);
            drop(spread);
            assert_eq!(affinity::allowed(), [cpu]);
        });
    }
}
