//! file.write.throughput: bytes a second of a file that is written block by block.

use std::cell::RefCell;
use std::path::PathBuf;

use fathom_fileio::read::Way;
use fathom_fileio::write::{Request, Sync, WriteError, Written};
use fathom_fileio::{Source, Sum, read};
use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit};
use rustix::io::Errno;

use super::{failed, model};
use fathom_metric::{About, Case, Disk, Inputs, Needs, Parameter, Probe, Sizes};

/// file.write.throughput.
pub struct WriteThroughput;

static ABOUT: About = About {
    id: "file.write.throughput",
    title: "file write",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "writing so many blocks of generated data, the syncs that were asked for, and the \
            close",
    not_timed: "making the data and its sums, opening the file, giving it its name",
    model: "a bound: ≤ bytes ÷ (calls × os.syscall{call=write1} + bytes ÷ the rate at which one \
            core stored to memory in this run)",
    source: "Linux mm/filemap.c: generic_perform_write copies a page at a time to the page cache. \
             What a file system does for each page, and a device for a sync, no source tells",
    pitfalls: &[
        "without a sync the time is that of a copy to memory: data, sync and close are told apart \
         beside the total",
        "data that a device or a file system can compress or share: here nothing of it repeats",
        "a device that says it has written what it has not: a sync that takes no time is told",
        "a file that was written and never read may hold anything: in a run the last one is read \
         again, and its sums are held against those of the data",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call; never rounded" },
        Parameter {
            name: "sync",
            values: "none, data, every",
            meaning: "never · once at the end · after every block",
        },
        Parameter { name: "file_bytes", values: "bytes", meaning: "written in all" },
    ],
    needs: &["os.syscall", "memory.bandwidth"],
    ..super::OF_RUNS
};

const FILE_BYTES: i64 = 16 << 20;
const SMOKE_BYTES: i64 = 256 << 10;

impl Probe for WriteThroughput {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(Disk { large: 0, own: 2 * FILE_BYTES as u64 }), far: None }
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<Case> {
        let (bytes, most) = match sizes.smoke {
            true => (SMOKE_BYTES, 64 << 10),
            false => (FILE_BYTES, i64::MAX),
        };
        let case = |(block, sync, cost_ns): (i64, &str, f64)| {
            let params = Params::one("block", block.min(most)).and("sync", sync);
            Case { params: params.and("file_bytes", bytes), cost_ns }
        };
        [(64 << 10, "none", 200e6), (1 << 20, "data", 400e6)].map(case).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        match Kind::of(&case.params) {
            Some(kind) => model::write(kind.block, kind.block as u64 * kind.count, known),
            None => Err(NoModel::no_such_case(&case.params)),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let files = sampler.files()?;
        let mut writings = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            match Kind::of(&case.params) {
                Some(kind) => {
                    let path = files.folder.join(format!("f-{}-{index}", std::process::id()));
                    let writing = Writing { path, kind, last: None };
                    writings.push((index, RefCell::new(writing)));
                }
                None => {
                    let text = format!("{} is no such case", case.params);
                    sampler.fault(index, Fault::Failed(text));
                }
            }
        }
        // One after the other: what the one leaves to be written, the other's sync would wait for.
        for (index, writing) in writings {
            sampler.run(vec![Work::single(vec![index], |clock, values| {
                values[0] = writing.borrow_mut().take(clock)?;
                Ok(())
            })]);
            let clock = sampler.clock().clone();
            if let Err(fault) = writing.into_inner().tell(index, &clock, sampler) {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// A case in words that are understood.
#[derive(Clone, Copy, Debug)]
struct Kind {
    block: usize,
    count: u64,
    sync: Sync,
}

impl Kind {
    fn of(params: &Params) -> Option<Self> {
        let number = |name: &str| u64::try_from(params.integer(name)?).ok().filter(|it| *it > 0);
        let block = number("block")?;
        let sync = match params.text("sync")? {
            "none" => Sync::None,
            "data" => Sync::Data,
            "every" => Sync::Every,
            _ => return None,
        };
        let count = number("file_bytes")?.div_ceil(block);
        Some(Self { block: usize::try_from(block).ok()?, count, sync })
    }
}

/// One file, written again and again. It is gone when this is.
struct Writing {
    path: PathBuf,
    kind: Kind,
    last: Option<Written>,
}

impl Writing {
    /// Writes the file anew: bytes a second.
    fn take(&mut self, clock: &Clock) -> Result<f64, Fault> {
        self.remove()?;
        let Kind { block, count, sync } = self.kind;
        let request = Request { sync, ..Request::new(block, count) };
        let written = fathom_fileio::write(&self.path, &request, clock).map_err(fault)?;
        let asked = block as u64 * count;
        if written.sum.bytes != asked {
            let text = format!("{} of {asked} bytes were written", written.sum.bytes);
            return Err(Fault::WrongWork(text));
        }
        let ns = written.data_ns + written.sync_ns + written.close_ns;
        self.last = Some(written);
        Ok(1e9 * asked as f64 / ns)
    }

    fn remove(&self) -> Result<(), Fault> {
        match rustix::fs::unlink(&self.path) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("remove the file", error)),
        }
    }

    /// Reads the last file again, and hands what was verified to the sampler.
    fn tell(self, index: usize, clock: &Clock, sampler: &mut Sampler) -> Result<(), Fault> {
        let Some(written) = &self.last else { return Ok(()) };
        let found = self.read_again(clock)?;
        let Sum { xor, position, bytes } = found;
        let detail = format!("XOR-32 {xor:08x}, position sum {position:016x}, {bytes} bytes");
        sampler.check(index, "content", found == written.sum, detail);
        let Written { calls, data_ns, sync_ns, close_ns, .. } = written;
        let detail = format!(
            "{calls} calls; data {data_ns:.0} ns, sync {sync_ns:.0} ns, close {close_ns:.0} ns"
        );
        sampler.check(index, "last pass", true, detail);
        Ok(())
    }

    fn read_again(&self, clock: &Clock) -> Result<Sum, Fault> {
        let told = |error: &dyn std::fmt::Display| Fault::Failed(format!("read it again: {error}"));
        let source = Source::open(&self.path).map_err(|error| told(&error))?;
        let request = read::Request::whole(Way::Pread);
        let outcome = fathom_fileio::read(&source, &request, clock);
        Ok(outcome.map_err(|error| told(&error))?.sum)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // What cannot be removed goes with the folder.
        let _ = self.remove();
    }
}

fn fault(error: WriteError) -> Fault {
    match error {
        WriteError::Failed { error: errno, .. } => failed(&error.to_string(), errno),
        _ => Fault::Failed(error.to_string()),
    }
}
