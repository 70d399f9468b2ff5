//! Sequential read(2), as a simple program does it: measures the cost of a call, down to blocks of
//! one byte.
//!
//! The calls fill a buffer of 2 MiB or more, one block after another, and the sums are computed
//! when it is full, so that almost nothing runs between two calls.

use fathom_measure::Clock;
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;

use super::job::{ReadJob, ReadTally, is_empty};
use super::{BLOCK, ReadError, ReadFault, ReadRequest, allocate, failed};
use crate::syscall::reopened;

struct CallPosition {
    /// Calls left.
    left: u64,
    /// The file offset.
    at: u64,
    /// The expected end of the file; a block that comes short before it is completed.
    end: u64,
    /// Read until the end of the file.
    until_end: bool,
}

/// Why the calls ended before the buffer was full.
enum CallEnd {
    BufferFull,
    EndOfFile,
    Short(usize),
    Error(Errno),
}

/// `is_endless`: a file of unknown size, where a short read is not completed.
pub(super) fn run(
    job: &ReadJob<'_>,
    request: &ReadRequest<'_>,
    clock: &Clock,
    count: Option<u64>,
    is_endless: bool,
) -> Result<(ReadTally, f64), ReadError> {
    // Opened again, because read(2) moves the offset of the open file.
    let copy = |_| job.file.try_clone();
    let file = reopened(job.file, OFlags::RDONLY).or_else(copy).map_err(|error| {
        failed("open the file", Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })?;
    if job.range.start > 0 || !is_endless {
        seek(&file, SeekFrom::Start(job.range.start)).map_err(|error| failed("seek", error))?;
    }
    let block = request.block;
    let mut buffer = allocate((BLOCK / block).max(1) * block)?;
    let range = job.range.clone();
    // No block of a range extends past its end: the remainder is read by itself.
    let fit = (range.end - range.start) / block as u64;
    let is_part = request.range.is_some() && !is_endless;
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
    let end = if is_endless { 0 } else { range.end };
    let until_end = left == u64::MAX;
    // Of another file a fixed number of calls are made, also past its end.
    let most = if is_endless { range.end } else { u64::MAX };
    let mut position = CallPosition { left, at: range.start, end, until_end };
    let mut tally = ReadTally::default();
    let begin = clock.start();
    while position.left > 0 && position.at < most && !job.stop() {
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

/// Fills the buffer with one call per block, and sums it. Returns false at the end of the read.
fn fill(
    job: &ReadJob<'_>,
    file: &std::fs::File,
    buffer: &mut [u8],
    position: &mut CallPosition,
    tally: &mut ReadTally,
) -> bool {
    let block = job.block;
    let calls = position.left.min((buffer.len() / block) as u64);
    let mut made = 0;
    let mut filled = 0;
    let mut call_end = CallEnd::BufferFull;
    for one in buffer.chunks_exact_mut(block).take(calls as usize) {
        // A relaxed load per call, which adds no fence between the calls.
        if job.stop() {
            break;
        }
        made += 1;
        match rustix::io::read(file, &mut *one) {
            Ok(read) if read == block => filled += read,
            Ok(0) => call_end = CallEnd::EndOfFile,
            Ok(read) => call_end = CallEnd::Short(read),
            Err(error) => call_end = CallEnd::Error(error),
        }
        if !matches!(call_end, CallEnd::BufferFull) {
            break;
        }
    }
    tally.calls += made;
    position.left -= made;
    let short = if let CallEnd::Short(read) = call_end { read } else { 0 };
    tally.sum.add(job.sum_offset(position.at), &buffer[..filled + short]);
    position.at += (filled + short) as u64;
    if filled + short > 0 {
        job.has_data();
    }
    match call_end {
        CallEnd::BufferFull => true,
        CallEnd::Short(read) => complete(job, file, &mut buffer[read..block], position, tally),
        // With a fixed number of calls those past the end are made too.
        CallEnd::EndOfFile => {
            note_end_of_file(job, position, tally);
            !position.until_end
        }
        CallEnd::Error(error) if job.is_retried(file, error) => {
            tally.calls -= 1;
            position.left += 1;
            true
        }
        CallEnd::Error(error) if is_empty(file, error) => {
            tally.calls -= 1;
            tally.no_data(job);
            false
        }
        CallEnd::Error(error) => {
            let bytes = block.min(position.end.saturating_sub(position.at).max(1) as usize);
            fault(job, file, &mut buffer[..bytes], position, tally, error)
        }
    }
}

/// Records where the file ended, if that is before its expected end.
fn note_end_of_file(job: &ReadJob<'_>, position: &CallPosition, tally: &mut ReadTally) {
    if position.at < position.end && tally.ended_at.is_none() {
        tally.end_of_file(job, position.at);
    }
}

/// Reads the rest of a block after a short read before the end of the file: interrupted by a
/// signal, or the file system returns less at a time. Counted as fallbacks.
fn complete(
    job: &ReadJob<'_>,
    file: &std::fs::File,
    mut rest: &mut [u8],
    position: &mut CallPosition,
    tally: &mut ReadTally,
) -> bool {
    while !rest.is_empty() && position.at < position.end && !job.stop() {
        tally.fallbacks += 1;
        match rustix::io::read(file, &mut *rest) {
            Ok(0) => {
                note_end_of_file(job, position, tally);
                break;
            }
            Ok(read) => {
                tally.sum.add(job.sum_offset(position.at), &rest[..read]);
                position.at += read as u64;
                rest = &mut rest[read..];
            }
            Err(error) if job.is_retried(file, error) => {}
            Err(error) if is_empty(file, error) => {
                tally.no_data(job);
                return false;
            }
            Err(error) => return fault(job, file, rest, position, tally, error),
        }
    }
    true
}

/// Handles a read error: reads the block again sector by sector and continues after it. Returns
/// false if the read ends here.
fn fault(
    job: &ReadJob<'_>,
    file: &std::fs::File,
    block: &mut [u8],
    position: &mut CallPosition,
    tally: &mut ReadTally,
    error: Errno,
) -> bool {
    let (at, bytes) = (position.at, block.len());
    if position.end == 0 {
        tally.faults.push(ReadFault { at, bytes: bytes as u64, error: error.raw_os_error() });
        return false;
    }
    let calls = tally.calls;
    let goes_on = tally.fall_back(job, file, block, at, bytes);
    tally.calls = calls;
    position.at += bytes as u64;
    goes_on && seek(file, SeekFrom::Start(position.at)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::read::Way;

    #[test]
    fn stop_is_checked_between_small_calls() {
        let file = std::fs::File::open("/dev/zero").unwrap();
        for (stopped, calls) in [(false, 100), (true, 0)] {
            let stop = AtomicBool::new(stopped);
            let way = Way::Calls { count: Some(100) };
            let request = ReadRequest { block: 1, stop: &stop, ..ReadRequest::whole(way) };
            let job = ReadJob::new(&file, 0..u64::MAX, &request);
            let mut position = CallPosition { left: 100, at: 0, end: 0, until_end: false };
            let mut tally = ReadTally::default();
            assert!(fill(&job, &file, &mut [1; 4096], &mut position, &mut tally));
            assert_eq!((tally.calls, position.left), (calls, 100 - calls), "of one buffer");
        }
    }

    #[test]
    fn read_without_data_returns_to_its_stop_flag() {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (reader, _writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let file = std::fs::File::from(reader);
        let request =
            ReadRequest { block: 1, ..ReadRequest::whole(Way::Calls { count: Some(100) }) };
        let job = ReadJob::new(&file, 0..u64::MAX, &request);
        let mut position = CallPosition { left: 100, at: 0, end: 0, until_end: false };
        let mut tally = ReadTally::default();
        assert!(fill(&job, &file, &mut [1; 4096], &mut position, &mut tally));
        assert_eq!((tally.calls, position.left, &tally.faults), (0, 100, &Vec::new()));
        let request = ReadRequest { patience: Some(Duration::ZERO), ..request };
        let job = ReadJob::new(&file, 0..u64::MAX, &request);
        assert!(!fill(&job, &file, &mut [1; 4096], &mut position, &mut tally), "it ends");
        assert_eq!((tally.calls, tally.has_no_data, &tally.faults), (0, true, &Vec::new()));
        // Without O_NONBLOCK it would be returned at once, for ever.
        let (reader, _writer) = pipe_with(PipeFlags::empty()).unwrap();
        assert!(!job.is_retried(&reader.into(), Errno::AGAIN));
    }
}
