//! A one-way byte stream from a writer process to the worker.
//!
//! The worker requests a number of chunks and reads them all; the writer writes that many and waits
//! for the next request. So no bytes are in flight at the start or end of a batch. The first word
//! of each page is its number in the stream, which the reader compares, so lost, repeated and
//! swapped pages are found.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::Signal;

use super::child::{Child, ORPHANED, creation_fault, fork_beside};
use super::link::pipe::pipe;
use super::raw_call::system_call;
use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamChannel {
    Pipe,
    UnixSocket,
}

/// The pipe's capacity: the default with 4 KiB pages.
pub(super) const PIPE_BYTES: usize = 64 << 10;
/// The socket's send buffer, the kernel's overhead included: the usual default.
const SOCKET_BYTES: usize = 212_992;

/// Exit statuses of the writer; 0 is success.
const WRITE_FAILED: i32 = 3;
const OTHER_CPU: i32 = 4;

/// The read end of a stream and its writer.
pub(super) struct OsStream {
    requests: OwnedFd,
    input: OwnedFd,
    pages: StreamPages,
    /// Chunks received complete and in order.
    pub(super) received: u64,
    writer: Child,
}

impl OsStream {
    /// Starts the writer on this CPU; it waits for its first request.
    pub(super) fn start(channel: StreamChannel, chunk_bytes: usize, cpu: u32) -> Result<Self> {
        let (incoming, requests) = pipe()?;
        let (input, output) = match channel {
            StreamChannel::Pipe => sized_pipe()?,
            StreamChannel::UnixSocket => sized_sockets()?,
        };
        let mut task = WriterTask { incoming, output, pages: StreamPages::new(chunk_bytes), cpu };
        let keep = [task.incoming.as_raw_fd(), task.output.as_raw_fd()];
        // SAFETY: system calls on existing memory; no lock, no heap, and no descriptor but the two
        // kept.
        let writer = unsafe {
            fork_beside(&keep, Signal::KILL, |has_parent| match has_parent {
                true => task.run(),
                false => ORPHANED,
            })
        };
        let writer = writer.map_err(|error| creation_fault("fork", &error))?;
        let pages = StreamPages::new(chunk_bytes);
        Ok(Self { requests, input, pages, received: 0, writer })
    }

    /// The writer's pid.
    pub(super) fn process(&self) -> u32 {
        self.writer.id()
    }

    /// Requests and reads chunks; returns how many arrived complete and in order.
    pub(super) fn receive(&mut self, chunks: u64) -> u64 {
        self.receive_each(chunks, |_| {})
    }

    /// As [`Self::receive`]; calls `arrived` after each chunk with the number received since the
    /// start.
    pub(super) fn receive_each(&mut self, chunks: u64, mut arrived: impl FnMut(u64)) -> u64 {
        let before = self.received;
        // Inside the batch; the first N iterations of a round have it, too.
        let requested = write_all(&self.requests, &chunks.to_le_bytes());
        while requested
            && self.received < before + chunks
            && read_exact(&self.input, self.pages.bytes())
        {
            if !self.pages.are_numbered(self.received) {
                break;
            }
            self.received += 1;
            arrived(self.received);
        }
        self.received - before
    }

    /// Ends the writer; returns a fault in its work.
    pub(super) fn finish(self) -> Result<Option<String>> {
        let Self { requests, input, writer, .. } = self;
        // End of file on the requests; a failing write, should the writer be in a batch.
        drop((requests, input));
        let status = writer.wait()?.status;
        match status.code() {
            Some(code) => Ok(exit_error(code)),
            None => Err(SamplerFault::WrongWork(format!("writer: {status}"))),
        }
    }

    #[cfg(test)]
    pub(super) fn kill_writer(&self) {
        self.writer.kill();
    }
}

/// What the writer process needs.
struct WriterTask {
    incoming: OwnedFd,
    output: OwnedFd,
    pages: StreamPages,
    cpu: u32,
}

impl WriterTask {
    /// Serves requests until end of file.
    fn run(&mut self) -> i32 {
        if affinity::pin(self.cpu).is_err() {
            return OTHER_CPU;
        }
        let (mut sent, mut request) = (0, [0; size_of::<u64>()]);
        while read_exact(&self.incoming, &mut request) {
            for _ in 0..u64::from_le_bytes(request) {
                // One store per page, so that a page that is lost or repeated shows.
                self.pages.number(sent);
                if !write_all(&self.output, self.pages.bytes()) {
                    return WRITE_FAILED;
                }
                sent += 1;
            }
        }
        // SAFETY: takes no argument and no lock.
        let cpu = unsafe { libc::sched_getcpu() };
        if u32::try_from(cpu) == Ok(self.cpu) { 0 } else { OTHER_CPU }
    }
}

