//! file.call: one small system call on a cached file.

use fathom_fileio::FileGenerator;
use fathom_fileio::loops::{Call, CallLoop, STREAM_BUFFER};
use fathom_fileio::scratch::Scratch;

use rustix::io::Errno;

use super::state::{FileState, describe};
use super::{failed, generated_file};
use crate::memory::latency::model::Level;
use crate::prelude::*;

metric!(FileCall, ABOUT);

static ABOUT: About = About {
    id: "file.call",
    title: "call on a cached file",
    timed: "one system call without the C library on a cached file of 1 MiB; buffered_read1: one \
            byte from a user-space buffer of 8 KiB, refilled by read(2); lseek: from block to \
            block of 4 KiB",
    not_timed: "opening the file; processing the data",
    model: "read1: bound, ≥ os.syscall{call=read1}; pread4k: file.call{call=read1} + 4096 ÷ \
            memory.bandwidth{op=read,level=l2}, ± 20 %; lseek: os.syscall{call=getppid}, ± 20 %; \
            fstat: os.syscall{call=fstat}, ± 30 %; read4: as read1, ± 30 %; buffered_read1: \
            bound, ≥ file.call{call=read1} ÷ 8192. No value for the reads of a byte: the page \
            cache lookup and its locks are known from this metric alone",
    source: "Linux mm/filemap.c: filemap_read looks up the page and copies from it, where \
             /dev/zero only clears memory; fs/stat.c: fstat does the same for any file",
    pitfalls: &[
        "at the end of a file read returns 0 and is faster: each result is checked, and only full \
         reads count; the lseek back is timed, once per 1 MiB",
        "buffered_read1 uses Rust's BufReader: its buffer is twice that of most C libraries, and \
         it takes no lock",
        "evicted pages: cachestat and mincore count the pages before and after",
        "repeated calls find the page in the L1 cache: see file.read.throughput for a pass over a \
         large file",
    ],
    parameters: &[
        Parameter::new(
            "call",
            "read1, read4, pread4k, lseek, fstat, buffered_read1",
            "sequential reads of 1 byte or 4 bytes; the first 4 KiB; to the next block; \
                      attributes; 1 byte through a user-space buffer",
        ),
        Parameter::new(
            "block",
            "bytes",
            "of reads or seeks over a whole file (`fathom file calls`)",
        ),
        Parameter::new("calls", "count", "calls of a pass (`fathom file calls`)"),
    ],
    needs: &["os.syscall", "memory.bandwidth"],
    requires: "a folder on a device",
    // Each call trains the branch predictors differently, as for os.syscall.
    cases_share_visits: false,
    disk: Some(MetricDisk { large: 0, own: FILE_BYTES }),
    ..About::BASE
};

const FILE_BYTES: u64 = 1 << 20;
const BLOCK: usize = 4096;
const SEED: u64 = 1;

impl Probe for FileCall {
    fn selection(&self, _: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        // No device is involved.
        Ok(Stratum::ToItself)
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        Call::NAMED
            .map(|(call, _)| ProbeCase { params: Params::one("call", call), cost_ns: 8e6 })
            .into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let of_file = "the same entry and exit, plus the page cache lookup";
        let (factor, metric, call, source) = match case.params.text("call") {
            Some("read1" | "read") => (1.0, "os.syscall", "read1", of_file),
            Some("pread4k") => return with_copy(known),
            Some("lseek") => {
                let source = "Linux fs/read_write.c, ksys_lseek: entry, exit and as little between \
                              as for getppid, as the file of one thread is not locked";
                let terms = [Term::once("os.syscall", getppid())];
                let otherwise = "the file system sets the offset in its own way, or the kernel \
                                 locks it";
                let sum = Sum { terms: &terms, tolerance: 0.2, source, otherwise };
                return Ok(sum.predict(known)?.self_consistent());
            }
            Some("read4") => {
                let source = "the same kernel path for three more bytes";
                return same(ABOUT.id, "read1", source, known);
            }
            Some("fstat") => {
                let source = "the same call; the file system adds little";
                return same("os.syscall", "fstat", source, known);
            }
            _ => {
                let source = "one system call per buffer";
                (1.0 / STREAM_BUFFER as f64, ABOUT.id, "read1", source)
            }
        };
        Order { factor, metric, source }.claim(&Params::one("call", call), known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        each(cases, sampler, |index, case, sampler| {
            let scratch = generated_file::write_synced(&files.folder, FILE_BYTES, SEED)?;
            measure(case.params.text("call").unwrap_or_default(), &scratch, index, sampler)
        })
    }
}

/// Predicts the cost of another call.
fn same(metric: &str, call: &str, source: &str, known: &Inputs<'_>) -> Model {
    let otherwise = "the file system does more work for one of the two";
    same_as((metric, Params::one("call", call)), 0.3, (source, otherwise), known)
}

/// The call for one byte, and the copy of a page that is cached in L2.
fn with_copy(known: &Inputs<'_>) -> Model {
    let call = Params::one("call", "read1");
    let levels = [Level::Cache(2)];
    let read = super::model::block_read((&call, BLOCK as f64), &levels, 0.2, known)?;
    // The call for one byte is nearly all of it.
    Ok(read.self_consistent())
}

fn measure(name: &str, scratch: &Scratch, index: usize, sampler: &mut Sampler) -> Result<()> {
    let call =
        Call::named(name).ok_or_else(|| SamplerFault::Failed(format!("unknown call {name}")))?;
    FileState::Warm.prepare(scratch.file())?;
    let mut again = CallLoop::new(call, scratch.file()).map_err(|error| failed(name, error))?;
    if again.repeat(1).map_err(|error| first_call_fault(name, error))? != 1 {
        return Err(SamplerFault::WrongWork(format!("{name}: wrong result of the first call")));
    }
    // An error counts as 0 calls, which makes the record invalid.
    let kernel = move |calls| again.repeat(calls).unwrap_or(0);
    sampler.run(vec![SamplerWork::batched(index, kernel)]);
    let is = FileState::Warm.prepare(scratch.file())?;
    sampler.check(index, "in memory", true, describe(&is) + ", before and after");
    let (passed, detail) = verified(name, call, scratch)?;
    sampler.check(index, "content", passed, detail);
    Ok(())
}

/// A call blocked by a sandbox is unavailable, not failed.
fn first_call_fault(name: &str, error: Errno) -> SamplerFault {
    match error {
        Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
            SamplerFault::unavailable(format!("{name}: {error}"), Remedy::LeaveSandbox)
        }
        error => failed(name, error),
    }
}

/// Verifies the data of one more call at the beginning of the file.
fn verified(name: &str, call: Call, scratch: &Scratch) -> Result<(bool, String)> {
    let mut again = CallLoop::new(call, scratch.file()).map_err(|error| failed(name, error))?;
    let done = again.repeat(1).map_err(|error| failed(name, error))?;
    let mut expected = vec![0; call.bytes()];
    FileGenerator::new(SEED).fill(0, &mut expected);
    let detail = match call {
        Call::Seek(_) => "each call returned the offset".to_owned(),
        Call::Stat => format!("each call returned {FILE_BYTES} bytes"),
        _ => format!("the first {} bytes as written", call.bytes()),
    };
    Ok((done == 1 && again.last() == expected, detail))
}
