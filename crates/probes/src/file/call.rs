//! file.call: one small call on a file that is in memory.

use std::cell::UnsafeCell;
use std::os::fd::AsRawFd as _;

use fathom_fileio::Generator;
use fathom_fileio::scratch::Scratch;
use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit, Waits};

use super::held;
use super::state::{State, words};
use crate::ordinal::Order;
use crate::os::raw_call::{RawCall, system_call};
use crate::os::syscall::tried;
use crate::sum::{Sum, Term};
use crate::{About, Case, Disk, Known, Parameter, Plan, Probe};

/// file.call.
pub struct FileCall;

static ABOUT: About = About {
    id: "file.call",
    title: "call on a cached file",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "one system call by the bare instruction on a file of 1 MiB that is in memory; \
            buffered_read1: one byte taken from a buffer of 8 KiB in the program, which read(2) \
            fills again when it is empty",
    not_timed: "opening the file; going back to its beginning, once in a batch; any look at what \
                was read",
    model: "read1 and pread4k: orders, ≥ os.syscall{call=read1}; lseek: ≥ \
            os.syscall{call=invalid}, which is entry and exit alone; \
            fstat: os.syscall{call=fstat}, ± 30 %; read4: as read1, ± 30 %; buffered_read1: an \
            order, ≥ file.call{call=read1} ÷ 8192",
    source: "Linux mm/filemap.c: filemap_read looks the page up and copies from it, where \
             /dev/zero only clears; fs/stat.c: fstat asks the same of any file",
    pitfalls: &[
        "at the end of a file read returns 0 and is quick: every result is compared with the \
         bytes asked for, and a batch goes back to the beginning before the end is met",
        "the buffer of the C library is another program's loop: buffered_read1 has a loop of its \
         own, of the size that stdio has on many systems twice over, and without its locks",
        "a file that is not in memory: cachestat and mincore count its pages before and after",
        "the same page again and again lies in the nearest cache: a pass over a large file is \
         file.read.throughput",
    ],
    parameters: &[Parameter {
        name: "call",
        values: "read1, read4, pread4k, lseek, fstat, buffered_read1",
        meaning: "1 byte, 4 bytes, one after another; the first 4 KiB; to the beginning; \
                  attributes; 1 byte by a buffer in the program",
    }],
    needs: &["os.syscall"],
    requires: "a folder on a device (--folder)",
    published: "",
    waits: Waits::Never,
    noise_limit: 0.05,
};

const CALLS: [&str; 6] = ["read1", "read4", "pread4k", "lseek", "fstat", "buffered_read1"];
const FILE_BYTES: u64 = 1 << 20;
const SEED: u64 = 1;
/// What the loop of a byte at a time reads at once.
const BUFFER_BYTES: usize = 8 << 10;
const BLOCK_BYTES: usize = 4096;

impl Probe for FileCall {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn disk(&self) -> Option<Disk> {
        Some(Disk { large: 0, own: FILE_BYTES })
    }

