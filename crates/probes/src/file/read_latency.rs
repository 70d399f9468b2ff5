//! file.read.latency: one block of 4 KiB of a file, in order or anywhere.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use fathom_fileio::memory::Pages;
use fathom_fileio::scratch::Scratch;
use fathom_fileio::{Generator, residency, traffic};
use fathom_measure::sampler::{Fault, Files};
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{
    Better, Effort, Histogram, Host, NoModel, NotSelected, Params, Prediction, Remedy, Stratum,
    Unit,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::held::{self, Large};
use super::state::{State, words};
use super::{LARGE_BYTES, failed};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Disk, Inputs, Needs, Parameter, Probe, Sizes};

/// file.read.latency.
pub struct ReadLatency;

static ABOUT: About = About {
    id: "file.read.latency",
    title: "block of a file",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "pread(2) of 4 KiB blocks of a file, one after another, each once; divided by their \
            number: all blocks of a small file, 64 of the large one (warm: all); quantiles \
            are of single blocks from a device, at random",
    not_timed: "choosing the blocks, any look at what was read, and putting the file into memory \
                or out of there",
    model: "bounds: ≥ os.syscall{call=read1}; cold: ≥ warm, where that was measured. No figure is \
            published for a device",
    source: "Linux mm/filemap.c: what is not in memory is asked of the device, and then copied \
             as what is there",
    pitfalls: &[
        "in order, the kernel reads ahead, so that few blocks wait: what it is called a latency \
         of is then a rate. The bytes that the device gave are told beside the program's",
        "the same places again and again are in somebody's cache: each pass over the large file \
         chooses others",
        "in a guest, cold means that the guest's memory holds nothing of it: the host's may",
        "a file of a few blocks: what is paid once for a pass is not shared by many",
        "each block that came from the device is held against what was written",
    ],
    parameters: &[
        Parameter { name: "order", values: "sequential, random", meaning: "of the blocks" },
        Parameter {
            name: "state",
            values: "cold, warm, direct",
            meaning: "from a device, from memory, past the page cache; proved",
        },
        Parameter {
            name: "file_bytes",
            values: "4K, doubling to 512K, 64M",
            meaning: "of the file; quick: 4K and 64M",
        },
    ],
    published: "130 µs sequential, 128 µs random (2016, SSD)",
    noise_limit: 0.15,
    ..super::OF_RUNS
};

const BLOCK: usize = 4096;
/// Blocks of a pass over the large file.
const BLOCKS: usize = 64;
const SMALL_MAX: i64 = 512 << 10;
/// The large file of a smoke test.
const SMOKE_LARGE: i64 = 1 << 20;
const SEED: u64 = 2;

impl Probe for ReadLatency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        match case.params.text("state") {
            Some("warm") => Ok(Stratum::CoreAtFullSpeed),
            _ => Err(NotSelected::Device),
        }
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(Disk { large: LARGE_BYTES, own: 2 * SMALL_MAX as u64 }), far: None }
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<Case> {
        let large = if sizes.smoke { SMOKE_LARGE } else { LARGE_BYTES as i64 };
        let doubling = (12..20).map(|power| 1_i64 << power);
        let small: Vec<i64> = match sizes.effort {
            Effort::Quick => vec![BLOCK as i64],
            _ => doubling.collect(),
        };
        let mut cases = Vec::new();
        for state in State::ALL {
            let own = if state == State::Direct { &[] } else { small.as_slice() };
            for bytes in own.iter().chain([&large]) {
                cases.extend(["sequential", "random"].map(|order| {
                    let params = Params::one("order", order).and("state", state.name());
                    let cost_ns = cost_ns(state, *bytes);
                    Case { params: params.and("file_bytes", *bytes), cost_ns }
                }));
            }
        }
        // One block has no order, and without a cache there is no readahead that order could help.
        let leaves_out = |params: &Params| {
            let is = |name: &str, text: &str| params.text(name) == Some(text);
            let is_one = params.integer("file_bytes") == Some(BLOCK as i64);
            let is_quick = sizes.effort == Effort::Quick;
            (is_one && is("order", "random"))
                || (is_quick && is("state", "direct") && is("order", "sequential"))
        };
        cases.retain(|case| !leaves_out(&case.params));
        cases
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let mut warm = case.params.clone();
        warm.0.insert("state".to_owned(), State::Warm.name().into());
        let is_cold = case.params.text("state") == Some(State::Cold.name());
        if is_cold && known.quantity(ABOUT.id, &warm).is_some() {
            let source = "what a device gives is put into memory, and then copied as from there";
            return Order { factor: 1.0, metric: ABOUT.id, source }.claim(&warm, known);
        }
        let source = "the same entry and exit, and a block to be found and moved";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "read1"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let files = sampler.files()?;
        let seed = sampler.settings().seed;
        for state in State::ALL {
            let mut readings = Vec::new();
            for (index, case) in cases.iter().enumerate() {
                if case.params.text("state") != Some(state.name()) {
                    continue;
                }
                let reading = Reading::of(case, state, &files, seed);
                let prepared = reading.and_then(|mut reading| {
                    reading.prepare()?;
                    Ok(reading)
                });
                match prepared {
                    Ok(reading) => readings.push((index, RefCell::new(reading))),
                    Err(fault) => sampler.fault(index, fault),
                }
            }
            let timings: Vec<RefCell<Histogram>> =
                readings.iter().map(|_| RefCell::default()).collect();
            let each = readings.iter().zip(&timings);
            let works: Vec<Work<'_>> = each
                .map(|((index, reading), timings)| work(*index, state, reading, timings))
                .collect();
            if works.is_empty() {
                continue;
            }
            let begun = traffic::fetched();
            sampler.run(works);
            for (index, reading) in readings {
                if let Err(fault) = reading.into_inner().tell(begun, index, sampler) {
                    sampler.fault(index, fault);
                }
            }
        }
        Ok(())
    }
}

