//! Bodies from the socket to the file.

use std::fs::File;
use std::io::Error;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathom_http::{EXCESS, ExchangeError, Framing, is_pause};
use fathom_paths::{Io, PathError, PathStep, ReceivePath, Receiving, Waiter};
use fathom_record::{Activity, system_cause};
use rustix::io::Errno;

use crate::connection::{ConnectionClient, ConnectionFault, Response};

/// Fits into the L2 cache, so that the second copy reads from there.
const BUFFER: usize = 256 << 10;
const WINDOW: usize = 4 << 20;

/// Bytes before a resumed part that are requested again, and compared with those of the file.
const OVERLAP: u64 = 4096;

/// A range of the file; `at` is the first byte that is not written.
#[derive(Debug)]
pub struct Segment {
    /// The file has all bytes from here to `at`.
    pub held_from: u64,
    pub at: AtomicU64,
    pub end: u64,
}

impl Segment {
    pub fn new(from: u64, end: u64) -> Self {
        Self { held_from: from, at: from.into(), end }
    }

    /// Where a request begins, so that its first bytes show whether it is the same file.
    pub fn resumes_from(&self) -> u64 {
        let at = self.at.load(Ordering::Acquire);
        self.held_from.max(at.saturating_sub(OVERLAP))
    }

    pub fn missing(&self) -> Option<(u64, u64)> {
        let at = self.at.load(Ordering::Acquire);
        (at < self.end).then_some((at, self.end))
    }

    fn advance(&self, client: &ConnectionClient<'_>, to: u64) {
        let before = self.at.load(Ordering::Relaxed);
        // A reader of this finds the bytes in the file.
        self.at.store(to, Ordering::Release);
        client.received.fetch_add(to - before, Ordering::Relaxed);
    }
}

/// Writes a response's body to its segment, up to the end of either. With a framing other than a
/// length the segment has no end.
///
/// # Errors
/// If the connection or the file fails. What was written before is in the segment.
pub fn receive(
    client: &ConnectionClient<'_>,
    mut response: Response,
    (file, segment): (&File, &Segment),
    path: ReceivePath,
) -> Result<(), ConnectionFault> {
    let body = beginning(client, &mut response, (file, segment))?;
    let end = segment.end.min(response.range.end);
    let copying = Copying { client, file, segment, end };
    if copying.take(&body, &mut response.head.framing)? {
        return Ok(());
    }
    match (path, response.head.framing) {
        (ReceivePath::Copy, _) | (_, Framing::Chunked(_) | Framing::UntilClose) => {
            copying.run(response)
        }
        (path, Framing::Length(_)) => by_path(client, &response, (file, segment, end), path),
    }
}

/// What came of the body with the head, without the bytes before those of the segment. Where the
/// file has these already, they must be the same: a tag may stay as it is when the content changes.
fn beginning(
    client: &ConnectionClient<'_>,
    response: &mut Response,
    (file, segment): (&File, &Segment),
) -> Result<Vec<u8>, ConnectionFault> {
    let mut body = std::mem::take(&mut response.body);
    let mut position = response.range.start;
    let to = segment.at.load(Ordering::Relaxed).min(response.range.end);
    while position < to {
        if body.is_empty() {
            body.resize(BUFFER, 0);
            let count = client.limits().receive(&mut response.stream, &mut body);
            body.truncate(count.map_err(of_body)?);
            if body.is_empty() {
                return Err(ConnectionFault::passing("body truncated before the range"));
            }
        }
        let count = (to - position).min(body.len() as u64);
        // A server may begin before what was asked for, which the file may miss as well.
        let unknown = segment.held_from.saturating_sub(position).min(count);
        let mut before = vec![0; (count - unknown) as usize];
        let read = file.read_exact_at(&mut before, position + unknown);
        read.map_err(|error| ConnectionFault::Final(format!("read the part: {error}")))?;
        if before != body[unknown as usize..count as usize] {
            return Err(ConnectionFault::Changed("other bytes under the same ETag".to_owned()));
        }
        body.drain(..count as usize);
        position += count;
    }
    Ok(body)
}

fn of_body(error: ExchangeError) -> ConnectionFault {
    ConnectionFault::from_error("byte of the body", error)
}

struct Copying<'c> {
    client: &'c ConnectionClient<'c>,
    file: &'c File,
    segment: &'c Segment,
    /// Of the body, or of the segment.
    end: u64,
}

