//! file.write.throughput: bytes per second of writing a file.

use std::path::PathBuf;

use fathom_fileio::read::Way;
use fathom_fileio::write::{SyncMode, WriteError, WriteOutcome, WriteRequest};
use fathom_fileio::{XorSum, read};
use rustix::io::Errno;

use super::{failed, model, not_created};
use crate::prelude::*;

metric!(WriteThroughput, ABOUT);

static ABOUT: About = About {
    id: "file.write.throughput",
    title: "file write",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "writing blocks of generated data, the syncs if any, and the close",
    not_timed: "generating and summing the data, opening and naming the file",
    model: "a bound: ≤ bytes ÷ (calls × os.syscall{call=write1} + bytes ÷ the store bandwidth of \
            one core in this run). No value: the costs of page allocation and write-back are not \
            published",
    source: "Linux mm/filemap.c: generic_perform_write copies to the page cache page by page. The \
             cost of the file system per page, and of a device for a sync, is not published",
    pitfalls: &[
        "without a sync only a copy to memory is timed: data, sync and close are shown separately",
        "compression and deduplication: the data does not compress and does not repeat",
        "a device that acknowledges data it has not written: implausibly fast syncs are reported",
        "a file that is never read may have any content: in a run the last file is read and its \
         sums are verified",
    ],
    parameters: &[
        Parameter::new("block", "bytes", "bytes per call, never rounded"),
        Parameter::new("sync", "none, data, every", "never; once at the end; after every block"),
        Parameter::new("file_bytes", "bytes", "bytes written"),
    ],
    needs: &["os.syscall", "memory.bandwidth"],
    disk: Some(MetricDisk { large: 0, own: 2 * FILE_BYTES as u64 }),
    ..super::OF_RUNS
};

const FILE_BYTES: i64 = 16 << 20;
const SMOKE_BYTES: i64 = 256 << 10;

impl Probe for WriteThroughput {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let (bytes, most) =
            if sizes.smoke { (SMOKE_BYTES, 64 << 10) } else { (FILE_BYTES, i64::MAX) };
        let case = |(block, sync, cost_ns): (i64, &str, f64)| {
            let params = Params::one("block", block.min(most)).and("sync", sync);
            ProbeCase { params: params.and("file_bytes", bytes), cost_ns }
        };
        [(64 << 10, "none", 80e6), (1 << 20, "data", 160e6)].map(case).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let kind = parsed(&case.params, WriteCase::from_params)?;
        model::write(kind.block, kind.block as u64 * kind.count, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        // Not interleaved: a sync would wait for the writeback of the other case.
        each_parsed(cases, sampler, WriteCase::from_params, |index, kind, sampler| {
            let path = files.folder.join(format!("f-{}-{index}", std::process::id()));
            let mut writing = Writing { path, kind, last: None };
            sampler.run(vec![single(index, 1, |clock| writing.measure(clock))]);
            let clock = sampler.clock().clone();
            writing.report(index, &clock, sampler)
        })
    }
}

/// The parameters of a write case.
#[derive(Clone, Copy, Debug)]
struct WriteCase {
    block: usize,
    count: u64,
    sync: SyncMode,
}

impl WriteCase {
    fn from_params(params: &Params) -> Option<Self> {
        let number = |name: &str| params.number::<u64>(name).filter(|it| *it > 0);
        let block = number("block")?;
        let sync = match params.text("sync")? {
            "none" => SyncMode::None,
            "data" => SyncMode::AtEnd,
            "every" => SyncMode::EachBlock,
            _ => return None,
        };
        let count = number("file_bytes")?.div_ceil(block);
        Some(Self { block: usize::try_from(block).ok()?, count, sync })
    }
}

/// One file, written repeatedly and removed on drop.
struct Writing {
    path: PathBuf,
    kind: WriteCase,
    last: Option<WriteOutcome>,
}

impl Writing {
    /// Writes a new file. Returns bytes per second.
    fn measure(&mut self, clock: &Clock) -> Result<f64> {
        self.remove()?;
        let WriteCase { block, count, sync } = self.kind;
        let request = WriteRequest { sync, ..WriteRequest::new(block, count) };
        let written = fathom_fileio::write(&self.path, &request, clock).map_err(fault)?;
        let bytes = block as u64 * count;
        if written.sum.bytes != bytes {
            let text = format!("{} of {bytes} bytes were written", written.sum.bytes);
            return Err(SamplerFault::WrongWork(text));
        }
        let ns = written.data_ns + written.sync_ns + written.close_ns;
        self.last = Some(written);
        Ok(1e9 * bytes as f64 / ns)
    }

    fn remove(&self) -> Result<()> {
        match rustix::fs::unlink(&self.path) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("remove the file", error)),
        }
    }

    /// Reads the last file back, and adds the checks to the sampler.
    fn report(self, index: usize, clock: &Clock, sampler: &mut Sampler) -> Result<()> {
        let Some(written) = &self.last else { return Ok(()) };
        let found = self.read_back(clock)?;
        let XorSum { xor, position, bytes } = found;
        let detail = format!("XOR-32 {xor:08x}, position sum {position:016x}, {bytes} bytes");
        sampler.check(index, "content", found == written.sum, detail);
        let WriteOutcome { calls, data_ns, sync_ns, close_ns, .. } = written;
        let times = format!(
            "{calls} calls; data {data_ns:.0} ns, sync {sync_ns:.0} ns, close {close_ns:.0} ns"
        );
        sampler.check(index, "last pass", true, times);
        Ok(())
    }

    fn read_back(&self, clock: &Clock) -> Result<XorSum> {
        let fault =
            |error: &dyn std::fmt::Display| SamplerFault::Failed(format!("read back: {error}"));
        let source = PathInfoSource::open(&self.path).map_err(|error| fault(&error))?;
        let request = read::ReadRequest::whole(Way::Pread);
        let outcome = fathom_fileio::read(&source, &request, clock);
        Ok(outcome.map_err(|error| fault(&error))?.sum)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The folder of the run is removed anyway.
        let _ = self.remove();
    }
}

fn fault(error: WriteError) -> SamplerFault {
    match error {
        WriteError::Failed { what, path, error, .. } => not_created(what, &path, error),
        _ => SamplerFault::Failed(error.to_string()),
    }
}