/// A visit's warm-up and 12 passes, at 150 µs a block from a device.
fn cost_ns(state: State, bytes: i64) -> f64 {
    let blocks = (bytes / BLOCK as i64).min(BLOCKS as i64) as f64;
    match state {
        State::Warm => 12e6,
        State::Cold | State::Direct => 14.0 * (2e6 + blocks * 150e3),
    }
}

fn work<'r>(
    index: usize,
    state: State,
    reading: &'r RefCell<Reading>,
    timings: &'r RefCell<Histogram>,
) -> Work<'r> {
    if state == State::Warm {
        return Work::batched(index, |blocks| reading.borrow_mut().repeat(blocks));
    }
    let batch = reading.borrow().order.len() as u64;
    let operation = |clock: &Clock, values: &mut [f64]| {
        values[0] = reading.borrow_mut().pass(clock, &mut timings.borrow_mut())?;
        Ok(())
    };
    // In order, the kernel reads ahead: a few blocks wait for all.
    let is_single = batch == 1 || reading.borrow().is_random;
    let timings = Some(timings).filter(|_| is_single);
    Work::Single { cases: vec![index], batch, operation: Box::new(operation), timings }
}

/// The file of a case, which it has itself or shares with all.
enum Held {
    Own(Scratch),
    Shared(Large),
}

impl Held {
    fn file(&self) -> &File {
        match self {
            Self::Own(scratch) => scratch.file(),
            Self::Shared(large) => large.file(),
        }
    }
}

/// One case: its file, and the blocks in the order in which they are read.
struct Reading {
    held: Held,
    /// The file as it is read: as it is, or opened anew past the page cache.
    opened: File,
    state: State,
    is_random: bool,
    seed: u64,
    blocks: usize,
    random: Xoshiro256PlusPlus,
    order: Vec<u64>,
    next: usize,
    /// A block each, so that all can be looked at behind the timer.
    buffer: Pages,
    passes: u64,
    read: u64,
    fetched: Option<u64>,
}

impl Reading {
    fn of(case: &Case, state: State, files: &Files, random: u64) -> Result<Self, Fault> {
        let bytes = case.params.integer("file_bytes").unwrap_or(0);
        let is_random = case.params.text("order") == Some("random");
        let (held, seed, bytes) = if bytes <= SMALL_MAX {
            let bytes = u64::try_from(bytes).unwrap_or(0);
            (Held::Own(held::written(&files.folder, bytes, SEED)?), SEED, bytes)
        } else {
            let large = Large::open(files, bytes as u64)?;
            let (seed, bytes) = (large.seed(), large.bytes());
            (Held::Shared(large), seed, bytes)
        };
        let opened = opened(held.file(), state)?;
        let blocks = (bytes / BLOCK as u64) as usize;
        let of_pass = if state == State::Warm { blocks } else { blocks.min(BLOCKS) };
        let slots = if state == State::Warm { 1 } else { of_pass };
        let buffer = Pages::new(slots * BLOCK).map_err(|error| failed("mmap", error))?;
        let random = Xoshiro256PlusPlus::seed_from_u64(random);
        let order = (0..of_pass as u64).map(|block| block * BLOCK as u64).collect();
        Ok(Self {
            held,
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
        })
    }

    /// Brings the file into its state, and chooses the blocks of the next pass.
    fn prepare(&mut self) -> Result<(), Fault> {
        if self.is_random {
            self.choose();
        }
        self.state.prepare(self.held.file()).map(|_| ())
    }

