//! file.fsync: writes and syncs a small new file.

use std::fs::File;

use fathom_fileio::residency;

use super::failed;
use super::small_files::{SmallFiles, cases_of_small, disk_of_small, visit_small};
use crate::prelude::*;

pub struct Fsync;

static ABOUT: About = About {
    id: "file.fsync",
    title: "small file write and fsync",
    timed: "one write of all bytes of a new file, if any, and fsync",
    not_timed: "creating, closing and deleting the file; fsync of the folder, without which its \
                name may be lost",
    model: "a bound: ≥ os.syscall{call=getppid}, twice if it has bytes. No published figure for \
            the device",
    source: "Linux fs/sync.c: vfs_fsync; fs/ext4/fsync.c: journal commit and flush of the device \
             cache",
    pitfalls: &[
        "a device may acknowledge data that is only in its volatile cache: no program can detect \
         that, but a few microseconds are too fast for flash or disk",
        "a virtual disk may ignore flushes",
        "fsync waits for other writes to the same journal: on a busy machine those dominate",
        "cachestat verifies after each fsync that no page is dirty",
    ],
    parameters: &[Parameter { name: "bytes", values: "0, 1K, 4K, 10K", meaning: "of the file" }],
    noise_limit: 0.30,
    ..super::OF_RUNS
};

impl Probe for Fsync {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(disk_of_small(1)), far: None }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        cases_of_small(60e6)
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Model {
        let (factor, source) = match case.params.integer("bytes") {
            Some(0) => (1.0, "the same entry and exit, plus the file system"),
            _ => (2.0, "two system calls, plus file system and device"),
        };
        at_least_getppid(factor, source, known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<()> {
        let check = ("written", "no dirty page after each fsync, by cachestat where available");
        visit_small(cases, sampler, 1, check, |set, clock| {
            let file = set.open(0)?;
            let ns = synced(set, &file, clock)?;
            set.delete()?;
            Ok(ns)
        })
    }
}

/// Writes and syncs a file. Returns nanoseconds.
fn synced(set: &SmallFiles, file: &File, clock: &Clock) -> Result<f64> {
    let start = clock.start();
    set.write(file)?;
    rustix::fs::fsync(file).map_err(|error| failed("fsync", error))?;
    let stop = clock.stop();
    let is = residency::of(file);
    // `dirty` is 0 if only mincore counted.
    if is.dirty > 0 {
        let text = format!("{} of {} bytes are dirty after fsync", is.dirty, is.bytes);
        return Err(Fault::WrongWork(text));
    }
    Ok(clock.ns(start, stop))
}
