//! Read errors: truncated files, unreadable sectors, refused system calls. None may kill the
//! process, and each must be reported with its offset.

use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use fathom_fileio::read::{ReadError, ReadFault, ReadOutcome, ReadRequest, Way};
use fathom_fileio::{FileGenerator, PathInfoSource, XorSum, read};
use fathom_lab::clock;
use fathom_lab::disk::{Faults, LabDisk};
use fathom_lab::fuse::FuseMount;

/// Set in a child process of a test, to the path it works on.
const CHILD: &str = "FATHOM_FILEIO_CHILD";

fn read_path(path: &Path, request: &ReadRequest<'_>) -> Result<ReadOutcome, ReadError> {
    read(&PathInfoSource::open(path).unwrap(), request, &clock())
}

fn generated(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    FileGenerator::new(9).fill(0, &mut bytes);
    bytes
}

/// Runs a test of this binary in a child process. Returns its status and output.
fn run_child(test: &str, path: &Path) -> (std::process::ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    let output = child.env(CHILD, path).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&text).into_owned())
}

fn child_path() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD).map(Into::into)
}

/// Whenever the file is truncated: before the read, during it, or after it.
#[test]
fn truncating_a_mapped_file_ends_only_the_read() {
    let bytes = generated(8 << 20);
    let named = tempfile::NamedTempFile::new().unwrap();
    let file = named.as_file();
    for to in (0..20_u64).map(|round| round * 400_001) {
        file.write_all_at(&bytes, 0).unwrap();
        let request = ReadRequest { threads: 2, ..ReadRequest::whole(Way::Map) };
        let outcome = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_path(named.path(), &request).unwrap());
            file.set_len(to).unwrap();
            reader.join().unwrap()
        });
        assert!(outcome.faults.is_empty(), "{outcome:?}");
        if let Some(at) = outcome.ended_at {
            assert!(at >= to && outcome.changed.is_some(), "cut at {to}: {outcome:?}");
            assert!(outcome.sum.bytes < 8 << 20, "{outcome:?}");
        }
    }
}

