//! A one-way stream of bytes from a process of its own to the worker.
//!
//! The worker asks for a number of chunks and reads until it has them all; the writer writes that
//! many and waits for the next request. So nothing is under way when a batch begins and nothing is
//! when it ends: what a buffer holds is credited to nobody. The first word of each page is its
//! number in the stream, which the reader compares: a page that is lost, repeated or swapped with
//! another is seen.

use fathom_record::Remedy;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use fathom_measure::affinity;
use fathom_measure::sampler::Fault;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::Signal;

use super::child::{Child, ORPHANED, fork_beside, refused};
use super::raw_call::system_call;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    Pipe,
    UnixSocket,
}

/// What a pipe holds: the default of a kernel with pages of 4 KiB.
pub(super) const PIPE_BYTES: usize = 64 << 10;
/// What the sending socket may hold, the kernel's own bookkeeping included: the usual default.
pub(super) const SOCKET_BYTES: libc::c_int = 212_992;

/// How the writer found its work when it left, told by its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Well = 0,
    /// It could not write what it was asked for.
    Broken = 3,
    /// It did not run on the CPU it was meant for.
    OtherCpu = 4,
}

/// The reading end, and what it needs to end the other.
pub(super) struct Stream {
    requests: OwnedFd,
    input: OwnedFd,
    pages: Pages,
    /// Chunks that came as they should.
    received: u64,
    writer: Child,
}

impl Stream {
    /// Makes the writer, which waits for its first request on a CPU of its own or on this one.
    pub(super) fn start(carrier: Carrier, chunk_bytes: usize, cpu: u32) -> Result<Self, Fault> {
        let (asked, requests) = pipe()?;
        let (input, output) = match carrier {
            Carrier::Pipe => sized_pipe()?,
            Carrier::UnixSocket => sized_sockets()?,
        };
        let mut source = Source { asked, output, pages: Pages::new(chunk_bytes), cpu };
        let keep = [source.asked.as_raw_fd(), source.output.as_raw_fd()];
        // SAFETY: bare system calls on memory that is there already; no lock, no heap, and no
        // descriptor but its own two.
        let writer = unsafe {
            fork_beside(&keep, Signal::KILL, |has_parent| match has_parent {
                true => source.serve() as i32,
                false => ORPHANED,
            })
        };
        let writer = writer.map_err(|error| refused("fork", &error))?;
        let pages = Pages::new(chunk_bytes);
        Ok(Self { requests, input, pages, received: 0, writer })
    }

    /// The writer's process number.
    pub(super) fn process(&self) -> u32 {
        self.writer.id()
    }

    /// Asks for some chunks and reads them. Returns how many came whole and in their order.
    pub(super) fn receive(&mut self, chunks: u64) -> u64 {
        self.receive_each(chunks, |_| {})
    }

