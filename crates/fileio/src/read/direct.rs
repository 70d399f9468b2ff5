//! Reading past the page cache by plain pread(2): the aligned middle of a range. Its two ends are
//! read by way of the cache.

use std::fs::File;
use std::ops::Range;

use fathom_measure::Clock;
use rustix::fs::OFlags;

use super::job::{Job, Shares, Tally};
use super::pread::Worker;
use super::{ReadError, Request, crew};
use crate::kernel::reopened;

/// The aligned part of a range; empty where there is none.
pub(super) fn middle(range: &Range<u64>, alignment: u64) -> Range<u64> {
    let start = range.start.next_multiple_of(alignment).min(range.end);
    start..(range.end / alignment * alignment).max(start)
}

/// The file opened for reads past the cache.
pub(super) fn opened(file: &File, block: usize, alignment: u64) -> Result<File, ReadError> {
    if !(block as u64).is_multiple_of(alignment) {
        return Err(ReadError::Invalid(format!(
            "a block of {block} bytes for direct reads; give a multiple of {alignment}"
        )));
    }
    reopened(file, OFlags::RDONLY | OFlags::DIRECT).map_err(|error| ReadError::Unavailable {
        way: "direct reading",
        why: format!("the file cannot be opened for it: {error}"),
    })
}

/// Reads the two ends of the range that no direct read can.
pub(super) fn ends(job: &Job<'_>, middle: &Range<u64>, worker: &mut Worker, tally: &mut Tally) {
    for end in [job.range.start..middle.start, middle.end..job.range.end] {
        let calls = tally.calls;
        let length = (end.end - end.start) as usize;
        tally.block(job, &worker.file, &mut worker.buffer, end.start, length);
        tally.fallbacks += tally.calls - calls;
    }
}

pub(super) fn run(
    job: &Job<'_>,
    request: &Request<'_>,
    clock: &Clock,
    alignment: u64,
) -> Result<(Tally, f64), ReadError> {
    let file = opened(job.file, job.block, alignment)?;
    let workers = Worker::many(job.file, job.block, request.threads)?;
    let middle = middle(&job.range, alignment);
    let shares = job.shares(middle.clone(), 0);
    let workers = workers.into_iter().enumerate().collect();
    crew::work(workers, clock, |(number, mut worker)| {
        let mut tally = Tally::default();
        read_shares(job, &file, &shares, &mut worker, &mut tally);
        if number == 0 && !job.is_over() {
            ends(job, &middle, &mut worker, &mut tally);
        }
        tally.stopped |= job.stop();
        tally
    })
}

fn read_shares(
    job: &Job<'_>,
    direct: &File,
    shares: &Shares,
    worker: &mut Worker,
    tally: &mut Tally,
) {
    while let Some(share) = shares.take() {
        let mut at = share.start;
        while at < share.end {
            if job.is_over() {
                return;
            }
            let length = (share.end - at).min(job.block as u64) as usize;
            tally.calls += 1;
            match rustix::io::pread(direct, &mut worker.buffer[..length], at) {
                Ok(read) if read == length => {
                    tally.sum.add(job.place(at), &worker.buffer[..read]);
                }
                // Short, interrupted or failed: the careful way tells what is the matter.
                _ => {
                    let calls = tally.calls;
                    let on = tally.block(job, &worker.file, &mut worker.buffer, at, length);
                    tally.fallbacks += tally.calls - calls;
                    if !on {
                        return;
                    }
                }
            }
            at += length as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_aligned_and_lies_within() {
        assert_eq!(middle(&(0..10_000), 4096), 0..8192);
        assert_eq!(middle(&(1..10_000), 4096), 4096..8192);
        assert_eq!(middle(&(4096..8192), 4096), 4096..8192);
        let none = middle(&(5000..6000), 4096);
        assert!(none.is_empty() && none.start >= 5000 && none.end <= 6000, "{none:?}");
        let none = middle(&(0..100), 512);
        assert!(none.is_empty() && none.end <= 100, "{none:?}");
    }
}
