use super::*;
use crate::os::child::fork;

fn handler_of(signal: libc::c_int) -> usize {
    let mut action = zeroed_action();
    // SAFETY: the pointer is to a writable action.
    assert_eq!(unsafe { libc::sigaction(signal, ptr::null(), &mut action) }, 0);
    action.sa_sigaction
}

fn send(signal: libc::c_int) {
    // SAFETY: the installed handler only counts.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[test]
fn previous_handler_is_restored() {
    let before = [libc::SIGUSR1, libc::SIGSEGV].map(handler_of);
    let handler = Handler::counting(libc::SIGUSR1).unwrap();
    let page = ReadOnlyPage::map().unwrap();
    let installed = [libc::SIGUSR1, libc::SIGSEGV].map(handler_of);
    assert!(installed[0] != before[0] && installed[1] != before[1]);
    drop((handler, page));
    assert_eq!([libc::SIGUSR1, libc::SIGSEGV].map(handler_of), before);
}

#[test]
fn blocked_signal_is_counted_and_blocked_again() {
    let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut was = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are initialized before they are read.
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
fn removed_handler_is_not_installed() {
    let handler = Handler::counting(libc::SIGUSR1).unwrap();
    let action = KernelAction::for_signal(libc::SIGUSR1).unwrap();
    assert!(action.is_installed().unwrap());
    drop(handler);
    assert!(!action.is_installed().unwrap());
}

#[test]
fn each_write_to_a_read_only_page_is_one_fault() {
    let page = ReadOnlyPage::map().unwrap();
    assert_eq!((page.write(0), page.write(1), page.write(1000)), (0, 1, 1000));
    page.make_writable();
    assert_eq!(page.write(1000), 0);
}

#[test]
fn fault_at_another_address_kills_the_process() {
    let fault_elsewhere = || {
        let Ok(_page) = ReadOnlyPage::map() else { return 3 };
        // SAFETY: none: this is the crash that the handler must not skip.
        unsafe { write_to(ptr::without_provenance_mut(PAGE_BYTES), 1) };
        0
    };
    // SAFETY: the child disables core dumps, maps a page and faults.
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
