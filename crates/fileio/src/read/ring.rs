//! io_uring past the page cache: each thread has a ring, and as many registered buffers as reads
//! under way at once.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

use fathom_measure::Clock;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::direct::{ends, middle, opened};
use super::job::{Job, Shares, Tally};
use super::pread::Worker;
use super::{Fault, ReadError, Request, crew, failed};
use crate::filesystem::Class;
use crate::memory::Pages;
use crate::subject::Source;

/// Far above what any device wants; the kernel has its own limit of 32768.
const DEPTH_MAX: u32 = 4096;

/// A thread's ring. Dropped in this order: no read may be under way when the buffers go.
struct Rings {
    ring: IoUring,
    buffers: Pages,
    worker: Worker,
}

/// Refuses what io_uring reads wrongly. Where a program is the file system and a read comes short,
/// at an error or a new end, the kernel (seen with Linux 6.18) goes on with the place where that
/// read began, and says that all went well: the same bytes again, and again.
pub(super) fn check(source: &Source) -> Result<(), ReadError> {
    let file_system = source.subject().file_system;
    if file_system.class != Class::Program {
        return Ok(());
    }
    let name = file_system.name;
    let why = format!("on {name} the kernel repeats bytes after a short read; read it by `direct`");
    Err(ReadError::Unavailable { way: "io_uring", why })
}

pub(super) fn run(
    job: &Job<'_>,
    request: &Request<'_>,
    clock: &Clock,
    alignment: u64,
    depth: u32,
) -> Result<(Tally, f64), ReadError> {
    if depth > DEPTH_MAX {
        return Err(ReadError::Invalid(format!("a queue depth of {depth}; {DEPTH_MAX} at most")));
    }
    let rings: Result<Vec<Rings>, ReadError> =
        (0..request.threads).map(|_| Rings::new(job, depth)).collect();
    let rings = rings?;
    let direct = opened(job.file, job.block, alignment)?;
    let middle = middle(&job.range, alignment);
    let shares = job.shares(middle.clone(), u64::from(depth) * job.block as u64);
    let workers = rings.into_iter().enumerate().collect();
    crew::work(workers, clock, |(number, rings)| {
        let mut tally = Tally::default();
        let worker = Reader::new(job, &direct, &shares, depth).read(rings, &mut tally);
        if number == 0
            && !job.is_over()
            && let Some(mut worker) = worker
        {
            ends(job, &middle, &mut worker, &mut tally);
        }
        tally.stopped |= job.stop();
        tally
    })
}

impl Rings {
    fn new(job: &Job<'_>, depth: u32) -> Result<Self, ReadError> {
        let refused = |error: std::io::Error| ReadError::Unavailable {
            way: "io_uring",
            why: refusal(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        };
        let ring = IoUring::new(depth).map_err(refused)?;
        let bytes = depth as usize * job.block;
        let mut buffers = Pages::new(bytes).map_err(|error| failed("get memory", error))?;
        let parts: Vec<libc::iovec> = buffers
            .chunks_exact_mut(job.block)
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        // SAFETY: the buffers are there until after the ring is dropped, or for ever.
        unsafe { ring.submitter().register_buffers(&parts) }.map_err(refused)?;
        Ok(Self { ring, buffers, worker: Worker::new(job.file, job.block)? })
    }
}

/// Why the kernel gives no ring.
fn refusal(error: Errno) -> String {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    match error {
        Errno::NOSYS => "this kernel has none (Linux 5.1), or a seccomp filter hides it".to_owned(),
        Errno::PERM | Errno::ACCESS => match setting("io_uring_disabled").as_str() {
            "2" => "the setting kernel.io_uring_disabled is 2".to_owned(),
            "1" => "the setting kernel.io_uring_disabled is 1, for all but root and the group of \
                    kernel.io_uring_group"
                .to_owned(),
            _ => "a seccomp filter or a security module forbids it".to_owned(),
        },
        Errno::NOMEM => "the memory it locks is above the limit; raise `ulimit -l`, or give a \
                         smaller block or depth"
            .to_owned(),
        error => error.to_string(),
    }
}

/// A thread's reads that are under way.
struct Reader<'j> {
    job: &'j Job<'j>,
    direct: &'j File,
    shares: &'j Shares,
    /// What is left of the share in hand.
    share: Range<u64>,
    /// The read of each buffer, if one is under way.
    under_way: Vec<Option<(u64, usize)>>,
    free: Vec<usize>,
}

