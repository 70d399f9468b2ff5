//! Reads a range of a file with one method and any number of threads, and checksums it.
//!
//! Every method gives the same sums. Read errors are reported with their byte range. Where a
//! method cannot continue after an error, the block is read again by pread(2), which finds the
//! unreadable range.

mod calls;
mod direct;
mod job;
mod map;
mod pread;
mod ring;
mod threads;
mod window;
mod worker;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_measure::Clock;
use fathom_record::quantity::quantity;
use fathom_record::{Activity, Unit, system_cause};
use rustix::io::Errno;

use crate::memory::{MemoryPages, MemoryPool};
use crate::path_info::{Direct, FileKind, PathInfoChange, PathInfoSource, size_of};
use crate::residency::{self, Residency, ResidencyLook, ResidencyState};
use crate::sum::XorSum;
use job::ReadJob;

/// Default block: a huge page, which takes one page table entry if the page cache holds it as one
/// folio. Copies are fastest into a buffer that fits the L3 cache but not the L2, since the CPU
/// then bypasses the L2.
pub const BLOCK: usize = 2 << 20;
pub const BLOCK_MAX: usize = 1 << 30;
/// Limit on all buffers of a read together.
pub const MEMORY_MAX: usize = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// pread(2), a buffer per thread.
    Pread,
    /// mmap(2), populated block by block.
    Map,
    /// pread(2) with O_DIRECT.
    Direct,
    /// io_uring with O_DIRECT and registered buffers.
    Ring {
        /// Queue depth per thread.
        depth: u32,
    },
    /// Sequential read(2) by one thread.
    Calls {
        /// Exactly this many calls, even past the end of the file. `None`: until the end.
        count: Option<u64>,
    },
}

impl Way {
    /// Bypasses the page cache.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Ring { .. })
    }
}

#[derive(Clone, Debug)]
pub struct ReadRequest<'a> {
    pub way: Way,
    /// `None`: the whole file.
    pub range: Option<Range<u64>>,
    /// The byte at which word 0 of the sums begins, at or before the range, so that the sums of
    /// parts can be merged. `None`: the start of the range.
    pub origin: Option<u64>,
    /// Bytes per call, never rounded.
    pub block: usize,
    pub threads: usize,
    /// Continue after unreadable ranges.
    pub keep_going: bool,
    /// Checked before every call; true ends the read early.
    pub stop: &'a AtomicBool,
    /// Counts the cached pages meanwhile and leaves out uncached ranges, by pread and mmap.
    pub look: Option<&'a ResidencyLook>,
    /// The longest wait for data of a device, or of a file that the kernel generates, such as
    /// /proc/kmsg. `None`: until it is stopped.
    pub patience: Option<Duration>,
}

/// A stop flag that is never set.
pub static NEVER_STOP: AtomicBool = AtomicBool::new(false);

impl ReadRequest<'_> {
    /// The whole file by one thread in blocks of [`BLOCK`].
    pub fn whole(way: Way) -> Self {
        Self {
            way,
            range: None,
            origin: None,
            block: BLOCK,
            threads: 1,
            keep_going: false,
            stop: &NEVER_STOP,
            look: None,
            patience: None,
        }
    }
}

/// An unreadable range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFault {
    pub at: u64,
    pub bytes: u64,
    /// errno.
    pub error: i32,
}

