//! Writing: the file matches its sums, and a failed write leaves no file.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use fathom_fileio::read::{ReadRequest as Read, Way};
use fathom_fileio::scratch::Scratch;
use fathom_fileio::write::{SyncMode, WriteError, WriteOutcome, WriteRequest};
use fathom_fileio::{FileGenerator, PathInfoSource, XorSum, read, write};
use fathom_lab::clock;
use fathom_lab::disk::LabDisk;
use fathom_lab::fuse::FuseMount;
use fathom_measure::Clock;
use fathom_measure::clock::FakeClock;
use rustix::io::Errno;

fn written(path: &Path, request: &WriteRequest<'_>) -> Result<WriteOutcome, WriteError> {
    write(path, request, &Clock::fake(Rc::new(FakeClock::new(20))))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes and verifies files with all block sizes and sync modes.
fn check_written_files(folder: &Path) {
    for (block, count) in [(1, 1001), (3, 7), (4096, 9), (100_001, 4), (1 << 20, 3), (5, 0)] {
        for sync in [SyncMode::None, SyncMode::AtEnd, SyncMode::EachBlock] {
            if sync == SyncMode::EachBlock && count > 1000 {
                continue;
            }
            let path = folder.join("file");
            let request = WriteRequest { seed: 4, sync, ..WriteRequest::new(block, count) };
            let done = written(&path, &request).unwrap();
            let mut bytes = vec![0; block * count as usize];
            FileGenerator::new(4).fill(0, &mut bytes);
            assert!(fs::read(&path).unwrap() == bytes, "{request:?}");
            assert_eq!(done.sum, XorSum::over(&bytes));
            assert_eq!(done.calls, count, "one call per block");
            // A clock whose reads take 20 ns, read once for each of what is timed.
            let syncs = match sync {
                SyncMode::None => 0,
                SyncMode::AtEnd => 1,
                SyncMode::EachBlock => count,
            };
            assert_eq!((done.syncs, done.sync_ns), (syncs, 20.0 * syncs as f64), "{request:?}");
            assert_eq!((done.data_ns > 0.0, done.name_ns, done.close_ns), (count > 0, 20.0, 20.0));
            let source = PathInfoSource::open(&path).unwrap();
            let seen = read(&source, &Read::whole(Way::Pread), &clock()).unwrap();
            assert_eq!(seen.sum, done.sum);
            assert_eq!(names(folder), ["file"]);
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn written_file_matches_its_sums() {
    let folder = tempfile::tempdir().unwrap();
    check_written_files(folder.path());
}

#[test]
fn file_system_without_o_tmpfile_works() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    let _mount = FuseMount::new(&LabDisk::new(), folder.path()).unwrap();
    assert!(Scratch::new(folder.path()).unwrap().is_named(), "no O_TMPFILE here");
    assert!(names(folder.path()).is_empty(), "removed on drop");
    check_written_files(folder.path());
    check_overwriting(folder.path());
    check_stopping(folder.path());
}

#[test]
fn overwriting_needs_permission() {
    check_overwriting(tempfile::tempdir().unwrap().path());
}

fn check_overwriting(folder: &Path) {
    let path = folder.join("file");
    fs::write(&path, b"mine").unwrap();
    let request = WriteRequest::new(100, 10);
    let error = written(&path, &request).unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    written(&path, &WriteRequest { overwrite: true, ..request.clone() }).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 1000);
    assert_eq!(names(folder), ["file"]);
    fs::remove_file(&path).unwrap();
    // Only a regular file is ever replaced.
    fs::create_dir(&path).unwrap();
    let error = written(&path, &WriteRequest { overwrite: true, ..request }).unwrap_err();
    assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    assert_eq!(names(folder), ["file"]);
    fs::remove_dir(&path).unwrap();
}

#[test]
fn links_devices_and_fifos_are_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (link, fifo) = (folder.path().join("link"), folder.path().join("fifo"));
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    for path in [&link, &fifo, Path::new("/dev/null")] {
        let error = written(path, &WriteRequest { overwrite: true, ..WriteRequest::new(1, 1) })
            .unwrap_err();
        assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    }
    assert_eq!(names(folder.path()), ["fifo", "link"]);
}

#[test]
fn publish_keeps_an_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for named in [false, true] {
        let new = if named { Scratch::named } else { Scratch::new };
        let scratch = new(folder.path()).unwrap();
        fs::write(&path, b"mine").unwrap();
        assert_eq!(scratch.publish(&path, false).unwrap_err(), Errno::EXIST);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(names(folder.path()), ["file"], "named: {named}");
        let scratch = new(folder.path()).unwrap();
        rustix::io::write(scratch.file(), b"theirs").unwrap();
        scratch.publish(&path, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["file"], "named: {named}");
    }
}

#[test]
fn panic_removes_the_named_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let thread = std::thread::Builder::new().spawn(move || {
        let scratch = Scratch::named(&path).unwrap();
        assert_eq!(names(&path).len(), 1);
        assert!(!scratch.is_named(), "intended panic");
    });
    assert!(thread.unwrap().join().is_err());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn stop_leaves_no_file() {
    check_stopping(tempfile::tempdir().unwrap().path());
}

fn check_stopping(folder: &Path) {
    let stop = AtomicBool::new(true);
    let request = WriteRequest { stop: &stop, ..WriteRequest::new(1 << 20, 100) };
    let error = written(&folder.join("file"), &request).unwrap_err();
    assert!(matches!(error, WriteError::Stopped { after: 0, .. }), "{error}");
    assert!(names(folder).is_empty());
}

#[test]
fn full_disk_keeps_the_old_file() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    let flags = rustix::mount::MountFlags::empty();
    let options = std::ffi::CString::new("size=4m").unwrap();
    rustix::mount::mount("none", folder.path(), "tmpfs", flags, options.as_c_str()).unwrap();
    let path = folder.path().join("file");
    for (block, sync) in
        [(4096, SyncMode::None), (3 << 20, SyncMode::AtEnd), (1000, SyncMode::EachBlock)]
    {
        let count = (8_u64 << 20) / block as u64 + 1;
        let request = WriteRequest { sync, ..WriteRequest::new(block, count) };
        let error = written(&path, &request).unwrap_err();
        let WriteError::Failed { error: Errno::NOSPC, after, .. } = error else {
            panic!("{error}");
        };
        assert!(after > 0 && after <= 4 << 20, "{after}");
        assert!(names(folder.path()).is_empty());
    }
    fs::write(&path, b"mine").unwrap();
    let request = WriteRequest { overwrite: true, ..WriteRequest::new(1 << 20, 8) };
    written(&path, &request).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    // Now there is enough space.
    fs::remove_file(&path).unwrap();
    written(&path, &WriteRequest::new(1 << 20, 3)).unwrap();
    rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn invalid_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    // The last is one byte above the largest file.
    for (block, count) in [(0, 1), (usize::MAX, 1), (1 << 20, u64::MAX), (1 << 20, 1 << 43)] {
        let error = written(&path, &WriteRequest::new(block, count)).unwrap_err();
        assert!(matches!(error, WriteError::Invalid(_)), "{error}");
    }
    let nowhere = folder.path().join("no/such/folder/file");
    assert!(matches!(written(&nowhere, &WriteRequest::new(1, 1)), Err(WriteError::Failed { .. })));
    assert!(names(folder.path()).is_empty());
}
