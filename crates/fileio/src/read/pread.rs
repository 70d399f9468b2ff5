//! pread(2) into a buffer that stays in the CPU cache. Each thread opens the file for itself:
//! readahead state belongs to the open file, and would see random offsets if threads shared it.

use std::fs::File;

use fathom_measure::Clock;
use rustix::fs::{Advice, OFlags, fadvise};

use super::job::{Chunks, Job, Tally};
use super::{ReadError, Request, failed, threads};
use crate::memory::Pages;
use crate::syscall::reopened;

/// The open file and the buffer of one thread.
pub(super) struct Worker {
    pub(super) file: File,
    pub(super) buffer: Pages,
}

impl Worker {
    pub(super) fn new(file: &File, bytes: usize) -> Result<Self, ReadError> {
        let copy =
            || file.try_clone().map_err(|_| failed("open the file", rustix::io::Errno::MFILE));
        // Without /proc the threads share the readahead state.
        let file = reopened(file, OFlags::RDONLY).or_else(|_| copy())?;
        let buffer = Pages::new(bytes).map_err(|error| failed("allocate memory", error))?;
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
    let chunks = job.chunks(job.range.clone(), 0);
    threads::run(workers, clock, |mut worker| {
        let mut tally = Tally::default();
        if job.look.is_some() {
            // A read that finds an uncached page must not start readahead past its block.
            let _ = fadvise(&worker.file, 0, None, Advice::Random);
        }
        read_chunks(job, &chunks, &mut worker, &mut tally);
        tally
    })
}

fn read_chunks(job: &Job<'_>, chunks: &Chunks, worker: &mut Worker, tally: &mut Tally) {
    while let Some(mut chunk) = chunks.take() {
        if let Some(look) = job.look {
            tally.read_cached(job, look, worker, &mut chunk);
            if !chunk.is_empty() && !look.is_cached(job.file, &chunk) {
                continue;
            }
        }
        let mut at = chunk.start;
        while at < chunk.end {
            let length = (chunk.end - at).min(job.block as u64) as usize;
            if !tally.read_block(job, &worker.file, &mut worker.buffer, at, length) {
                return;
            }
            at += length as u64;
        }
    }
}
