//! file.read.latency: a block of 4 KiB, sequential or random.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use fathom_fileio::memory::MemoryPages;
use fathom_fileio::scratch::Scratch;
use fathom_fileio::{FileGenerator, proc_io, residency};
use fathom_measure::sampler::Files;
use fathom_record::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::generated_file::{self, LargeFile};
use super::model::block_read;
use super::state::{FileState, describe};
use super::{LARGE_BYTES, failed, model};
use crate::memory::latency::model::{Level, outer_level_of};
use crate::prelude::*;

metric!(ReadLatency, ABOUT);

static ABOUT: About = About {
    id: "file.read.latency",
    title: "read of one block",
    timed: "pread(2) of blocks of 4 KiB, each read once: the time of a pass ÷ its blocks. A pass \
            reads all blocks of the small file, and 64 of the large one (warm: all). Quantiles: \
            single random reads from a device",
    not_timed: "choosing the blocks, verifying the data, evicting or warming the file",
    model: "warm: file.call{call=read1} + 4096 ÷ read bandwidth of the level that holds the file, \
            + a function return (os.syscall{call=getppid_called} − os.syscall{call=getppid}), + 2 \
            × memory.latency.dram at random beyond the caches; cold at random: direct + warm; \
            both ± 30 %. Bounds: cold in order ≥ 0.7 × (one wait of direct for a pass + the other \
            blocks at file.read.throughput{state=direct} + warm), no value, as the number of \
            waits depends on the readahead; direct ≥ os.syscall{call=read1}: no published figure \
            for a device",
    source: "Linux mm/filemap.c: an uncached page is read from the device, then copied like a \
             cached one",
    pitfalls: &[
        "sequential reads trigger readahead, so that few blocks wait: the result is a rate, not a \
         latency. The record has the bytes fetched from devices",
        "repeated offsets hit a cache of the device or host: each pass over the large file chooses \
         others",
        "in a virtual machine the host may cache the file: it is cold in the guest only",
        "small files do not amortize the fixed cost of a pass",
        "each block from the device is compared with the data written; the file's residency is \
         verified",
    ],
    parameters: &[
        Parameter::new("order", "sequential, random", "of the blocks"),
        Parameter::new(
            "state",
            "cold, warm, direct",
            "from a device · from the page cache · O_DIRECT",
        ),
        Parameter::new("file_bytes", "4K, doubling to 512K, 64M", "of the file; quick: 4K and 64M"),
    ],
    published: "130 µs sequential, 128 µs random (2016, SSD)",
    noise_limit: 0.15,
    needs: &[
        "os.syscall",
        "file.call",
        "memory.bandwidth",
        "memory.latency.dram",
        "file.read.throughput",
    ],
    disk: Some(MetricDisk { large: LARGE_BYTES, own: 2 * SMALL_MAX as u64 }),
    ..super::OF_RUNS
};

const BLOCK: usize = 4096;
/// Blocks per pass over the large file.
const BLOCKS: usize = 64;
const SMALL_MAX: i64 = 512 << 10;
/// Large file of a smoke test.
const SMOKE_LARGE: i64 = 1 << 20;
const SEED: u64 = 2;

