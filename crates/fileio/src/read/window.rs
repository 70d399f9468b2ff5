//! A part of a file as mapped pages that cannot kill the program.
//!
//! Who reads a mapped page that is gone, because the file was cut short or the device failed,
//! gets SIGBUS. Here a handler answers it: if the address lies in one of our windows, zeroes are
//! mapped from that page to the end of the window, and the window is marked broken; the read goes
//! on, and whoever made the window reads that part again in another way. Any other SIGBUS goes to
//! whoever had the signal before.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::memory::page;

/// Windows at a time, in all threads together.
const SLOTS: usize = 256;

/// What the handler must know of a window. All of it is atomic, as a handler can wait for nobody.
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; SLOTS];

/// Bytes in a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// Who had SIGBUS before; none if it could not be taken over.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Some mapped pages of a file.
pub(super) struct Window {
    slot: &'static Slot,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value, and the slot is atomic.
unsafe impl Send for Window {}

impl Window {
    /// Maps `length` bytes from byte `at` on, which is at a page.
    pub(super) fn new(file: &File, at: u64, length: usize) -> Result<Self, Errno> {
        if BEFORE.get_or_init(take_signal).is_none() {
            return Err(Errno::NOTSUP);
        }
        let slot = TABLE.iter().find(|slot| !slot.taken.swap(true, Ordering::AcqRel));
        let slot = slot.ok_or(Errno::MFILE)?;
        // SAFETY: a new mapping where the kernel finds room touches nothing that exists.
        let start = unsafe {
            let (file, shared) = (file.as_fd(), MapFlags::SHARED);
            mmap(null_mut(), length, ProtFlags::READ, shared, file, at)
        };
        let start = start.and_then(|start| NonNull::new(start.cast()).ok_or(Errno::NOMEM));
        let start: NonNull<u8> = start.inspect_err(|_| {
            slot.taken.store(false, Ordering::Release);
        })?;
        slot.broken.store(false, Ordering::Relaxed);
        slot.end
            .store(start.as_ptr() as usize + length.next_multiple_of(page()), Ordering::Relaxed);
        slot.start.store(start.as_ptr() as usize, Ordering::SeqCst);
        Ok(Self { slot, start, length })
    }

    /// Makes some pages of it present. Whether that was possible shows when they are read.
    pub(super) fn populate(&self, from: usize, length: usize) -> Result<(), Errno> {
        let from = from / page() * page();
        let length = length.min(self.length - from);
        // SAFETY: the range lies in the mapping; the advice changes no byte.
        unsafe { madvise(self.start.as_ptr().add(from).cast(), length, Advice::LinuxPopulateRead) }
    }

    /// Tells the kernel that it is read from front to back.
    pub(super) fn will_be_read_in_order(&self) {
        // SAFETY: the range is the mapping; the advice changes no byte.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::Sequential) };
    }

    /// Its bytes, or zeroes from where it broke. Whether it did is to be asked after they were
    /// read.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long, readable and there as long as this value. Another
        // program may change a byte while it is read, as with any mapped file: the bytes only go
        // into sums, for which each value is as good as another. A page that is gone is replaced
        // by the handler.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Whether a page of it was gone.
    pub(super) fn is_broken(&self) -> bool {
        // What was read before must have been read.
        compiler_fence(Ordering::SeqCst);
        self.slot.broken.load(Ordering::SeqCst)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.slot.start.store(0, Ordering::SeqCst);
        // SAFETY: the mapping was made by `new`, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        self.slot.taken.store(false, Ordering::Release);
    }
}

/// Puts our handler before whoever has SIGBUS. On the alternate stack if the thread has one: Rust
/// gives it one for what it does with this signal.
fn take_signal() -> Option<libc::sigaction> {
    PAGE.store(page(), Ordering::Relaxed);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a sigaction of zeroes is a valid one; its fields are set before it is used, and both
    // structures outlive the call. The handler does only what is allowed in one.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        let done = libc::sigaction(libc::SIGBUS, &raw const ours, before.as_mut_ptr());
        (done == 0).then(|| before.assume_init())
    }
}

extern "C" fn on_signal(
    signal: libc::c_int,
    facts: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO valid facts; those of a fault, with a
    // code above 0, hold an address. `errno` is the thread's own.
    let (is_fault, at, errno) =
        unsafe { ((*facts).si_code > 0, (*facts).si_addr() as usize, libc::__errno_location()) };
    // SAFETY: as above.
    let error = unsafe { *errno };
    if !(is_fault && mend(at)) {
        pass_on(signal, facts, context);
    }
    // SAFETY: as above; whom we interrupted may be about to read it.
    unsafe { *errno = error };
}

/// Maps zeroes over the rest of the window that an address lies in; false if it lies in none.
fn mend(at: usize) -> bool {
    for slot in &TABLE {
        let (start, end) = (slot.start.load(Ordering::SeqCst), slot.end.load(Ordering::Relaxed));
        if start == 0 || at < start || at >= end {
            continue;
        }
        let from = at & !(PAGE.load(Ordering::Relaxed) - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: from a page of a window to its end: pages that are ours, and that only the
        // interrupted thread reads.
        let mended =
            unsafe { libc::mmap(from as *mut _, end - from, libc::PROT_READ, flags, -1, 0) };
        slot.broken.store(true, Ordering::SeqCst);
        return mended != libc::MAP_FAILED;
    }
    false
}

/// Gives a signal that is not ours to whoever had it before.
fn pass_on(signal: libc::c_int, facts: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(Option::as_ref);
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let has_facts = before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: a handler that was installed with or without SA_SIGINFO has that signature. Where
    // there was none, the signal ends the program, as it would have done without us: raised
    // again, and for a fault met again.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if has_facts {
            let call: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            call(signal, facts, context);
        } else {
            let call: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            call(signal);
        }
    }
}
