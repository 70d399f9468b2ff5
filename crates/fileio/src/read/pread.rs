//! pread(2) into a buffer that stays in the cache, by threads that each have the file opened anew:
//! readahead then follows each thread, and not the leaps between them.

use std::fs::File;

use fathom_measure::Clock;
use rustix::fs::OFlags;

use super::job::{Job, Shares, Tally};
use super::{ReadError, Request, crew, failed};
use crate::kernel::reopened;
use crate::memory::Pages;

/// A thread's own file and buffer.
pub(super) struct Worker {
    pub(super) file: File,
    pub(super) buffer: Pages,
}

impl Worker {
    pub(super) fn new(file: &File, bytes: usize) -> Result<Self, ReadError> {
        let copy =
            || file.try_clone().map_err(|_| failed("open the file", rustix::io::Errno::MFILE));
        // Without /proc the threads share the position of readahead, and nothing else.
        let file = reopened(file, OFlags::RDONLY).or_else(|_| copy())?;
        let buffer = Pages::new(bytes).map_err(|error| failed("get memory", error))?;
        Ok(Self { file, buffer })
    }

    pub(super) fn many(file: &File, bytes: usize, threads: usize) -> Result<Vec<Self>, ReadError> {
        (0..threads).map(|_| Self::new(file, bytes)).collect()
    }
}

pub(super) fn run(
    job: &Job<'_>,
    request: &Request<'_>,
    clock: &Clock,
) -> Result<(Tally, f64), ReadError> {
    let workers = Worker::many(job.file, job.block, request.threads)?;
    let shares = job.shares(job.range.clone(), 0);
    crew::work(workers, clock, |mut worker| {
        let mut tally = Tally::default();
        read_shares(job, &shares, &mut worker, &mut tally);
        tally
    })
}

fn read_shares(job: &Job<'_>, shares: &Shares, worker: &mut Worker, tally: &mut Tally) {
    while let Some(share) = shares.take() {
        let mut at = share.start;
        while at < share.end {
            let length = (share.end - at).min(job.block as u64) as usize;
            if !tally.block(job, &worker.file, &mut worker.buffer, at, length) {
                return;
            }
            at += length as u64;
        }
    }
}