    /// The same, which says after each chunk how many came since the start.
    pub(super) fn receive_each(&mut self, chunks: u64, mut arrived: impl FnMut(u64)) -> u64 {
        let before = self.received;
        let asked = write_all(&self.requests, &chunks.to_le_bytes());
        while asked
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

    /// Chunks received since the start.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Ends the writer, and tells what was wrong with its work, if anything was.
    pub(super) fn finish(self) -> Result<Option<String>, Fault> {
        let Self { requests, input, writer, .. } = self;
        // Nobody asks any more; and nobody reads, should a batch have been left in its middle.
        drop((requests, input));
        let ended = writer.wait()?;
        match ended.status.code() {
            Some(code) => Ok(wrong_by(code)),
            None => Err(Fault::WrongWork(format!("the writer: {}", ended.status))),
        }
    }

    /// Kills the writer.
    #[cfg(test)]
    pub(super) fn kill_writer(&self) {
        self.writer.kill();
    }
}

/// The writing end.
struct Source {
    asked: OwnedFd,
    output: OwnedFd,
    pages: Pages,
    cpu: u32,
}

impl Source {
    /// Writes what is asked for until nobody asks any more.
    fn serve(&mut self) -> Leaving {
        if affinity::pin(self.cpu).is_err() {
            return Leaving::OtherCpu;
        }
        let (mut sent, mut request) = (0, [0; size_of::<u64>()]);
        while read_exact(&self.asked, &mut request) {
            for _ in 0..u64::from_le_bytes(request) {
                self.pages.number(sent);
                if !write_all(&self.output, self.pages.bytes()) {
                    return Leaving::Broken;
                }
                sent += 1;
            }
        }
        // SAFETY: takes no argument and no lock.
        match u32::try_from(unsafe { libc::sched_getcpu() }) == Ok(self.cpu) {
            true => Leaving::Well,
            false => Leaving::OtherCpu,
        }
    }
}

/// What is wrong with a writer that left with this status; none if nothing is.
fn wrong_by(status: i32) -> Option<String> {
    let text = match status {
        status if status == Leaving::Well as i32 => return None,
        status if status == Leaving::Broken as i32 => "could not write what it was asked for",
        status if status == Leaving::OtherCpu as i32 => "did not run on the CPU meant for it",
        ORPHANED => "found the worker gone before it began",
        _ => return Some(format!("the writer left with exit status {status}")),
    };
    Some(format!("the writer {text}"))
}

/// A page of a chunk, aligned as a page. Its first word is its number.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u64; 512]);

/// The memory of one chunk.
struct Pages(Vec<Page>);

impl Pages {
    /// Some whole pages, written once so that they are there.
    fn new(bytes: usize) -> Self {
        Self(vec![Page([u64::MAX; 512]); bytes / size_of::<Page>()])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes = size_of_val(self.0.as_slice());
        // SAFETY: the pages lie one behind the other without padding; any bytes are words.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }

    /// Numbers the pages as those of a chunk of the stream.
    fn number(&mut self, chunk: u64) {
        let first = chunk * self.0.len() as u64;
        self.0.iter_mut().zip(first..).for_each(|(page, number)| page.0[0] = number);
    }

    /// Whether they are numbered so.
    fn are_numbered(&self, chunk: u64) -> bool {
        let first = chunk * self.0.len() as u64;
        self.0.iter().zip(first..).all(|(page, number)| page.0[0] == number)
    }
}

/// By the bare instruction, and in the caller's own loop: a procedure that returns after a system
/// call is mispredicted, each time, as os.syscall{call=getppid_called} tells.
#[inline(always)]
fn write_all(to: &OwnedFd, bytes: &[u8]) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let arguments = [to.as_raw_fd() as usize, rest.as_ptr().addr(), rest.len(), 0];
        // SAFETY: the bytes are read only, and live until the call returns.
        match unsafe { system_call(libc::SYS_write, arguments) } {
            written if written > 0 => done += written as usize,
            _ => return false,
        }
    }
    true
}

/// Reads as much as there is room for; false at the end of the stream.
#[inline(always)]
fn read_exact(from: &OwnedFd, bytes: &mut [u8]) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        let arguments = [from.as_raw_fd() as usize, rest.as_mut_ptr().addr(), rest.len(), 0];
        // SAFETY: the kernel writes to no more than the rest, which lives until the call returns.
        match unsafe { system_call(libc::SYS_read, arguments) } {
            read if read > 0 => done += read as usize,
            _ => return false,
        }
    }
    true
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Fault> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| Fault::system("pipe", error))
}

/// A pipe of the same size everywhere.
fn sized_pipe() -> Result<(OwnedFd, OwnedFd), Fault> {
    let (input, output) = pipe()?;
    match fcntl_setpipe_size(&output, PIPE_BYTES) {
        Ok(PIPE_BYTES) => Ok((input, output)),
        Ok(bytes) => {
            Err(Fault::Unavailable(format!("a pipe holds {bytes} bytes, not 64 KiB"), None))
        }
        Err(error) => {
            let remedy = Remedy::raise(&["fs.pipe-user-pages-soft"]);
            Err(Fault::unavailable(format!("a pipe of 64 KiB: {error}"), remedy))
        }
    }
}

/// Two connected sockets whose buffer is of the same size everywhere.
fn sized_sockets() -> Result<(OwnedFd, OwnedFd), Fault> {
    let (input, output) = UnixStream::pair().map_err(|error| refused("socketpair", &error))?;
    let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
    let held = size_send_buffer(&output).map_err(|error| Fault::system("setsockopt", error))?;
    match held == SOCKET_BYTES {
        true => Ok((input, output)),
        false => {
            let what = format!("a socket's send buffer is {held} bytes, not {SOCKET_BYTES}");
            Err(Fault::unavailable(what, Remedy::raise(&["net.core.wmem_max"])))
        }
    }
}

/// Asks for a send buffer and tells how large it became. The kernel doubles what it is asked for.
fn size_send_buffer(socket: &OwnedFd) -> io::Result<libc::c_int> {
    let (descriptor, mut bytes) = (socket.as_raw_fd(), SOCKET_BYTES / 2);
    let mut length = size_of_val(&bytes) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
    let place = (&raw mut bytes).cast::<libc::c_void>();
    // SAFETY: the option is an integer, which is read and written at a place as large as one.
    let failed = unsafe {
        libc::setsockopt(descriptor, level, option, place, length) != 0
            || libc::getsockopt(descriptor, level, option, place, &raw mut length) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
