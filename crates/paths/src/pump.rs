//! io_uring with two operations in flight: one fills a buffer from the source while the other one
//! drains the second buffer into the target.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use fathom_fileio::memory::MemoryPages;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::PathError;

const SLOTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From a file into a socket.
    Send,
    /// From a socket into a file.
    Receive,
}

/// A buffer. Filled and drained by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Filling,
    /// These bytes are to be drained.
    Full {
        from: usize,
        to: usize,
    },
    Draining {
        from: usize,
        to: usize,
    },
}

pub(crate) struct Pump {
    ring: IoUring,
    /// Leaked if the kernel may still write into them.
    buffers: ManuallyDrop<MemoryPages>,
    size: usize,
    direction: Direction,
    slots: [Slot; SLOTS],
    /// Turns so far; a turn modulo 2 is the slot.
    fills: usize,
    drains: usize,
    in_flight: u32,
    /// Bytes to fill at most, and whether fewer are an error.
    most: u64,
    is_known: bool,
    filled: u64,
    drained: u64,
    has_ended: bool,
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Pump {
    pub(crate) fn new(size: usize, direction: Direction) -> Result<Self, PathError> {
        let call = "io_uring_setup";
        let ring = IoUring::new(2 * SLOTS as u32).map_err(|error| {
            match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                error @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
                    PathError::Unavailable { call, error }
                }
                error => PathError::Call { call, error },
            }
        })?;
        let buffers = MemoryPages::new(SLOTS * size).map_err(PathError::in_call("mmap"))?;
        Ok(Self {
            ring,
            buffers: ManuallyDrop::new(buffers),
            size,
            direction,
            slots: [Slot::Free; SLOTS],
            fills: 0,
            drains: 0,
            in_flight: 0,
            most: 0,
            is_known: false,
            filled: 0,
            drained: 0,
            has_ended: false,
        })
    }

    /// The next file: of a known length, or up to `most` bytes.
    pub(crate) fn begin(&mut self, length: Option<u64>, most: u64) {
        // One more byte than allowed shows that there are too many.
        self.most = length.unwrap_or_else(|| most.saturating_add(1));
        (self.is_known, self.has_ended) = (length.is_some(), length == Some(0));
        (self.filled, self.drained) = (0, 0);
    }

    /// Bytes that the target has.
    pub(crate) fn drained(&self) -> u64 {
        self.drained
    }

    /// Starts what can be started, and waits for one completion. True at the end.
    pub(crate) fn step(
        &mut self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        limit: Duration,
    ) -> Result<bool, PathError> {
        self.fill(source)?;
        self.drain(target)?;
        if self.in_flight == 0 {
            return Ok(true);
        }
        let time = types::Timespec::from(limit);
        let wait = types::SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &wait) {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                Errno::TIME => return Err(PathError::TimedOut(limit)),
                error => return Err(PathError::Call { call: "io_uring_enter", error }),
            },
        }
        for _ in 0..SLOTS {
            let Some(entry) = self.ring.completion().next() else { break };
            self.complete(entry.user_data() as usize, entry.result())?;
        }
        Ok(self.has_ended && self.in_flight == 0 && self.slots == [Slot::Free; SLOTS])
    }

    fn push(&mut self, entry: squeue::Entry, slot: usize) -> Result<(), PathError> {
        let entry = entry.user_data(slot as u64);
        // SAFETY: the slot says that the kernel has its buffer, which lives as long as the ring,
        // or longer; the descriptors are open until the step that completes it, or the connection
        // fails and with it the operation.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| PathError::Call { call: "io_uring", error: Errno::BUSY })?;
        self.in_flight += 1;
        Ok(())
    }

    /// Fills the next buffer, if it is free and the other is not being filled.
    fn fill(&mut self, source: BorrowedFd<'_>) -> Result<(), PathError> {
        let slot = self.fills % SLOTS;
        let rest = self.most - self.filled;
        let is_idle = !self.slots.contains(&Slot::Filling);
        if self.has_ended || rest == 0 || !is_idle || self.slots[slot] != Slot::Free {
            return Ok(());
        }
        let length = rest.min(self.size as u64) as u32;
        let start = self.buffers[slot * self.size..].as_mut_ptr();
        let fd = types::Fd(source.as_raw_fd());
        let entry = match self.direction {
            Direction::Send => opcode::Read::new(fd, start, length).offset(self.filled).build(),
            Direction::Receive => opcode::Recv::new(fd, start, length).build(),
        };
        self.slots[slot] = Slot::Filling;
        self.push(entry, slot)
    }

    /// Drains the next buffer, if it is full and the other is not being drained.
    fn drain(&mut self, target: BorrowedFd<'_>) -> Result<(), PathError> {
        let slot = self.drains % SLOTS;
        let Slot::Full { from, to } = self.slots[slot] else { return Ok(()) };
        let start = self.buffers[slot * self.size + from..].as_ptr();
        let (fd, length) = (types::Fd(target.as_raw_fd()), (to - from) as u32);
        let entry = match self.direction {
            Direction::Send => {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                opcode::Send::new(fd, start, length).flags(flags).build()
            }
            Direction::Receive => {
                opcode::Write::new(fd, start, length).offset(self.drained).build()
            }
        };
        self.slots[slot] = Slot::Draining { from, to };
        self.push(entry, slot)
    }

    fn complete(&mut self, slot: usize, result: i32) -> Result<(), PathError> {
        self.in_flight -= 1;
        let filling = self.slots[slot] == Slot::Filling;
        let moved = usize::try_from(result).map_err(|_| {
            let call = match (self.direction, filling) {
                (Direction::Send, true) => "read",
                (Direction::Send, false) => "send",
                (Direction::Receive, true) => "recv",
                (Direction::Receive, false) => "write",
            };
            // By SO_RCVTIMEO or SO_SNDTIMEO.
            PathError::Call { call, error: Errno::from_raw_os_error(-result) }
        })?;
        match self.slots[slot] {
            Slot::Filling if moved == 0 => {
                (self.slots[slot], self.has_ended) = (Slot::Free, true);
                if self.is_known {
                    let (found, expected) = (self.filled, self.most);
                    return Err(PathError::Short { found, expected });
                }
            }
            Slot::Filling => {
                self.filled += moved as u64;
                self.fills += 1;
                self.slots[slot] = Slot::Full { from: 0, to: moved };
                self.has_ended |= self.filled == self.most;
            }
            Slot::Draining { from, to } => {
                self.drained += moved as u64;
                let is_whole = from + moved == to;
                self.slots[slot] =
                    if is_whole { Slot::Free } else { Slot::Full { from: from + moved, to } };
                self.drains += usize::from(is_whole);
            }
            Slot::Free | Slot::Full { .. } => {}
        }
        Ok(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.in_flight == 0 {
            // SAFETY: dropped once, here, and the kernel has no operation that uses it.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}