/// Whether direct reads bypassed the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// Uncached pages are still uncached.
    Confirmed,
    /// The file system accepted O_DIRECT, but read through the page cache.
    Buffered,
    /// The file was cached before, or its residency is unknown.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// Unreadable bytes count as zeroes.
    pub sum: XorSum,
    /// System calls that transfer or populate bytes.
    pub calls: u64,
    /// Buffered calls of a direct or mapped read: at unaligned ends and after errors.
    pub fallbacks: u64,
    /// From when all threads are ready until the last one ends.
    pub ns: f64,
    /// CPU time of all threads; 0 for [`Way::Calls`].
    pub cpu_ns: u64,
    /// In order of offset. Without `keep_going` at most one.
    pub faults: Vec<ReadFault>,
    /// Where the file ended, if before the end of the range.
    pub ended_at: Option<u64>,
    /// Ended early: on request, or without data.
    pub stopped: bool,
    /// Ended since no data came for as long as the request waits.
    pub has_no_data: bool,
    /// Since the file was opened, which is before its first read.
    pub changed: Option<PathInfoChange>,
    /// Set for direct reads that are no part (`origin`) of a larger one.
    pub bypass: Option<Bypass>,
}

/// Why a read cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The request is invalid on any machine.
    #[error("{0}")]
    Invalid(String),
    /// This machine or file does not support the method.
    #[error("{way} is not available: {why}")]
    Unavailable { way: &'static str, why: String },
    /// A system call failed before anything was read.
    #[error("{what}: {}", system_cause(&(*.error).into(), Activity::Read))]
    Failed { what: String, error: Errno },
}

/// Reads a file. Fails only if the read cannot start; later errors are in the outcome.
pub fn read(
    source: &PathInfoSource,
    request: &ReadRequest<'_>,
    clock: &Clock,
) -> Result<ReadOutcome, ReadError> {
    read_with(source, request, clock, &MemoryPool::default())
}

/// As [`read`], with the buffers of earlier reads.
pub(crate) fn read_with(
    source: &PathInfoSource,
    request: &ReadRequest<'_>,
    clock: &Clock,
    pool: &MemoryPool,
) -> Result<ReadOutcome, ReadError> {
    let (kind, size) = size_of(&source.file).map_err(|error| failed("stat the file", error))?;
    check(kind, request)?;
    let is_endless = source.info().size.is_none();
    // Reads at several positions of a file that is generated meanwhile fit no one content.
    let is_in_order = matches!(request.way, Way::Calls { .. } | Way::Pread) && request.threads == 1;
    if is_endless && !is_in_order {
        let text = "a file of unknown size supports only `pread` and `read`, by one thread";
        return Err(ReadError::Invalid(text.to_owned()));
    }
    let end = if is_endless { u64::MAX } else { size.unwrap_or(u64::MAX) };
    let range = request.range.clone().unwrap_or(0..end);
    // Nothing to distribute past the end of the file.
    let range = range.start.min(end)..range.end.min(end).max(range.start.min(end));
    // Not for each part of a larger read: counting takes longer than reading a small part.
    let is_whole = request.origin.is_none();
    let resident =
        (request.way.is_direct() && is_whole).then(|| residency::residency_of(&source.file));
    let job = ReadJob::new(&source.file, range, request);
    let (tally, ns) = match request.way {
        Way::Pread => pread::run(&job, request, clock, pool)?,
        Way::Map => map::run(&job, request, clock)?,
        Way::Direct => direct::run(&job, request, clock, offset_alignment(source)?, pool)?,
        Way::Ring { depth } => {
            ring::check(source)?;
            ring::run(&job, request, clock, offset_alignment(source)?, depth)?
        }
        Way::Calls { count } => {
            calls::run(&job, request, clock, count, is_endless || kind == FileKind::Character)?
        }
    };
    let bypass = resident
        .map(|before| bypassed(&before, &residency::residency_of(&source.file), tally.sum.bytes));
    Ok(ReadOutcome {
        sum: tally.sum,
        calls: tally.calls,
        fallbacks: tally.fallbacks,
        ns,
        cpu_ns: tally.cpu_ns,
        faults: joined(tally.faults, request.keep_going),
        ended_at: if is_endless { None } else { tally.ended_at },
        stopped: tally.has_no_data || tally.stopped && request.stop.load(Ordering::Relaxed),
        has_no_data: tally.has_no_data,
        changed: source.change(),
        bypass,
    })
}