impl Probe for ReadLatency {
    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        match case.params.text("state") {
            Some("warm") => Ok(Stratum::CoreAtFullSpeed),
            _ => Err(NotSelected::Device),
        }
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let large = if sizes.smoke { SMOKE_LARGE } else { LARGE_BYTES as i64 };
        let doubling = (12..20).map(|power| 1_i64 << power);
        let small: Vec<i64> = match sizes.effort {
            Effort::Quick => vec![BLOCK as i64],
            _ => doubling.collect(),
        };
        let mut cases = Vec::new();
        // A cold read is predicted from the two others.
        for state in [FileState::Warm, FileState::Direct, FileState::Cold] {
            let own = if state == FileState::Direct { &[] } else { small.as_slice() };
            for bytes in own.iter().chain([&large]) {
                cases.extend(["sequential", "random"].map(|order| {
                    let params = Params::one("order", order).and("state", state.name());
                    let cost_ns = cost_ns(state, *bytes);
                    ProbeCase { params: params.and("file_bytes", *bytes), cost_ns }
                }));
            }
        }
        // One block has no order.
        let leaves_out = |params: &Params| {
            let is_one = params.integer("file_bytes") == Some(BLOCK as i64);
            is_one && params.text("order") == Some("random")
        };
        cases.retain(|case| !leaves_out(&case.params));
        cases
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let is_random = case.params.text("order") == Some("random");
        let least = || {
            let source = "the same entry and exit, plus lookup and copy of a block";
            at_least("os.syscall", &Params::one("call", "read1"), source, known)
        };
        match case.params.text("state").and_then(FileState::named) {
            Some(FileState::Warm) => copied(case, is_random, host, known),
            Some(FileState::Cold) => {
                // The first block is anywhere on the device.
                let direct = Params::one("order", "random").and("state", FileState::Direct.name());
                let direct = direct.and("file_bytes", LARGE_BYTES as i64);
                let warm = case.params.clone().and("state", FileState::Warm.name());
                let source = "data from a device is stored in the page cache and copied from there";
                let bound = || at_least(ABOUT.id, &warm, source, known);
                fetched(case, direct, warm.clone(), known).or_else(|_| bound()).or_else(|_| least())
            }
            _ => least(),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        Reads { state: "state", blocks: BLOCKS, own_max: SMALL_MAX }.visit(cases, sampler)
    }
}

/// A cached block: the call, the copy, and two loads that miss every cache where blocks are read at
/// random: the page cache's entry, then the data.
fn copied(case: &ProbeCase, is_random: bool, host: &Host, known: &Inputs<'_>) -> Model {
    let bytes = case.params.integer("file_bytes").unwrap_or(0).unsigned_abs();
    let level = outer_level_of(bytes, host)?;
    let call = Params::one("call", "read1");
    let read = returned(block_read((&call, BLOCK as f64), &[level], 0.3, known)?, known)?;
    if !is_random || level != Level::Memory {
        return Ok(read);
    }
    let load_ns = earlier("memory.latency.dram", &Params::none(), known)?;
    let hardware = read.hardware.unwrap_or(0.0) + 2.0 * load_ns;
    let formula = format!("{} + 2 × memory.latency.dram", read.formula);
    let software = read.software.unwrap_or(0.0);
    let whole = Prediction::sum(hardware, software, 0.3, &formula, &read.source);
    Ok(Prediction { inputs: read.inputs, if_below: read.if_below, ..whole }
        .with_result("memory.latency.dram", load_ns, Unit::Nanoseconds)
        .with_part(2.0 * load_ns)
        .if_above(&format!("{}, or TLB misses of the page cache's 4K pages", read.if_above)))
}

/// The call is a function here, as in most programs: its return costs what os.syscall measures with
/// and without one, while file.call inlines its calls.
fn returned(read: Prediction, known: &Inputs<'_>) -> Model {
    let [called, bare] = ["getppid_called", "getppid"].map(|call| Params::one("call", call));
    let [called_ns, bare_ns] = [&called, &bare].map(|call| earlier("os.syscall", call, known));
    let (called_ns, bare_ns) = (called_ns?, bare_ns?);
    let software = read.software.unwrap_or(0.0) + (called_ns - bare_ns).max(0.0);
    let formula = format!("{} + os.syscall{called} − os.syscall{bare}", read.formula);
    let whole =
        Prediction::sum(read.hardware.unwrap_or(0.0), software, 0.3, &formula, &read.source);
    let Prediction { inputs, if_above, if_below, .. } = read;
    Ok(Prediction { inputs, if_above, if_below, ..whole }
        .with_result(&format!("os.syscall{called}"), called_ns, Unit::Nanoseconds)
        .with_part(called_ns)
        .with_result(&format!("os.syscall{bare}"), bare_ns, Unit::Nanoseconds)
        .with_part(-bare_ns))
}