    /// As system calls do, each leaves predictors in a state that the next would pay for.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Plan) -> Vec<Case> {
        CALLS.map(|call| Case { params: Params::one("call", call), cost_ns: 12e6 }).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let of_file = "the same entry and exit, and a page of a file to be looked up";
        let (factor, metric, call, source) = match case.params.text("call") {
            Some("read1" | "pread4k") => (1.0, "os.syscall", "read1", of_file),
            Some("lseek") => {
                let source = "entry and exit, and a position to be set: getppid looks up more";
                (1.0, "os.syscall", "invalid", source)
            }
            Some("read4") => {
                let source = "three bytes more on the same way through the kernel";
                return same(ABOUT.id, "read1", source, known);
            }
            Some("fstat") => {
                let source = "the same call; what a file system adds of its own is little";
                return same("os.syscall", "fstat", source, known);
            }
            _ => {
                let source = "the kernel is entered once for as many bytes as the buffer holds";
                (1.0 / BUFFER_BYTES as f64, ABOUT.id, "read1", source)
            }
        };
        Order { factor, metric, source }.claim(&Params::one("call", call), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let files = sampler.files()?;
        for (index, case) in cases.iter().enumerate() {
            let target = Target::of(held::written(&files.folder, FILE_BYTES, SEED)?);
            let call = case.params.text("call").unwrap_or_default();
            if let Err(fault) = target.take(call, index, sampler) {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// The claim that it costs what another call does.
fn same(metric: &str, call: &str, source: &str, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let terms = [Term { times: 1.0, metric, params: Params::one("call", call) }];
    let otherwise = "the file system does more for the one than for the other";
    Sum { terms: &terms, tolerance: 0.3, source, otherwise }.predict(known)
}

/// The file and what calls on it write to. Calls hold addresses in it, and must not outlive it.
struct Target {
    scratch: Scratch,
    block: Box<UnsafeCell<[u8; BLOCK_BYTES]>>,
    stat: Box<UnsafeCell<std::mem::MaybeUninit<libc::stat>>>,
}

impl Target {
    fn of(scratch: Scratch) -> Self {
        let block = Box::new(UnsafeCell::new([0; BLOCK_BYTES]));
        Self { scratch, block, stat: Box::new(UnsafeCell::new(std::mem::MaybeUninit::uninit())) }
    }

    fn take(&self, name: &str, index: usize, sampler: &mut Sampler) -> Result<(), Fault> {
        State::Warm.prepare(self.scratch.file())?;
        if name == "buffered_read1" {
            let mut reader = Buffered::of(self)?;
            sampler.run(vec![Work::batched(index, move |bytes| reader.take(bytes))]);
        } else {
            let call = self.call(name)?;
            let call = tried(name, call, call.repeat(1), None)?;
            let step = self.step(name);
            sampler.run(vec![Work::batched(index, move |calls| self.repeat(call, calls, step))]);
        }
        let is = State::Warm.prepare(self.scratch.file())?;
        sampler.check(index, "in memory", true, words(&is) + ", before and after");
        let (passed, detail) = self.verified(name)?;
        sampler.check(index, "content", passed, detail);
        Ok(())
    }

    fn call(&self, name: &str) -> Result<RawCall, Fault> {
        let file = self.scratch.file().as_raw_fd() as usize;
        let (block, stat) = (self.block.get() as usize, self.stat.get() as usize);
        let (number, arguments, expected) = match name {
            "read1" => (libc::SYS_read, [file, block, 1, 0], 1),
            "read4" => (libc::SYS_read, [file, block, 4, 0], 4),
            "pread4k" => {
                let bytes = BLOCK_BYTES as isize;
                (libc::SYS_pread64, [file, block, BLOCK_BYTES, 0], bytes)
            }
            "lseek" => (libc::SYS_lseek, [file, 0, libc::SEEK_SET as usize, 0], 0),
            "fstat" => (libc::SYS_fstat, [file, stat, 0, 0], 0),
            _ => return Err(Fault::Failed(format!("no call is known as {name}"))),
        };
        // SAFETY: the buffers are as large as the calls fill, and are read by this program between
        // batches only; `self` outlives the work that repeats the call.
        Ok(unsafe { RawCall::new(number, arguments, expected) })
    }

    /// Bytes by which a call moves on in the file.
    fn step(&self, name: &str) -> u64 {
        match name {
            "read1" => 1,
            "read4" => 4,
            _ => 0,
        }
    }

    /// Makes a call so many times, beginning anew before the file ends.
    fn repeat(&self, call: RawCall, calls: u64, step: u64) -> u64 {
        let at_once = FILE_BYTES.checked_div(step).unwrap_or(u64::MAX);
        let (mut left, mut good) = (calls, 0);
        while left > 0 {
            if step > 0 {
                self.rewind();
            }
            let some = left.min(at_once);
            good += call.repeat(some);
            left -= some;
        }
        good
    }

    fn rewind(&self) {
        let file = self.scratch.file().as_raw_fd() as usize;
        // SAFETY: the descriptor is open; the call takes no pointer.
        unsafe { system_call(libc::SYS_lseek, [file, 0, libc::SEEK_SET as usize, 0]) };
    }

    /// Whether the call read what was written, by one more of it at the beginning.
    fn verified(&self, name: &str) -> Result<(bool, String), Fault> {
        let mut expected = [0; BLOCK_BYTES];
        Generator::new(SEED).fill(0, &mut expected);
        let bytes = match name {
            "read1" | "buffered_read1" => 1,
            "read4" => 4,
            "pread4k" => BLOCK_BYTES,
            "lseek" => return Ok((true, "each call returned the offset".to_owned())),
            _ => {
                let told = rustix::fs::fstat(self.scratch.file()).map(|stat| stat.st_size);
                let passed = told == Ok(FILE_BYTES as i64);
                return Ok((passed, format!("{told:?} bytes told, {FILE_BYTES} written")));
            }
        };
        let found = if name == "buffered_read1" {
            Buffered::of(self)?.byte().map(|byte| vec![byte])
        } else {
            self.rewind();
            let good = self.call(name)?.repeat(1);
            // SAFETY: no call is under way, and nothing else refers to the block.
            let block = unsafe { &*self.block.get() };
            (good == 1).then(|| block[..bytes].to_vec())
        };
        let passed = found.as_deref() == Some(&expected[..bytes]);
        Ok((passed, format!("{bytes} bytes at the beginning held against what was written")))
    }
}

/// A byte at a time by a buffer of the program.
struct Buffered<'t> {
    target: &'t Target,
    fill: RawCall,
    buffer: Box<UnsafeCell<[u8; BUFFER_BYTES]>>,
    at: usize,
    filled: usize,
    read: u64,
}

impl<'t> Buffered<'t> {
    fn of(target: &'t Target) -> Result<Self, Fault> {
        let buffer = Box::new(UnsafeCell::new([0; BUFFER_BYTES]));
        let file = target.scratch.file().as_raw_fd() as usize;
        let arguments = [file, buffer.get() as usize, BUFFER_BYTES, 0];
        // SAFETY: the buffer is as large as the call fills, and lives in the value that makes it.
        let fill = unsafe { RawCall::new(libc::SYS_read, arguments, BUFFER_BYTES as isize) };
        target.rewind();
        Ok(Self { target, fill, buffer, at: 0, filled: 0, read: 0 })
    }

    /// The next byte.
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        if self.at == self.filled && !self.refill() {
            return None;
        }
        let at = self.at;
        self.at += 1;
        // SAFETY: no call is under way, and nothing else refers to the buffer.
        let buffer = unsafe { &*self.buffer.get() };
        buffer.get(at).copied()
    }

    #[inline(never)]
    fn refill(&mut self) -> bool {
        if self.read == FILE_BYTES {
            self.target.rewind();
            self.read = 0;
        }
        let good = self.fill.repeat(1) == 1;
        (self.at, self.filled) = (0, BUFFER_BYTES);
        self.read += BUFFER_BYTES as u64;
        good
    }

    /// Takes so many bytes, and says how many there were.
    fn take(&mut self, bytes: u64) -> u64 {
        let mut good = 0;
        for _ in 0..bytes {
            // Looked at one by one, as a program does that is given one at a time.
            good += u64::from(std::hint::black_box(self.byte()).is_some());
        }
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn bytes_by_a_buffer_are_those_of_the_file_and_then_of_its_beginning() {
        let Some(place) = smoke::place() else { return };
        let target = Target::of(held::written(&place.folder, FILE_BYTES, SEED).unwrap());
        let mut expected = vec![0; FILE_BYTES as usize];
        Generator::new(SEED).fill(0, &mut expected);
        let mut reader = Buffered::of(&target).unwrap();
        let found: Vec<u8> = (0..FILE_BYTES).map(|_| reader.byte().unwrap()).collect();
        assert!(found == expected);
        assert_eq!(reader.byte(), Some(expected[0]));
    }

    #[test]
    fn calls_go_round_before_the_file_ends_and_a_call_beyond_it_does_not_count() {
        let Some(place) = smoke::place() else { return };
        let target = Target::of(held::written(&place.folder, FILE_BYTES, SEED).unwrap());
        let call = target.call("read4").unwrap();
        let calls = FILE_BYTES / 4 + 10;
        assert_eq!(target.repeat(call, calls, 4), calls);
        target.rewind();
        assert_eq!(call.repeat(calls), FILE_BYTES / 4, "the end was met");
    }
}
