//! The handlers count, step aside for the crashes of others, and leave.

use super::*;
use crate::os::child::fork;
use crate::smoke;

/// Address of the handler of a signal, as the C library tells it.
fn handler_of(signal: libc::c_int) -> usize {
    let mut action = zeroed_action();
    // SAFETY: the pointer is to a writable action.
    assert_eq!(unsafe { libc::sigaction(signal, ptr::null(), &mut action) }, 0);
    action.sa_sigaction
}

fn send(signal: libc::c_int) {
    // SAFETY: the handler in place only counts.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[test]
fn the_handler_that_was_there_before_comes_back() {
    let _alone = smoke::alone();
    for signal in [libc::SIGUSR1, libc::SIGSEGV] {
        let before = handler_of(signal);
        let handler = Handler::counting(signal).unwrap();
        assert_ne!(handler_of(signal), before);
        drop(handler);
        assert_eq!(handler_of(signal), before);
    }
    let before = handler_of(libc::SIGSEGV);
    let guarded = Guarded::page().unwrap();
    assert_ne!(handler_of(libc::SIGSEGV), before);
    drop(guarded);
    assert_eq!(handler_of(libc::SIGSEGV), before);
}

#[test]
fn a_signal_that_was_blocked_is_counted_and_blocked_again() {
    let _alone = smoke::alone();
    let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut was = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are filled before they are read.
    unsafe {
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), was.as_mut_ptr());
    }
    let handler = Handler::counting(libc::SIGUSR1).unwrap();
    let before = runs();
    send(libc::SIGUSR1);
    assert_eq!(runs() - before, 1);
    drop(handler);
    // SAFETY: as above.
    let blocked = unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, was.as_ptr(), only.as_mut_ptr());
        libc::sigismember(only.as_ptr(), libc::SIGUSR1)
    };
    assert_eq!(blocked, 1);
}

#[test]
fn the_kernel_tells_what_is_in_place() {
    let _alone = smoke::alone();
    let handler = Handler::counting(libc::SIGUSR1).unwrap();
    let action = KernelAction::of(libc::SIGUSR1).unwrap();
    assert!(action.is_in_place().unwrap());
    drop(handler);
    assert!(!action.is_in_place().unwrap());
}

#[test]
fn each_write_to_the_page_is_one_fault_and_a_page_that_may_be_written_none() {
    let _alone = smoke::alone();
    let guarded = Guarded::page().unwrap();
    assert_eq!((guarded.write(0), guarded.write(1), guarded.write(1000)), (0, 1, 1000));
    guarded.unguard();
    assert_eq!(guarded.write(1000), 0);
}

#[test]
fn a_fault_elsewhere_still_ends_the_program() {
    let _alone = smoke::alone();
    let fault_elsewhere = || {
        let Ok(_guarded) = Guarded::page() else { return 3 };
        // SAFETY: it is not: this is the crash that must not be stepped over.
        unsafe { write_to(ptr::without_provenance_mut(PAGE_BYTES), 1) };
        0
    };
    // SAFETY: the child maps a page, faults and is gone; a core is not dumped for it below.
    let child = unsafe {
        fork(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            fault_elsewhere()
        })
    };
    let ended = child.unwrap().wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{}", ended.status);
}
