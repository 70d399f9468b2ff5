//! Reading a file: a range of it, in a way, by a number of threads, into sums.
//!
//! Every way gives the same sums. What goes wrong at a place is told with the place, and where the
//! way itself cannot go on there, the place is read again by plain pread(2), which says what is
//! wrong with it.

mod calls;
mod crew;
mod direct;
mod job;
mod map;
mod pread;
mod ring;
mod window;

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::Clock;
use rustix::fs::fstat;
use rustix::io::Errno;

use crate::residency::{self, Residency, State};
use crate::subject::{Direct, Kind, Source, size_of};
use crate::sum::Sum;
use job::{Job, Tally};

/// A huge page: mapped with one entry where the cache has one. A copy is quickest into memory that
/// the third level of cache holds, but not the second: processors then copy past the latter.
pub const BLOCK: usize = 2 << 20;
pub const BLOCK_MAX: usize = 1 << 30;
/// All buffers of a read together are not larger.
pub const MEMORY_MAX: usize = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// pread(2) into a buffer for each thread.
    Pread,
    /// Mapped pages, made present a block at a time.
    Map,
    /// pread(2) past the page cache.
    Direct,
    /// io_uring past the page cache, with registered buffers.
    Ring {
        /// Reads of a thread that are under way at once.
        depth: u32,
    },
    /// read(2), block after block, by one thread.
    Calls {
        /// So many calls exactly, also beyond the end; none: until the end.
        count: Option<u64>,
    },
}

/// What is to be read, and how.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub way: Way,
    pub range: Option<Range<u64>>,
    /// Sums count from this byte, at or before the range: those of parts can then be merged; none:
    /// from the start of the range.
    pub origin: Option<u64>,
    /// Bytes of a block: exactly these, never rounded.
    pub block: usize,
    pub threads: usize,
    /// Whether to read on behind a place that cannot be read.
    pub keep_going: bool,
    /// Looked at before every call; true ends the read early.
    pub stop: &'a AtomicBool,
}

/// That nothing is to stop a read.
pub static NEVER: AtomicBool = AtomicBool::new(false);

impl Request<'_> {
    /// The whole file in one way, by one thread, in blocks of [`BLOCK`].
    pub fn whole(way: Way) -> Self {
        Self {
            way,
            range: None,
            origin: None,
            block: BLOCK,
            threads: 1,
            keep_going: false,
            stop: &NEVER,
        }
    }
}

/// A place that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First byte that could not be read.
    pub at: u64,
    /// How many bytes were given up, from there on.
    pub bytes: u64,
    pub error: i32,
}

/// What of a file was another at the end of the read than at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The size before and after.
    pub size: (u64, u64),
    /// Whether its content was modified.
    pub modified: bool,
    /// Whether anything else about it was changed: names, owners, modes.
    pub touched: bool,
}

/// Whether reads past the cache went past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// What was not in memory before is not there now.
    Real,
    /// The file system took the request and read by way of the cache.
    Buffered,
    /// The file was in memory to begin with, or nobody can tell.
    Unknown,
}

/// What came of a read.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The sums of what was read; bytes that could not be read count as zeroes.
    pub sum: Sum,
    /// System calls that were to transfer bytes: reads, or requests to make pages present.
    pub calls: u64,
    /// Calls of another kind than asked for: at an unaligned end, or at a place with an error.
    pub fallbacks: u64,
    /// From when all threads were ready to when the last had ended.
    pub ns: f64,
    /// Places that could not be read, in order. Without `keep_going` the first that was met.
    pub faults: Vec<Fault>,
    /// Where the file ended, if before the end of the range.
    pub ended_at: Option<u64>,
    /// Whether it was told to stop, and did.
    pub stopped: bool,
    pub changed: Option<Change>,
    /// For reads past the cache.
    pub bypass: Option<Bypass>,
}

/// Why a read cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// This machine, or this file, has not got the way.
    #[error("{way} is not available: {why}")]
    Unavailable {
        way: &'static str,
        why: String,
    },
    /// A system call failed before anything was read.
    #[error("{what}: {error}")]
    Failed {
        what: &'static str,
        error: Errno,
    },
}