/// Describes an exit status other than success.
fn exit_error(status: i32) -> Option<String> {
    let text = match status {
        0 => return None,
        WRITE_FAILED => "write failed",
        OTHER_CPU => "ran on another CPU",
        ORPHANED => "worker died first",
        _ => return Some(format!("writer ended with exit status {status}")),
    };
    Some(format!("writer: {text}"))
}

/// A page-aligned page; its first word is its number in the stream.
#[derive(Clone)]
#[repr(C, align(4096))]
struct StreamPage([u64; 512]);

/// The buffer of one chunk.
struct StreamPages(Vec<StreamPage>);

impl StreamPages {
    /// Written once, so that the pages are resident.
    fn new(bytes: usize) -> Self {
        Self(vec![StreamPage([u64::MAX; 512]); bytes / size_of::<StreamPage>()])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes = size_of_val(self.0.as_slice());
        // SAFETY: the pages are contiguous without padding; any bytes are valid words.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }

    /// Numbers the pages as those of this chunk.
    fn number(&mut self, chunk: u64) {
        let first = chunk * self.0.len() as u64;
        self.0.iter_mut().zip(first..).for_each(|(page, number)| page.0[0] = number);
    }

    fn are_numbered(&self, chunk: u64) -> bool {
        let first = chunk * self.0.len() as u64;
        self.0.iter().zip(first..).all(|(page, number)| page.0[0] == number)
    }
}

/// Inlined: the return from a function after a system call is mispredicted (see
/// os.syscall{call=getppid_called}).
#[inline(always)]
fn write_all(to: &OwnedFd, bytes: &[u8]) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let arguments = [to.as_raw_fd() as usize, rest.as_ptr().addr(), rest.len(), 0];
        // SAFETY: the call reads `rest`, which outlives it.
        match unsafe { system_call(libc::SYS_write, arguments) } {
            written if written > 0 => done += written as usize,
            _ => return false,
        }
    }
    true
}

/// Fills the buffer; false at end of file.
#[inline(always)]
fn read_exact(from: &OwnedFd, bytes: &mut [u8]) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        let arguments = [from.as_raw_fd() as usize, rest.as_mut_ptr().addr(), rest.len(), 0];
        // SAFETY: the call writes `rest`, which outlives it.
        match unsafe { system_call(libc::SYS_read, arguments) } {
            read if read > 0 => done += read as usize,
            _ => return false,
        }
    }
    true
}

/// A pipe of `PIPE_BYTES`.
fn sized_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (input, output) = pipe()?;
    // Set and compared, because users with many pipes get smaller ones.
    match fcntl_setpipe_size(&output, PIPE_BYTES) {
        Ok(PIPE_BYTES) => Ok((input, output)),
        Ok(bytes) => {
            Err(SamplerFault::Unavailable(format!("a pipe holds {bytes} bytes, not 64 KiB"), None))
        }
        Err(error) => {
            let remedy = Remedy::raise(&["fs.pipe-user-pages-soft"]);
            Err(SamplerFault::unavailable(format!("a pipe of 64 KiB: {error}"), remedy))
        }
    }
}

/// Two connected sockets with a send buffer of `SOCKET_BYTES`.
fn sized_sockets() -> Result<(OwnedFd, OwnedFd)> {
    let pair = UnixStream::pair();
    let (input, output) = pair.map_err(|error| creation_fault("socketpair", &error))?;
    let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
    // The kernel doubles the value set.
    let set = set_socket_send_buffer_size(&output, SOCKET_BYTES / 2);
    let bytes = set.and_then(|()| socket_send_buffer_size(&output));
    match bytes.map_err(|error| SamplerFault::system("setsockopt", error))? {
        SOCKET_BYTES => Ok((input, output)),
        bytes => {
            let what = format!("a socket's send buffer is {bytes} bytes, not {SOCKET_BYTES}");
            Err(SamplerFault::unavailable(what, Remedy::raise(&["net.core.wmem_max"])))
        }
    }
}

#[cfg(test)]
mod tests;