impl<'j> Reader<'j> {
    fn new(job: &'j Job<'j>, direct: &'j File, shares: &'j Shares, depth: u32) -> Self {
        let (under_way, free) = (vec![None; depth as usize], (0..depth as usize).collect());
        Self { job, direct, shares, share: 0..0, under_way, free }
    }

    /// Reads all shares that it can get. The worker comes back, unless the ring failed.
    fn read(mut self, mut rings: Rings, tally: &mut Tally) -> Option<Worker> {
        loop {
            self.push(&mut rings, tally);
            if self.free.len() == self.under_way.len() {
                return Some(rings.worker);
            }
            match rings.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    error => {
                        self.fail(rings, tally, error.unwrap_or(Errno::IO));
                        return None;
                    }
                },
            }
            let done: Vec<(usize, i32)> = rings
                .ring
                .completion()
                .map(|entry| (entry.user_data() as usize, entry.result()))
                .collect();
            for (number, result) in done {
                self.finish(&mut rings, tally, number, result);
            }
        }
    }

    /// Gives every free buffer a block to read.
    fn push(&mut self, rings: &mut Rings, tally: &mut Tally) {
        while !self.job.is_over()
            && let Some(&number) = self.free.last()
            && let Some((at, length)) = self.next()
        {
            let from = number * self.job.block;
            let start = rings.buffers[from..from + length].as_mut_ptr();
            let entry = read_entry(self.direct, start, length, number, at);
            // SAFETY: the buffer is registered, and nothing else uses it until this read ends. The
            // queue has room for one read a buffer.
            let pushed = unsafe { rings.ring.submission().push(&entry) };
            if pushed.is_err() {
                self.share.start = at;
                return;
            }
            self.free.pop();
            self.under_way[number] = Some((at, length));
            tally.calls += 1;
        }
    }

    fn next(&mut self) -> Option<(u64, usize)> {
        if self.share.is_empty() {
            self.share = self.shares.take()?;
        }
        let at = self.share.start;
        let length = (self.share.end - at).min(self.job.block as u64);
        self.share.start += length;
        Some((at, length as usize))
    }

    /// Takes in a read that ended. If it is not whole, the careful way tells what is the matter.
    fn finish(&mut self, rings: &mut Rings, tally: &mut Tally, number: usize, result: i32) {
        let Some((at, length)) = self.under_way.get_mut(number).and_then(Option::take) else {
            return;
        };
        self.free.push(number);
        if usize::try_from(result) == Ok(length) {
            let from = number * self.job.block;
            tally.sum.add(self.job.place(at), &rings.buffers[from..from + length]);
        } else {
            let calls = tally.calls;
            let Worker { file, buffer } = &mut rings.worker;
            tally.block(self.job, file, buffer, at, length);
            tally.fallbacks += tally.calls - calls;
        }
    }

    /// The ring itself failed. What is under way may still write into the buffers: they stay.
    fn fail(&self, rings: Rings, tally: &mut Tally, error: Errno) {
        std::mem::forget(rings);
        if let Some(&(at, length)) = self.under_way.iter().flatten().min() {
            let bytes = length as u64;
            tally.faults.push(Fault { at, bytes, error: error.raw_os_error() });
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
    use crate::generate::Generator;
    use crate::read::Way;
    use crate::sum::Sum;
    use fathom_measure::clock::{Source as Counter, Specification};
    use std::os::unix::fs::FileExt;

    /// The rest of a block that came short is read in the careful way, which finds the end.
    #[test]
    fn a_file_that_is_shorter_by_now_is_told() {
        let source = Counter::MonotonicRaw;
        let raw = Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 };
        let clock = Clock::from_specification(raw);
        let mut bytes = vec![0; (1 << 20) + 100];
        Generator::new(1).fill(0, &mut bytes);
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&bytes, 0).expect("written");
        for threads in [1, 2] {
            let whole = Request::whole(Way::Ring { depth: 4 });
            let request = Request { threads, block: 65536, ..whole };
            let job = Job::new(&file, 0..2 << 20, &request);
            let Ok((tally, _)) = run(&job, &request, &clock, 4096, 4) else {
                // The other tests say that there is no io_uring, or no direct reading.
                return;
            };
            assert_eq!(tally.ended_at, Some(bytes.len() as u64));
            assert!(tally.fallbacks > 0 && tally.faults.is_empty());
            // The first read to meet the end ends it for the others.
            let all = Sum::of(&bytes);
            assert!(tally.sum == all || tally.sum.bytes < all.bytes);
        }
    }
}
