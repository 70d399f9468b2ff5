//! A memory-mapped window of a file that survives SIGBUS.
//!
//! Access to a mapped page that is gone, because the file was truncated or the device failed,
//! raises SIGBUS. The handler here checks whether the address is inside one of our windows. If so,
//! it maps zeroes from that page to the end of the window and marks the window broken; the reader
//! then reads that part again by pread. Any other SIGBUS goes to the previous handler.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::memory::page;

/// Most windows at a time, over all threads.
const SLOTS: usize = 256;

/// A window as the handler sees it. All fields are atomic, since a signal handler must not lock.
struct WindowSlot {
    in_use: AtomicBool,
    /// 0: no window.
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
}

static TABLE: [WindowSlot; SLOTS] = [const {
    WindowSlot {
        in_use: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; SLOTS];

/// The page size, for the handler, where calling sysconf is not safe.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The previous SIGBUS action; `None` if ours could not be installed.
static PREVIOUS: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Some mapped pages of a file.
pub(super) struct ReadWindow {
    slot: &'static WindowSlot,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value, and the slot is atomic.
unsafe impl Send for ReadWindow {}

impl ReadWindow {
    /// Maps `length` bytes at the page-aligned offset `at`.
    pub(super) fn new(file: &File, at: u64, length: usize) -> Result<Self, Errno> {
        if PREVIOUS.get_or_init(install_handler).is_none() {
            return Err(Errno::NOTSUP);
        }
        // Acquire: what the last owner of the slot did, such as unmapping, comes first.
        let slot = TABLE.iter().find(|slot| !slot.in_use.swap(true, Ordering::AcqRel));
        let slot = slot.ok_or(Errno::MFILE)?;
        // SAFETY: a new mapping at an address chosen by the kernel affects no existing memory.
        let start = unsafe {
            let (file, shared) = (file.as_fd(), MapFlags::SHARED);
            mmap(null_mut(), length, ProtFlags::READ, shared, file, at)
        };
        let start = start.and_then(|start| NonNull::new(start.cast()).ok_or(Errno::NOMEM));
        let start: NonNull<u8> = start.inspect_err(|_| {
            slot.in_use.store(false, Ordering::Release);
        })?;
        // Relaxed: the store to `start` below publishes both to the handler.
        slot.broken.store(false, Ordering::Relaxed);
        slot.end
            .store(start.as_ptr() as usize + length.next_multiple_of(page()), Ordering::Relaxed);
        // `start` last: the handler ignores a slot until it is set.
        slot.start.store(start.as_ptr() as usize, Ordering::SeqCst);
        Ok(Self { slot, start, length })
    }

    /// Populates some of its pages. Errors other than EINVAL show again when the pages are read.
    pub(super) fn populate(&self, from: usize, length: usize) -> Result<(), Errno> {
        let from = from / page() * page();
        let length = length.min(self.length - from);
        // SAFETY: the range is inside the mapping; the advice changes no byte.
        unsafe { madvise(self.start.as_ptr().add(from).cast(), length, Advice::LinuxPopulateRead) }
    }

    pub(super) fn advise_sequential(&self) {
        // SAFETY: the range is the mapping; the advice changes no byte.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::Sequential) };
    }

    /// Its bytes; zeroes from where it broke. Check [`Self::is_broken`] after reading them.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is readable and lives as long as this value.
        // Another process may change bytes concurrently, as in any mapped file: they only go into
        // sums, for which any value is valid. The handler replaces pages that are gone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Whether an access raised SIGBUS.
    pub(super) fn is_broken(&self) -> bool {
        // The compiler must not move reads of the mapping past this load: the handler sets the
        // flag during such a read.
        compiler_fence(Ordering::SeqCst);
        self.slot.broken.load(Ordering::SeqCst)
    }
}

impl Drop for ReadWindow {
    fn drop(&mut self) {
        // Before munmap: the handler must not touch memory that others may map here next.
        self.slot.start.store(0, Ordering::SeqCst);
        // SAFETY: `new` made the mapping, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        self.slot.in_use.store(false, Ordering::Release);
    }
}

/// Installs our SIGBUS handler and returns the previous action. SA_ONSTACK, because Rust gives its
/// threads an alternate stack for its own handler of this signal.
fn install_handler() -> Option<libc::sigaction> {
    PAGE.store(page(), Ordering::Relaxed);
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: an all-zero sigaction is valid; its fields are set before use, and both structures
    // outlive the call. The handler is async-signal-safe.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        let done = libc::sigaction(libc::SIGBUS, &raw const ours, previous.as_mut_ptr());
        (done == 0).then(|| previous.assume_init())
    }
}

extern "C" fn on_signal(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo; that of a fault, with a code
    // above 0, has an address. `errno` is thread-local.
    let (is_fault, at, errno) =
        unsafe { ((*info).si_code > 0, (*info).si_addr() as usize, libc::__errno_location()) };
    // SAFETY: as above.
    let error = unsafe { *errno };
    if !(is_fault && map_zeroes(at)) {
        call_previous(signal, info, context);
    }
    // SAFETY: as above. The interrupted code may be about to read errno.
    unsafe { *errno = error };
}

/// Maps zeroes from the page of this address to the end of its window. Returns false if no window
/// contains the address.
fn map_zeroes(at: usize) -> bool {
    for slot in &TABLE {
        let (start, end) = (slot.start.load(Ordering::SeqCst), slot.end.load(Ordering::Relaxed));
        if start == 0 || at < start || at >= end {
            continue;
        }
        let from = at & !(PAGE.load(Ordering::Relaxed) - 1);
        // MAP_FIXED replaces the broken pages at their address, where the interrupted read is
        // retried.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: these pages belong to a window, which only the interrupted thread reads.
        let mapped =
            unsafe { libc::mmap(from as *mut _, end - from, libc::PROT_READ, flags, -1, 0) };
        slot.broken.store(true, Ordering::SeqCst);
        return mapped != libc::MAP_FAILED;
    }
    false
}

/// Forwards a signal that is not ours to the previous handler.
fn call_previous(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.get().and_then(Option::as_ref);
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    let has_info = previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: SA_SIGINFO determines the handler's signature. With the default action the signal
    // kills the process, as it would without us: it is raised again, or the fault recurs.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if has_info {
            let call: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            call(signal, info, context);
        } else {
            let call: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            call(signal);
        }
    }
}