impl Copying<'_> {
    fn run(&self, mut response: Response) -> Result<(), ConnectionFault> {
        let mut buffer = vec![0; BUFFER];
        let mut limits = self.client.limits();
        loop {
            let count = limits.receive(&mut response.stream, &mut buffer).map_err(of_body)?;
            if count == 0 {
                let is_end = response.head.framing == Framing::UntilClose;
                return if is_end { Ok(()) } else { Err(truncated(self.segment, self.end)) };
            }
            let before = self.segment.at.load(Ordering::Relaxed);
            if self.take(&buffer[..count], &mut response.head.framing)? {
                return Ok(());
            }
            // Of a chunked body: extensions and trailers are no progress.
            if self.segment.at.load(Ordering::Relaxed) > before {
                limits.renew();
            }
            limits.check().map_err(of_body)?;
        }
    }

    /// Takes received bytes; true at the end of the body or the segment.
    fn take(&self, data: &[u8], framing: &mut Framing) -> Result<bool, ConnectionFault> {
        let mut written = Ok(());
        let fed = framing.feed_to(data, |body| {
            if written.is_ok() {
                written = self.write(body);
            }
        });
        written?;
        let is_whole = match fed {
            // What follows the body is of no use to the file.
            Err(malformed) if malformed.part == EXCESS => true,
            fed => fed?,
        };
        Ok(is_whole || self.segment.at.load(Ordering::Relaxed) >= self.end)
    }

    fn write(&self, data: &[u8]) -> Result<(), ConnectionFault> {
        let at = self.segment.at.load(Ordering::Relaxed);
        let wanted =
            data.len().min(usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX));
        self.file.write_all_at(&data[..wanted], at).map_err(|error| not_written(&error))?;
        self.segment.advance(self.client, at + wanted as u64);
        Ok(())
    }
}

fn by_path(
    client: &ConnectionClient<'_>,
    response: &Response,
    (file, segment, end): (&File, &Segment, u64),
    path: ReceivePath,
) -> Result<(), ConnectionFault> {
    let failed = |error: &dyn std::fmt::Display| {
        ConnectionFault::Final(format!("--receive {path}: {error}"))
    };
    // Only a ring uses it; the socket has its own limit.
    let waiter = Waiter::new(Io::Blocking, Duration::ZERO).map_err(|error| failed(&error))?;
    let mut receiving = Receiving::new(path, WINDOW).map_err(|error| failed(&error))?;
    let at = segment.at.load(Ordering::Relaxed);
    receiving.begin_at(file.try_clone().map_err(|error| failed(&error))?, at, end);
    let mut limits = client.limits();
    loop {
        let step = receiving.step(response.stream.as_fd(), &waiter);
        segment.advance(client, receiving.received());
        match step {
            Ok(PathStep::Done) => return Ok(()),
            Ok(PathStep::More) => limits.renew(),
            Err(PathError::Short { .. }) => return Err(truncated(segment, end)),
            // A mapped page for which the disk has no room.
            Err(PathError::Call { call: "recv", error: Errno::FAULT }) => {
                return Err(not_written(&Errno::NOSPC.into()));
            }
            // A file system without splice(2): the pipe has lost what it took.
            Err(PathError::Call { call: "splice", error: Errno::INVAL }) => {
                client.copies.store(true, Ordering::Relaxed);
                let text = "the file system has no splice(2); continuing by --receive copy";
                return Err(ConnectionFault::Passing(text.to_owned(), Some(Duration::ZERO)));
            }
            Err(PathError::Call { error, .. }) if is_of_disk(error) => {
                return Err(not_written(&error.into()));
            }
            Err(PathError::Call { error, .. }) if is_pause(&error.into()) => {}
            Err(PathError::Call { error, .. }) => {
                return Err(ConnectionFault::of_system("", &error.into()));
            }
            Err(error) => return Err(failed(&error)),
        }
        limits.check().map_err(of_body)?;
    }
}

fn is_of_disk(error: Errno) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO].contains(&error)
}

/// Of the file here, not of the address before it in the message.
pub(crate) fn not_written(error: &Error) -> ConnectionFault {
    ConnectionFault::Final(format!("write the file: {}", system_cause(error, Activity::Other)))
}

fn truncated(segment: &Segment, end: u64) -> ConnectionFault {
    let at = segment.at.load(Ordering::Relaxed);
    match end {
        u64::MAX => {
            ConnectionFault::passing(format!("body truncated after {at} bytes, no last chunk"))
        }
        end => ConnectionFault::passing(format!("body truncated at byte {at}, expected {end}")),
    }
}
