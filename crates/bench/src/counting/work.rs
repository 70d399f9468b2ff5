//! Work of known counts, for tests: this test program does it instead of its tests, if its first
//! argument is [`NAME`]. It runs before `main`, so that the test harness does nothing before it.

use std::ffi::CString;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::ptr;

pub(super) const NAME: &str = "fathom-cost-work";
const PAGE: usize = 4096;

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let mut arguments = std::env::args();
    if arguments.nth(1).as_deref() == Some(NAME) {
        let words: Vec<String> = arguments.collect();
        // SAFETY: this thread is the only one.
        unsafe {
            for part in words.split(|word| word == "then") {
                work(part);
            }
            libc::_exit(0);
        }
    }
}

fn execute(words: &[&str]) {
    let words: Vec<CString> = words.iter().map(|it| CString::new(*it).expect("no zero")).collect();
    let pointers: Vec<_> = words.iter().map(|it| it.as_ptr()).chain([ptr::null()]).collect();
    // SAFETY: both are ended by null.
    unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
}

/// `KIND COUNT [SIZE [FILE]]`.
///
/// # Safety
/// No other thread may run.
unsafe fn work(words: &[String]) {
    let number = |at: usize| words.get(at).and_then(|it| it.parse().ok()).unwrap_or(0_usize);
    let path = words.get(3).map_or("/dev/null", String::as_str);
    let (kind, count, size) = (words[0].as_str(), number(1), number(2));
    // SAFETY: of the caller.
    let is_known = unsafe {
        calls(kind, count, size, path)
            || pages(kind, count, path)
            || processes(kind, count, size)
            || ends(kind, count)
    };
    assert!(is_known, "unknown work {kind}");
}

/// # Safety
/// No other thread may run.
unsafe fn calls(kind: &str, count: usize, size: usize, path: &str) -> bool {
    // SAFETY: system calls on memory of this function.
    unsafe {
        match kind {
            "read" => {
                let mut file = std::fs::File::open(path).expect("a file");
                let mut buffer = vec![0; size];
                for _ in 0..count {
                    file.read_exact(&mut buffer).expect("a block");
                }
            }
            "write" => {
                let mut file = std::fs::File::create(path).expect("a file");
                let buffer = vec![1; size];
                for _ in 0..count {
                    file.write_all(&buffer).expect("room");
                }
            }
            "open" => (0..count).for_each(|_| drop(std::fs::File::open(path))),
            "stat" => (0..count).for_each(|_| drop(std::fs::metadata(path))),
            "getppid" => (0..count).for_each(|_| {
                libc::getppid();
            }),
            _ => return false,
        }
    }
    true
}

/// # Safety
/// No other thread may run.
unsafe fn pages(kind: &str, count: usize, path: &str) -> bool {
    // SAFETY: system calls on memory of this function.
    unsafe {
        match kind {
            "anonymous" => touch(map(count, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1), count),
            "cow" => {
                let file = std::fs::File::open(path).expect("a file");
                touch(map(count, libc::MAP_PRIVATE, file.as_raw_fd()), count);
            }
            "cached" => {
                let file = std::fs::File::open(path).expect("a file");
                // New mappings are below old ones and do not merge: no pages around are mapped.
                for page in 0..count {
                    let (offset, shared) = ((page * PAGE) as libc::off_t, libc::MAP_SHARED);
                    let protection = libc::PROT_READ;
                    let file = file.as_raw_fd();
                    let none = ptr::null_mut();
                    let at = libc::mmap(none, PAGE, protection, shared, file, offset);
                    assert_ne!(at, libc::MAP_FAILED, "a mapping");
                    std::hint::black_box(at.cast::<u8>().read_volatile());
                }
            }
            _ => return false,
        }
    }
    true
}