/// Reads a file.
///
/// # Errors
/// Where the read cannot be begun. What goes wrong on the way stands in the outcome.
pub fn read(source: &Source, request: &Request<'_>, clock: &Clock) -> Result<Outcome, ReadError> {
    let (kind, size) = size_of(&source.file).map_err(|error| failed("look at the file", error))?;
    check(kind, request)?;
    let is_endless = source.subject().size.is_none();
    if is_endless && !matches!(request.way, Way::Calls { .. } | Way::Pread) {
        let text = "a file of unknown size is read by pread or by calls one after another";
        return Err(ReadError::Invalid(text.to_owned()));
    }
    let end = if is_endless { u64::MAX } else { size.unwrap_or(u64::MAX) };
    let range = request.range.clone().unwrap_or(0..end);
    // Behind its end there is nothing to share out.
    let range = range.start.min(end)..range.end.min(end).max(range.start.min(end));
    let before = stamp(&source.file);
    let past_cache = matches!(request.way, Way::Direct | Way::Ring { .. });
    let resident = past_cache.then(|| residency::of(&source.file));
    let job = Job::new(&source.file, range, request);
    let (mut tally, ns) = match request.way {
        Way::Pread => pread::run(&job, request, clock)?,
        Way::Map => map::run(&job, request, clock)?,
        Way::Direct => direct::run(&job, request, clock, offset_alignment(source)?)?,
        Way::Ring { depth } => {
            ring::check(source)?;
            ring::run(&job, request, clock, offset_alignment(source)?, depth)?
        }
        Way::Calls { count } => {
            calls::run(&job, request, clock, count, is_endless || kind == Kind::Character)?
        }
    };
    if is_endless {
        tally.ended_at = None;
    }
    let bypass =
        resident.map(|before| bypassed(&before, &residency::of(&source.file), tally.sum.bytes));
    let changed = before.zip(stamp(&source.file)).and_then(|(then, now)| change(then, now));
    Ok(outcome(tally, ns, request, changed, bypass))
}

fn outcome(
    mut tally: Tally,
    ns: f64,
    request: &Request<'_>,
    changed: Option<Change>,
    bypass: Option<Bypass>,
) -> Outcome {
    let faults = joined(std::mem::take(&mut tally.faults), request.keep_going);
    Outcome {
        sum: tally.sum,
        calls: tally.calls,
        fallbacks: tally.fallbacks,
        ns,
        faults,
        ended_at: tally.ended_at,
        stopped: tally.stopped && request.stop.load(Ordering::Relaxed),
        changed,
        bypass,
    }
}

fn check(kind: Kind, request: &Request<'_>) -> Result<(), ReadError> {
    let invalid = |text: String| Err(ReadError::Invalid(text));
    let (block, threads) = (request.block, request.threads);
    if block == 0 || block > BLOCK_MAX {
        return invalid(format!("a block of {block} bytes; give 1 to {BLOCK_MAX}"));
    }
    let depth = match request.way {
        Way::Ring { depth: 0 } => return invalid("a queue depth of 0; give 1 or more".to_owned()),
        Way::Ring { depth } => depth as usize,
        _ => 1,
    };
    let buffers = block.saturating_mul(threads).saturating_mul(depth);
    if threads == 0 || buffers > MEMORY_MAX {
        return invalid(format!(
            "{threads} threads with {depth} blocks of {block} bytes each; \
             give at least 1 thread and {MEMORY_MAX} bytes at most together"
        ));
    }
    let is_sequential = matches!(request.way, Way::Calls { .. });
    if is_sequential && threads > 1 {
        return invalid(format!("{threads} threads for reads one after another; give 1"));
    }
    if !is_sequential && !matches!(kind, Kind::Regular | Kind::Block) {
        return invalid("a device without offsets is read by calls one after another".to_owned());
    }
    if let Some(range) = &request.range
        && (range.start > range.end || request.origin.is_some_and(|origin| origin > range.start))
    {
        return invalid(format!("a range from {} to {}", range.start, range.end));
    }
    Ok(())
}

