//! read(2), call after call, as the simplest of programs does it: the classic way to see what a
//! call costs, down to blocks of a byte.
//!
//! Between the calls there is next to nothing: each reads to where the last ended in a buffer of
//! 2 MiB or more, and the sums are made when it is full.

use fathom_measure::Clock;
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;

use super::job::{Job, Tally};
use super::{BLOCK, Fault, ReadError, Request, failed};
use crate::kernel::reopened;
use crate::memory::Pages;

struct Position {
    /// Calls that are still to be made.
    left: u64,
    /// The next byte of the file.
    at: u64,
    /// Bytes of the file that are known to come; a block cut short before them is completed.
    end: u64,
    /// Whether to end with the file.
    until_end: bool,
}

/// What ended a run of calls before the buffer was full.
enum Met {
    Nothing,
    End,
    Short(usize),
    Error(Errno),
}

/// `is_open` is a file of unknown size: what a call gives is all that it was to give.
pub(super) fn run(
    job: &Job<'_>,
    request: &Request<'_>,
    clock: &Clock,
    count: Option<u64>,
    is_open: bool,
) -> Result<(Tally, f64), ReadError> {
    let copy = |_| job.file.try_clone();
    let file = reopened(job.file, OFlags::RDONLY).or_else(copy).map_err(|error| {
        failed("open the file", Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })?;
    if job.range.start > 0 || !is_open {
        seek(&file, SeekFrom::Start(job.range.start)).map_err(|error| failed("seek", error))?;
    }
    let block = request.block;
    let mut buffer =
        Pages::new((BLOCK / block).max(1) * block).map_err(|error| failed("get memory", error))?;
    let range = job.range.clone();
    // Within a range no block reaches behind its end: what is left there is read on its own.
    let fit = (range.end - range.start) / block as u64;
    let is_part = request.range.is_some() && !is_open;
    let left = match (count, is_part) {
        (count, true) => count.map_or(fit, |count| count.min(fit)),
        (Some(count), false) => count,
        (None, false) => u64::MAX,
    };
    let rest = if is_part && count.is_none_or(|count| count > fit) {
        ((range.end - range.start) % block as u64) as usize
    } else {
        0
    };
    let end = if is_open { 0 } else { range.end };
    let until_end = left == u64::MAX;
    let mut position = Position { left, at: range.start, end, until_end };
    let mut tally = Tally::default();
    let begin = clock.start();
    while position.left > 0 && !job.stop() {
        if !fill(job, &file, &mut buffer, &mut position, &mut tally) {
            break;
        }
    }
    if position.left == 0 && rest > 0 {
        complete(job, &file, &mut buffer[..rest], &mut position, &mut tally);
    }
    let ns = clock.ns(begin, clock.stop());
    tally.stopped = position.left > 0 && job.stop();
    Ok((tally, ns))
}

/// Fills the buffer by calls of a block each, and adds up what came; false at the end of it all.
fn fill(
    job: &Job<'_>,
    file: &std::fs::File,
    buffer: &mut [u8],
    position: &mut Position,
    tally: &mut Tally,
) -> bool {
    let block = job.block;
    let calls = position.left.min((buffer.len() / block) as u64);
    let mut made = 0;
    let mut filled = 0;
    let mut met = Met::Nothing;
    for one in buffer.chunks_exact_mut(block).take(calls as usize) {
        if job.stop() {
            break;
        }
        made += 1;
        match rustix::io::read(file, &mut *one) {
            Ok(read) if read == block => filled += read,
            Ok(0) => met = Met::End,
            Ok(read) => met = Met::Short(read),
            Err(error) => met = Met::Error(error),
        }
        if !matches!(met, Met::Nothing) {
            break;
        }
    }
    tally.calls += made;
    position.left -= made;
    let short = if let Met::Short(read) = met { read } else { 0 };
    tally.sum.add(job.place(position.at), &buffer[..filled + short]);
    position.at += (filled + short) as u64;
    match met {
        Met::Nothing => true,
        Met::Short(read) => complete(job, file, &mut buffer[read..block], position, tally),
        // Calls beyond the end are calls too, if so many were asked for.
        Met::End if position.until_end => ended(job, position, tally),
        Met::End => {
            ended(job, position, tally);
            true
        }
        Met::Error(Errno::INTR) => {
            tally.calls -= 1;
            position.left += 1;
            true
        }
        Met::Error(error) => {
            let bytes = block.min(position.end.saturating_sub(position.at).max(1) as usize);
            fault(job, file, &mut buffer[..bytes], position, tally, error)
        }
    }
}

/// Notes where the file ended, if that is before where it should. False.
fn ended(job: &Job<'_>, position: &Position, tally: &mut Tally) -> bool {
    if position.at < position.end && tally.ended_at.is_none() {
        tally.ends(job, position.at);
    }
    false
}

/// Reads the rest of a block that came short before the end of the file: by a signal, or because
/// a file system gives less at a time. These calls are none of those asked for.
fn complete(
    job: &Job<'_>,
    file: &std::fs::File,
    mut rest: &mut [u8],
    position: &mut Position,
    tally: &mut Tally,
) -> bool {
    while !rest.is_empty() && position.at < position.end && !job.stop() {
        tally.fallbacks += 1;
        match rustix::io::read(file, &mut *rest) {
            Ok(0) => {
                ended(job, position, tally);
                break;
            }
            Ok(read) => {
                tally.sum.add(job.place(position.at), &rest[..read]);
                position.at += read as u64;
                rest = &mut rest[read..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return fault(job, file, rest, position, tally, error),
        }
    }
    true
}

/// What cannot be read. To go on behind it, the block is read again place by place, and the
/// position set to its end; an error of another kind ends the read. False: it is over.
fn fault(
    job: &Job<'_>,
    file: &std::fs::File,
    block: &mut [u8],
    position: &mut Position,
    tally: &mut Tally,
    error: Errno,
) -> bool {
    let (at, bytes) = (position.at, block.len());
    if position.end == 0 {
        tally.faults.push(Fault { at, bytes: bytes as u64, error: error.raw_os_error() });
        return false;
    }
    let calls = tally.calls;
    let on = tally.block(job, file, block, at, bytes);
    tally.fallbacks += tally.calls - calls;
    tally.calls = calls;
    position.at += bytes as u64;
    on && seek(file, SeekFrom::Start(position.at)).is_ok()
}
