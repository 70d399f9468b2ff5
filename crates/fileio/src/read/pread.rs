//! pread(2) into a buffer that stays in the CPU cache. Each thread opens the file for itself:
//! readahead state belongs to the open file, and would see random offsets if threads shared it.

use fathom_measure::Clock;
use rustix::fs::{Advice, fadvise};

use super::job::{ReadChunks, ReadJob, ReadTally};
use super::worker::Worker;
use super::{ReadError, ReadRequest, threads};
use crate::memory::MemoryPool;

pub(super) fn run(
    job: &ReadJob<'_>,
    request: &ReadRequest<'_>,
    clock: &Clock,
    pool: &MemoryPool,
) -> Result<(ReadTally, f64), ReadError> {
    let workers = Worker::many(job.file, job.block, request.threads, pool)?;
    let chunks = job.chunks(job.range.clone(), 0);
    threads::run(workers, clock, |mut worker| {
        let mut tally = ReadTally::default();
        if job.look.is_some() {
            // A read that finds an uncached page must not start readahead past its block.
            let _ = fadvise(&worker.file, 0, None, Advice::Random);
        }
        read_chunks(job, &chunks, &mut worker, &mut tally);
        pool.give(worker.buffer);
        tally
    })
}

fn read_chunks(job: &ReadJob<'_>, chunks: &ReadChunks, worker: &mut Worker, tally: &mut ReadTally) {
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