fn failed(what: &'static str, error: Errno) -> ReadError {
    ReadError::Failed { what, error }
}

/// What direct reads of a file have to be aligned to, by what it says or by what devices have.
fn offset_alignment(source: &Source) -> Result<u64, ReadError> {
    match source.subject().direct {
        Direct::Aligned { memory, offset } if memory as usize <= crate::memory::page() => {
            Ok(u64::from(offset))
        }
        Direct::Aligned { memory, .. } => Err(ReadError::Unavailable {
            way: "direct reading",
            why: format!("the file wants memory aligned to {memory} bytes, above a page"),
        }),
        Direct::Refused => Err(ReadError::Unavailable {
            way: "direct reading",
            why: format!("{} refuses it for this file", source.subject().file_system.name),
        }),
        Direct::Unsaid => Ok(4096),
    }
}

/// What is compared to notice a change: the size, and when content and anything else changed.
type FileStamp = (u64, [i64; 2], [i64; 2]);

fn stamp(file: &File) -> Option<FileStamp> {
    let stat = fstat(file).ok()?;
    let modified = [stat.st_mtime as i64, stat.st_mtime_nsec as i64];
    let touched = [stat.st_ctime as i64, stat.st_ctime_nsec as i64];
    Some((stat.st_size as u64, modified, touched))
}

fn change(then: FileStamp, now: FileStamp) -> Option<Change> {
    let change =
        Change { size: (then.0, now.0), modified: then.1 != now.1, touched: then.2 != now.2 };
    (then != now).then_some(change)
}

/// Whether the cache grew by what was read. A quarter is far above what the machine does
/// meanwhile, and far below a read that went through the cache.
fn bypassed(before: &Residency, after: &Residency, bytes: u64) -> Bypass {
    let is_known = |it: &Residency| !matches!(it.state, State::Unknown { .. });
    let room = before.bytes.saturating_sub(before.cached).min(bytes);
    if !is_known(before) || !is_known(after) || room < bytes / 2 || bytes == 0 {
        return Bypass::Unknown;
    }
    let grown = after.cached.saturating_sub(before.cached);
    if grown > room / 4 { Bypass::Buffered } else { Bypass::Real }
}

/// Faults in order, those side by side as one. Threads may each have met one before they knew of
/// the others: without `keep_going` the first is told.
fn joined(mut faults: Vec<Fault>, keep_going: bool) -> Vec<Fault> {
    faults.sort_unstable_by_key(|fault| fault.at);
    let mut joined: Vec<Fault> = Vec::new();
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
    use crate::residency::Witness;

    #[test]
    fn faults_side_by_side_are_one() {
        let fault = |at, bytes| Fault { at, bytes, error: 5 };
        let faults = vec![fault(8192, 4096), fault(0, 4096), fault(4096, 4096), fault(20480, 1)];
        assert_eq!(joined(faults.clone(), true), [fault(0, 12288), fault(20480, 1)]);
        assert_eq!(joined(faults, false), [fault(0, 12288)]);
    }

    #[test]
    fn a_cache_that_grows_under_a_direct_read_betrays_it() {
        let of = |state, cached| Residency {
            state,
            bytes: 1 << 20,
            cached,
            dirty: 0,
            writeback: 0,
            witness: Witness::Both,
        };
        let (cold, warm) = (of(State::Cold, 0), of(State::Warm, 1 << 20));
        assert_eq!(bypassed(&cold, &cold, 1 << 20), Bypass::Real);
        assert_eq!(bypassed(&cold, &warm, 1 << 20), Bypass::Buffered);
        assert_eq!(bypassed(&warm, &warm, 1 << 20), Bypass::Unknown);
        assert_eq!(bypassed(&cold, &cold, 0), Bypass::Unknown);
        let unknown = of(State::Unknown { why: crate::residency::Blind::NotOurs }, 0);
        assert_eq!(bypassed(&cold, &unknown, 1 << 20), Bypass::Unknown);
    }
}
