//! Reads a file in memory by every way, and prints how fast: to be held against other programs.
//! `make` writes that file, `fast` reads it once as a whole process would, `cold` from the device;
//! `sums` and `calls` look at single parts. Nobody installs it.

use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use fathom_fileio::memory::Pages;
use fathom_fileio::read::{BLOCK, Request, Way};
use fathom_fileio::sum::Kernel;
use fathom_fileio::{Generator, Source, Sum, read, residency, write};
use fathom_measure::Clock;
use fathom_measure::clock::{Source as Counter, Specification, Watch};

type Failed = Box<dyn std::error::Error>;

const USAGE: &str = "usage: compare FILE [WAY THREADS BLOCK] | make FILE BYTES | fast FILE \
                     | cold FILE WAY THREADS BLOCK DEPTH | sums | calls FILE BLOCK COUNT";
/// How often each is tried; the best is printed.
const TRIES: usize = 5;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A checked clock takes longer to get than some of these take.
    match words.as_slice() {
        ["make", path, bytes] => return make(path, bytes.parse()?),
        ["fast", path] => return once(path, Way::Map, cpus()?, BLOCK),
        ["cold", path, way, threads, block, depth] => {
            let way = way_of(way, depth.parse()?)?;
            residency::evict(Source::open(Path::new(path))?.file())?;
            return once(path, way, threads.parse()?, block.parse()?);
        }
        _ => {}
    }
    let watch = Watch::begin(&fathom_measure::host::read())?;
    let clock = watch.clock();
    match words.as_slice() {
        ["sums"] => sums(clock),
        ["calls", path, block, count] => calls(clock, path, block.parse()?, count.parse()?),
        [path] => ways(clock, path),
        [path, way, threads, block] => {
            one(clock, path, way_of(way, 16)?, threads.parse()?, block.parse()?)
        }
        _ => Err(USAGE.into()),
    }
}

fn way_of(name: &str, depth: u32) -> Result<Way, Failed> {
    Ok(match name {
        "map" => Way::Map,
        "pread" => Way::Pread,
        "direct" => Way::Direct,
        "ring" => Way::Ring { depth },
        _ => return Err(USAGE.into()),
    })
}

fn cpus() -> Result<usize, Failed> {
    Ok(std::thread::available_parallelism()?.get())
}

/// The clock of the kernel: good enough for a whole read, and there at once.
fn plain_clock() -> Clock {
    let source = Counter::MonotonicRaw;
    Clock::from_specification(Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 })
}

/// A file on the device and in memory, written by blocks that the cache can keep as huge pages.
fn make(path: &str, bytes: u64) -> Result<(), Failed> {
    if !bytes.is_multiple_of(BLOCK as u64) {
        return Err(format!("{bytes} bytes; give a multiple of {BLOCK}").into());
    }
    let sync = write::Sync::Data;
    let request = write::Request { sync, ..write::Request::new(BLOCK, bytes / BLOCK as u64) };
    let written = fathom_fileio::write(Path::new(path), &request, &plain_clock())?;
    say(&format!("{} bytes  {}", written.sum.bytes, written.sum))
}

/// One read, and nothing else.
fn once(path: &str, way: Way, threads: usize, block: usize) -> Result<(), Failed> {
    let source = Source::open(Path::new(path))?;
    let request = Request { threads, block, ..Request::whole(way) };
    let outcome = read(&source, &request, &plain_clock())?;
    let (bytes, sum) = (outcome.sum.bytes, outcome.sum);
    let speed = bytes as f64 / outcome.ns;
    if let Some(fault) = outcome.faults.first() {
        return Err(format!("{fault:?}").into());
    }
    say(&format!("{way:?} threads {threads} block {block}: {speed:.3} GB/s  {bytes} bytes  {sum}"))
}

fn say(line: &str) -> Result<(), Failed> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn ways(clock: &Clock, path: &str) -> Result<(), Failed> {
    for way in [Way::Pread, Way::Map, Way::Direct, Way::Ring { depth: 16 }] {
        for threads in [1, 2] {
            one(clock, path, way, threads, BLOCK)?;
        }
    }
    one(clock, path, Way::Calls { count: None }, 1, BLOCK)
}

fn one(clock: &Clock, path: &str, way: Way, threads: usize, block: usize) -> Result<(), Failed> {
    let source = Source::open(Path::new(path))?;
    let request = Request { threads, block, ..Request::whole(way) };
    let mut best = f64::INFINITY;
    let mut sum = Sum::default();
    for _ in 0..TRIES {
        let outcome = match read(&source, &request, clock) {
            Ok(outcome) => outcome,
            Err(error) => return say(&format!("{way:?}: {error}")),
        };
        best = best.min(outcome.ns);
        sum = outcome.sum;
    }
    let speed = sum.bytes as f64 / best;
    let state = residency::of(source.file()).state;
    say(&format!("{way:?} threads {threads} block {block}: {speed:.2} GB/s  {sum}  {state:?}"))
}

/// The sums and the generator alone, on memory larger than the caches and within them, beside a
/// bare read of the same memory.
fn sums(clock: &Clock) -> Result<(), Failed> {
    for bytes in [BLOCK, 256 << 20] {
        let mut pages = Pages::new(bytes)?;
        let rounds = (1 << 30) / bytes;
        let best = |work: &mut dyn FnMut(&mut [u8])| {
            let times = (0..TRIES).map(|_| {
                let begin = clock.start();
                (0..rounds).for_each(|_| work(black_box(&mut pages)));
                clock.ns(begin, clock.stop())
            });
            (rounds * bytes) as f64 / times.fold(f64::INFINITY, f64::min)
        };
        let mut best = best;
        let generator = Generator::new(1);
        let made = best(&mut |pages| generator.fill(0, pages));
        let bare = best(&mut |pages| {
            black_box(bare(pages));
        });
        say(&format!("{bytes} bytes: generator {made:.1} GB/s, bare read {bare:.1} GB/s"))?;
        for kernel in Kernel::available() {
            let speed = best(&mut |pages| {
                let mut sum = Sum::default();
                sum.add_by(kernel, 0, pages);
                black_box(sum);
            });
            say(&format!("  sums by {kernel:?}: {speed:.1} GB/s"))?;
        }
    }
    Ok(())
}

/// As little work a byte as there can be: one exclusive or, in as many lanes as two cache lines.
fn bare(bytes: &[u8]) -> u64 {
    let mut lanes = [0_u64; 16];
    for row in bytes.chunks_exact(128) {
        for (lane, word) in lanes.iter_mut().zip(row.as_chunks::<8>().0) {
            *lane ^= u64::from_le_bytes(*word);
        }
    }
    lanes.iter().fold(0, |all, lane| all ^ lane)
}

fn calls(clock: &Clock, path: &str, block: usize, count: u64) -> Result<(), Failed> {
    let source = Source::open(Path::new(path))?;
    let way = Way::Calls { count: Some(count) };
    let request = Request { block, ..Request::whole(way) };
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        best = best.min(read(&source, &request, clock)?.ns / count as f64);
    }
    say(&format!("{best:.2} ns a call of {block} bytes"))
}