/// Blocks from a device: each read as past the page cache, then copied from it. In order this is a
/// bound: at best readahead keeps the device busy after one wait for a pass.
fn fetched(case: &ProbeCase, direct: Params, warm: Params, known: &Inputs<'_>) -> Model {
    let bytes = case.params.integer("file_bytes").unwrap_or(0);
    let waits = match case.params.text("order") {
        Some("random") => 1.0,
        _ => 1.0 / (bytes / BLOCK as i64).clamp(1, BLOCKS as i64) as f64,
    };
    let sum = Sum {
        terms: &[Term::new(waits, ABOUT.id, direct.clone()), Term::once(ABOUT.id, warm.clone())],
        tolerance: 0.3,
        source: "Linux mm/filemap.c and mm/readahead.c: an uncached page is read from the device, \
                 then copied like a cached one; in order, the next ones are requested before",
        otherwise: "the device or a host's cache served one of the two faster, or the page cache \
                    costs more than a copy",
    };
    let mut sum = sum.predict(known)?;
    // The wait for the device is hardware time; the path to it is known from this metric alone.
    let device_ns = waits * earlier(ABOUT.id, &direct, known)?;
    let cached = known.hardware_share(ABOUT.id, &warm) * earlier(ABOUT.id, &warm, known)?;
    sum.hardware = Some(device_ns + cached);
    sum.software = sum.value.map(|value| value - device_ns - cached);
    if case.params.text("order") == Some("random") {
        // The wait is nearly all of it.
        return Ok(sum.self_consistent());
    }
    if waits == 1.0 {
        let low = sum.low;
        let formula = format!("≥ 0.7 × ({})", sum.formula);
        return Ok(Prediction { low, formula, ..sum.as_lower_limit() });
    }
    let (name, rate) = model::of_device(known)?;
    let moved_ns = (1.0 - waits) * BLOCK as f64 / rate * 1e9;
    let hardware = sum.hardware.unwrap_or(0.0) + moved_ns;
    let formula = format!("{} + {:.3} × 4096 ÷ {name}", sum.formula, 1.0 - waits);
    let least = 0.7 * (hardware + sum.software.unwrap_or(0.0));
    let bound = Prediction::at_least(least, &format!("≥ 0.7 × ({formula})"), &sum.source);
    let Prediction { inputs, if_below, .. } = sum;
    let bound = Prediction { inputs, if_below, ..bound };
    Ok(bound.with_result(&name, rate, Unit::BytesPerSecond).with_part(moved_ns))
}

/// How a metric reads blocks.
pub(crate) struct Reads {
    /// The parameter that has the state.
    pub(crate) state: &'static str,
    /// Blocks of a pass, at most. Warm: all.
    pub(crate) blocks: usize,
    /// Larger files are the large one of the run.
    pub(crate) own_max: i64,
}

impl Reads {
    /// Reads each case of a metric, whose parameters are `order` and `file_bytes` beside the state.
    pub(crate) fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        let seed = sampler.settings().seed;
        for state in FileState::ALL {
            let mut readings = Vec::new();
            for (index, case) in cases.iter().enumerate() {
                if case.params.text(self.state) != Some(state.name()) {
                    continue;
                }
                match LatencyReading::from_case(case, (self, state), &files, seed) {
                    Ok(reading) => readings.push((index, RefCell::new(reading))),
                    Err(fault) => sampler.fault(index, fault),
                }
            }
            let timings: Vec<RefCell<Histogram>> =
                readings.iter().map(|_| RefCell::default()).collect();
            let each = readings.iter().zip(&timings);
            let works: Vec<SamplerWork<'_>> = each
                .map(|((index, reading), timings)| work(*index, state, reading, timings))
                .collect();
            if works.is_empty() {
                continue;
            }
            let begun = proc_io::read_bytes();
            sampler.run(works);
            for (index, reading) in readings {
                if let Err(fault) = reading.into_inner().report(begun, index, sampler) {
                    sampler.fault(index, fault);
                }
            }
        }
        Ok(())
    }
}

/// Warm-up and 6 passes, at 75 µs per block from a device.
fn cost_ns(state: FileState, bytes: i64) -> f64 {
    let blocks = (bytes / BLOCK as i64).min(BLOCKS as i64) as f64;
    match state {
        FileState::Warm => 10e6,
        FileState::Cold | FileState::Direct => 8.0 * (1e6 + blocks * 75e3),
    }
}

