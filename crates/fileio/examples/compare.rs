//! Reads a file in memory by every way, and prints how fast: to be held against other programs.
//! `compare sums` and `compare calls FILE B N` look at single parts. Nobody installs it.

use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use fathom_fileio::memory::Pages;
use fathom_fileio::read::{BLOCK, Request, Way};
use fathom_fileio::sum::Kernel;
use fathom_fileio::{Generator, Source, Sum, read, residency};
use fathom_measure::Clock;
use fathom_measure::clock::Watch;

type Failed = Box<dyn std::error::Error>;

/// How often each is tried; the best is printed.
const TRIES: usize = 5;

fn main() -> Result<(), Failed> {
    let watch = Watch::begin(&fathom_measure::host::read())?;
    let clock = watch.clock();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sums"] => sums(clock),
        ["calls", path, block, count] => calls(clock, path, block.parse()?, count.parse()?),
        [path] => ways(clock, path),
        [path, way, threads, block] => {
            let way = match *way {
                "map" => Way::Map,
                _ => Way::Pread,
            };
            one(clock, path, way, threads.parse()?, block.parse()?)
        }
        _ => Err("usage: compare FILE | sums | calls FILE BLOCK COUNT".into()),
    }
}

fn say(line: &str) -> Result<(), Failed> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn ways(clock: &Clock, path: &str) -> Result<(), Failed> {
    for way in [Way::Pread, Way::Map, Way::Direct, Way::Ring { depth: 16 }] {
        let block = if way == Way::Pread || way == Way::Map { BLOCK } else { 1 << 20 };
        for threads in [1, 2] {
            one(clock, path, way, threads, block)?;
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
