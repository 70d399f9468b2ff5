//! file.read.throughput: bytes per second of reading and checksumming a file.

use std::cell::{Cell, RefCell};

use fathom_fileio::read::{Bypass, ReadError, ReadOutcome, ReadRequest, Way};
use fathom_fileio::residency::{self, Residency};
use fathom_fileio::{XorSum, proc_io};

use super::LARGE_BYTES;
use super::generated_file::LargeFile;
use super::model::{self, DIRECT_BLOCK, PASS_BYTES, ReadCase};
use super::state::{FileState, TRIES, describe};
use crate::prelude::*;

metric!(ReadThroughput, ABOUT);

static ABOUT: About = About {
    id: model::THROUGHPUT,
    title: "file read",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading and checksumming a file or its first blocks (in a run: the next 16 MiB of a \
            file of 64 MiB), from when all threads are ready until the last ends",
    not_timed: "opening the file, allocating buffers, checking the residency, evicting or warming \
                the file",
    model: "warm, by read or pread: bytes ÷ (calls × file.call{call=read1} ÷ threads + bytes ÷ \
            memory.bandwidth{op=copy} + bytes ÷ 2 ÷ memory.bandwidth{op=read} + bytes ÷ (threads \
            × memory.bandwidth{op=read} of the cache that holds the buffer)): half of the buffer \
            is written to memory, ± half of the difference between none and all of it, 20 to 30 \
            %; mmap: bound, ≤ memory.bandwidth{op=read}. Cold: bounds, ≥ 0.7 × bytes ÷ (bytes ÷ \
            direct + bytes ÷ warm) and ≤ warm; no value, as the depth of the readahead is not \
            known. Direct: none without a figure of the device",
    source: "Linux mm/filemap.c: filemap_read copies from the page cache, folio by folio; the copy \
             bandwidth counts bytes read and written; then the block is summed from the CPU cache",
    pitfalls: &[
        "a partly cached file has two speeds: cachestat and mincore count its pages before each \
         pass (COLD, MIXED, WARM or UNKNOWN); a pass requested cold that is not cold is invalid",
        "holes and unwritten extents are read without a device: the share of data is checked first",
        "in a virtual machine the host may cache the file: it is cold in the guest only",
        "a program that ignores the data measures a copy; here each block is summed from the CPU \
         cache, and in a run the sums are verified",
        "a file that fits the last-level cache is read from there the second time: in a run each \
         pass reads another part of a larger file",
    ],
    parameters: &[
        Parameter::new("block", "bytes", "bytes per call, never rounded"),
        Parameter::new(
            "state",
            "cold, warm, mixed, unknown, direct",
            "residency before the pass; O_DIRECT",
        ),
        Parameter::new("threads", "1, 2, …", "each reads its own chunks"),
        Parameter::new(
            "way",
            "read, pread, mmap, direct, ring",
            "read(2); pread(2); mmap(2); pread(2), O_DIRECT; io_uring, O_DIRECT",
        ),
        Parameter::new(
            "file_bytes",
            "bytes",
            "bytes read; of `file sweep` and `file cache`, the size of the file",
        ),
    ],
    needs: &["file.call", "memory.bandwidth"],
    disk: Some(MetricDisk { large: LARGE_BYTES, own: 0 }),
    ..super::OF_RUNS
};

const SMOKE_BYTES: i64 = 256 << 10;

impl Probe for ReadThroughput {
    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        match (case.params.text("state"), case.params.integer("threads")) {
            (Some("warm"), Some(1)) => Ok(Stratum::CoreAtFullSpeed),
            (Some("warm"), _) => Err(NotSelected::SecondCpu),
            _ => Err(NotSelected::Device),
        }
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let all = host.cpu.allowed.len().max(2) as i64;
        let mut kinds = vec![
            (4 << 10, "warm", 1, "read"),
            (64 << 10, "warm", 1, "read"),
            (1 << 20, "warm", 1, "read"),
            (256 << 10, "warm", all, "pread"),
            // A cold read is predicted from the direct one.
            (DIRECT_BLOCK, "direct", 1, "direct"),
            (1 << 20, "cold", 1, "read"),
        ];
        if sizes.effort != Effort::Quick {
            kinds.push((256 << 10, "warm", all, "mmap"));
            kinds.push((1 << 20, "direct", 1, "ring"));
        }
        let (bytes, most) =
            if sizes.smoke { (SMOKE_BYTES, 64 << 10) } else { (PASS_BYTES, i64::MAX) };
        let case = |(block, state, threads, way): (i64, &str, i64, &str)| {
            let params = Params::one("block", block.min(most)).and("state", state);
            let params = params.and("threads", threads).and("way", way).and("file_bytes", bytes);
            // Warm-up and 6 passes, at 1 or 5 GB/s, and a share of warming the whole file.
            let cost_ns = if state == "warm" { 40e6 } else { 140e6 };
            ProbeCase { params, cost_ns }
        };
        kinds.into_iter().map(case).collect()
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        model::read(parsed(&case.params, ReadCase::from_params)?, &case.params, host, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        let kinds: Vec<Option<ReadCase>> =
            cases.iter().map(|case| ReadCase::from_params(&case.params)).collect();
        let part = kinds.iter().flatten().map(|kind| kind.bytes).max().unwrap_or(0);
        let large = LargeFile::open(&files, part)?;
        let parts = large.parts(part)?;
        let cpus = sampler.cpus().to_vec();
        let home = sampler.settings().cpu;
        // State by state, so that the file is evicted once per visit.
        for state in FileState::ALL {
            let (mut passes, last) = (Vec::new(), Cell::new(None));
            for (index, (case, kind)) in cases.iter().zip(&kinds).enumerate() {
                match kind.map(|kind| (kind, kind.state, kind.way)) {
                    Some((kind, Some(its), Some(way))) if kind.bytes == part => {
                        if its == state {
                            let pass = ReadThroughputPass {
                                large: &large,
                                parts: &parts,
                                last: &last,
                                kind,
                                state,
                                way,
                                cpus: &cpus,
                                home,
                                passes: 0,
                                repeated: 0,
                                before: None,
                                bytes: 0,
                                fetched: Some(0),
                            };
                            passes.push((index, RefCell::new(pass)));
                        }
                    }
                    _ => sampler.fault(index, crate::unknown_case(&case.params)),
                }
            }
            let works = passes
                .iter()
                .map(|(index, pass)| single(*index, 1, |clock| pass.borrow_mut().measure(clock)));
            let works: Vec<SamplerWork<'_>> = works.collect();
            if works.is_empty() {
                continue;
            }
            sampler.run(works);
            for (index, pass) in passes {
                pass.into_inner().report(index, sampler);
            }
        }
        Ok(())
    }
}

