//! Direct I/O by io_uring: each thread has a ring and one registered buffer per queue slot.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

use fathom_measure::Clock;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::direct::{middle, open_direct, read_ends};
use super::job::{ReadChunks, ReadJob, ReadTally};
use super::worker::Worker;
use super::{ReadError, ReadFault, ReadRequest, allocate, threads};
use crate::filesystem::FilesystemClass;
use crate::memory::MemoryPages;
use crate::path_info::PathInfoSource;

/// Far above the queue depth of any device; the kernel's limit is 32768.
const DEPTH_MAX: u32 = 4096;

/// The ring of a thread. The field order is the drop order: the ring must go before its buffers.
struct ThreadRing {
    ring: IoUring,
    buffers: MemoryPages,
    worker: Worker,
}

/// Refuses FUSE. After a short read there, at an error or a new end of file, the kernel (seen
/// with Linux 6.18) continues from where that read began and reports success: the same bytes
/// repeat.
pub(super) fn check(source: &PathInfoSource) -> Result<(), ReadError> {
    let file_system = source.info().file_system;
    if file_system.class != FilesystemClass::Program {
        return Ok(());
    }
    let name = file_system.name;
    let why = format!("on {name} the kernel repeats bytes after a short read; use `direct`");
    Err(ReadError::Unavailable { way: "io_uring", why })
}

pub(super) fn run(
    job: &ReadJob<'_>,
    request: &ReadRequest<'_>,
    clock: &Clock,
    alignment: u64,
    depth: u32,
) -> Result<(ReadTally, f64), ReadError> {
    if depth > DEPTH_MAX {
        return Err(ReadError::Invalid(format!("queue depth {depth}: must be ≤ {DEPTH_MAX}")));
    }
    // No more buffers than reads: they are allocated and pinned, which takes longer than reading a
    // short range.
    let blocks = (job.range.end - job.range.start).div_ceil(job.block as u64);
    let depth = blocks.clamp(1, u64::from(depth)) as u32;
    let rings: Result<Vec<ThreadRing>, ReadError> =
        (0..request.threads).map(|_| ThreadRing::new(job, depth)).collect();
    let rings = rings?;
    let direct = open_direct(job.file, job.block, alignment)?;
    let middle = middle(&job.range, alignment);
    let chunks = job.chunks(middle.clone(), u64::from(depth) * job.block as u64);
    let workers = rings.into_iter().enumerate().collect();
    threads::run(workers, clock, |(number, ring)| {
        let mut tally = ReadTally::default();
        let worker = RingReader::new(job, &direct, &chunks, depth).read(ring, &mut tally);
        if number == 0
            && !job.is_over()
            && let Some(mut worker) = worker
        {
            read_ends(job, &middle, &mut worker, &mut tally);
        }
        tally.stopped |= job.stop();
        tally
    })
}

impl ThreadRing {
    fn new(job: &ReadJob<'_>, depth: u32) -> Result<Self, ReadError> {
        let unavailable = |error: std::io::Error| ReadError::Unavailable {
            way: "io_uring",
            why: why_unavailable(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        };
        let ring = IoUring::new(depth).map_err(unavailable)?;
        let bytes = depth as usize * job.block;
        let mut buffers = allocate(bytes)?;
        let parts: Vec<libc::iovec> = buffers
            .chunks_exact_mut(job.block)
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        // Registered, so that the kernel pins the pages once and not for each read.
        // SAFETY: the buffers outlive the ring, or are leaked together with it.
        unsafe { ring.submitter().register_buffers(&parts) }.map_err(unavailable)?;
        Ok(Self { ring, buffers, worker: Worker::fallback(job.file, job.block)? })
    }
}

fn why_unavailable(error: Errno) -> String {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    match error {
        Errno::NOSYS => "needs Linux 5.1, or blocked by seccomp".to_owned(),
        Errno::PERM | Errno::ACCESS => match setting("io_uring_disabled").as_str() {
            "2" => "kernel.io_uring_disabled is 2".to_owned(),
            "1" => "kernel.io_uring_disabled is 1: only root and kernel.io_uring_group".to_owned(),
            _ => "blocked by seccomp or a security module".to_owned(),
        },
        Errno::NOMEM => "exceeds the locked memory limit; raise `ulimit -l`, or use a smaller \
                         block or depth"
            .to_owned(),
        error => error.to_string(),
    }
}

/// The reads in flight of a thread.
struct RingReader<'j> {
    job: &'j ReadJob<'j>,
    direct: &'j File,
    chunks: &'j ReadChunks,
    /// The rest of the current chunk.
    chunk: Range<u64>,
    /// Offset and length of the read in flight, per buffer.
    in_flight: Vec<Option<(u64, usize)>>,
    free: Vec<usize>,
}

