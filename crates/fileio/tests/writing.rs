//! Writing: what arrives is what was summed, and what fails leaves nothing.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fathom_fileio::read::{Request as Read, Way};
use fathom_fileio::scratch::Scratch;
use fathom_fileio::write::{Request, Sync, WriteError, Written};
use fathom_fileio::{Generator, Source, Sum, read, write};
use fathom_lab::clock;
use fathom_lab::disk::Disk;
use fathom_lab::fuse::Mount;
use fathom_lab::mounts;
use rustix::io::Errno;

fn written(path: &Path, request: &Request<'_>) -> Result<Written, WriteError> {
    write(path, request, &clock())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Files of every size of block, in a folder on whatever file system.
fn files_arrive(folder: &Path) {
    for (block, count) in [(1, 5000), (3, 7), (4096, 100), (100_001, 9), (1 << 20, 3), (5, 0)] {
        for sync in [Sync::None, Sync::Data, Sync::Every] {
            if sync == Sync::Every && count > 1000 {
                continue;
            }
            let path = folder.join("file");
            let request = Request { seed: 4, sync, ..Request::new(block, count) };
            let done = written(&path, &request).unwrap();
            let mut bytes = vec![0; block * count as usize];
            Generator::new(4).fill(0, &mut bytes);
            assert!(fs::read(&path).unwrap() == bytes, "{request:?}");
            assert_eq!(done.sum, Sum::of(&bytes));
            assert_eq!(done.calls, count, "a call for each block");
            assert_eq!(done.data_ns > 0.0, count > 0);
            assert_eq!(
                done.sync_ns > 0.0,
                sync == Sync::Data || (sync == Sync::Every && count > 0)
            );
            assert!(done.close_ns > 0.0);
            let source = Source::open(&path).unwrap();
            let seen = read(&source, &Read::whole(Way::Pread), &clock()).unwrap();
            assert_eq!(seen.sum, done.sum);
            assert_eq!(names(folder), ["file"], "nothing else is left");
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn what_is_written_arrives() {
    let folder = tempfile::tempdir().unwrap();
    files_arrive(folder.path());
}

#[test]
fn a_file_system_without_nameless_files_does_as_well() {
    let test = "a_file_system_without_nameless_files_does_as_well";
    if !mounts::inside(test, |said| println!("{said}")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _mount = Mount::new(&Disk::new(), folder.path()).unwrap();
    assert!(Scratch::new(folder.path()).unwrap().is_named(), "this one has none");
    assert!(names(folder.path()).is_empty(), "the guard takes it away");
    files_arrive(folder.path());
    overwriting(folder.path());
    stopping(folder.path());
}

#[test]
fn a_file_is_overwritten_only_when_that_is_allowed() {
    overwriting(tempfile::tempdir().unwrap().path());
}

fn overwriting(folder: &Path) {
    let path = folder.join("file");
    fs::write(&path, b"mine").unwrap();
    let request = Request::new(100, 10);
    let error = written(&path, &request).unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    written(&path, &Request { overwrite: true, ..request.clone() }).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 1000);
    assert_eq!(names(folder), ["file"]);
    fs::remove_file(&path).unwrap();
    // Nothing but a regular file is ever replaced.
    fs::create_dir(&path).unwrap();
    let error = written(&path, &Request { overwrite: true, ..request }).unwrap_err();
    assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    assert_eq!(names(folder), ["file"]);
    fs::remove_dir(&path).unwrap();
}

#[test]
fn a_link_a_device_and_a_fifo_are_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (link, fifo) = (folder.path().join("link"), folder.path().join("fifo"));
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    for path in [&link, &fifo, Path::new("/dev/null")] {
        let error = written(path, &Request { overwrite: true, ..Request::new(1, 1) }).unwrap_err();
        assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    }
    assert_eq!(names(folder.path()), ["fifo", "link"]);
}

#[test]
fn whoever_comes_first_with_a_name_keeps_it() {
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
fn a_guard_takes_its_file_away_also_in_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let thread = std::thread::Builder::new().spawn(move || {
        let scratch = Scratch::named(&path).unwrap();
        assert_eq!(names(&path).len(), 1);
        assert!(!scratch.is_named(), "a panic on purpose");
    });
    assert!(thread.unwrap().join().is_err());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_stop_leaves_nothing() {
    stopping(tempfile::tempdir().unwrap().path());
}

fn stopping(folder: &Path) {
    let stop = AtomicBool::new(true);
    let request = Request { stop: &stop, ..Request::new(1 << 20, 100) };
    let error = written(&folder.join("file"), &request).unwrap_err();
    assert!(matches!(error, WriteError::Stopped { after: 0, .. }), "{error}");
    assert!(names(folder).is_empty());
}

#[test]
fn a_full_disk_leaves_nothing_and_keeps_what_was_there() {
    if !mounts::inside("a_full_disk_leaves_nothing_and_keeps_what_was_there", |s| println!("{s}")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flags = rustix::mount::MountFlags::empty();
    let options = std::ffi::CString::new("size=4m").unwrap();
    rustix::mount::mount("none", folder.path(), "tmpfs", flags, options.as_c_str()).unwrap();
    let path = folder.path().join("file");
    for (block, sync) in [(4096, Sync::None), (3 << 20, Sync::Data), (1000, Sync::Every)] {
        let count = (8_u64 << 20) / block as u64 + 1;
        let request = Request { sync, ..Request::new(block, count) };
        let error = written(&path, &request).unwrap_err();
        let WriteError::Failed { error: Errno::NOSPC, after, .. } = error else {
            panic!("{error}");
        };
        assert!(after > 0 && after <= 4 << 20, "{after}");
        assert!(names(folder.path()).is_empty());
    }
    fs::write(&path, b"mine").unwrap();
    let request = Request { overwrite: true, ..Request::new(1 << 20, 8) };
    written(&path, &request).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    // There is room again for all of it.
    fs::remove_file(&path).unwrap();
    written(&path, &Request::new(1 << 20, 3)).unwrap();
    rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (block, count) in [(0, 1), (usize::MAX, 1), (1 << 20, u64::MAX)] {
        let error = written(&path, &Request::new(block, count)).unwrap_err();
        assert!(matches!(error, WriteError::Invalid(_)), "{error}");
    }
    let nowhere = folder.path().join("no/such/folder/file");
    assert!(matches!(written(&nowhere, &Request::new(1, 1)), Err(WriteError::Failed { .. })));
    assert!(names(folder.path()).is_empty());
}
