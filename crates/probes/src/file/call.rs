//! file.call: one small call on a file that is in memory.

use fathom_fileio::Generator;
use fathom_fileio::loops::{Call, Loop, STREAM};
use fathom_fileio::scratch::Scratch;
use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{
    Better, Host, NoModel, NotSelected, Params, Prediction, Remedy, Stratum, Unit,
};

use rustix::io::Errno;

use super::state::{State, words};
use super::{failed, held};
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Disk, Inputs, Needs, Parameter, Probe, Sizes};

/// file.call.
pub struct FileCall;

static ABOUT: About = About {
    id: "file.call",
    title: "call on a cached file",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "one system call by the bare instruction on a file of 1 MiB that is in memory; \
            buffered_read1: one byte taken from a buffer of 8 KiB in the program, which read(2) \
            fills again when it is empty; lseek: to block after block of 4 KiB",
    not_timed: "opening the file; any look at what was read",
    model: "read1 and pread4k: orders, ≥ os.syscall{call=read1}; lseek: ≥ \
            os.syscall{call=invalid}, which is entry and exit alone; \
            fstat: os.syscall{call=fstat}, ± 30 %; read4: as read1, ± 30 %; buffered_read1: an \
            order, ≥ file.call{call=read1} ÷ 8192",
    source: "Linux mm/filemap.c: filemap_read looks the page up and copies from it, where \
             /dev/zero only clears; fs/stat.c: fstat asks the same of any file",
    pitfalls: &[
        "at the end of a file read returns 0 and is quick: every result is compared with the \
         bytes asked for; one that met the end is not counted, and the lseek back is in the time, \
         once in the file's 1 MiB",
        "the buffer of the C library is another program's loop: buffered_read1 takes its bytes \
         by the reader of Rust's standard library, whose buffer is twice that of most stdios, and \
         which has no locks",
        "a file that is not in memory: cachestat and mincore count its pages before and after",
        "the same page again and again lies in the nearest cache: a pass over a large file is \
         file.read.throughput",
    ],
    parameters: &[
        Parameter {
            name: "call",
            values: "read1, read4, pread4k, lseek, fstat, buffered_read1",
            meaning: "1 byte, 4 bytes, one after another; the first 4 KiB; to the next block; \
                      attributes; 1 byte by a buffer in the program",
        },
        Parameter {
            name: "block",
            values: "bytes",
            meaning: "of a read or a seek over a whole file, by hand (`file calls`)",
        },
    ],
    needs: &["os.syscall"],
    requires: "a folder on a device",
    noise_limit: 0.05,
    ..About::BASE
};

const FILE_BYTES: u64 = 1 << 20;
const SEED: u64 = 1;

impl Probe for FileCall {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn selection(&self, _: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        // Of a file in memory: no device answers.
        Ok(Stratum::FullSpeed)
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(Disk { large: 0, own: FILE_BYTES }), far: None }
    }

    /// As system calls do, each leaves predictors in a state that the next would pay for.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        Call::NAMED
            .map(|(call, _)| Case { params: Params::one("call", call), cost_ns: 12e6 })
            .into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let of_file = "the same entry and exit, and a page of a file to be looked up";
        let (factor, metric, call, source) = match case.params.text("call") {
            Some("read1" | "read" | "pread4k") => (1.0, "os.syscall", "read1", of_file),
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
                (1.0 / STREAM as f64, ABOUT.id, "read1", source)
            }
        };
        Order { factor, metric, source }.claim(&Params::one("call", call), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let files = sampler.files()?;
        for (index, case) in cases.iter().enumerate() {
            let scratch = held::written(&files.folder, FILE_BYTES, SEED)?;
            let call = case.params.text("call").unwrap_or_default();
            if let Err(fault) = take(call, &scratch, index, sampler) {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// The claim that it costs what another call does.
fn same(metric: &str, call: &str, source: &str, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let terms = [Term { times: 1.0, metric, params: Params::one("call", call) }];
    let otherwise = "the file system does more for the one than for the other";
    Sum { terms: &terms, tolerance: 0.3, source, otherwise }.predict(known)
}

/// One call on one file, over and over.
fn take(name: &str, scratch: &Scratch, index: usize, sampler: &mut Sampler) -> Result<(), Fault> {
    let call =
        Call::named(name).ok_or_else(|| Fault::Failed(format!("no call is known as {name}")))?;
    State::Warm.prepare(scratch.file())?;
    let mut again = Loop::new(call, scratch.file()).map_err(|error| failed(name, error))?;
    if again.repeat(1).map_err(|error| refused(name, error))? != 1 {
        return Err(Fault::WrongWork(format!("{name}: the trial did not do what it was to do")));
    }
    // A call that fails did not do its work, and is not counted.
    let kernel = move |calls| again.repeat(calls).unwrap_or(0);
    sampler.run(vec![Work::batched(index, kernel)]);
    let is = State::Warm.prepare(scratch.file())?;
    sampler.check(index, "in memory", true, words(&is) + ", before and after");
    let (passed, detail) = verified(name, call, scratch)?;
    sampler.check(index, "content", passed, detail);
    Ok(())
}

/// A call that a sandbox forbids is none that failed.
fn refused(name: &str, error: Errno) -> Fault {
    match error {
        Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
            Fault::unavailable(format!("{name}: {error}"), Remedy::LeaveSandbox)
        }
        error => failed(name, error),
    }
}

/// Whether the call gives what was written, by one more of it at the beginning.
fn verified(name: &str, call: Call, scratch: &Scratch) -> Result<(bool, String), Fault> {
    let mut again = Loop::new(call, scratch.file()).map_err(|error| failed(name, error))?;
    let done = again.repeat(1).map_err(|error| failed(name, error))?;
    let mut expected = vec![0; call.bytes()];
    Generator::new(SEED).fill(0, &mut expected);
    let detail = match call {
        Call::Seek(_) => "each call returned the offset".to_owned(),
        Call::Stat => format!("each call told {FILE_BYTES} bytes"),
        _ => format!("{} bytes at the beginning held against what was written", call.bytes()),
    };
    Ok((done == 1 && again.last() == expected, detail))
}
