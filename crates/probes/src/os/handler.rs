//! Signal handlers that only count. Dropping one restores the previous action, for SIGSEGV that of
//! Rust's stack overflow handler.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::raw_call::system_call;
use crate::prelude::*;

/// Handler runs so far. The only writer is the thread that signals itself.
static RUNS: AtomicU64 = AtomicU64::new(0);

pub(super) fn runs() -> u64 {
    RUNS.load(Ordering::Relaxed)
}

/// Load and store instead of fetch_add: one writer needs no locked instruction, which would be
/// part of the time.
fn count() {
    RUNS.store(RUNS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

extern "C" fn counting_handler(_: libc::c_int) {
    count();
}

/// An installed handler; dropping it restores the previous action.
#[derive(Debug)]
pub(super) struct Handler {
    signal: libc::c_int,
    previous: Box<libc::sigaction>,
    /// The calling thread's previous signal mask.
    mask: libc::sigset_t,
}

impl Handler {
    /// Installs a handler that counts this signal, and unblocks it.
    pub(super) fn counting(signal: libc::c_int) -> Result<Self> {
        // SAFETY: the handler stores to a static atomic, which is async-signal-safe.
        unsafe { Self::install(signal, counting_handler as *const () as usize, 0) }
    }

    /// # Safety
    /// The handler must be async-signal-safe.
    unsafe fn install(signal: libc::c_int, handler: usize, flags: libc::c_int) -> Result<Self> {
        let mut action = zeroed_action();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        let mut previous = Box::new(zeroed_action());
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: all pointers are to live values of the expected types, the sets are initialized
        // before they are read, and the caller vouches for the handler.
        unsafe {
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), signal);
            if libc::sigaction(signal, &action, &mut *previous) != 0 {
                return Err(SamplerFault::system("sigaction", io::Error::last_os_error()));
            }
            // Fails only for an unknown operation.
            libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), mask.as_mut_ptr());
            Ok(Self { signal, previous, mask: mask.assume_init() })
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: the previous action and mask are valid.
        unsafe {
            libc::sigaction(self.signal, &*self.previous, ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut());
        }
    }
}

fn zeroed_action() -> libc::sigaction {
    // SAFETY: numbers, a bit set and an optional function: zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A signal's action in the kernel's format, which the C library hides: handler, flags, restorer,
/// mask.
#[derive(Debug)]
pub(super) struct KernelAction {
    signal: libc::c_int,
    words: Box<UnsafeCell<[u64; 4]>>,
}

/// Size of the kernel's sigset_t.
const SET_BYTES: usize = 8;

impl KernelAction {
    /// Reads the current action.
    pub(super) fn for_signal(signal: libc::c_int) -> Result<Self> {
        let words = Box::new(UnsafeCell::new([0; 4]));
        let arguments = [signal as usize, 0, words.get() as usize, SET_BYTES];
        // SAFETY: the buffer holds the kernel's 32 bytes.
        match unsafe { system_call(libc::SYS_rt_sigaction, arguments) } {
            0 => Ok(Self { signal, words }),
            errno => Err(SamplerFault::system(
                "rt_sigaction",
                io::Error::from_raw_os_error(-errno as i32),
            )),
        }
    }

    /// Arguments of rt_sigaction that install this action; they point into self.
    pub(super) fn arguments(&self) -> [usize; 4] {
        [self.signal as usize, self.words.get() as usize, 0, SET_BYTES]
    }

    pub(super) fn is_installed(&self) -> Result<bool> {
        let now = Self::for_signal(self.signal)?;
        // SAFETY: no call is writing to either.
        Ok(unsafe { *now.words.get() == *self.words.get() })
    }
}

/// Address of the page whose write faults the handler skips.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The previous action, for faults at other addresses.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
const PAGE_BYTES: usize = 4096;

/// A read-only page, and a SIGSEGV handler that counts and skips writes to it.
pub(super) struct ReadOnlyPage {
    page: *mut c_void,
    handler: Option<Handler>,
}

impl ReadOnlyPage {
    /// One at a time in a process: the handler knows one page.
    pub(super) fn map() -> Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses.
        let page = unsafe {
            mmap_anonymous(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ, MapFlags::PRIVATE)
        };
        let page = page.map_err(|error| SamplerFault::system("mmap", error))?;
        let mut mapped = Self { page, handler: None };
        // SAFETY: the mapping is readable. The read makes the page present, so that a write
        // violates only the protection. Volatile, since the value is unused.
        unsafe { page.cast::<u8>().read_volatile() };
        PAGE.store(page as usize, Ordering::Relaxed);
        let handle = skip_write as *const () as usize;
        // SAFETY: the handler accesses static atomics and the saved registers only.
        let mut handler = unsafe { Handler::install(libc::SIGSEGV, handle, libc::SA_SIGINFO) }?;
        PREVIOUS.store(&mut *handler.previous, Ordering::Relaxed);
        mapped.handler = Some(handler);
        Ok(mapped)
    }

    /// Writes to the page `times` times and returns the number of faults.
    pub(super) fn write(&self, times: u64) -> u64 {
        let before = runs();
        if times > 0 {
            // SAFETY: the handler skips each write, and the loop changes only its own registers.
            unsafe { write_to(self.page, times) };
        }
        runs() - before
    }

    #[cfg(test)]
    pub(super) fn make_writable(&self) {
        let access = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        // SAFETY: the mapping belongs to self.
        unsafe { rustix::mm::mprotect(self.page, PAGE_BYTES, access) }.unwrap();
    }
}