/// # Safety
/// No other thread may run.
unsafe fn processes(kind: &str, count: usize, size: usize) -> bool {
    // SAFETY: system calls on memory of this function.
    unsafe {
        match kind {
            "fork" => {
                let at = map(size / PAGE + 1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
                touch(at, size / PAGE);
                for _ in 0..count {
                    child(|| {});
                }
            }
            "copy" => {
                let at = map(count, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
                touch(at, count);
                child(|| touch(at, count));
            }
            "exec" => (0..count).for_each(|_| {
                child(|| execute(&["/proc/self/exe", NAME, "getppid", "1"]));
            }),
            "spawn" => (0..count).for_each(|_| {
                let done = std::process::Command::new("/proc/self/exe")
                    .args([NAME, "getppid", "1"])
                    .status();
                assert!(done.is_ok_and(|status| status.success()));
            }),
            "thread" => (0..count).for_each(|_| {
                std::thread::spawn(|| {}).join().expect("a thread");
            }),
            "pipe" => pipe(count, size),
            "socket" => {
                let (mut a, mut b) = std::os::unix::net::UnixStream::pair().expect("a pair");
                let mut buffer = vec![0; size];
                for _ in 0..count {
                    a.write_all(&buffer).expect("room");
                    b.read_exact(&mut buffer).expect("bytes");
                }
            }
            "sleep" => (0..count).for_each(|_| {
                let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                libc::nanosleep(&raw const time, ptr::null_mut());
            }),
            "signal" => {
                extern "C" fn nothing(_: libc::c_int) {}
                libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t);
                (0..count).for_each(|_| {
                    libc::raise(libc::SIGUSR1);
                });
            }
            _ => return false,
        }
    }
    true
}

/// # Safety
/// No other thread may run.
unsafe fn ends(kind: &str, count: usize) -> bool {
    // SAFETY: system calls on memory of this function.
    unsafe {
        match kind {
            "status" => libc::_exit(count as i32),
            "kill" => {
                libc::signal(count as i32, libc::SIG_DFL);
                libc::raise(count as i32);
            }
            // Its parent sees it stop, and lets it go on.
            "stop" => {
                let (child, mut status) = (libc::fork(), 0);
                if child == 0 {
                    libc::raise(libc::SIGSTOP);
                    libc::_exit(7);
                }
                libc::waitpid(child, &raw mut status, libc::WUNTRACED);
                assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP);
                // It stays stopped.
                for _ in 0..2000 {
                    libc::sched_yield();
                    assert_eq!(libc::waitpid(child, &raw mut status, libc::WNOHANG), 0);
                }
                libc::kill(child, libc::SIGCONT);
                libc::waitpid(child, &raw mut status, 0);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7);
            }
            "echo" => {
                let mut text = Vec::new();
                std::io::stdin().read_to_end(&mut text).expect("an input");
                std::io::stdout().write_all(&text).expect("an output");
                std::io::stdout().flush().expect("an output");
            }
            _ => return false,
        }
    }
    true
}

unsafe fn map(pages: usize, flags: libc::c_int, file: libc::c_int) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), pages * PAGE, protection, flags, file, 0);
        assert_ne!(at, libc::MAP_FAILED, "a mapping");
        libc::madvise(at, pages * PAGE, libc::MADV_NOHUGEPAGE);
        at.cast()
    }
}

/// # Safety
/// So many pages must be mapped.
unsafe fn touch(at: *mut u8, pages: usize) {
    // SAFETY: of the caller.
    (0..pages).for_each(|page| unsafe { at.add(page * PAGE).write_volatile(1) });
}

/// A child process that does this, to its end.
fn child(of_child: impl FnOnce()) {
    // SAFETY: this process has one thread.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            of_child();
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// Round trips of so many bytes to a child.
fn pipe(count: usize, size: usize) {
    let [(mut here, to_here), (mut there, to_there)] =
        [(); 2].map(|()| std::io::pipe().expect("a pipe"));
    let (mut to_here, mut to_there) = (to_here, to_there);
    let mut buffer = vec![0; size];
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    for _ in 0..count {
        if child == 0 {
            there.read_exact(&mut buffer).expect("bytes");
            to_here.write_all(&buffer).expect("room");
        } else {
            to_there.write_all(&buffer).expect("room");
            here.read_exact(&mut buffer).expect("bytes");
        }
    }
    // SAFETY: as above.
    unsafe {
        match child {
            0 => libc::_exit(0),
            child => libc::waitpid(child, ptr::null_mut(), 0),
        }
    };
}
