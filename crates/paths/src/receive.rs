//! From a socket into a file.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fathom_fileio::memory::MemoryPages;
use rustix::event::PollFlags;
use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs, ftruncate};
use rustix::io::{Errno, pwrite};
use rustix::mm::ProtFlags;
use rustix::net::{RecvFlags, recv};

use crate::device::{DeviceSession, Role};
use crate::page::{Page, PageWatch};
use crate::pipe::Pipe;
use crate::pump::{Direction, Pump};
use crate::window::{Window, result};
use crate::{PathError, PathStep, ReceivePath, SizeOf, Waiter};

/// A receiving end. Buffers and pipes are made once, for all files.
#[derive(Debug)]
pub struct Receiving {
    way: ReceiveWay,
    file: Option<File>,
    /// The length, if it is known; else the file ends with the connection.
    length: Option<u64>,
    /// More bytes are refused.
    most: u64,
    /// Bytes that the file has.
    at: u64,
    watch: PageWatch,
}

#[derive(Debug)]
enum ReceiveWay {
    /// Through the device, if there is one.
    Copy {
        buffer: MemoryPages,
        device: Option<DeviceSession>,
    },
    /// The window of the device.
    Device {
        device: DeviceSession,
        window: Window,
    },
    Mapped {
        size: usize,
        window: Option<(Window, usize)>,
    },
    Splice(Pipe),
    Uring(Box<Pump>),
}

impl Receiving {
    /// `size`: bytes of the buffer or window, if the path has one.
    ///
    /// # Errors
    /// Without memory, descriptors, io_uring or the device.
    pub fn new(path: ReceivePath, size: usize) -> Result<Self, PathError> {
        let size = match path.size_of() {
            SizeOf::Window => size.next_multiple_of(rustix::param::page_size()),
            SizeOf::Buffer | SizeOf::None => size,
        };
        let way = match path {
            ReceivePath::Copy | ReceivePath::DeviceCopy => {
                let device = path.needs_device().then(|| DeviceSession::for_role(Role::Receives));
                let buffer = MemoryPages::new(size).map_err(PathError::in_call("mmap"))?;
                ReceiveWay::Copy { buffer, device: device.transpose()? }
            }
            ReceivePath::DeviceMmap => {
                let device = DeviceSession::for_role(Role::Receives)?;
                ReceiveWay::Device { window: device.window(size)?, device }
            }
            ReceivePath::Mmap => ReceiveWay::Mapped { size, window: None },
            ReceivePath::Splice => ReceiveWay::Splice(Pipe::new()?),
            ReceivePath::Uring => ReceiveWay::Uring(Box::new(Pump::new(size, Direction::Receive)?)),
        };
        Ok(Self { way, file: None, length: None, most: 0, at: 0, watch: PageWatch::default() })
    }

