//! From a file into a socket.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use fathom_fileio::memory::MemoryPages;
use rustix::event::PollFlags;
use rustix::fs::sendfile;
use rustix::io::{Errno, read};
use rustix::mm::ProtFlags;
use rustix::net::{SendFlags, send as send_bytes};

use crate::device::{DeviceSession, Role};
use crate::page::{Page, PageWatch};
use crate::pipe::Pipe;
use crate::pump::{Direction, Pump};
use crate::window::{Window, result};
use crate::zerocopy::{self, Notified};
use crate::{PathError, PathStep, SendPath, SizeOf, Waiter};

/// What sendfile(2) moves at most (MAX_RW_COUNT), in whole pages.
const CALL_BYTES_MAX: u64 = 0x7fff_f000;

/// A sending end. Buffers and pipes are made once, for all files.
#[derive(Debug)]
pub struct Sending {
    way: SendWay,
    file: Option<File>,
    bytes: u64,
    /// Bytes that the socket took.
    at: u64,
    watch: PageWatch,
}

#[derive(Debug)]
enum SendWay {
    /// Through the device, if there is one.
    Copy {
        buffer: MemoryPages,
        pending: Range<usize>,
        device: Option<DeviceSession>,
    },
    /// The window of the device, and what of it is to be sent.
    Device {
        device: DeviceSession,
        window: Window,
        pending: Range<usize>,
    },
    Mapped {
        size: usize,
        window: Option<(Window, usize)>,
        zero_copy: bool,
        notified: Notified,
    },
    Sendfile,
    Splice(Pipe),
    Uring(Box<Pump>),
}

impl Sending {
    /// `size`: bytes of the buffer or window, if the path has one.
    ///
    /// # Errors
    /// Without memory, descriptors, io_uring or the device.
    pub fn new(path: SendPath, size: usize) -> Result<Self, PathError> {
        let size = match path.size_of() {
            SizeOf::Window => size.next_multiple_of(rustix::param::page_size()),
            SizeOf::Buffer | SizeOf::None => size,
        };
        let mapped = |zero_copy| SendWay::Mapped {
            size,
            window: None,
            zero_copy,
            notified: Notified::default(),
        };
        let way = match path {
            SendPath::Copy | SendPath::DeviceCopy => {
                let device = path.needs_device().then(|| DeviceSession::for_role(Role::Sends));
                let buffer = MemoryPages::new(size).map_err(PathError::in_call("mmap"))?;
                SendWay::Copy { buffer, pending: 0..0, device: device.transpose()? }
            }
            SendPath::DeviceMmap => {
                let device = DeviceSession::for_role(Role::Sends)?;
                SendWay::Device { window: device.window(size)?, device, pending: 0..0 }
            }
            SendPath::Mmap => mapped(false),
            SendPath::Zerocopy => mapped(true),
            SendPath::Sendfile => SendWay::Sendfile,
            SendPath::Splice => SendWay::Splice(Pipe::new()?),
            SendPath::Uring => SendWay::Uring(Box::new(Pump::new(size, Direction::Send)?)),
        };
        Ok(Self { way, file: None, bytes: 0, at: 0, watch: PageWatch::default() })
    }

