//! Memory-mapped reads, in windows. MADV_POPULATE_READ (Linux 5.14) populates a block with one
//! call; older kernels fault the pages in.

use std::ops::Range;

use fathom_measure::Clock;
use rustix::io::Errno;

use super::job::{ReadJob, ReadTally};
use super::window::ReadWindow;
use super::worker::Worker;
use super::{BLOCK, ReadError, ReadRequest, threads};
use crate::memory::page;
use crate::sum::XorSum;

/// Bytes of a window: large enough to amortize mmap and munmap.
const WINDOW: u64 = 64 << 20;
/// Bytes of the windows of all threads: limits the resident memory of this process.
const WINDOWS: u64 = 128 << 20;
/// Windows are multiples of this, so that none splits a huge page.
const HUGE: u64 = 2 << 20;

pub(super) fn run(
    job: &ReadJob<'_>,
    request: &ReadRequest<'_>,
    clock: &Clock,
) -> Result<(ReadTally, f64), ReadError> {
    let worker = |_| Worker::fallback(job.file, job.block.min(BLOCK));
    let workers = (0..request.threads).map(worker).collect::<Result<_, _>>()?;
    let (threads, length) = (request.threads as u64, job.range.end - job.range.start);
    let window = (WINDOWS / threads).clamp(HUGE, WINDOW) / HUGE * HUGE;
    // Every thread gets a chunk, even of a small file.
    let chunks = job.chunks(job.range.clone(), window.min(length / threads));
    threads::run(workers, clock, |mut worker| {
        let mut tally = ReadTally::default();
        let mut populates = true;
        let mut parts = std::iter::from_fn(|| chunks.take()).flat_map(|chunk| job.cached(chunk));
        parts.all(|part| read_chunk(job, part, window, &mut worker, &mut populates, &mut tally));
        tally
    })
}

/// Reads a chunk through windows of `bytes`. After a SIGBUS the block is read by pread and a new
/// window begins. Returns false if the thread must end.
fn read_chunk(
    job: &ReadJob<'_>,
    mut chunk: Range<u64>,
    bytes: u64,
    worker: &mut Worker,
    populates: &mut bool,
    tally: &mut ReadTally,
) -> bool {
    while !chunk.is_empty() {
        let first = chunk.start / page() as u64 * page() as u64;
        // Limits the window even if the chunk is one large block.
        let last = chunk.end.min(first + bytes);
        let window = ReadWindow::new(&worker.file, first, (last - first) as usize);
        let broke_at = match &window {
            Ok(window) => {
                match read_window(job, window, first, chunk.start..last, populates, tally) {
                    Some(at) => at,
                    None => return false,
                }
            }
            // Without a mapping pread still works.
            Err(_) => chunk.start,
        };
        drop(window);
        if broke_at < last {
            let length = (last - broke_at).min(job.block as u64);
            let Worker { file, buffer } = &mut *worker;
            if !tally.fall_back(job, file, buffer, broke_at, length as usize) {
                return false;
            }
            chunk.start = broke_at + length;
        } else {
            chunk.start = last;
        }
    }
    true
}

/// Reads a range through a window that begins at byte `first`. Returns how far it got, or `None`
/// if the thread must end.
fn read_window(
    job: &ReadJob<'_>,
    window: &ReadWindow,
    first: u64,
    range: Range<u64>,
    populates: &mut bool,
    tally: &mut ReadTally,
) -> Option<u64> {
    window.advise_sequential();
    let mut at = range.start;
    while at < range.end {
        if job.is_over() {
            tally.stopped |= job.stop();
            return None;
        }
        let length = (range.end - at).min(job.block as u64) as usize;
        let from = (at - first) as usize;
        if *populates {
            tally.calls += 1;
            let page_part = from % page();
            // EINVAL: a kernel before 5.14. The pages then fault in when they are summed.
            *populates = window.populate(from, length + page_part) != Err(Errno::INVAL);
        }
        // Apart until the block is known to be whole: after a SIGBUS the rest of it is zeroes.
        let mut sum = XorSum::default();
        sum.add_from_dram(job.sum_offset(at), &window.bytes()[from..from + length]);
        if window.is_broken() {
            return Some(at);
        }
        tally.sum.merge(&sum);
        at += length as u64;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::read::Way;

    /// As if it was truncated after its size was read: its last pages raise SIGBUS.
    #[test]
    fn truncated_file_ends_the_read() {
        let file = tempfile::tempfile().unwrap();
        let bytes = vec![7; (1 << 20) + 100];
        file.write_all_at(&bytes, 0).unwrap();
        for threads in [1, 2] {
            let request = ReadRequest { threads, block: 65536, ..ReadRequest::whole(Way::Map) };
            let job = ReadJob::new(&file, 0..16 << 20, &request);
            let (tally, _) = run(&job, &request, &fathom_lab::clock()).unwrap();
            assert_eq!(tally.ended_at, Some(bytes.len() as u64));
            assert!(tally.faults.is_empty());
            // The first thread to reach the end stops the others.
            let all = XorSum::over(&bytes);
            assert!(tally.sum == all || (threads > 1 && tally.sum.bytes < all.bytes));
        }
    }
}