fn check(kind: FileKind, request: &ReadRequest<'_>) -> Result<(), ReadError> {
    let invalid = |text: String| Err(ReadError::Invalid(text));
    let (block, threads) = (request.block, request.threads);
    if block == 0 || block > BLOCK_MAX {
        return invalid(format!("block size {block}: must be 1 to {BLOCK_MAX} bytes"));
    }
    let depth = match request.way {
        Way::Ring { depth: 0 } => return invalid("queue depth 0: must be > 0".to_owned()),
        Way::Ring { depth } => depth as usize,
        _ => 1,
    };
    let buffers = block.saturating_mul(threads).saturating_mul(depth);
    if threads == 0 || buffers > MEMORY_MAX {
        return invalid(format!(
            "{threads} threads × {depth} blocks × {block} bytes: needs at least 1 thread and at \
             most {MEMORY_MAX} bytes of buffers"
        ));
    }
    let is_sequential = matches!(request.way, Way::Calls { .. });
    if is_sequential && threads > 1 {
        return invalid(format!("{threads} threads for sequential reads: must be 1"));
    }
    if !is_sequential && !matches!(kind, FileKind::Regular | FileKind::Block) {
        return invalid("a character device supports only `read`".to_owned());
    }
    if let Some(range) = &request.range
        && (range.start > range.end || request.origin.is_some_and(|origin| origin > range.start))
    {
        return invalid(format!("invalid range {}..{}", range.start, range.end));
    }
    Ok(())
}

fn failed(what: &str, error: Errno) -> ReadError {
    ReadError::Failed { what: what.to_owned(), error }
}

fn allocate(bytes: usize) -> Result<MemoryPages, ReadError> {
    MemoryPages::new(bytes).map_err(|error| out_of_memory(bytes, error))
}

fn out_of_memory(bytes: usize, error: Errno) -> ReadError {
    failed(&format!("allocate {}", quantity(bytes as f64, Unit::Bytes)), error)
}

/// The offset alignment of direct reads: as reported by statx(2), else that of most devices.
fn offset_alignment(source: &PathInfoSource) -> Result<u64, ReadError> {
    match source.info().direct {
        Direct::Aligned { memory, offset } if memory as usize <= crate::memory::page() => {
            Ok(u64::from(offset))
        }
        Direct::Aligned { memory, .. } => Err(ReadError::Unavailable {
            way: "direct I/O",
            why: format!("needs buffers aligned to {memory} bytes, more than a page"),
        }),
        Direct::Refused => Err(ReadError::Unavailable {
            way: "direct I/O",
            why: format!("{} does not support it for this file", source.info().file_system.name),
        }),
        Direct::Unknown => Ok(4096),
    }
}

/// Whether the page cache grew by what was read. A quarter is far above concurrent activity and
/// far below a buffered read.
fn bypassed(before: &Residency, after: &Residency, bytes: u64) -> Bypass {
    let is_known = |it: &Residency| !matches!(it.state, ResidencyState::Unknown { .. });
    let room = before.bytes.saturating_sub(before.cached).min(bytes);
    if !is_known(before) || !is_known(after) || room < bytes / 2 || bytes == 0 {
        return Bypass::Unknown;
    }
    let grown = after.cached.saturating_sub(before.cached);
    if grown > room / 4 { Bypass::Buffered } else { Bypass::Confirmed }
}