    /// Sets a connected socket up.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn prepare(&self, socket: BorrowedFd<'_>, waiter: &Waiter) -> std::io::Result<()> {
        waiter.prepare(socket, matches!(self.way, SendWay::Uring(_)))?;
        match &self.way {
            SendWay::Mapped { zero_copy: true, .. } => zerocopy::enable(socket),
            _ => self.device().map_or(Ok(()), |device| device.attach(socket, waiter)),
        }
    }

    fn device(&self) -> Option<&DeviceSession> {
        match &self.way {
            SendWay::Copy { device, .. } => device.as_ref(),
            SendWay::Device { device, .. } => Some(device),
            SendWay::Mapped { .. } | SendWay::Sendfile | SendWay::Splice(_) | SendWay::Uring(_) => {
                None
            }
        }
    }

    /// Takes the next file, of which these bytes are sent from its beginning.
    pub fn begin(&mut self, file: File, bytes: u64) {
        (self.file, self.bytes, self.at) = (Some(file), bytes, 0);
        if let SendWay::Uring(pump) = &mut self.way {
            pump.begin(Some(bytes), bytes);
        }
    }

    /// Sends up to a buffer or window.
    ///
    /// # Errors
    /// If a call fails, or the file has become shorter.
    pub fn step(&mut self, socket: BorrowedFd<'_>, waiter: &Waiter) -> Result<PathStep, PathError> {
        let Self { way, file, bytes, at, watch } = self;
        let Some(file) = file else { return Ok(PathStep::Done) };
        let (rest, short) = (*bytes - *at, PathError::Short { found: *at, expected: *bytes });
        if rest == 0 {
            self.file = None;
            return Ok(PathStep::Done);
        }
        match way {
            SendWay::Copy { buffer, pending, device } => {
                if pending.start == pending.end {
                    let most = rest.min(buffer.len() as u64) as usize;
                    let count = read(&*file, &mut buffer[..most]);
                    *pending = filled(count.map_err(PathError::in_call("read"))?, short)?;
                }
                let part = &buffer[pending.clone()];
                let sent = send_buffer(part, device.as_ref(), socket, waiter)?;
                pending.start += sent;
                *at += sent as u64;
            }
            SendWay::Device { device, window, pending } => {
                if pending.start == pending.end {
                    let most = rest.min(window.len() as u64) as usize;
                    *pending = filled(window.read_from(file.as_fd(), most)?, short)?;
                }
                let sent = device.transfer(pending.clone(), waiter)?;
                watch.look(window);
                pending.start += sent;
                *at += sent as u64;
            }
            SendWay::Mapped { size, window, zero_copy, notified } => {
                if window.is_none() {
                    let length = rest.min(*size as u64) as usize;
                    let new = Window::new(file.as_fd(), *at, length, ProtFlags::READ);
                    *window = Some((new.map_err(PathError::in_call("mmap"))?, 0));
                }
                let Some((mapped, sent)) = window else { return Ok(PathStep::More) };
                let part = mapped.part(*sent..mapped.len());
                let moved = send_part(socket, part, zero_copy.then_some(notified))?;
                *sent += moved;
                *at += moved as u64;
                if *sent == mapped.len() {
                    watch.look(mapped);
                    *window = None;
                }
            }
            SendWay::Sendfile => {
                let most = rest.min(CALL_BYTES_MAX) as usize;
                let sent = sendfile(socket, &*file, Some(at), most);
                if sent.map_err(PathError::in_call("sendfile"))? == 0 {
                    return Err(short);
                }
            }
            SendWay::Splice(pipe) => {
                if pipe.held() == 0 {
                    let mut from = *at;
                    filled(pipe.fill(file.as_fd(), Some(&mut from), rest)?, short)?;
                }
                let more = rest > pipe.held() as u64;
                *at += pipe.empty(socket, None, more)? as u64;
            }
            SendWay::Uring(pump) => {
                pump.step(file.as_fd(), socket, waiter.limit())?;
                *at = pump.drained();
            }
        }
        Ok(PathStep::More)
    }

    /// Reads the notifications of sends without copies, until all came or the time is over.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn settle(&mut self, socket: BorrowedFd<'_>, waits: u32) -> Result<Notified, PathError> {
        let SendWay::Mapped { zero_copy: true, notified, .. } = &mut self.way else {
            return Ok(Notified::default());
        };
        for _ in 0..waits {
            zerocopy::reap(socket, notified).map_err(PathError::in_call("recvmsg"))?;
            if notified.is_complete() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(std::mem::take(notified))
    }

    /// Whether to look at the page behind the first mapping, which takes time.
    pub fn watch_page(&mut self, watches: bool) {
        self.watch.set(watches);
    }

    /// The page behind the first mapping.
    pub fn page(&self) -> Option<Page> {
        self.watch.page()
    }
}

/// What is to be sent of a buffer, which is empty at the end of the file.
fn filled(count: usize, short: PathError) -> Result<Range<usize>, PathError> {
    if count == 0 { Err(short) } else { Ok(0..count) }
}

/// Sends a part of a buffer, through the device if there is one.
fn send_buffer(
    part: &[u8],
    device: Option<&DeviceSession>,
    socket: BorrowedFd<'_>,
    waiter: &Waiter,
) -> Result<usize, PathError> {
    match device {
        Some(device) => device.write(part, waiter),
        None => send_bytes(socket, part, SendFlags::NOSIGNAL).map_err(PathError::in_call("send")),
    }
}

/// Sends a part of a window, without a copy if notifications are counted.
fn send_part(
    socket: BorrowedFd<'_>,
    (start, length): (*mut libc::c_void, usize),
    notified: Option<&mut Notified>,
) -> Result<usize, PathError> {
    let failed = PathError::in_call("send");
    let plain = libc::MSG_NOSIGNAL;
    let call = |flags| {
        // SAFETY: the part is mapped; the kernel reports a page that is gone as an error.
        result(unsafe { libc::send(socket.as_raw_fd(), start, length, flags) })
    };
    let Some(notified) = notified else { return call(plain).map_err(failed) };
    match call(plain | libc::MSG_ZEROCOPY) {
        Ok(sent) => {
            notified.sent += 1;
            Ok(sent)
        }
        // Notifications take memory of the socket: too many have not been read.
        Err(Errno::NOBUFS) => {
            zerocopy::reap(socket, notified).map_err(PathError::in_call("recvmsg"))?;
            call(plain).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Sends a file: all its steps.
///
/// # Errors
/// If a call fails, nothing moves for too long, or the file has become shorter.
pub fn send(
    sending: &mut Sending,
    (file, bytes): (File, u64),
    socket: BorrowedFd<'_>,
    waiter: &Waiter,
) -> Result<(), PathError> {
    sending.begin(file, bytes);
    loop {
        match sending.step(socket, waiter) {
            Ok(PathStep::Done) => return Ok(()),
            Ok(PathStep::More) => {}
            Err(error) if error.is_interrupted() => {}
            Err(error) if error.is_again() => {
                let ready = sending.device().map_or(socket, DeviceSession::as_fd);
                waiter.wait(ready, PollFlags::OUT)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends all bytes.
///
/// # Errors
/// If a call fails, or nothing moves for too long.
pub fn send_all(
    mut bytes: &[u8],
    socket: BorrowedFd<'_>,
    waiter: &Waiter,
) -> Result<(), PathError> {
    while !bytes.is_empty() {
        match send_bytes(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => waiter.wait(socket, PollFlags::OUT)?,
            Err(error) => return Err(PathError::in_call("send")(error)),
        }
    }
    Ok(())
}
