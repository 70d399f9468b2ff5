//! Mapped pages, in windows: MADV_POPULATE_READ makes a block of them present with one call, where
//! the kernel has it (Linux 5.14); elsewhere they come when they are touched.

use std::ops::Range;

use fathom_measure::Clock;
use rustix::io::Errno;

use super::job::{Job, Tally};
use super::pread::Worker;
use super::window::Window;
use super::{BLOCK, ReadError, Request, crew};
use crate::memory::page;
use crate::sum::Sum;

/// Bytes of a window: so many that making one costs nothing beside reading it.
const WINDOW: u64 = 64 << 20;
/// Bytes of the windows of all threads: the pages in them count as memory of this program.
const WINDOWS: u64 = 128 << 20;
/// No window is smaller, and each is a multiple, so that none cuts a huge page.
const HUGE: u64 = 2 << 20;

pub(super) fn run(
    job: &Job<'_>,
    request: &Request<'_>,
    clock: &Clock,
) -> Result<(Tally, f64), ReadError> {
    // The buffer is only for what cannot be mapped.
    let workers = Worker::many(job.file, job.block.min(BLOCK), request.threads)?;
    let (threads, length) = (request.threads as u64, job.range.end - job.range.start);
    let window = (WINDOWS / threads).clamp(HUGE, WINDOW) / HUGE * HUGE;
    // No thread is left without a share, even of a small file.
    let shares = job.shares(job.range.clone(), window.min(length / threads));
    crew::work(workers, clock, |mut worker| {
        let mut tally = Tally::default();
        let mut populates = true;
        while let Some(share) = shares.take() {
            if !read_share(job, share, window, &mut worker, &mut populates, &mut tally) {
                break;
            }
        }
        tally
    })
}

/// Reads a share through as many windows of `bytes` as it takes: behind a place that was gone a
/// new one is made. False: the thread is to end.
fn read_share(
    job: &Job<'_>,
    mut share: Range<u64>,
    bytes: u64,
    worker: &mut Worker,
    populates: &mut bool,
    tally: &mut Tally,
) -> bool {
    while !share.is_empty() {
        let first = share.start / page() as u64 * page() as u64;
        // A share of one huge block is still read through small windows.
        let last = share.end.min(first + bytes);
        let window = Window::new(&worker.file, first, (last - first) as usize);
        let broke_at = match &window {
            Ok(window) => {
                match read_window(job, window, first, share.start..last, populates, tally) {
                    Some(at) => at,
                    None => return false,
                }
            }
            // What cannot be mapped can still be read.
            Err(_) => share.start,
        };
        drop(window);
        if broke_at < last {
            let length = (last - broke_at).min(job.block as u64);
            let calls = tally.calls;
            let on = tally.block(job, &worker.file, &mut worker.buffer, broke_at, length as usize);
            tally.fallbacks += tally.calls - calls;
            if !on {
                return false;
            }
            share.start = broke_at + length;
        } else {
            share.start = last;
        }
    }
    true
}

/// Reads a range by a window that begins at byte `first`; up to where it broke, or none if the
/// thread is to end.
fn read_window(
    job: &Job<'_>,
    window: &Window,
    first: u64,
    range: Range<u64>,
    populates: &mut bool,
    tally: &mut Tally,
) -> Option<u64> {
    window.will_be_read_in_order();
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
            *populates = window.populate(from, length + page_part) != Err(Errno::INVAL);
        }
        let mut sum = Sum::default();
        sum.add(job.place(at), &window.bytes()[from..from + length]);
        if window.is_broken() {
            return Some(at);
        }
        tally.sum.merge(&sum);
        at += length as u64;
    }
    Some(at)
}
