//! Signal handlers that do nothing but count, put in place for a while: whatever was there before
//! comes back when they go, the handler by which Rust tells of a stack overflow among it.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use fathom_measure::sampler::Fault;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::raw_call::system_call;

/// How often a handler ran. Signals are sent to the thread itself, and this is its only writer.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// How often a handler ran so far.
pub(super) fn runs() -> u64 {
    RUNS.load(Ordering::Relaxed)
}

/// Counts, without a locked instruction.
fn count() {
    RUNS.store(RUNS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

extern "C" fn count_it(_: libc::c_int) {
    count();
}

/// A handler in place. Dropping it puts back what was there.
#[derive(Debug)]
pub(super) struct Handler {
    signal: libc::c_int,
    previous: Box<libc::sigaction>,
    /// The calling thread's mask.
    mask: libc::sigset_t,
}

impl Handler {
    /// One that counts this signal, which is not blocked meanwhile.
    pub(super) fn counting(signal: libc::c_int) -> Result<Self, Fault> {
        // SAFETY: it stores to a static atomic, as a handler may.
        unsafe { Self::place(signal, count_it as *const () as usize, 0) }
    }

    /// # Safety
    /// The handler must do only what one may.
    unsafe fn place(
        signal: libc::c_int,
        handler: usize,
        flags: libc::c_int,
    ) -> Result<Self, Fault> {
        let mut action = zeroed_action();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        let mut previous = Box::new(zeroed_action());
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: all pointers are to live values of the types the calls expect, the sets are
        // filled before they are read, and the caller answers for the handler.
        unsafe {
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), signal);
            if libc::sigaction(signal, &action, &mut *previous) != 0 {
                return Err(Fault::system("sigaction", io::Error::last_os_error()));
            }
            // It refuses only an operation that is not there.
            libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), mask.as_mut_ptr());
            Ok(Self { signal, previous, mask: mask.assume_init() })
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: the action and the mask are those that were in force, and refused by none.
        unsafe {
            libc::sigaction(self.signal, &*self.previous, ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut());
        }
    }
}

fn zeroed_action() -> libc::sigaction {
    // SAFETY: numbers, a set of bits and an absent function: all zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// What the kernel keeps of a signal's handler, in its own form, which the C library never shows:
/// handler, flags, restorer, mask.
#[derive(Debug)]
pub(super) struct KernelAction {
    signal: libc::c_int,
    words: Box<UnsafeCell<[u64; 4]>>,
}

/// Bytes of the kernel's set of signals.
const SET_BYTES: usize = 8;

impl KernelAction {
    /// As it is now.
    pub(super) fn of(signal: libc::c_int) -> Result<Self, Fault> {
        let words = Box::new(UnsafeCell::new([0; 4]));
        let arguments = [signal as usize, 0, words.get() as usize, SET_BYTES];
        // SAFETY: there is room for the kernel's 32 bytes.
        match unsafe { system_call(libc::SYS_rt_sigaction, arguments) } {
            0 => Ok(Self { signal, words }),
            errno => {
                Err(Fault::system("rt_sigaction", io::Error::from_raw_os_error(-errno as i32)))
            }
        }
    }

    /// Arguments of the call that installs it again. They point into this.
    pub(super) fn arguments(&self) -> [usize; 4] {
        [self.signal as usize, self.words.get() as usize, 0, SET_BYTES]
    }

    /// Whether this is what is installed.
    pub(super) fn is_in_place(&self) -> Result<bool, Fault> {
        let now = Self::of(self.signal)?;
        // SAFETY: no call that writes to either is under way.
        Ok(unsafe { *now.words.get() == *self.words.get() })
    }
}

/// The page that the handler steps over writes to.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The handler for every other address.
static OTHERS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
const PAGE_BYTES: usize = 4096;

/// A page that may not be written, and a handler that counts writes to it and steps over them.
pub(super) struct Guarded {
    page: *mut c_void,
    /// Dropped after the page has been forgotten.
    handler: Option<Handler>,
}

impl Guarded {
    /// One at a time in a program: the handler knows one page.
    pub(super) fn page() -> Result<Self, Fault> {
        // SAFETY: a new mapping at a place the kernel chooses.
        let page = unsafe {
            mmap_anonymous(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ, MapFlags::PRIVATE)
        };
        let page = page.map_err(|error| Fault::system("mmap", error))?;
        let mut guarded = Self { page, handler: None };
        // SAFETY: the mapping is ours and readable; reading makes it present, so that a write
        // fails for its protection and for nothing else.
        unsafe { page.cast::<u8>().read_volatile() };
        PAGE.store(page as usize, Ordering::Relaxed);
        let handle = step_over as *const () as usize;
        // SAFETY: it touches static atomics and the registers it is given, as a handler may.
        let mut handler = unsafe { Handler::place(libc::SIGSEGV, handle, libc::SA_SIGINFO) }?;
        OTHERS.store(&mut *handler.previous, Ordering::Relaxed);
        guarded.handler = Some(handler);
        Ok(guarded)
    }

    /// Writes to it that often, and returns how often that faulted.
    pub(super) fn write(&self, times: u64) -> u64 {
        let before = runs();
        if times > 0 {
            // SAFETY: the handler steps over each write, and the loop changes its own registers
            // only.
            unsafe { write_to(self.page, times) };
        }
        runs() - before
    }

    /// Lets everybody write to it: nothing faults any more.
    #[cfg(test)]
    pub(super) fn unguard(&self) {
        let access = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        // SAFETY: the mapping is ours.
        unsafe { rustix::mm::mprotect(self.page, PAGE_BYTES, access) }.unwrap();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.handler = None;
        PAGE.store(0, Ordering::Relaxed);
        OTHERS.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.page, PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

extern "C" fn step_over(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel hands both to a handler of this kind.
    let (address, context) = unsafe { ((*info).si_addr() as usize, &mut *context) };
    if address == PAGE.load(Ordering::Relaxed) {
        count();
        resume(context);
        return;
    }
    // A fault of somebody else's: it happens again, under the handler that was there before.
    // SAFETY: the action lives as long as this handler is in place.
    unsafe { libc::sigaction(signal, OTHERS.load(Ordering::Relaxed), ptr::null_mut()) };
}

/// Goes on where [`write_to`] says.
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

/// Writes `times` times, and keeps in a register where to go on after a write.
///
/// # Safety
/// The page must be writable, or [`step_over`] in place for it; `times` must not be 0.
unsafe fn write_to(page: *mut c_void, times: u64) {
    // SAFETY: the caller answers for the page.
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
