//! System calls without a safe binding: page cache residency and extents of a file.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memory::page;

/// `STATX_MNT_ID`, Linux 5.8.
pub(crate) const MOUNT_ID: u32 = 0x1000;

/// cachestat(2), the same number on all supported architectures.
const CACHESTAT: libc::c_long = 451;
/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`, whose header has 32 bytes.
const FIEMAP: libc::c_ulong = (3 << 30) | (32 << 16) | ((b'f' as libc::c_ulong) << 8) | 11;
/// Extents per call.
const EXTENTS: usize = 128;

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheStat {
    pub(crate) cache: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// Cached pages of a range of a file. Length 0 means up to the end.
pub(crate) fn cachestat(file: BorrowedFd<'_>, at: u64, length: u64) -> Result<CacheStat, Errno> {
    let range = [at, length];
    let mut stat = CacheStat::default();
    // SAFETY: two u64 and five u64 are the layout of the kernel's structures, and both outlive the
    // call.
    let done =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), &raw mut stat, 0_u32) };
    if done == 0 { Ok(stat) } else { Err(last_error()) }
}

/// Whether each page of a range of a file is resident, by mincore(2): bit 0. `at` must be
/// page-aligned.
pub(crate) fn resident_pages(
    file: BorrowedFd<'_>,
    at: u64,
    length: usize,
) -> Result<Vec<u8>, Errno> {
    let mut pages = vec![0_u8; length.div_ceil(page())];
    // SAFETY: a new mapping at an address chosen by the kernel affects no existing memory. It is
    // never read, so concurrent changes of the file do not matter.
    let start = unsafe { mmap(null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, at)? };
    // SAFETY: the range is the mapping just made, and `pages` has a byte for each page.
    let done = unsafe { libc::mincore(start, length, pages.as_mut_ptr()) };
    let error = last_error();
    // SAFETY: nothing refers to the mapping.
    let _ = unsafe { munmap(start, length) };
    match done {
        0 => Ok(pages),
        _ => Err(error),
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) at: u64,
    physical: u64,
    pub(crate) length: u64,
    reserved_long: [u64; 2],
    pub(crate) flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Extents of a file from a byte on, at most [`EXTENTS`]; empty after the last.
pub(crate) fn extents(file: BorrowedFd<'_>, from: u64) -> Result<Vec<Extent>, Errno> {
    let mut map = Fiemap {
        start: from,
        length: u64::MAX - from,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    };
    // SAFETY: the structure has the kernel's layout and space for `count` extents, and outlives
    // the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map as *mut c_void) };
    match done {
        0 => Ok(map.extents[..(map.mapped as usize).min(EXTENTS)].to_vec()),
        _ => Err(last_error()),
    }
}

/// Opens the same file again, with its own offset and readahead state.
pub(crate) fn reopened(file: &File, flags: OFlags) -> Result<File, Errno> {
    let waits = rustix::fs::fcntl_getfl(file)? & OFlags::NONBLOCK;
    reopened_fd(file.as_fd(), flags | waits)
}

/// As [`reopened`], for an O_PATH descriptor.
pub(crate) fn reopened_fd(file: BorrowedFd<'_>, flags: OFlags) -> Result<File, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // NOCTTY: opening a terminal must not make it the controlling one.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