/// Sorts faults and merges adjacent ones. Several threads may each find one before they stop:
/// without `keep_going` only the first is kept.
fn joined(mut faults: Vec<ReadFault>, keep_going: bool) -> Vec<ReadFault> {
    faults.sort_unstable_by_key(|fault| fault.at);
    let mut joined: Vec<ReadFault> = Vec::new();
    for fault in faults {
        match joined.last_mut() {
            Some(last) if last.at + last.bytes == fault.at && last.error == fault.error => {
                last.bytes += fault.bytes;
            }
            _ => joined.push(fault),
        }
    }
    joined.truncate(if keep_going { usize::MAX } else { 1 });
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::CountedBy;

    #[test]
    fn adjacent_faults_are_merged() {
        let fault = |at, bytes| ReadFault { at, bytes, error: 5 };
        let faults = vec![fault(8192, 4096), fault(0, 4096), fault(4096, 4096), fault(20480, 1)];
        assert_eq!(joined(faults.clone(), true), [fault(0, 12288), fault(20480, 1)]);
        assert_eq!(joined(faults, false), [fault(0, 12288)]);
    }

    #[test]
    fn limits_of_a_request_are_included() {
        let is_valid = |kind, request: ReadRequest<'_>| check(kind, &request).is_ok();
        let file = |request| is_valid(FileKind::Regular, request);
        let whole = || ReadRequest::whole(Way::Pread);
        let largest = |threads| ReadRequest { block: BLOCK_MAX, threads, ..whole() };
        assert_eq!([largest(1), largest(4), largest(5)].map(file), [true, true, false]);
        assert!(!file(ReadRequest { block: BLOCK_MAX + 1, ..whole() }));
        let ring =
            |depth| ReadRequest { block: BLOCK_MAX, ..ReadRequest::whole(Way::Ring { depth }) };
        assert_eq!([ring(0), ring(4), ring(5)].map(file), [false, true, false]);
        let calls =
            |threads| ReadRequest { threads, ..ReadRequest::whole(Way::Calls { count: None }) };
        assert_eq!([calls(1), calls(2)].map(file), [true, false]);
        let of_kind = |kind| (is_valid(kind, whole()), is_valid(kind, calls(1)));
        assert_eq!(of_kind(FileKind::Block), (true, true));
        assert_eq!(of_kind(FileKind::Character), (false, true));
        let range = |start, end, origin| {
            file(ReadRequest { range: Some(Range { start, end }), origin, ..whole() })
        };
        assert!(range(5, 5, Some(5)) && range(5, 6, None) && range(5, 6, Some(4)));
        assert!(!range(6, 5, None) && !range(5, 6, Some(6)));
    }

    #[test]
    fn bypass_needs_half_of_the_bytes_uncached() {
        let of = |cached| {
            let (state, bytes) = (ResidencyState::Mixed { share: 0.5 }, 800);
            let counted_by = CountedBy::Both;
            Residency { state, bytes, cached, dirty: 0, writeback: 0, counted_by }
        };
        // Of 400 uncached bytes, a quarter is 100.
        assert_eq!(bypassed(&of(400), &of(500), 800), Bypass::Confirmed);
        assert_eq!(bypassed(&of(400), &of(501), 800), Bypass::Buffered);
        assert_eq!(bypassed(&of(401), &of(401), 800), Bypass::Unknown);
        assert_eq!(bypassed(&of(700), &of(725), 100), Bypass::Confirmed, "of the bytes read");
        assert_eq!(bypassed(&of(700), &of(726), 100), Bypass::Buffered);
    }

    #[test]
    fn cache_growth_shows_a_buffered_direct_read() {
        let of = |state, cached| Residency {
            state,
            bytes: 1 << 20,
            cached,
            dirty: 0,
            writeback: 0,
            counted_by: CountedBy::Both,
        };
        let (cold, warm) = (of(ResidencyState::Cold, 0), of(ResidencyState::Warm, 1 << 20));
        assert_eq!(bypassed(&cold, &cold, 1 << 20), Bypass::Confirmed);
        assert_eq!(bypassed(&cold, &warm, 1 << 20), Bypass::Buffered);
        assert_eq!(bypassed(&warm, &warm, 1 << 20), Bypass::Unknown);
        assert_eq!(bypassed(&cold, &cold, 0), Bypass::Unknown);
        let unknown =
            of(ResidencyState::Unknown { why: crate::residency::UnknownReason::NoPermission }, 0);
        assert_eq!(bypassed(&cold, &unknown, 1 << 20), Bypass::Unknown);
    }
}