fn work<'r>(
    index: usize,
    state: FileState,
    reading: &'r RefCell<LatencyReading>,
    timings: &'r RefCell<Histogram>,
) -> SamplerWork<'r> {
    if state == FileState::Warm {
        return SamplerWork::batched(index, |blocks| reading.borrow_mut().repeat(blocks));
    }
    let batch = reading.borrow().order.len() as u64;
    let operation = |clock: &Clock| reading.borrow_mut().pass(clock, &mut timings.borrow_mut());
    let work = single(index, batch, operation);
    // With readahead the times of single blocks are not latencies.
    let is_single = batch == 1 || reading.borrow().is_random;
    if is_single { work.timed(timings) } else { work }
}

enum CaseFile {
    Own(Scratch),
    /// The large file of the run.
    Shared(LargeFile),
}

impl CaseFile {
    fn file(&self) -> &File {
        match self {
            Self::Own(scratch) => scratch.file(),
            Self::Shared(large) => large.file(),
        }
    }
}

/// One case: its file, and the order of its blocks.
struct LatencyReading {
    case_file: CaseFile,
    /// The descriptor that is read, with O_DIRECT if the state needs it.
    opened: File,
    state: FileState,
    is_random: bool,
    seed: u64,
    blocks: usize,
    random: Xoshiro256PlusPlus,
    order: Vec<u64>,
    next: usize,
    /// One slot per block, so that verification is not timed.
    buffer: MemoryPages,
    passes: u64,
    read: u64,
    fetched: Option<u64>,
}

impl LatencyReading {
    /// A warm one is prepared here, the others before each pass.
    fn from_case(
        case: &ProbeCase,
        (reads, state): (&Reads, FileState),
        files: &Files,
        random: u64,
    ) -> Result<Self> {
        let asked = case.params.integer("file_bytes").unwrap_or(0);
        let is_random = case.params.text("order") == Some("random");
        let (case_file, seed, bytes) = if asked <= reads.own_max {
            let bytes = u64::try_from(asked).unwrap_or(0);
            let scratch = generated_file::write_synced(&files.folder, bytes, SEED)?;
            (CaseFile::Own(scratch), SEED, bytes)
        } else {
            let large = LargeFile::open(files, asked as u64)?;
            let (seed, bytes) = (large.seed, large.bytes);
            (CaseFile::Shared(large), seed, bytes)
        };
        let opened = opened(case_file.file(), state)?;
        let blocks = (bytes / BLOCK as u64) as usize;
        let of_pass = if state == FileState::Warm { blocks } else { blocks.min(reads.blocks) };
        let slots = if state == FileState::Warm { 1 } else { of_pass };
        let buffer = MemoryPages::new(slots * BLOCK).map_err(|error| failed("mmap", error))?;
        let random = Xoshiro256PlusPlus::seed_from_u64(random);
        let order = (0..of_pass as u64).map(|block| block * BLOCK as u64).collect();
        let mut reading = Self {
            case_file,
            opened,
            state,
            is_random,
            seed,
            blocks,
            random,
            order,
            next: 0,
            buffer,
            passes: 0,
            read: 0,
            fetched: Some(0),
        };
        if state == FileState::Warm {
            reading.prepare()?;
        }
        Ok(reading)
    }

    /// Chooses the blocks of the next pass, and prepares the cache state.
    fn prepare(&mut self) -> Result<()> {
        if self.is_random {
            self.choose();
        }
        self.state.prepare(self.case_file.file()).map(|_| ())
    }

    /// Chooses distinct blocks in random order (Fisher–Yates).
    fn choose(&mut self) {
        let mut all: Vec<u64> = (0..self.blocks as u64).collect();
        for place in 0..self.order.len() {
            let rest = (all.len() - place) as u64;
            // The modulo bias is below 2^-48 for files up to 256 MiB.
            all.swap(place, place + (self.random.next_u64() % rest) as usize);
            self.order[place] = all[place] * BLOCK as u64;
        }
    }

    /// The warm kernel: reads blocks in order, wrapping. Returns the number of full reads.
    fn repeat(&mut self, blocks: u64) -> u64 {
        let mut good = 0;
        for _ in 0..blocks {
            let at = self.order[self.next];
            self.next = if self.next + 1 == self.order.len() { 0 } else { self.next + 1 };
            let read = rustix::io::pread(&self.opened, &mut self.buffer[..BLOCK], at);
            good += u64::from(read == Ok(BLOCK));
        }
        good
    }

