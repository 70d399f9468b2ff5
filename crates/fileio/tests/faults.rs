//! Reads that meet something bad: files that shrink, places that cannot be read, a kernel that
//! refuses. None of it may end the program, and each must be told with its place.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::read::{Fault, Outcome, ReadError, Request, Way};
use fathom_fileio::{Generator, Source, Sum, read};
use fathom_lab::clock;
use fathom_lab::disk::{Disk, Faults};
use fathom_lab::fuse::Mount;
use fathom_lab::mounts;

/// Tells a test that it is the child which may be killed.
const CHILD: &str = "FATHOM_FILEIO_CHILD";

fn tried(path: &Path, request: &Request<'_>) -> Result<Outcome, ReadError> {
    read(&Source::open(path).unwrap(), request, &clock())
}

fn made(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Generator::new(9).fill(0, &mut bytes);
    bytes
}

/// Runs a test of this program again, in a process of its own, with a path; how that ended.
fn in_a_child(test: &str, path: &Path) -> (std::process::ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    let output = child.env(CHILD, path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

fn child_path() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD).map(Into::into)
}

#[test]
fn a_file_that_shrinks_while_it_is_mapped_ends_the_read_and_not_the_program() {
    let test = "a_file_that_shrinks_while_it_is_mapped_ends_the_read_and_not_the_program";
    if let Some(path) = child_path() {
        return shrink_while_read(&path);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let (status, said) = in_a_child(test, file.path());
    assert!(status.success(), "{status}\n{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Cuts a file again and again while two threads read it.
fn shrink_while_read(path: &Path) {
    let bytes = made(24 << 20);
    let file = File::options().write(true).open(path).unwrap();
    let mut cut = 0;
    for round in 0..40_u64 {
        file.write_all_at(&bytes, 0).unwrap();
        let to = round * 600_001;
        let ready = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                ready.store(true, Ordering::Release);
                let request = Request { threads: 2, ..Request::whole(Way::Map) };
                tried(path, &request).unwrap()
            });
            while !ready.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            std::thread::sleep(std::time::Duration::from_micros(round * 150));
            file.set_len(to).unwrap();
            reader.join().unwrap()
        });
        assert!(outcome.faults.is_empty(), "{outcome:?}");
        if let Some(at) = outcome.ended_at {
            assert!(at >= to && outcome.changed.is_some(), "cut at {to}: {outcome:?}");
            assert!(outcome.sum.bytes < 24 << 20, "{outcome:?}");
            cut += 1;
        }
    }
    assert!(cut > 0, "no read was ever cut short: the test tests nothing");
}

