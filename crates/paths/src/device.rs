//! The kernel devices: `/dev/fathom_master` sends and `/dev/fathom_slave` receives over a connected
//! socket of this process. They are there if the module is loaded (docs/KERNEL.md).

mod interface;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::io::{Errno, read, write};
use rustix::ioctl::Opcode;
use rustix::mm::ProtFlags;
use serde::{Deserialize, Serialize};

use crate::window::{Window, result};
use crate::{PathError, Waiter};
use interface::{Attach, Hello, InterfacePart, Pages, Pte};

/// The largest window, in bytes.
pub const WINDOW_MAX: usize = interface::WINDOW_PAGES_MAX * 4096;

/// Bits of [`TableEntry::flags`].
pub mod flag {
    pub const PRESENT: u32 = 0x01;
    pub const WRITE: u32 = 0x02;
    pub const DIRTY: u32 = 0x04;
    pub const ACCESSED: u32 = 0x08;
    pub const LEAF: u32 = 0x10;
    /// The frame number is not masked.
    pub const FRAME: u32 = 0x20;
    /// The address belongs to a mapping; else nothing else is valid.
    pub const MAPPED: u32 = 0x40;
}

/// A device by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Sends,
    Receives,
}

impl Role {
    pub fn path(self) -> &'static str {
        match self {
            Self::Sends => "/dev/fathom_master",
            Self::Receives => "/dev/fathom_slave",
        }
    }
}

/// Whether a host has a device that this program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Usable,
    Missing(Obstacle),
}

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    #[error("no such device (the kernel module is not loaded)")]
    NoDevice,
    #[error("permission denied (needs root with CAP_NET_ADMIN)")]
    Permission,
    #[error("the loaded kernel module has another interface version than this program")]
    Version,
    /// By errno.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}

impl From<Errno> for Obstacle {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => Self::NoDevice,
            Errno::ACCESS | Errno::PERM => Self::Permission,
            Errno::PROTO | Errno::NOTTY => Self::Version,
            error => Self::Failed(error.raw_os_error()),
        }
    }
}

/// Opens the device for a moment.
pub fn presence(role: Role) -> Presence {
    DeviceSession::open(role).map_or_else(Presence::Missing, |_| Presence::Usable)
}

/// A page-table entry, as the module reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// As in memory, with its frame number masked unless [`flag::FRAME`] is set.
    pub entry: u64,
    /// Bytes that it maps.
    pub page_bytes: u64,
    /// See [`flag`].
    pub flags: u32,
}

/// An open device. It keeps its window over all connections.
#[derive(Debug)]
pub(crate) struct DeviceSession {
    file: File,
    role: Role,
}

impl DeviceSession {
    pub(crate) fn open(role: Role) -> Result<Self, Obstacle> {
        let file = OpenOptions::new().read(true).write(true).open(role.path());
        let file = file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let this = Self { file, role };
        let mut hello = Hello {
            version: interface::VERSION,
            struct_bytes: interface::STRUCT_BYTES as u32,
            ..Hello::default()
        };
        this.call(interface::HELLO, &mut hello)?;
        Ok(this)
    }

    /// Opens it for a path.
    pub(crate) fn for_role(role: Role) -> Result<Self, PathError> {
        Self::open(role).map_err(|obstacle| PathError::Device { path: role.path(), obstacle })
    }

    fn call<T>(&self, call: Opcode, argument: &mut T) -> Result<usize, Errno> {
        // SAFETY: the number contains the size of the structure, which outlives the call.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), call as _, &raw mut *argument) };
        result(done as isize)
    }

    /// Allocates and maps the window.
    pub(crate) fn window(&self, bytes: usize) -> Result<Window, PathError> {
        let pages = (bytes / rustix::param::page_size()) as u32;
        let mut pages = Pages { pages, reserved: 0 };
        self.call(interface::WINDOW, &mut pages)
            .map_err(PathError::in_call("FATHOM_IOC_WINDOW"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Window::new(self.file.as_fd(), 0, bytes, access).map_err(PathError::in_call("mmap"))
    }

    /// Uses this connection from now on, in place of the last one.
    pub(crate) fn attach(&self, socket: BorrowedFd<'_>, waiter: &Waiter) -> io::Result<()> {
        match self.call(interface::DETACH, &mut ()) {
            Ok(_) | Err(Errno::NOTCONN) => {}
            Err(error) => return Err(error.into()),
        }
        let mut attach = Attach { fd: socket.as_raw_fd(), reserved: 0 };
        self.call(interface::ATTACH, &mut attach)?;
        waiter.set_flags(self.file.as_fd())
    }

    pub(crate) fn read(&self, buffer: &mut [u8], waiter: &Waiter) -> Result<usize, PathError> {
        read(&self.file, buffer).map_err(|error| moved("read the device", waiter, error))
    }

    pub(crate) fn write(&self, bytes: &[u8], waiter: &Waiter) -> Result<usize, PathError> {
        write(&self.file, bytes).map_err(|error| moved("write the device", waiter, error))
    }

    /// Sends a part of the window, or receives into it.
    pub(crate) fn transfer(&self, part: Range<usize>, waiter: &Waiter) -> Result<usize, PathError> {
        let timeout_ms = u32::try_from(waiter.limit().as_millis().max(1)).unwrap_or(u32::MAX);
        let (offset, length) = (part.start as u32, part.len() as u32);
        let mut asked = InterfacePart { offset, length, timeout_ms, reserved: 0 };
        let (call, name) = match self.role {
            Role::Sends => (interface::SEND, "FATHOM_IOC_SEND"),
            Role::Receives => (interface::RECEIVE, "FATHOM_IOC_RECEIVE"),
        };
        self.call(call, &mut asked).map_err(|error| moved(name, waiter, error))
    }

    /// The page-table entry of an address of this process.
    pub(crate) fn table_entry(&self, address: u64) -> Option<TableEntry> {
        let mut pte = Pte { address, ..Pte::default() };
        self.call(interface::PTE, &mut pte).ok()?;
        let Pte { entry, page_bytes, flags, .. } = pte;
        (flags & flag::MAPPED != 0).then_some(TableEntry { entry, page_bytes, flags })
    }
}

impl AsFd for DeviceSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn moved(call: &'static str, waiter: &Waiter, error: Errno) -> PathError {
    match error {
        Errno::TIMEDOUT => PathError::TimedOut(waiter.limit()),
        error => PathError::Call { call, error },
    }
}