impl Drop for ReadOnlyPage {
    fn drop(&mut self) {
        self.handler = None;
        PAGE.store(0, Ordering::Relaxed);
        PREVIOUS.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the mapping belongs to self, and nothing points into it.
        let unmapped = unsafe { munmap(self.page, PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "munmap fails only for an invalid address");
    }
}

extern "C" fn skip_write(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel passes both to a handler installed with SA_SIGINFO.
    let (address, context) = unsafe { ((*info).si_addr() as usize, &mut *context) };
    if address == PAGE.load(Ordering::Relaxed) {
        count();
        resume(context);
        return;
    }
    // Another fault: with the previous action restored, the instruction faults again.
    // SAFETY: the action lives as long as this handler is installed.
    unsafe { libc::sigaction(signal, PREVIOUS.load(Ordering::Relaxed), ptr::null_mut()) };
}

/// Continues at the address that [`write_to`] keeps in a register.
fn resume(context: &mut libc::ucontext_t) {
    let machine = &mut context.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    {
        machine.gregs[libc::REG_RIP as usize] = machine.gregs[libc::REG_R8 as usize];
    }
    #[cfg(target_arch = "aarch64")]
    {
        machine.pc = machine.regs[9];
    }
}

/// Writes `times` times. The address after the write is in r8 (aarch64: x9), for [`resume`].
///
/// # Safety
/// The page must be writable, or [`skip_write`] installed for it; `times` must not be 0.
unsafe fn write_to(page: *mut c_void, times: u64) {
    // SAFETY: the caller vouches for the page.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "lea r8, [rip + 4f]",
            ".p2align 4", "3:",
            "mov byte ptr [{page}], 1",
            "4:",
            "dec {left}",
            "jnz 3b",
            page = in(reg) page,
            left = inout(reg) times => _,
            out("r8") _);
        #[cfg(target_arch = "aarch64")]
        asm!(
            "adr x9, 4f",
            ".p2align 4", "3:",
            "strb wzr, [{page}]",
            "4:",
            "subs {left}, {left}, #1",
            "b.ne 3b",
            page = in(reg) page,
            left = inout(reg) times => _,
            out("x9") _);
    }
}

#[cfg(test)]
mod tests;
