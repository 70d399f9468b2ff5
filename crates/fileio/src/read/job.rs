//! State shared by the threads of a read, the result of each, and the error-tolerant read of a
//! block that all methods fall back to.

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fathom_measure::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, ReadWriteFlags};

use super::worker::Worker;
use super::{ReadFault, ReadRequest};
use crate::path_info::size_of;
use crate::residency::ResidencyLook;
use crate::sum::XorSum;

/// Least bytes of a chunk: keeps threads from contending on the counter.
const CHUNK: u64 = 4 << 20;
/// Granularity of unreadable ranges: a page, and a physical sector of current disks.
const SECTOR: u64 = 4096;

pub(super) struct ReadJob<'a> {
    pub(super) file: &'a File,
    pub(super) range: Range<u64>,
    origin: u64,
    pub(super) block: usize,
    keep_going: bool,
    stop: &'a AtomicBool,
    pub(super) look: Option<&'a ResidencyLook>,
    /// Set by a thread whose error or end of file ends the read for all.
    over: AtomicBool,
    patience: Option<Duration>,
    /// Since when there are no data; 0 while there are.
    empty_since_ns: AtomicU64,
}

impl<'a> ReadJob<'a> {
    pub(super) fn new(file: &'a File, range: Range<u64>, request: &ReadRequest<'a>) -> Self {
        let ReadRequest { keep_going, stop, look, .. } = *request;
        let (block, origin) = (request.block, request.origin.unwrap_or(range.start));
        let (over, empty_since_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        let patience = request.patience;
        Self { file, range, origin, block, keep_going, stop, look, over, patience, empty_since_ns }
    }

    /// The offset of a byte in the sums.
    pub(super) fn sum_offset(&self, at: u64) -> u64 {
        at - self.origin
    }

    /// Splits a range into chunks of whole blocks, about `wanted` bytes each.
    pub(super) fn chunks(&self, range: Range<u64>, wanted: u64) -> ReadChunks {
        let block = self.block as u64;
        let step = (wanted.max(CHUNK) / block).max(1) * block;
        let next = AtomicU64::new(range.start);
        ReadChunks { next, end: range.end, step }
    }

    /// The ranges of a chunk to map: the cached ones if they are counted.
    pub(super) fn cached(&self, chunk: Range<u64>) -> Vec<Range<u64>> {
        let Some(look) = self.look else { return vec![chunk] };
        let mut cached: Vec<Range<u64>> = Vec::new();
        let mut at = chunk.start;
        while at < chunk.end {
            // At the same offsets whatever the chunk: fewer parts are cached in part.
            let part = at..(at / CHUNK * CHUNK + CHUNK).min(chunk.end);
            at = part.end;
            match cached.last_mut() {
                _ if !look.is_cached(self.file, &part) => {}
                Some(last) if last.end == part.start => last.end = part.end,
                _ => cached.push(part),
            }
        }
        cached
    }

    pub(super) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a thread should end here.
    pub(super) fn is_over(&self) -> bool {
        self.stop() || self.over.load(Ordering::Relaxed)
    }

    /// Whether to repeat a read: it was interrupted, or there are no data yet. Then waits for them,
    /// but not for long: the caller checks its stop flag, which a signal can set just before.
    pub(super) fn is_retried(&self, file: &File, error: Errno) -> bool {
        const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if error == Errno::INTR {
            return true;
        }
        if !is_empty(file, error) {
            return false;
        }
        let now_ns = clock::monotonic_raw_ns();
        // By one thread: files of unknown size are read in order.
        let since_ns = match self.empty_since_ns.load(Ordering::Relaxed) {
            0 => now_ns,
            since_ns => since_ns,
        };
        self.empty_since_ns.store(since_ns, Ordering::Relaxed);
        let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        if self.patience.is_some_and(|patience| waited >= patience) {
            return false;
        }
        let _ = poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&WAIT));
        true
    }

    /// Data came: a later wait begins anew.
    pub(super) fn has_data(&self) {
        self.empty_since_ns.store(0, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        // Relaxed: a late thread reads a block more; joining the threads orders the results.
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Chunks of a range, distributed to the threads.
pub(super) struct ReadChunks {
    next: AtomicU64,
    end: u64,
    step: u64,
}

impl ReadChunks {
    pub(super) fn take(&self) -> Option<Range<u64>> {
        // Not fetch_add: repeated calls at the end would overflow the counter.
        let take = |next: u64| (next < self.end).then(|| next.saturating_add(self.step));
        // Relaxed: the counter guards no other data.
        let from = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let to = from.saturating_add(self.step).min(self.end);
        Some(from..to)
    }
}

/// The result of one thread, or of all of them merged.
#[derive(Debug, Default)]
pub(super) struct ReadTally {
    pub(super) sum: XorSum,
    pub(super) calls: u64,
    pub(super) fallbacks: u64,
    pub(super) faults: Vec<ReadFault>,
    pub(super) ended_at: Option<u64>,
    pub(super) stopped: bool,
    pub(super) has_no_data: bool,
    /// CPU time of the threads.
    pub(super) cpu_ns: u64,
}

impl ReadTally {
    pub(super) fn merge(&mut self, other: Self) {
        self.sum.merge(&other.sum);
        self.calls += other.calls;
        self.fallbacks += other.fallbacks;
        self.faults.extend(other.faults);
        self.ended_at = self.ended_at.into_iter().chain(other.ended_at).min();
        self.stopped |= other.stopped;
        self.has_no_data |= other.has_no_data;
        self.cpu_ns += other.cpu_ns;
    }

    /// Reads the cached beginning of a chunk and removes it from the chunk. A read that may not
    /// wait (RWF_NOWAIT) ends at the first uncached page: cached pages need no count. It also
    /// starts to read the block into the page cache there: the rest of that chunk is uncached
    /// without a count, and later chunks of the file are counted.
    pub(super) fn read_cached(
        &mut self,
        job: &ReadJob<'_>,
        look: &ResidencyLook,
        Worker { file, buffer }: &mut Worker,
        chunk: &mut Range<u64>,
    ) {
        let mut bytes = 0;
        while !chunk.is_empty() && look.uses_reads() && !job.is_over() {
            let length = (chunk.end - chunk.start).min(buffer.len() as u64) as usize;
            let block = &mut [IoSliceMut::new(&mut buffer[..length])];
            self.calls += 1;
            match rustix::io::preadv2(&*file, block, chunk.start, ReadWriteFlags::NOWAIT) {
                Ok(read) => {
                    self.sum.add(job.sum_offset(chunk.start), &buffer[..read]);
                    chunk.start += read as u64;
                    bytes += read as u64;
                    if read < length {
                        look.missed(std::mem::take(chunk));
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => look.missed(std::mem::take(chunk)),
                // The file system cannot, or the blocking read finds the cause.
                Err(_) => look.use_counts(),
            }
        }
        look.was_read(bytes);
    }

    /// Records that the file ended before the range, at `at` or before (another thread may have
    /// read past the end first).
    pub(super) fn end_of_file(&mut self, job: &ReadJob<'_>, at: u64) {
        let size = size_of(job.file).ok().and_then(|(_, size)| size);
        let at = at.min(size.unwrap_or(at)).max(job.range.start);
        self.ended_at = Some(self.ended_at.map_or(at, |before| before.min(at)));
        job.end();
    }

    /// Ends the read since there are no data.
    pub(super) fn no_data(&mut self, job: &ReadJob<'_>) {
        self.has_no_data = true;
        job.end();
    }

    /// Reads `length` bytes at `at` by pread. Retries interrupted calls, continues short ones, and
    /// after an error reads sector by sector, so that only unreadable sectors are lost. Returns
    /// false if the thread must end.
    pub(super) fn read_block(
        &mut self,
        job: &ReadJob<'_>,
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
            let to_sector = SECTOR - at % SECTOR;
            let wanted = if step <= SECTOR { to_sector } else { step };
            let wanted = wanted.min(end - at).min(buffer.len() as u64);
            self.calls += 1;
            match rustix::io::pread(file, &mut buffer[..wanted as usize], at) {
                Ok(0) => {
                    self.end_of_file(job, at);
                    return false;
                }
                Ok(read) => {
                    self.sum.add(job.sum_offset(at), &buffer[..read]);
                    at += read as u64;
                    job.has_data();
                }
                Err(error) if job.is_retried(file, error) => {}
                Err(error) if is_empty(file, error) => {
                    self.no_data(job);
                    return false;
                }
                Err(_) if wanted > to_sector => step = SECTOR,
                Err(error) => {
                    self.faults.push(ReadFault { at, bytes: wanted, error: error.raw_os_error() });
                    if !job.keep_going || !is_medium_error(error) {
                        job.end();
                        return false;
                    }
                    at += wanted;
                }
            }
        }
        true
    }

    /// As [`Self::read_block`], where another method failed: counts the calls as fallbacks.
    pub(super) fn fall_back(
        &mut self,
        job: &ReadJob<'_>,
        file: &File,
        buffer: &mut [u8],
        at: u64,
        length: usize,
    ) -> bool {
        let calls = self.calls;
        let goes_on = self.read_block(job, file, buffer, at, length);
        self.fallbacks += self.calls - calls;
        goes_on
    }
}

/// Whether a file that may wait has no data now.
pub(super) fn is_empty(file: &File, error: Errno) -> bool {
    let may_wait = || fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    error == Errno::AGAIN && may_wait()
}

/// Whether an error concerns one range of the medium; any other would repeat at the next.
fn is_medium_error(error: Errno) -> bool {
    // I/O error, medium error, remote I/O error, checksum mismatches, corrupt structure.
    [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::BADMSG, Errno::UCLEAN]
        .contains(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Way;

    #[test]
    fn chunks_have_at_least_four_mebibytes() {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        for (block, wanted, length) in
            [(1, 0, 4), (1, 10, 10), (3, 0, 3), (3, 10, 9), (8, 0, 8), (2, 5, 4)]
        {
            let request =
                ReadRequest { block: block * MIB as usize, ..ReadRequest::whole(Way::Pread) };
            let job = ReadJob::new(&file, 0..100 * MIB, &request);
            let first = job.chunks(job.range.clone(), wanted * MIB).take();
            assert_eq!(first, Some(0..length * MIB), "{block} {wanted}");
        }
    }

    #[test]
    fn results_of_threads_are_added() {
        let fault = ReadFault { at: 0, bytes: 1, error: 5 };
        let of = |ended_at, stopped| ReadTally {
            sum: XorSum { xor: 5, position: 7, bytes: 9 },
            calls: 4,
            fallbacks: 3,
            faults: vec![fault],
            ended_at,
            stopped,
            has_no_data: stopped,
            cpu_ns: 11,
        };
        let merged = |mut one: ReadTally, other| {
            one.merge(other);
            one
        };
        let both = merged(of(Some(50), false), of(Some(40), true));
        assert_eq!(both.sum, XorSum { xor: 0, position: 14, bytes: 18 });
        assert_eq!((both.calls, both.fallbacks, both.faults.len()), (8, 6, 2));
        assert_eq!(both.cpu_ns, 22);
        assert_eq!((both.ended_at, both.stopped), (Some(40), true));
        let both = merged(of(None, true), of(Some(40), true));
        assert_eq!((both.ended_at, both.stopped), (Some(40), true));
        assert!(is_medium_error(Errno::IO) && !is_medium_error(Errno::BADF));
    }

    #[test]
    fn chunks_are_whole_blocks_and_cover_the_range() {
        let file = tempfile::tempfile().unwrap();
        for (block, length) in [(1000, 30_000_001), (8 << 20, 30 << 20), (1, 5), (4096, 0)] {
            let request = ReadRequest { block, ..ReadRequest::whole(Way::Pread) };
            let job = ReadJob::new(&file, 7..7 + length, &request);
            let chunks = job.chunks(job.range.clone(), 0);
            let mut at = 7;
            while let Some(chunk) = chunks.take() {
                assert_eq!(chunk.start, at);
                at = chunk.end;
                let bytes = chunk.end - chunk.start;
                assert!(bytes % block as u64 == 0 || at == 7 + length);
            }
            assert_eq!(at, 7 + length);
            assert_eq!(chunks.take(), None);
        }
    }
}