impl<'j> RingReader<'j> {
    fn new(job: &'j ReadJob<'j>, direct: &'j File, chunks: &'j ReadChunks, depth: u32) -> Self {
        let (in_flight, free) = (vec![None; depth as usize], (0..depth as usize).collect());
        Self { job, direct, chunks, chunk: 0..0, in_flight, free }
    }

    /// Reads chunks until none is left. Returns the worker unless the ring failed.
    fn read(mut self, mut ring: ThreadRing, tally: &mut ReadTally) -> Option<Worker> {
        loop {
            self.submit(&mut ring, tally);
            if self.free.len() == self.in_flight.len() {
                return Some(ring.worker);
            }
            // One completion suffices: its buffer is summed and reused while the other reads
            // continue.
            match ring.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    error => {
                        self.fail(ring, tally, error.unwrap_or(Errno::IO));
                        return None;
                    }
                },
            }
            let done: Vec<(usize, i32)> = ring
                .ring
                .completion()
                .map(|entry| (entry.user_data() as usize, entry.result()))
                .collect();
            for (number, result) in done {
                self.finish(&mut ring, tally, number, result);
            }
        }
    }

    /// Queues a read for every free buffer.
    fn submit(&mut self, ring: &mut ThreadRing, tally: &mut ReadTally) {
        while !self.job.is_over()
            && let Some(&number) = self.free.last()
            && let Some((at, length)) = self.next()
        {
            let from = number * self.job.block;
            let start = ring.buffers[from..from + length].as_mut_ptr();
            let entry = read_entry(self.direct, start, length, number, at);
            // SAFETY: the buffer is registered, and nothing else uses it until this read completes.
            // The queue has one slot per buffer.
            let pushed = unsafe { ring.ring.submission().push(&entry) };
            if pushed.is_err() {
                self.chunk.start = at;
                return;
            }
            self.free.pop();
            self.in_flight[number] = Some((at, length));
            tally.calls += 1;
        }
    }

    fn next(&mut self) -> Option<(u64, usize)> {
        if self.chunk.is_empty() {
            self.chunk = self.chunks.take()?;
        }
        let at = self.chunk.start;
        let length = (self.chunk.end - at).min(self.job.block as u64);
        self.chunk.start += length;
        Some((at, length as usize))
    }

    /// Handles a completion. A short or failed read is repeated by pread, which finds the cause.
    fn finish(&mut self, ring: &mut ThreadRing, tally: &mut ReadTally, number: usize, result: i32) {
        let Some((at, length)) = self.in_flight.get_mut(number).and_then(Option::take) else {
            return;
        };
        self.free.push(number);
        if usize::try_from(result) == Ok(length) {
            let from = number * self.job.block;
            tally.sum.add(self.job.sum_offset(at), &ring.buffers[from..from + length]);
        } else {
            let Worker { file, buffer } = &mut ring.worker;
            tally.fall_back(self.job, file, buffer, at, length);
        }
    }

    /// Handles a failure of the ring itself. Reads in flight may still write to the buffers, so
    /// they are leaked.
    fn fail(&self, ring: ThreadRing, tally: &mut ReadTally, error: Errno) {
        std::mem::forget(ring);
        if let Some(&(at, length)) = self.in_flight.iter().flatten().min() {
            let bytes = length as u64;
            tally.faults.push(ReadFault { at, bytes, error: error.raw_os_error() });
        }
        self.job.end();
    }
}

fn read_entry(file: &File, start: *mut u8, length: usize, number: usize, at: u64) -> squeue::Entry {
    let file = types::Fd(file.as_raw_fd());
    let read = opcode::ReadFixed::new(file, start, length as u32, number as u16);
    read.offset(at).build().user_data(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::FileGenerator;
    use crate::read::Way;
    use crate::sum::XorSum;
    use fathom_measure::clock::{ClockSource as Counter, Specification};
    use std::os::unix::fs::FileExt;

    /// After a short completion the fallback read finds the end of the file.
    #[test]
    fn truncated_file_ends_the_read() {
        let clock = Clock::from_specification(Specification::uncalibrated(Counter::MonotonicRaw));
        let mut bytes = vec![0; (1 << 20) + 100];
        FileGenerator::new(1).fill(0, &mut bytes);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        for threads in [1, 2] {
            let whole = ReadRequest::whole(Way::Ring { depth: 4 });
            let request = ReadRequest { threads, block: 65536, ..whole };
            let job = ReadJob::new(&file, 0..2 << 20, &request);
            let Ok((tally, _)) = run(&job, &request, &clock, 4096, 4) else {
                // Other tests report that io_uring or direct I/O is unavailable.
                return;
            };
            assert_eq!(tally.ended_at, Some(bytes.len() as u64));
            assert!(tally.fallbacks > 0 && tally.faults.is_empty());
            // The first thread to reach the end stops the others.
            let all = XorSum::over(&bytes);
            assert!(tally.sum == all || tally.sum.bytes < all.bytes);
        }
    }
}
