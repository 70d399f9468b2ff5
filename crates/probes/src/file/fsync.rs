//! file.fsync: a small new file is written and brought to its device.

use std::fs::File;

use fathom_fileio::residency::{self, Witness};
use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler};
use fathom_record::{Host, NoModel, Params, Prediction};

use super::failed;
use super::named::{Named, cases_of_small, disk_of_small, visit_small};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Needs, Parameter, Probe, Sizes};

/// file.fsync.
pub struct Fsync;

static ABOUT: About = About {
    id: "file.fsync",
    title: "small file to its device",
    timed: "all bytes of a new file by one call, where it has any, and fsync of it",
    not_timed: "making the file, closing it and taking it away, and the fsync of its folder, \
                without which its name may be lost",
    model: "a bound: ≥ os.syscall{call=getppid}, twice where it has bytes. No figure is published \
            for the device",
    source: "Linux fs/sync.c: vfs_fsync; fs/ext4/fsync.c: the journal's commit, and a flush of the \
             device's cache",
    pitfalls: &[
        "a device that says it has written what it only keeps in a cache: no program can see it, \
         but a few microseconds are no write to flash or disk",
        "a virtual disk may flush nothing: what it answers is the host's word",
        "an fsync waits for what others have to write to the same journal: on a busy machine it \
         is theirs that is measured",
        "that nothing is left to be written is counted by cachestat after each",
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

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let (factor, source) = match case.params.integer("bytes") {
            Some(0) => (1.0, "the same entry and exit, and whatever the file system does"),
            _ => (2.0, "two system calls, and whatever the file system and the device do"),
        };
        let order = Order { factor, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let check = ("written", "nothing left to be written after each, where cachestat tells");
        visit_small(cases, sampler, 1, check, |set, clock| {
            let file = set.open(0)?;
            let ns = synced(set, &file, clock)?;
            set.delete()?;
            Ok(ns)
        })
    }
}

/// Writes and syncs a file; nanoseconds.
fn synced(set: &Named, file: &File, clock: &Clock) -> Result<f64, Fault> {
    let start = clock.start();
    set.write(file)?;
    rustix::fs::fsync(file).map_err(|error| failed("fsync", error))?;
    let stop = clock.stop();
    let is = residency::of(file);
    // mincore knows of no dirty pages, and an empty file has none.
    let tells = matches!(is.witness, Witness::Both | Witness::Cachestat);
    if tells && is.dirty > 0 {
        let text = format!("{} of {} bytes are not yet written", is.dirty, is.bytes);
        return Err(Fault::WrongWork(text));
    }
    Ok(clock.ns(start, stop))
}