/// Outside our windows SIGBUS goes to the previous handler: Rust's restores the default action at
/// the first signal, and the second kills.
#[test]
fn unrelated_sigbus_still_kills() {
    let test = "faults::unrelated_sigbus_still_kills";
    if let Some(path) = child_path() {
        fs::write(&path, generated(100_000)).unwrap();
        read_path(&path, &ReadRequest::whole(Way::Map)).unwrap();
        // SAFETY: sends a signal to this thread, which has it before the call returns.
        (0..2).for_each(|_| unsafe { _ = libc::raise(libc::SIGBUS) });
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let (status, output) = run_child(test, file.path());
    assert_eq!(status.signal(), Some(7), "{output}");
}

/// The unreadable sector of [`mount_faulty`].
const BAD: ReadFault = ReadFault { at: 299_008, bytes: 4096, error: 5 };

/// Mounts a disk whose file `a` of 1 MiB has an unreadable sector, which is not cached.
fn mount_faulty(folder: &Path, uncached: bool) -> FuseMount {
    let disk = LabDisk::new();
    // A second mount has nothing in its page cache.
    drop(
        FuseMount::new(&disk, folder).map(|_mount| fs::write(folder.join("a"), generated(1 << 20))),
    );
    let mount = FuseMount::new(&disk, folder).unwrap();
    let unreadable = Some(("a".to_owned(), 300_000..300_100));
    disk.misbehave(Faults { unreadable, uncached, ..Faults::default() });
    mount
}

/// The sums of `a` without the unreadable sector.
fn readable_sum() -> XorSum {
    let bytes = generated(1 << 20);
    let mut sum = XorSum::default();
    sum.add(0, &bytes[..299_008]);
    sum.add(299_008 + 4096, &bytes[299_008 + 4096..]);
    sum
}

/// Reads `a` with each method and number of threads.
fn check_bad_sector(uncached: bool, ways: &[(Way, usize)]) {
    let folder = tempfile::tempdir().unwrap();
    let _mount = mount_faulty(folder.path(), uncached);
    let path = folder.path().join("a");
    for &(way, threads) in ways {
        for block in [4096, 65536, 1 << 20] {
            let request = ReadRequest { threads, block, ..ReadRequest::whole(way) };
            let outcome = match read_path(&path, &request) {
                Err(ReadError::Unavailable { way, why }) => {
                    println!("skipped: {way}: {why}");
                    continue;
                }
                outcome => outcome.unwrap(),
            };
            assert_eq!(outcome.faults, [BAD], "{request:?}: {outcome:?}");
            assert!(threads > 1 || outcome.sum.bytes <= BAD.at, "{outcome:?}");
            let request = ReadRequest { keep_going: true, ..request };
            let outcome = read_path(&path, &request).unwrap();
            assert_eq!(outcome.faults, [BAD], "{request:?}");
            assert_eq!(outcome.sum, readable_sum(), "{request:?}");
            assert_eq!(outcome.ended_at, None);
        }
    }
    let error = read_path(&path, &ReadRequest::whole(Way::Ring { depth: 4 })).unwrap_err();
    let is_refused = matches!(&error, ReadError::Unavailable { why, .. } if why.contains("fuse"));
    assert!(is_refused, "a short read there would repeat bytes: {error}");
    // The range after the sector is readable.
    let request = ReadRequest { range: Some(303_104..1 << 20), ..ReadRequest::whole(Way::Pread) };
    let outcome = read_path(&path, &request).unwrap();
    let expected = XorSum::over(&generated(1 << 20)[303_104..]);
    assert_eq!((outcome.faults, outcome.sum), (vec![], expected));
}

#[test]
fn unreadable_sector_is_reported() {
    let calls = Way::Calls { count: None };
    fathom_lab::isolate_mounts!();
    check_bad_sector(false, &[(Way::Pread, 1), (Way::Pread, 2), (calls, 1)]);
}

#[test]
fn direct_io_reports_unreadable_sector() {
    fathom_lab::isolate_mounts!();
    let ways = [(Way::Pread, 1), (Way::Direct, 1), (Way::Direct, 2)];
    check_bad_sector(true, &ways);
}

/// The mapping is in a child: this process serves the disk and cannot wait for itself.
#[test]
fn mapped_read_reports_unreadable_sector() {
    let test = "faults::mapped_read_reports_unreadable_sector";
    if let Some(path) = child_path() {
        for threads in [1, 2] {
            for block in [4096, 65536, 1 << 20] {
                let whole = ReadRequest::whole(Way::Map);
                let request = ReadRequest { keep_going: true, threads, block, ..whole };
                let outcome = read_path(&path, &request).unwrap();
                assert_eq!(outcome.faults, [BAD], "{request:?}");
                assert_eq!(outcome.sum, readable_sum(), "{request:?}");
            }
        }
        return;
    }
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    let _mount = mount_faulty(folder.path(), false);
    let (status, output) = run_child(test, &folder.path().join("a"));
    assert!(status.success() && output.contains("1 passed"), "{status}\n{output}");
}

/// Makes io_uring_setup fail with an error number in this thread, permanently.
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
fn unavailable_io_uring_has_a_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), generated(100_000)).unwrap();
    for (error, text) in [
        (libc::ENOSYS, "needs Linux 5.1"),
        (libc::ENOMEM, "ulimit -l"),
        (libc::EPERM, "blocked by seccomp"),
        (libc::EACCES, "blocked by seccomp"),
    ] {
        let path = file.path().to_owned();
        let refused = std::thread::spawn(move || {
            // A seccomp filter belongs to the thread, which ends here.
            refuse_io_uring(error as u32).then(|| {
                let error =
                    read_path(&path, &ReadRequest::whole(Way::Ring { depth: 4 })).unwrap_err();
                assert!(read_path(&path, &ReadRequest::whole(Way::Pread)).is_ok());
                error
            })
        });
        match refused.join().unwrap() {
            Some(ReadError::Unavailable { way: "io_uring", why }) => {
                let by_setting = why.contains("kernel.io_uring_disabled");
                assert!(why.contains(text) || by_setting, "{error}: {why}");
            }
            Some(other) => panic!("{error}: {other}"),
            None => println!("skipped: no permission for seccomp filters"),
        }
    }
}