    /// As many blocks as before, no two of them one, in random order (Fisher–Yates).
    fn choose(&mut self) {
        let mut all: Vec<u64> = (0..self.blocks as u64).collect();
        for place in 0..self.order.len() {
            let rest = (all.len() - place) as u64;
            // The bias of the remainder is below 2^-48 for any file that there is.
            all.swap(place, place + (self.random.next_u64() % rest) as usize);
            self.order[place] = all[place] * BLOCK as u64;
        }
    }

    /// Reads so many blocks of a file in memory, round and round.
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

    /// Reads each block once, from the device, and counts the time of each: nanoseconds a block.
    fn pass(&mut self, clock: &Clock, timings: &mut Histogram) -> Result<f64, Fault> {
        self.prepare()?;
        let begun = traffic::fetched();
        let mut good = 0;
        // A pass waits for a device: two clock reads a block are far below its spread.
        let start = clock.start();
        for (slot, at) in self.buffer.chunks_exact_mut(BLOCK).zip(&self.order) {
            let begun = clock.start();
            good += usize::from(rustix::io::pread(&self.opened, slot, *at) == Ok(BLOCK));
            timings.add(clock.ns(begun, clock.stop()));
        }
        let stop = clock.stop();
        let blocks = self.order.len();
        if good != blocks {
            return Err(Fault::WrongWork(format!("{good} of {blocks} blocks were read whole")));
        }
        let more = traffic::since(begun);
        if !self.state.has_held(self.held.file(), more) {
            return Err(self.state.unheld());
        }
        self.look_at_all()?;
        self.fetched = self.fetched.zip(more).map(|(sum, more)| sum + more);
        self.read += (blocks * BLOCK) as u64;
        self.passes += 1;
        Ok(clock.ns(start, stop) / blocks as f64)
    }

    /// Holds each block of the last pass against what was written.
    fn look_at_all(&self) -> Result<(), Fault> {
        let generator = Generator::new(self.seed);
        let mut expected = [0; BLOCK];
        for (slot, at) in self.buffer.chunks_exact(BLOCK).zip(&self.order) {
            generator.fill(*at, &mut expected);
            if slot != expected {
                let text = format!("the block at byte {at} is not what was written there");
                return Err(Fault::WrongWork(text));
            }
        }
        Ok(())
    }

    /// Hands what was verified to the sampler.
    fn tell(
        mut self,
        begun: Option<u64>,
        index: usize,
        sampler: &mut Sampler,
    ) -> Result<(), Fault> {
        if self.state == State::Warm {
            let more = traffic::since(begun);
            let held = self.state.has_held(self.held.file(), more);
            let more = more.map_or("untold".to_owned(), |bytes| bytes.to_string());
            let is = words(&residency::of(self.held.file()));
            let text = format!("WARM before; {more} bytes from devices meanwhile; after: {is}");
            sampler.check(index, "in memory", held, text);
            self.next = 0;
            let good = self.repeat(1);
            self.look_at_all()?;
            sampler.check(
                index,
                "content",
                good == 1,
                "a block more, held against what is written",
            );
            return Ok(());
        }
        let Self { passes, read, .. } = self;
        sampler.check(index, "in memory", true, format!("COLD before each of {passes} passes"));
        sampler.check(index, "content", true, "each block as written");
        let fetched = self.fetched.map_or("untold".to_owned(), |bytes| bytes.to_string());
        let text = format!("{fetched} from devices for {read} of the program's");
        sampler.check(index, "bytes", true, text);
        Ok(())
    }
}

/// The blocks of so many passes.
#[cfg(test)]
pub(super) fn orders(case: &Case, files: &Files, passes: usize) -> Result<Vec<Vec<u64>>, Fault> {
    let mut reading = Reading::of(case, State::Cold, files, 1)?;
    let mut chosen = || {
        reading.prepare()?;
        Ok(reading.order.clone())
    };
    (0..passes).map(|_| chosen()).collect()
}

/// The file opened anew as its state asks, with a readahead of its own.
fn opened(file: &File, state: State) -> Result<File, Fault> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = if state == State::Direct { libc::O_DIRECT } else { 0 };
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    match opened {
        Ok(opened) => Ok(opened),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let what = "the file system refuses direct reads";
            Err(Fault::unavailable(what, Remedy::OtherFolder))
        }
        // Without /proc, and where no other way is asked for, as it is.
        Err(_) if state != State::Direct => {
            file.try_clone().map_err(|error| failed("open the file", error))
        }
        Err(error) => Err(failed("open the file", error)),
    }
}
