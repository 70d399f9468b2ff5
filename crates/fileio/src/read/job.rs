//! What the threads of a read share: which part comes next, and whether to go on. And what each
//! has done, with the one careful way of reading a block to which all ways come back.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::{Fault, Request};
use crate::subject::size_of;
use crate::sum::Sum;

/// A thread takes at least so many bytes at a time, in whole blocks.
const SHARE: u64 = 4 << 20;
/// A place with an error is no smaller than this: a page, and a sector of today's disks.
const PLACE: u64 = 4096;

/// What is to be read, shared by all threads.
pub(super) struct Job<'a> {
    pub(super) file: &'a File,
    pub(super) range: Range<u64>,
    origin: u64,
    pub(super) block: usize,
    keep_going: bool,
    stop: &'a AtomicBool,
    /// A thread met something that ends the read for all.
    over: AtomicBool,
}

impl<'a> Job<'a> {
    pub(super) fn new(file: &'a File, range: Range<u64>, request: &Request<'a>) -> Self {
        let Request { keep_going, stop, .. } = *request;
        let (block, origin) = (request.block, request.origin.unwrap_or(range.start));
        let over = AtomicBool::new(false);
        Self { file, range, origin, block, keep_going, stop, over }
    }

    /// Where a byte of the file stands in the sums.
    pub(super) fn place(&self, at: u64) -> u64 {
        at - self.origin
    }

    /// Parts of a range to be taken by the threads in turn: whole blocks, about `wanted` bytes.
    pub(super) fn shares(&self, range: Range<u64>, wanted: u64) -> Shares {
        let block = self.block as u64;
        let step = (wanted.max(SHARE) / block).max(1) * block;
        let next = AtomicU64::new(range.start);
        Shares { next, end: range.end, step }
    }

    pub(super) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a thread should end here.
    pub(super) fn is_over(&self) -> bool {
        self.stop() || self.over.load(Ordering::Relaxed)
    }

    /// Ends the read for all threads.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Parts of a range, each given out once.
pub(super) struct Shares {
    next: AtomicU64,
    end: u64,
    step: u64,
}

impl Shares {
    pub(super) fn take(&self) -> Option<Range<u64>> {
        // Not fetch_add: many threads that find nothing must not carry it round.
        let take = |next: u64| (next < self.end).then(|| next.saturating_add(self.step));
        let from = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let to = from.saturating_add(self.step).min(self.end);
        Some(from..to)
    }
}

/// What a thread has done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sum: Sum,
    pub(super) calls: u64,
    pub(super) fallbacks: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) ended_at: Option<u64>,
    pub(super) stopped: bool,
}

impl Tally {
    pub(super) fn merge(&mut self, other: Self) {
        self.sum.merge(&other.sum);
        self.calls += other.calls;
        self.fallbacks += other.fallbacks;
        self.faults.extend(other.faults);
        self.ended_at = self.ended_at.into_iter().chain(other.ended_at).min();
        self.stopped |= other.stopped;
    }

    /// Notes that the file has ended before the range has: at `at`, or before, where another read
    /// was the first to go behind the end.
    pub(super) fn ends(&mut self, job: &Job<'_>, at: u64) {
        let size = size_of(job.file).ok().and_then(|(_, size)| size);
        let at = at.min(size.unwrap_or(at)).max(job.range.start);
        self.ended_at = Some(self.ended_at.map_or(at, |before| before.min(at)));
        job.end();
    }

    /// Reads `length` bytes from byte `at` on by pread, whatever happens: an interrupted call is
    /// made again, a short one continued, and at an error the rest is read a place at a time, so
    /// that no more is lost than cannot be read. False: the thread is to end.
    pub(super) fn block(
        &mut self,
        job: &Job<'_>,
        file: &File,
        buffer: &mut [u8],
        at: u64,
        length: usize,
    ) -> bool {
        let end = at + length as u64;
        let (mut at, mut step) = (at, buffer.len() as u64);
        while at < end {
            if job.is_over() {
                self.stopped |= job.stop();
                return false;
            }
            let to_place = PLACE - at % PLACE;
            let wanted = if step <= PLACE { to_place } else { step };
            let wanted = wanted.min(end - at).min(buffer.len() as u64);
            self.calls += 1;
            match rustix::io::pread(file, &mut buffer[..wanted as usize], at) {
                Ok(0) => {
                    self.ends(job, at);
                    return false;
                }
                Ok(read) => {
                    self.sum.add(job.place(at), &buffer[..read]);
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) if wanted > to_place => step = PLACE,
                Err(error) => {
                    self.faults.push(Fault { at, bytes: wanted, error: error.raw_os_error() });
                    if !job.keep_going || !is_of_a_place(error) {
                        job.end();
                        return false;
                    }
                    at += wanted;
                }
            }
        }
        true
    }
}

/// Whether an error belongs to a place on the medium; any other would come at the next place too.
fn is_of_a_place(error: Errno) -> bool {
    // Of a disk, of a tape's or disk's checksum, of a file system's checksum, of its structure.
    [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::BADMSG, Errno::UCLEAN]
        .contains(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Way;

    #[test]
    fn shares_are_whole_blocks_and_cover_all() {
        let file = tempfile::tempfile().expect("a file");
        for (block, length) in [(1000, 30_000_001), (8 << 20, 30 << 20), (1, 5), (4096, 0)] {
            let request = Request { block, ..Request::whole(Way::Pread) };
            let job = Job::new(&file, 7..7 + length, &request);
            let shares = job.shares(job.range.clone(), 0);
            let mut at = 7;
            while let Some(share) = shares.take() {
                assert_eq!(share.start, at);
                at = share.end;
                let bytes = share.end - share.start;
                assert!(bytes % block as u64 == 0 || at == 7 + length);
            }
            assert_eq!(at, 7 + length);
            assert_eq!(shares.take(), None);
        }
    }
}