    /// Sets a connected socket up.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn prepare(&self, socket: BorrowedFd<'_>, waiter: &Waiter) -> std::io::Result<()> {
        waiter.prepare(socket, matches!(self.way, ReceiveWay::Uring(_)))?;
        self.device().map_or(Ok(()), |device| device.attach(socket, waiter))
    }

    fn device(&self) -> Option<&DeviceSession> {
        match &self.way {
            ReceiveWay::Copy { device, .. } => device.as_ref(),
            ReceiveWay::Device { device, .. } => Some(device),
            ReceiveWay::Mapped { .. } | ReceiveWay::Splice(_) | ReceiveWay::Uring(_) => None,
        }
    }

    /// Takes the next file, which is empty, and open for reading too if the path maps it. `length`:
    /// its bytes; `None` if it ends with the connection, after at most `most` bytes.
    pub fn begin(&mut self, file: File, length: Option<u64>, most: u64) {
        (self.file, self.length, self.at) = (Some(file), length, 0);
        self.most = length.unwrap_or(most);
        if let ReceiveWay::Uring(pump) = &mut self.way {
            pump.begin(length, self.most);
        }
    }

    /// Takes a part of a file that has bytes before it, and maybe after it: from byte `at` up to
    /// `end`. If the path maps it, it already has that length. Not for [`ReceivePath::Uring`].
    pub fn begin_at(&mut self, file: File, at: u64, end: u64) {
        self.begin(file, Some(end), end);
        self.at = at;
    }

    /// Receives up to a buffer or window.
    ///
    /// # Errors
    /// If a call fails, or the connection ends early or late.
    pub fn step(&mut self, socket: BorrowedFd<'_>, waiter: &Waiter) -> Result<PathStep, PathError> {
        let Self { way, file, length, most, at, watch } = self;
        let Some(file) = file else { return Ok(PathStep::Done) };
        if *length == Some(*at) && !matches!(way, ReceiveWay::Uring(_)) {
            return self.end();
        }
        // One more byte than allowed shows that there are too many.
        let rest = *most - *at + u64::from(length.is_none());
        let moved = match way {
            ReceiveWay::Copy { buffer, device } => {
                let room = rest.min(buffer.len() as u64) as usize;
                let received =
                    receive_buffer(&mut buffer[..room], device.as_ref(), socket, waiter)?;
                write_all(received, *at, |part, at| {
                    pwrite(&*file, &buffer[part], at).map_err(PathError::in_call("write"))
                })?
            }
            ReceiveWay::Device { device, window } => {
                let room = rest.min(window.len() as u64) as usize;
                let received = device.transfer(0..room, waiter)?;
                watch.look(window);
                write_all(received, *at, |part, at| window.write_to(file.as_fd(), part, at))?
            }
            ReceiveWay::Mapped { size, window } => {
                if window.is_none() {
                    let before = (*at % rustix::param::page_size() as u64) as usize;
                    let bytes = (rest + before as u64).min(*size as u64) as usize;
                    let start = *at - before as u64;
                    let end = start + bytes as u64;
                    let file_bytes = fstat(&*file).map_err(PathError::in_call("fstat"))?.st_size;
                    if u64::try_from(file_bytes).is_ok_and(|it| it < end) {
                        ftruncate(&*file, end).map_err(PathError::in_call("ftruncate"))?;
                    }
                    let access = ProtFlags::READ | ProtFlags::WRITE;
                    let new = Window::new(file.as_fd(), start, bytes, access);
                    *window = Some((new.map_err(PathError::in_call("mmap"))?, before));
                }
                let Some((mapped, filled)) = window else { return Ok(PathStep::More) };
                let (start, bytes) = mapped.part(*filled..mapped.len());
                // SAFETY: the part is mapped; the kernel reports a page that is gone as an error.
                let received = unsafe { libc::recv(socket.as_raw_fd(), start, bytes, 0) };
                let received = result(received).map_err(|error| lacking(file, *at, bytes, error));
                let received = received.map_err(PathError::in_call("recv"))?;
                *filled += received;
                if *filled == mapped.len() || received == 0 {
                    watch.look(mapped);
                    *window = None;
                }
                received
            }
            ReceiveWay::Splice(pipe) => {
                let received = pipe.fill(socket, None, rest)?;
                let mut to = *at;
                while pipe.held() > 0 {
                    pipe.empty(file.as_fd(), Some(&mut to), false)?;
                }
                received
            }
            ReceiveWay::Uring(pump) => {
                let has_ended = pump.step(socket, file.as_fd(), waiter.limit())?;
                *at = pump.drained();
                return if has_ended { self.end() } else { Ok(PathStep::More) };
            }
        };
        *at += moved as u64;
        if moved == 0 {
            return self.end();
        }
        if *at > *most { Err(PathError::TooLong { most: *most }) } else { Ok(PathStep::More) }
    }

    fn end(&mut self) -> Result<PathStep, PathError> {
        let (found, file) = (self.at, self.file.take());
        if let (ReceiveWay::Mapped { window, .. }, Some(file), None) =
            (&mut self.way, file, self.length)
        {
            // The last window was longer.
            *window = None;
            ftruncate(&file, found).map_err(PathError::in_call("ftruncate"))?;
        }
        match self.length {
            Some(expected) if expected != found => Err(PathError::Short { found, expected }),
            _ if found > self.most => Err(PathError::TooLong { most: self.most }),
            _ => Ok(PathStep::Done),
        }
    }

    /// Bytes of the last file.
    pub fn received(&self) -> u64 {
        self.at
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

/// Receives into a buffer, through the device if there is one.
fn receive_buffer(
    buffer: &mut [u8],
    device: Option<&DeviceSession>,
    socket: BorrowedFd<'_>,
    waiter: &Waiter,
) -> Result<usize, PathError> {
    let Some(device) = device else {
        let received = recv(socket, buffer, RecvFlags::empty());
        return received.map(|(received, _)| received).map_err(PathError::in_call("recv"));
    };
    device.read(buffer, waiter)
}

/// Writes what was received to byte `at` of the file, by calls for a part of the buffer. Returns
/// its bytes.
fn write_all(
    received: usize,
    at: u64,
    mut write: impl FnMut(Range<usize>, u64) -> Result<usize, PathError>,
) -> Result<usize, PathError> {
    let mut written = 0;
    while written < received {
        written += write(written..received, at + written as u64)?;
    }
    Ok(received)
}

/// Receives a file: all its steps. Returns its bytes, which `progress` counts meanwhile, too.
///
/// # Errors
/// If a call fails, nothing moves for too long, or the connection ends early or late.
pub fn receive(
    receiving: &mut Receiving,
    (file, length, most): (File, Option<u64>, u64),
    (socket, waiter): (BorrowedFd<'_>, &Waiter),
    progress: &AtomicU64,
) -> Result<u64, PathError> {
    receiving.begin(file, length, most);
    let before = progress.load(Relaxed);
    loop {
        let step = receiving.step(socket, waiter);
        // The only writer: a store suffices.
        progress.store(before + receiving.received(), Relaxed);
        match step {
            Ok(PathStep::Done) => return Ok(receiving.received()),
            Ok(PathStep::More) => {}
            Err(error) if error.is_interrupted() => {}
            Err(error) if error.is_again() => {
                let ready = receiving.device().map_or(socket, DeviceSession::as_fd);
                waiter.wait(ready, PollFlags::IN)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Receives that many bytes.
///
/// # Errors
/// If a call fails, nothing arrives for too long, or the connection ends before.
pub fn receive_exact(
    bytes: &mut [u8],
    socket: BorrowedFd<'_>,
    waiter: &Waiter,
) -> Result<(), PathError> {
    let (mut at, expected) = (0, bytes.len() as u64);
    while at < bytes.len() {
        match recv(socket, &mut bytes[at..], RecvFlags::empty()) {
            Ok((0, _)) => return Err(PathError::Short { found: at as u64, expected }),
            Ok((count, _)) => at += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => waiter.wait(socket, PollFlags::IN)?,
            Err(error) => return Err(PathError::in_call("recv")(error)),
        }
    }
    Ok(())
}

/// Why a page of a mapped file could not be had: the kernel says no more than that. It is any of
/// those that were to be filled: what arrives in one segment is received as a whole or not at all.
fn lacking(file: &File, at: u64, bytes: usize, error: Errno) -> Errno {
    let is_full = || fstatvfs(file).is_ok_and(|found| found.f_bavail == 0);
    match error {
        Errno::FAULT => match fallocate(file, FallocateFlags::empty(), at, bytes as u64) {
            // Of a file system that cannot.
            Err(Errno::OPNOTSUPP) if is_full() => Errno::NOSPC,
            Err(Errno::OPNOTSUPP) | Ok(()) => error,
            Err(cause) => cause,
        },
        _ => error,
    }
}