/// The passes of one case over the large file, part by part.
struct ReadThroughputPass<'v> {
    large: &'v LargeFile,
    parts: &'v [(u64, XorSum)],
    /// The residency after the last pass, until the next one begins.
    last: &'v Cell<Option<Residency>>,
    kind: ReadCase,
    state: FileState,
    way: Way,
    /// All CPUs of the visit, and the one it is pinned to, which new threads inherit.
    cpus: &'v [u32],
    home: u32,
    passes: usize,
    /// Passes repeated because pages were evicted during them.
    repeated: u32,
    before: Option<Residency>,
    bytes: u64,
    fetched: Option<u64>,
}

impl ReadThroughputPass<'_> {
    /// Runs one pass. Returns bytes per second.
    fn measure(&mut self, clock: &Clock) -> Result<f64> {
        let file = self.large.file();
        for _ in 0..TRIES {
            // The count after a pass is that before the next one, of any case.
            let known = self.last.take().filter(|is| self.state.is_state_of(is));
            self.before = Some(known.map_or_else(|| self.state.prepare(file), Ok)?);
            let begun = proc_io::read_bytes();
            let outcome = self.read(clock)?;
            let fetched = proc_io::read_bytes_since(begun);
            self.fetched = self.fetched.zip(fetched).map(|(sum, fetched)| sum + fetched);
            self.bytes += outcome.sum.bytes;
            let is = residency::residency_of(file);
            if self.state.is_kept(&is, fetched) {
                self.last.set(Some(is));
                return Ok(1e9 * outcome.sum.bytes as f64 / outcome.ns);
            }
            self.repeated += 1;
        }
        Err(self.state.lost())
    }

    /// Reads the next part and verifies its sums.
    fn read(&mut self, clock: &Clock) -> Result<ReadOutcome> {
        let (at, expected) = self.parts[self.passes % self.parts.len()];
        self.passes += 1;
        let ReadCase { block, threads, bytes, .. } = self.kind;
        let range = Some(at..at + bytes);
        let request = ReadRequest { range, block, threads, ..ReadRequest::whole(self.way) };
        let outcome = {
            let _unpinned = (threads > 1).then(|| Unpinned::over(self.cpus, self.home));
            fathom_fileio::read(&self.large.source, &request, clock)
        };
        let outcome = outcome.map_err(|error| match error {
            ReadError::Unavailable { .. } => SamplerFault::Unavailable(error.to_string(), None),
            _ => SamplerFault::Failed(error.to_string()),
        })?;
        if let Some(fault) = outcome.faults.first() {
            let error = std::io::Error::from_raw_os_error(fault.error);
            return Err(SamplerFault::Failed(format!("read at byte {}: {error}", fault.at)));
        }
        if outcome.sum != expected {
            return Err(SamplerFault::WrongWork(format!(
                "the data at byte {at} differs from the data written: {:?}, not {expected:?}",
                outcome.sum
            )));
        }
        if outcome.bypass == Some(Bypass::Buffered) {
            return Err(FileState::Direct.lost());
        }
        Ok(outcome)
    }

    /// Adds the checks to the sampler.
    fn report(self, index: usize, sampler: &mut Sampler) {
        let Some(before) = self.before else { return };
        let when = match self.state {
            FileState::Warm => format!("before and after each pass; {} repeated", self.repeated),
            FileState::Cold => "before each pass".to_owned(),
            FileState::Direct => "before and after each pass".to_owned(),
        };
        sampler.check(index, "in memory", true, format!("{}, {when}", describe(&before)));
        let text = format!("XOR-32, position sum and bytes of {} passes as written", self.passes);
        sampler.check(index, "content", true, text);
        let fetched = self.fetched.map_or("unknown".to_owned(), |bytes| bytes.to_string());
        let counts = format!("{fetched} from devices, {} read", self.bytes);
        sampler.check(index, "bytes", true, counts);
    }
}

/// Unpins the calling thread, and the threads that it spawns, until dropped.
struct Unpinned {
    home: u32,
}

impl Unpinned {
    fn over(cpus: &[u32], home: u32) -> Self {
        // If refused, the threads share one CPU, which the result shows.
        let _ = affinity::pin_to(cpus);
        Self { home }
    }
}

impl Drop for Unpinned {
    fn drop(&mut self) {
        let _ = affinity::pin(self.home);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn pin_is_restored_after_a_read() {
        let all = affinity::allowed();
        smoke::pinned(|cpu| {
            let unpinned = Unpinned::over(&all, cpu);
            assert_eq!(affinity::allowed(), all);
            drop(unpinned);
            assert_eq!(affinity::allowed(), [cpu]);
        });
    }
}
