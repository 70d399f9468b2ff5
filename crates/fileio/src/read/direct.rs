//! Direct I/O by pread(2): reads the aligned middle of a range. The unaligned ends are buffered
//! reads.

use std::fs::File;
use std::ops::Range;

use fathom_measure::Clock;
use rustix::fs::OFlags;

use super::job::{ReadChunks, ReadJob, ReadTally};
use super::worker::Worker;
use super::{ReadError, ReadRequest, threads};
use crate::memory::MemoryPool;
use crate::syscall::reopened;

/// The aligned part of a range, which may be empty.
pub(super) fn middle(range: &Range<u64>, alignment: u64) -> Range<u64> {
    let start = range.start.next_multiple_of(alignment).min(range.end);
    start..(range.end / alignment * alignment).max(start)
}

/// Opens the file with O_DIRECT.
pub(super) fn open_direct(file: &File, block: usize, alignment: u64) -> Result<File, ReadError> {
    if !(block as u64).is_multiple_of(alignment) {
        return Err(ReadError::Invalid(format!(
            "block size {block}: direct I/O needs a multiple of {alignment} bytes"
        )));
    }
    reopened(file, OFlags::RDONLY | OFlags::DIRECT).map_err(|error| ReadError::Unavailable {
        way: "direct I/O",
        why: format!("open with O_DIRECT: {error}"),
    })
}

/// Reads the unaligned ends of the range.
pub(super) fn read_ends(
    job: &ReadJob<'_>,
    middle: &Range<u64>,
    worker: &mut Worker,
    tally: &mut ReadTally,
) {
    for end in [job.range.start..middle.start, middle.end..job.range.end] {
        let length = (end.end - end.start) as usize;
        tally.fall_back(job, &worker.file, &mut worker.buffer, end.start, length);
    }
}

pub(super) fn run(
    job: &ReadJob<'_>,
    request: &ReadRequest<'_>,
    clock: &Clock,
    alignment: u64,
    pool: &MemoryPool,
) -> Result<(ReadTally, f64), ReadError> {
    let file = open_direct(job.file, job.block, alignment)?;
    let workers = Worker::many(job.file, job.block, request.threads, pool)?;
    let middle = middle(&job.range, alignment);
    let chunks = job.chunks(middle.clone(), 0);
    let workers = workers.into_iter().enumerate().collect();
    threads::run(workers, clock, |(number, mut worker)| {
        let mut tally = ReadTally::default();
        read_chunks(job, &file, &chunks, &mut worker, &mut tally);
        if number == 0 && !job.is_over() {
            read_ends(job, &middle, &mut worker, &mut tally);
        }
        tally.stopped |= job.stop();
        tally
    })
}

fn read_chunks(
    job: &ReadJob<'_>,
    direct: &File,
    chunks: &ReadChunks,
    worker: &mut Worker,
    tally: &mut ReadTally,
) {
    while let Some(chunk) = chunks.take() {
        let mut at = chunk.start;
        while at < chunk.end {
            if job.is_over() {
                return;
            }
            let length = (chunk.end - at).min(job.block as u64) as usize;
            tally.calls += 1;
            match rustix::io::pread(direct, &mut worker.buffer[..length], at) {
                Ok(read) if read == length => {
                    tally.sum.add(job.sum_offset(at), &worker.buffer[..read]);
                }
                // Short, interrupted or failed: the buffered read finds the cause.
                _ if tally.fall_back(job, &worker.file, &mut worker.buffer, at, length) => {}
                _ => return,
            }
            at += length as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_is_aligned_and_inside_the_range() {
        assert_eq!(middle(&(0..10_000), 4096), 0..8192);
        assert_eq!(middle(&(1..10_000), 4096), 4096..8192);
        assert_eq!(middle(&(4096..8192), 4096), 4096..8192);
        let none = middle(&(5000..6000), 4096);
        assert!(none.is_empty() && none.start >= 5000 && none.end <= 6000, "{none:?}");
        let none = middle(&(0..100), 512);
        assert!(none.is_empty() && none.end <= 100, "{none:?}");
    }
}