/// With no window of ours, SIGBUS does what it did before there was a handler: that of Rust puts
/// the default back at the first, which kills at the second.
#[test]
fn a_signal_that_is_not_ours_still_kills() {
    let test = "a_signal_that_is_not_ours_still_kills";
    if let Some(path) = child_path() {
        fs::write(&path, made(100_000)).unwrap();
        tried(&path, &Request::whole(Way::Map)).unwrap();
        // More than two: one that comes while another waits is lost.
        for _ in 0..200 {
            let (this, bus) = (rustix::process::getpid(), rustix::process::Signal::BUS);
            rustix::process::kill_process(this, bus).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let (status, said) = in_a_child(test, file.path());
    assert_eq!(status.signal(), Some(7), "{said}");
}

/// A bad place of the file `a` on a mounted disk, for each way: what is told of it.
fn bad_place(test: &str, uncached: bool, ways: &[(Way, usize)]) {
    if !mounts::inside(test, |said| println!("{said}")) {
        return;
    }
    let disk = Disk::new();
    let folder = tempfile::tempdir().unwrap();
    let _mount = Mount::new(&disk, folder.path()).unwrap();
    let path = folder.path().join("a");
    let bytes = made(1 << 20);
    fs::write(&path, &bytes).unwrap();
    let bad = 300_000..300_100;
    let unreadable = Some(("a".to_owned(), bad.clone()));
    disk.misbehave(Faults { unreadable, uncached, ..Faults::default() });
    // What was written may still be in memory, and would hide the place.
    fathom_fileio::residency::evict(&File::open(&path).unwrap()).unwrap();
    let place = Fault { at: 299_008, bytes: 4096, error: 5 };
    let mut rest = Sum::default();
    rest.add(0, &bytes[..299_008]);
    rest.add(299_008 + 4096, &bytes[299_008 + 4096..]);
    for &(way, threads) in ways {
        for block in [4096, 65536, 1 << 20] {
            let request = Request { threads, block, ..Request::whole(way) };
            let outcome = match tried(&path, &request) {
                Err(ReadError::Unavailable { way, why }) => {
                    println!("skipped: {way}: {why}");
                    continue;
                }
                outcome => outcome.unwrap(),
            };
            assert_eq!(outcome.faults, [place], "{request:?}: {outcome:?}");
            assert!(threads > 1 || outcome.sum.bytes <= place.at, "{outcome:?}");
            let request = Request { keep_going: true, ..request };
            let outcome = tried(&path, &request).unwrap();
            assert_eq!(outcome.faults, [place], "{request:?}");
            assert_eq!(outcome.sum, rest, "{request:?}");
            assert_eq!(outcome.ended_at, None);
        }
    }
    let error = tried(&path, &Request::whole(Way::Ring { depth: 4 })).unwrap_err();
    let told = matches!(&error, ReadError::Unavailable { why, .. } if why.contains("fuse"));
    assert!(told, "a short read there would repeat bytes: {error}");
    // From behind the place all is well.
    let request = Request { range: Some(303_104..1 << 20), ..Request::whole(Way::Pread) };
    let outcome = tried(&path, &request).unwrap();
    assert_eq!((outcome.faults, outcome.sum), (vec![], Sum::of(&bytes[303_104..])));
}

#[test]
fn a_place_that_cannot_be_read_is_told_and_the_rest_can_be() {
    let calls = Way::Calls { count: None };
    let test = "a_place_that_cannot_be_read_is_told_and_the_rest_can_be";
    bad_place(test, false, &[(Way::Pread, 1), (Way::Pread, 2), (calls, 1)]);
}

#[test]
fn a_bad_place_past_the_cache_is_told_too() {
    let test = "a_bad_place_past_the_cache_is_told_too";
    let ways = [(Way::Pread, 1), (Way::Direct, 1), (Way::Direct, 2)];
    bad_place(test, true, &ways);
}

/// A disk whose content another process serves: mapping it here cannot wait for ourselves.
#[test]
fn a_bad_place_of_a_mapped_file_is_told_too() {
    let test = "a_bad_place_of_a_mapped_file_is_told_too";
    if let Some(path) = child_path() {
        let bytes = fs::read(path.with_file_name("good")).unwrap();
        let mut rest = Sum::default();
        rest.add(0, &bytes[..299_008]);
        rest.add(299_008 + 4096, &bytes[299_008 + 4096..]);
        for threads in [1, 2] {
            for block in [4096, 65536, 1 << 20] {
                let whole = Request::whole(Way::Map);
                let request = Request { keep_going: true, threads, block, ..whole };
                let outcome = tried(&path, &request).unwrap();
                let place = Fault { at: 299_008, bytes: 4096, error: 5 };
                assert_eq!(outcome.faults, [place], "{request:?}");
                assert_eq!(outcome.sum, rest, "{request:?}");
            }
        }
        return;
    }
    if !mounts::inside(test, |said| println!("{said}")) {
        return;
    }
    let disk = Disk::new();
    let folder = tempfile::tempdir().unwrap();
    let _mount = Mount::new(&disk, folder.path()).unwrap();
    let path = folder.path().join("a");
    fs::write(&path, made(1 << 20)).unwrap();
    fs::write(folder.path().join("good"), made(1 << 20)).unwrap();
    let unreadable = Some(("a".to_owned(), 300_000..300_100));
    disk.misbehave(Faults { unreadable, ..Faults::default() });
    fathom_fileio::residency::evict(&File::open(&path).unwrap()).unwrap();
    let (status, said) = in_a_child(test, &path);
    assert!(status.success() && said.contains("1 passed"), "{status}\n{said}");
}

/// Lets the system calls of io_uring fail with an error number, for this thread and for good.
fn refuse_io_uring(error: u32) -> bool {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const SKIP_IF_NOT: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(SKIP_IF_NOT, 0, 1, libc::SYS_io_uring_setup as u32),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO | error),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter outlive the calls, which read them only.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

#[test]
fn a_kernel_that_refuses_io_uring_is_told_with_the_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), made(100_000)).unwrap();
    let says = [(libc::ENOSYS, "this kernel has none"), (libc::ENOMEM, "ulimit -l")];
    let forbidden = [(libc::EPERM, "forbids it"), (libc::EACCES, "forbids it")];
    for (error, text) in says.into_iter().chain(forbidden) {
        let path = file.path().to_owned();
        let refused = std::thread::spawn(move || {
            // A filter belongs to a thread; this one ends with it.
            refuse_io_uring(error as u32).then(|| {
                let error = tried(&path, &Request::whole(Way::Ring { depth: 4 })).unwrap_err();
                assert!(tried(&path, &Request::whole(Way::Pread)).is_ok());
                error
            })
        });
        match refused.join().unwrap() {
            Some(ReadError::Unavailable { way: "io_uring", why }) => {
                let by_setting = why.contains("kernel.io_uring_disabled");
                assert!(why.contains(text) || by_setting, "{error}: {why}");
            }
            Some(other) => panic!("{error}: {other}"),
            None => println!("skipped: seccomp filters are not allowed here"),
        }
    }
}