    /// Reads each block once and adds its time to `timings`. Returns nanoseconds per block.
    fn pass(&mut self, clock: &Clock, timings: &mut Histogram) -> Result<f64> {
        self.prepare()?;
        let before = proc_io::read_bytes();
        let mut good = 0;
        // Two clock reads per block are negligible beside a device access.
        let start = clock.start();
        for (slot, at) in self.buffer.chunks_exact_mut(BLOCK).zip(&self.order) {
            let begun = clock.start();
            good += usize::from(rustix::io::pread(&self.opened, slot, *at) == Ok(BLOCK));
            timings.add(clock.ns(begun, clock.stop()));
        }
        let stop = clock.stop();
        let blocks = self.order.len();
        if good != blocks {
            return Err(SamplerFault::WrongWork(format!(
                "{good} of {blocks} blocks were read in full"
            )));
        }
        let fetched = proc_io::read_bytes_since(before);
        if !self.state.was_kept(self.case_file.file(), fetched) {
            return Err(self.state.lost());
        }
        self.verify()?;
        self.fetched = self.fetched.zip(fetched).map(|(sum, fetched)| sum + fetched);
        self.read += (blocks * BLOCK) as u64;
        self.passes += 1;
        Ok(clock.ns(start, stop) / blocks as f64)
    }

    /// Compares each block of the last pass with the data written.
    fn verify(&self) -> Result<()> {
        let generator = FileGenerator::new(self.seed);
        let mut expected = [0; BLOCK];
        for (slot, at) in self.buffer.chunks_exact(BLOCK).zip(&self.order) {
            generator.fill(*at, &mut expected);
            if slot != expected {
                let text = format!("the block at byte {at} differs from the data written");
                return Err(SamplerFault::WrongWork(text));
            }
        }
        Ok(())
    }

    /// Adds the checks to the sampler.
    fn report(mut self, begun: Option<u64>, index: usize, sampler: &mut Sampler) -> Result<()> {
        if self.state == FileState::Warm {
            let fetched = proc_io::read_bytes_since(begun);
            let file = self.case_file.file();
            let is_kept = self.state.was_kept(file, fetched);
            let fetched = fetched.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            let after = describe(&residency::residency_of(file));
            let text = format!("WARM before; {fetched} bytes from devices; after: {after}");
            sampler.check(index, "in memory", is_kept, text);
            self.next = 0;
            let good = self.repeat(1);
            self.verify()?;
            sampler.check(index, "content", good == 1, "one more block as written");
            return Ok(());
        }
        let Self { passes, read, .. } = self;
        sampler.check(index, "in memory", true, format!("COLD before each of {passes} passes"));
        sampler.check(index, "content", true, "each block as written");
        let fetched = self.fetched.map_or("unknown".to_owned(), |bytes| bytes.to_string());
        let text = format!("{fetched} fetched (read_bytes of /proc/self/io), {read} read");
        sampler.check(index, "bytes", true, text);
        Ok(())
    }
}

/// The blocks of several passes.
#[cfg(test)]
pub(super) fn orders(case: &ProbeCase, files: &Files, passes: usize) -> Result<Vec<Vec<u64>>> {
    let reads = Reads { state: "state", blocks: BLOCKS, own_max: SMALL_MAX };
    let mut reading = LatencyReading::from_case(case, (&reads, FileState::Cold), files, 1)?;
    let mut chosen = || {
        reading.prepare()?;
        Ok(reading.order.clone())
    };
    (0..passes).map(|_| chosen()).collect()
}

/// Opens the file again, with O_DIRECT if needed, and with its own readahead state.
fn opened(file: &File, state: FileState) -> Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = if state == FileState::Direct { libc::O_DIRECT } else { 0 };
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    match opened {
        Ok(opened) => Ok(opened),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let what = "the file system does not support O_DIRECT";
            Err(SamplerFault::unavailable(what, Remedy::OtherFolder))
        }
        // Without /proc: shares the readahead state.
        Err(_) if state != FileState::Direct => {
            file.try_clone().map_err(|error| failed("open the file", error))
        }
        Err(error) => Err(failed("open the file", error)),
    }
}
